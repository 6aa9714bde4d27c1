//! `seatrial plan`: evidence to primaries and reserves.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use ident::{Digest, TaskId};
use plan::{
    Candidate, PlanError, PlanInput, PlanStats, PoolRules, PoolShortage, SetExpr, ShortageReport, StatsRow,
};
use recipe::{PoolMistake, PoolRecipe, Recipe};
use record::{PlanDocument, SourceInput, SourceRole};
use serde_json::json;
use source::{InstanceKey, Keep, Pulled, Records, SeatrialLock};

use crate::failure::{Exit, Failure, OrExit, Result};
use crate::output::{Output, count, table};
use crate::project::{Project, section_digest};
use crate::sources;
use crate::workbench::run_alone;

/// Names of the two documents.
pub const PLAN: &str = "plan.json";
/// Replacements.
pub const RESERVES: &str = "reserves.json";

/// So many names of sets are offered, and so much is shown of a name that is none.
const NAMES_SHOWN: usize = 40;
const NAME_SHOWN: usize = 80;

/// The command.
pub fn run(output: Output, project: &Project) -> Result {
    let mut pulled = read(project)?;
    let stats = write(output, project, &mut pulled)?;
    output.print(stats_table(&stats))?;
    output.json(&json!({"plan": PLAN, "reserves": RESERVES, "stats": stats}))
}

/// Reads the sources as far as a plan asks for them: of instances only the keys, unless an id has several rows, which
/// then have to be compared as a whole.
pub fn read(project: &Project) -> Result<Pulled> {
    let pulled = run_alone(sources::read(project, Keep::Keys { whole: false }, false))?;
    if has_repeated_ids(&pulled) {
        return run_alone(sources::read(project, Keep::Keys { whole: true }, false));
    }
    Ok(pulled)
}

/// Whether more than one row of instances has the same id.
fn has_repeated_ids(pulled: &Pulled) -> bool {
    let mut seen: HashSet<&TaskId> = HashSet::new();
    pulled.records.values().any(|records| match records {
        Records::InstanceKeys(loaded) => loaded.rows.iter().any(|row| !seen.insert(&row.instance_id)),
        Records::Tasks(loaded) => loaded.rows.iter().any(|row| !seen.insert(&row.id)),
        _ => false,
    })
}

/// Plans and writes both documents. The evidence moves out of `pulled`: nothing but a plan asks for it.
pub fn write(output: Output, project: &Project, pulled: &mut Pulled) -> Result<PlanStats> {
    let input = plan_input(project, pulled)?;
    let outcome = plan::plan(&input).map_err(|error| failure(&error))?;
    for note in &outcome.notes {
        output.warn(note);
    }
    artifact::store(&project.path(RESERVES), &outcome.reserves)?;
    artifact::store(&project.path(PLAN), &outcome.plan)?;
    let primaries = match outcome.plan.tasks.len() {
        1 => "1 primary".to_owned(),
        several => format!("{several} primaries"),
    };
    output.stage("plan", format_args!("{primaries}, {}", count(outcome.reserves.tasks.len(), "reserve")));
    Ok(outcome.stats)
}

/// The plan and the reserves; refused when the lock or the recipe has moved on since.
pub fn load(project: &Project) -> Result<(PlanDocument, PlanDocument)> {
    let (plan, _) = artifact::load::<PlanDocument>(&project.path(PLAN))?;
    let (reserves, _) = artifact::load::<PlanDocument>(&project.path(RESERVES))?;
    let inputs = inputs(project, &sources::lock(project)?)?;
    if plan.inputs != inputs || reserves.inputs != inputs {
        let message = format!("{PLAN} was made from other sources or another recipe");
        return Err(Failure::new(Exit::Conflict, message).hint("run `seatrial plan`, or `seatrial up`"));
    }
    let mut seen = HashSet::new();
    if let Some(twice) = plan.tasks.iter().chain(&reserves.tasks).find(|task| !seen.insert(&task.task_id)) {
        let message = format!("{PLAN} and {RESERVES} name the task {} twice", twice.task_id);
        return Err(Failure::new(Exit::Conflict, message).hint("run `seatrial plan`, or `seatrial up`"));
    }
    Ok((plan, reserves))
}

/// What the plan is made from: every source as locked, and the parts of the recipe that decide.
fn inputs(project: &Project, lock: &SeatrialLock) -> Result<BTreeMap<String, SourceInput>> {
    let mut inputs = lock.inputs();
    inputs.insert(
        "seatrial.toml".into(),
        SourceInput {
            revision: None,
            sha256: BTreeMap::from([("plan".into(), recipe_digest(&project.recipe)?)]),
            rows: project.recipe.pools.len() as u64,
        },
    );
    Ok(inputs)
}

fn recipe_digest(recipe: &Recipe) -> Result<Digest> {
    section_digest(&(&recipe.sources, &recipe.sets, &recipe.evidence, &recipe.aliases, &recipe.pools))
}

/// What the rules are applied to: the recipe's pools and the rows of the sources, which move out of `pulled`.
pub fn plan_input(project: &Project, pulled: &mut Pulled) -> Result<PlanInput> {
    let recipe = &project.recipe;
    let models = recipe.evidence.models.iter().map(|(prefix, family)| (prefix.as_str(), family.as_str()));
    let mut input = PlanInput {
        inputs: inputs(project, &pulled.lock)?,
        models: plan::ModelTable::new(models).or_exit(Exit::Usage)?,
        cross_source: match recipe.evidence.cross_source {
            recipe::CrossSource::Any => plan::CrossSource::Any,
            recipe::CrossSource::Full => plan::CrossSource::Full,
        },
        aliases: project.aliases()?,
        pools: recipe.pools.iter().map(pool_rules).collect::<Result<_>>()?,
        ..PlanInput::default()
    };
    for (name, records) in &mut pulled.records {
        let ids = match records {
            Records::InstanceKeys(loaded) => {
                let ids = loaded.rows.iter().map(|row| row.instance_id.to_string()).collect();
                input.instances.extend(std::mem::take(&mut loaded.rows).into_iter().map(candidate));
                ids
            }
            Records::Tasks(loaded) => {
                for directory in &loaded.rows {
                    let imported = sources::import(directory)?;
                    input.instances.push(candidate(InstanceKey::of(&imported.instance)));
                }
                loaded.rows.iter().map(|row| row.id.to_string()).collect()
            }
            Records::Ids(loaded) => std::mem::take(&mut loaded.rows).into_iter().map(String::from).collect(),
            Records::Trajectories(loaded) => {
                input.trajectories.append(&mut loaded.rows);
                continue;
            }
            Records::RewardMeans(loaded) => {
                input.reward_means.append(&mut loaded.rows);
                continue;
            }
            Records::ImageStates(loaded) => {
                input.image_states.append(&mut loaded.rows);
                continue;
            }
            // A plan asks for neither profiles nor whole instances.
            Records::Profiles(_) | Records::Instances(_) => continue,
        };
        input.sets.insert(name.clone(), ids);
    }
    Ok(input)
}

fn candidate(key: InstanceKey) -> Candidate {
    let InstanceKey { instance_id, repo, image_name, row } = key;
    Candidate { id: instance_id.into(), repo, image: image_name, row }
}

/// What is wrong with the set expressions of a recipe: their form, and names that stand for no set of ids.
pub fn mistakes(recipe: &Recipe) -> Vec<PoolMistake> {
    let gives_ids = |role| matches!(role, SourceRole::Instances | SourceRole::Tasks | SourceRole::Ids);
    let sources = recipe.sources.iter().filter(|(_, source)| gives_ids(source.role)).map(|(name, _)| name);
    let known: BTreeSet<&str> = sources.chain(recipe.sets.keys()).map(String::as_str).collect();
    let listed = || known.iter().copied().take(NAMES_SHOWN).collect::<Vec<_>>().join(", ");
    let mut wrong = Vec::new();
    for (index, pool) in recipe.pools.iter().enumerate() {
        let expressions = [
            ("members", Some(&pool.members)),
            ("retain", pool.retain.as_ref()),
            ("force", pool.force.as_ref()),
        ];
        for (key, text) in expressions.into_iter().filter_map(|(key, text)| Some((key, text?))) {
            let mut add = |message: String, help: Option<String>| {
                wrong.push(PoolMistake { pool: index, key, message, help });
            };
            match text.parse::<SetExpr>() {
                Ok(expression) => {
                    for name in expression.names().into_iter().filter(|name| !known.contains(name)) {
                        let name: String = name.chars().take(NAME_SHOWN).collect();
                        add(format!("no set is called `{name}`"), Some(format!("there are: {}", listed())));
                    }
                }
                Err(error) => add(format!("no set expression: {error}"), None),
            }
        }
    }
    wrong
}

fn pool_rules(pool: &PoolRecipe) -> Result<PoolRules> {
    let expression = |key: &str, text: &str| {
        text.parse::<SetExpr>()
            .map_err(|error| Failure::new(Exit::Usage, format!("pool `{}`, {key}: {error}", pool.stage)))
    };
    Ok(PoolRules {
        stage: pool.stage.clone(),
        members: expression("members", &pool.members)?,
        target: pool.target,
        cap: match &pool.cap {
            recipe::Cap::Count(count) => plan::Cap::Tasks(*count),
            recipe::Cap::Percent(digits) => plan::Cap::Share(digits.parse().or_exit(Exit::Usage)?),
        },
        retain: pool.retain.as_deref().map(|text| expression("retain", text)).transpose()?,
        force: pool.force.as_deref().map(|text| expression("force", text)).transpose()?,
        require_image: pool.require_image,
        relax: pool.relax,
        reserve: match pool.reserve {
            recipe::Reserve::Count(count) => plan::Reserve::Count(count),
            recipe::Reserve::Rest => plan::Reserve::Rest,
        },
    })
}

fn failure(error: &PlanError) -> Failure {
    match error {
        PlanError::Input(_) => Failure::new(Exit::Usage, error),
        PlanError::Shortage(report) => Failure::new(Exit::Refused, error)
            .hint(format!("nothing was written; {}", remedies(report).join(", or "))),
    }
}

/// What can be done about a shortage, by what kept members out of the pools that miss their target.
fn remedies(report: &ShortageReport) -> Vec<&'static str> {
    let kept_out = |number: fn(&PoolShortage) -> u64| {
        report.pools.iter().any(|pool| pool.have < pool.want && number(pool) > 0)
    };
    let mut remedies = vec!["lower the target"];
    if kept_out(|pool| pool.over_cap) {
        remedies.push("raise the cap or set relax = true");
    }
    if kept_out(|pool| pool.no_image) {
        remedies.push("bring images and their states, which require_image asks for");
    }
    if kept_out(|pool| pool.no_evidence) {
        remedies.push("bring evidence: trajectories or reward means");
    }
    if kept_out(|pool| pool.not_instances) {
        remedies.push("add the source that has the members' instances");
    }
    if remedies.len() == 1 {
        remedies.push("give the pool more members");
    }
    remedies
}

/// A line of the statistics: its name, and where a pool has the number.
type Line = (&'static str, fn(&StatsRow) -> u64);

const LINES: [Line; 12] = [
    ("tasks", |row| row.tasks),
    ("tier 1 (cross_source)", |row| row.tiers.cross_source),
    ("tier 2 (official_only)", |row| row.tiers.official_only),
    ("tier 3 (swe_master_full)", |row| row.tiers.swe_master_full),
    ("tier 4 (swe_master_partial)", |row| row.tiers.swe_master_partial),
    ("no tier", |row| row.tiers.none),
    ("solved by gpt-4o", |row| row.models.gpt_4o),
    ("solved by claude-3.5", |row| row.models.claude_3_5),
    ("solved by claude-3.7", |row| row.models.claude_3_7),
    ("repositories", |row| row.repositories),
    ("retained", |row| row.retained),
    ("with an image", |row| row.with_image),
];

/// What is neither primary nor reserve is told with the primaries.
const LEFT: Line = ("eligible, and in neither list", |row| row.eligible_left);

/// A column a pool, and one for all of them where there are several.
fn stats_table(stats: &PlanStats) -> String {
    let columns = |title: &str, pools: &[StatsRow], total: &StatsRow, lines: &[Line]| {
        let rows: Vec<&StatsRow> = pools.iter().chain((pools.len() != 1).then_some(total)).collect();
        let header = std::iter::once(title.to_owned()).chain(rows.iter().map(|row| row.stage.clone()));
        let line = |(name, number): &Line| {
            let numbers = rows.iter().map(|row| number(row).to_string());
            std::iter::once((*name).to_owned()).chain(numbers).collect::<Vec<_>>()
        };
        table(header.collect::<Vec<_>>(), lines.iter().map(line))
    };
    let with_left = [&LINES[..], &[LEFT]].concat();
    let primaries = columns("primaries", &stats.primaries, &stats.primaries_total, &with_left);
    if stats.reserves_total.tasks == 0 {
        return format!("{primaries}\n\nno reserves");
    }
    let reserves = columns("reserves", &stats.reserves, &stats.reserves_total, &LINES);
    format!("{primaries}\n\n{reserves}")
}
