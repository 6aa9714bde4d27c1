//! `seatrial prove`: trials of nop, oracle and cheats until every task has a verdict.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dataset::resolve::Verdicts;
use ident::{Digest, TaskId};
use ledger::{Decision, Ledger, ProofKey, ProofRule};
use prove::cheats;
use prove::reconcile::History;
use prove::{Candidate, Origin, Outlook};
use rayon::prelude::*;
use recipe::CheatPolicy;
use record::{CheckDocument, MaterializeDocument, MaterializedTask, ProofDocument, ProvedTask, Status};
use serde_json::json;
use task::TaskDir;
use trial::TrialTask;

use crate::cli::{self, Jobs};
use crate::failure::{Exit, Failure, OrExit, Result};
use crate::output::{Output, count};
use crate::project::{Project, RECIPE, section_digest};
use crate::proof::{Proof, RETRIES, histories};
use crate::stage::check::{self, CHECKS};
use crate::stage::materialize::{self, MATERIALIZE, TASKS};
use crate::stage::{images, plan, quarantine, resolve};

/// Name of the document.
pub const PROOFS: &str = "proofs.json";
/// The inventory of the host, where tasks ran on its own system.
pub const HOST: &str = "host.json";
/// The ledger's file.
pub const LEDGER: &str = "ledger.db";

/// What a run of the stage is asked for beside the recipe.
#[derive(Debug, Default)]
pub struct Asked {
    /// Whether both kinds are run as often as after a disagreement.
    pub confirm: bool,
    /// How many tasks are proved before it is looked whether more are needed.
    pub batch: Option<usize>,
    /// The only tasks to prove; all when empty.
    pub tasks: BTreeSet<TaskId>,
    /// Earlier results to take over.
    pub histories: Vec<History>,
    /// Whether it is only told what would be taken over.
    pub dry_run: bool,
}

impl Asked {
    /// Reads the arguments.
    pub fn of(project: &Project, arguments: &cli::Prove) -> Result<Self> {
        let tasks = arguments.tasks.iter().map(|task| task.parse().or_exit(Exit::Usage));
        Ok(Self {
            confirm: arguments.confirm,
            batch: arguments.batch.map(|batch| batch as usize),
            tasks: tasks.collect::<Result<_>>()?,
            histories: histories(&project.root, &arguments.reconcile)?,
            dry_run: arguments.dry_run,
        })
    }
}

/// The command.
pub fn run(output: Output, project: &Project, arguments: &cli::Prove) -> Result {
    let asked = Asked::of(project, arguments)?;
    let (document, quarantined) = write(output, project, &arguments.jobs, &asked)?;
    if asked.dry_run {
        return Ok(());
    }
    let counts =
        |wanted: fn(&Status) -> bool| document.tasks.iter().filter(|task| wanted(&task.verdict)).count();
    let accepted = counts(|status| *status == Status::Accepted);
    output.json(&json!({
        "tasks": document.tasks.len(),
        "accepted": accepted,
        "rejected": counts(|status| matches!(status, Status::Rejected { .. })),
        "error": counts(|status| matches!(status, Status::Error { .. })),
        "pending": counts(|status| *status == Status::Pending),
        "quarantined": quarantined,
        "document": PROOFS,
    }))?;
    match document.tasks.len() - accepted {
        0 => Ok(()),
        rest => Err(Failure::new(Exit::Failed, format!("{} not accepted", count(rest, "task"))).silent()),
    }
}

/// Proves every task that the static rules accept, as far as it is asked for, and writes the verdicts. Tells also how many tasks
/// have tests that were put into quarantine now.
pub fn write(
    output: Output,
    project: &Project,
    jobs: &Jobs,
    asked: &Asked,
) -> Result<(ProofDocument, usize)> {
    let (materialized, materialized_digest) = materialize::load(project)?;
    let (checks, checks_digest) = check::load(project)?;
    let accepted: BTreeSet<&TaskId> =
        checks.tasks.iter().filter(|task| task.accepted).map(|task| &task.task_id).collect();
    if let Some(task) = asked.tasks.iter().find(|task| !accepted.contains(task)) {
        let message = format!("task `{task}` is none that is materialized and accepted by the static rules");
        return Err(Failure::new(Exit::Usage, message).hint(format!("see `seatrial status {task}`")));
    }
    let rule = rule(project);
    let tasks: Vec<&MaterializedTask> =
        materialized.tasks.iter().filter(|task| accepted.contains(&task.task_id)).collect();
    let wanted = |task: &&MaterializedTask| asked.tasks.is_empty() || asked.tasks.contains(&task.task_id);
    let candidates: Vec<Candidate> = tasks
        .par_iter()
        .copied()
        .filter(wanted)
        .map(|task| {
            let directory = project.path(TASKS).join(task.task_id.as_str());
            let opened =
                TrialTask::open(&directory, Some(&project.recipe.dataset.name)).or_exit(Exit::Failed)?;
            Ok(Candidate {
                task_id: task.task_id.clone(),
                task: Arc::new(opened),
                origin: Some(Origin { repo: task.repo.to_string(), base_image: task.base_image.clone() }),
            })
        })
        .collect::<Result<_>>()?;
    let mut document = ProofDocument {
        schema: <ProofDocument as artifact::Document>::SCHEMA.into(),
        inputs: inputs(project, materialized_digest, checks_digest)?,
        tasks: known(project, &tasks, &rule)?,
    };
    let places: BTreeMap<TaskId, usize> =
        document.tasks.iter().enumerate().map(|(place, task)| (task.task_id.clone(), place)).collect();
    let bench = project.workbench(jobs)?;
    let size = asked.batch.unwrap_or(candidates.len()).max(1);
    let mut refused = Ok(());
    for (number, batch) in candidates.chunks(size).enumerate() {
        if asked.batch.is_some() {
            if enough(output, project, &materialized, &checks, &document)? {
                break;
            }
            // What is proved for nothing is the trials of one batch at most.
            if project.recipe.images.is_some()
                && let Err(failure) = images::still_fits(output, project)
            {
                refused = Err(failure.hint("what was proved so far stays; the same command goes on"));
                break;
            }
            let (first, last) = (number * size + 1, number * size + batch.len());
            output.stage("prove", format_args!("tasks {first} to {last} of {}", candidates.len()));
        }
        let proof = Proof {
            rule: rule.clone(),
            confirm: asked.confirm,
            histories: asked.histories.clone(),
            dry_run: asked.dry_run,
            history: prove::history::Allowed::OneCommit,
            root: project.root.clone(),
            ledger: project.path(LEDGER),
            jobs_dir: project.path("jobs"),
            host: Some(project.path(HOST)),
        };
        let take = |tasks: &mut [ProvedTask], proved: Vec<ProvedTask>| {
            for proved in proved {
                let place = places[&proved.task_id];
                tasks[place] = proved;
            }
        };
        // From then on the ledger tells `status` what has come of them.
        let begin = |known| {
            take(&mut document.tasks, known);
            Ok(artifact::store(&project.path(PROOFS), &document).map(drop)?)
        };
        let proved = proof.run(output, &bench, batch, begin)?;
        take(&mut document.tasks, proved);
    }
    if asked.dry_run {
        return Ok((document, 0));
    }
    artifact::store(&project.path(PROOFS), &document)?;
    refused?;
    summarize(output, &document.tasks);
    let quarantined = quarantine::write(output, project, &materialized, &document)?;
    Ok((document, quarantined))
}

/// Whether more verdicts are of no use: the final set can be made, or cannot be made any more.
fn enough(
    output: Output,
    project: &Project,
    materialized: &MaterializeDocument,
    checks: &CheckDocument,
    proofs: &ProofDocument,
) -> Result<bool> {
    let (plan, reserves) = plan::load(project)?;
    let set_aside = images::missing(project, materialized)?;
    let verdicts =
        Verdicts { plan: &plan, reserves: &reserves, materialized, checks, proofs, set_aside: &set_aside };
    match prove::outlook(verdicts, &resolve::rules(project)).or_exit(Exit::Conflict)? {
        Outlook::Open => Ok(false),
        Outlook::Satisfied => {
            output.stage("prove", "the set can be made of what is accepted; the rest stays pending");
            Ok(true)
        }
        Outlook::Hopeless(shortages) => {
            let short = |short: &record::Shortage| {
                format!("{} can have {} of {} at most", short.what, short.have, short.wanted)
            };
            let short: Vec<_> = shortages.iter().map(short).collect();
            output.stage(
                "prove",
                format_args!(
                    "the set cannot be made any more ({}); the rest stays pending",
                    short.join(", ")
                ),
            );
            Ok(true)
        }
    }
}

/// What the ledger says of tasks before anything is run. The root file system that a task would run on, and the one that it starts
/// from, are known only once they are made, so that the last document says which were meant; without it a task is pending.
fn known(project: &Project, tasks: &[&MaterializedTask], rule: &ProofRule) -> Result<Vec<ProvedTask>> {
    let engine = project.recipe.prove.engine.name();
    let before = artifact::load_optional::<ProofDocument>(&project.path(PROOFS)).ok().flatten();
    let before: BTreeMap<TaskId, ProvedTask> = before
        .into_iter()
        .flat_map(|(document, _)| document.tasks)
        .map(|task| (task.task_id.clone(), task))
        .collect();
    let ledger = Ledger::open_existing(&project.path(LEDGER))?;
    tasks
        .iter()
        .map(|task| {
            let same = |before: &&ProvedTask| {
                before.engine == engine
                    && (before.tree_digest, before.verifier_digest)
                        == (task.tree_digest, task.verifier_digest)
            };
            let before = before.get(&task.task_id).filter(same);
            let images =
                before.map(|before| (before.image_digest.clone(), before.cheat_group)).unwrap_or_default();
            let key = key_of(project, task, images, engine)?;
            let seen = ledger.as_ref().map(|ledger| ledger.about(&key)).transpose()?.unwrap_or_default();
            let decision = ledger::decide(&key, &seen, rule);
            Ok(prove::verdict(key, decision))
        })
        .collect()
}

/// The document and its digest; refused when the tasks, the findings or the recipe have changed since.
pub fn load(project: &Project) -> Result<(ProofDocument, Digest)> {
    let (document, digest) = artifact::load::<ProofDocument>(&project.path(PROOFS))?;
    let now = inputs(
        project,
        materialize::file_digest(&project.path(MATERIALIZE))?,
        materialize::file_digest(&project.path(CHECKS))?,
    )?;
    if document.inputs == now {
        agree_with_ledger(project, &document)?;
        Ok((document, digest))
    } else {
        let message = format!("{PROOFS} is about other tasks, findings or settings");
        Err(Failure::new(Exit::Conflict, message).hint("run `seatrial prove`, or `seatrial up`"))
    }
}

fn by_id(materialized: &MaterializeDocument) -> BTreeMap<&TaskId, &MaterializedTask> {
    materialized.tasks.iter().map(|task| (&task.task_id, task)).collect()
}

/// What the ledger says of a task on the root file system and the engine that its entry in the document names.
fn decided(
    project: &Project,
    ledger: &Ledger,
    rule: &ProofRule,
    task: &MaterializedTask,
    entry: &ProvedTask,
) -> Result<(ProofKey, Decision)> {
    let key = key_of(project, task, (entry.image_digest.clone(), entry.cheat_group), &entry.engine)?;
    let decision = ledger::decide(&key, &ledger.about(&key)?, rule);
    Ok((key, decision))
}

/// Takes for tasks that were pending when their proof began what the ledger says by now.
pub fn catch_up(
    project: &Project,
    materialized: &MaterializeDocument,
    document: &mut ProofDocument,
) -> Result {
    let Some(ledger) = Ledger::open_existing(&project.path(LEDGER))? else { return Ok(()) };
    let rule = rule(project);
    let materialized = by_id(materialized);
    for proved in document.tasks.iter_mut().filter(|task| task.verdict == Status::Pending) {
        let Some(task) = materialized.get(&proved.task_id) else { continue };
        let (key, decision) = decided(project, &ledger, &rule, task, proved)?;
        *proved = prove::verdict(key, decision);
    }
    Ok(())
}

/// Verdicts are recomputed from the ledger, so that an edited document is noticed before anything is chosen by it.
fn agree_with_ledger(project: &Project, document: &ProofDocument) -> Result {
    let (materialized, _) = artifact::load::<MaterializeDocument>(&project.path(MATERIALIZE))?;
    match disowned(project, document, &materialized, Agreement::Exact)?.as_slice() {
        [] => Ok(()),
        tasks => Err(disowned_failure(tasks)),
    }
}

/// How much of what a document says the ledger has to say as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agreement {
    /// The very same verdicts over the very same runs.
    Exact,
    /// The same verdicts over these runs and perhaps more, and any verdict where there is none yet: a proof may be at work.
    AtLeast,
}

/// The tasks of which the document says something else than the ledger.
///
/// # Errors
/// When there is no ledger although something was run, or it cannot be read; and when a task's settings cannot be read.
pub fn disowned(
    project: &Project,
    document: &ProofDocument,
    materialized: &MaterializeDocument,
    agreement: Agreement,
) -> Result<Vec<TaskId>> {
    let says_something =
        |task: &ProvedTask| task.verdict != Status::Pending || task.nop_runs + task.oracle_runs > 0;
    let Some(ledger) = Ledger::open_existing(&project.path(LEDGER))? else {
        // A proof that was stopped before its first trial leaves none.
        if !document.tasks.iter().any(says_something) {
            return Ok(Vec::new());
        }
        return Err(Failure::new(
            Exit::Conflict,
            format!("{LEDGER} is missing, and {PROOFS} is made from it"),
        )
        .hint("put it back, or run `seatrial prove`, which proves the tasks anew"));
    };
    let rule = rule(project);
    let materialized = by_id(materialized);
    let agrees = |task: &ProvedTask| -> Result<bool> {
        let Some(made) = materialized.get(&task.task_id) else { return Ok(false) };
        let (_, decision) = decided(project, &ledger, &rule, made, task)?;
        let same_kind = std::mem::discriminant(&decision.status) == std::mem::discriminant(&task.verdict);
        let same_tree = (made.tree_digest, made.verifier_digest) == (task.tree_digest, task.verifier_digest);
        let found = [decision.nop_runs, decision.oracle_runs];
        let said = [task.nop_runs, task.oracle_runs];
        let covered = match agreement {
            Agreement::Exact => found == said && decision.cheats == task.cheats,
            Agreement::AtLeast => {
                found.iter().zip(said).all(|(found, said)| *found >= said)
                    && task.cheats.iter().all(|cheat| decision.cheats.contains(cheat))
            }
        };
        let undecided = agreement == Agreement::AtLeast && task.verdict == Status::Pending;
        Ok((same_kind || undecided) && same_tree && covered)
    };
    let mut otherwise = Vec::new();
    for task in &document.tasks {
        if !agrees(task)? {
            otherwise.push(task.task_id.clone());
        }
    }
    Ok(otherwise)
}

/// Names the tasks of which the document says something else than the ledger.
pub fn disowned_failure(tasks: &[TaskId]) -> Failure {
    const NAMED: usize = 10;
    let named: Vec<String> = tasks.iter().take(NAMED).map(|task| format!("`{task}`")).collect();
    let more = match tasks.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let message = format!("{PROOFS} says something else about {}{more} than the ledger", named.join(", "));
    Failure::new(Exit::Conflict, message).hint("run `seatrial prove`, or `seatrial up`")
}

/// Whether the document was made by the recipe's settings as they are now.
pub fn is_by_recipe(project: &Project, document: &ProofDocument) -> Result<bool> {
    Ok(document.inputs.get(RECIPE) == Some(&section_digest(&project.recipe.prove)?))
}

/// What a verdict on a task directory is about. Its tree was held against its digest already; only its settings are read here.
fn key_of(
    project: &Project,
    task: &MaterializedTask,
    (image_digest, cheat_group): (String, Option<Digest>),
    engine: &str,
) -> Result<ProofKey> {
    let directory = project.path(TASKS).join(task.task_id.as_str());
    let opened = TaskDir::open(&directory).or_exit(Exit::Failed)?;
    Ok(ProofKey {
        task_id: task.task_id.clone(),
        tree_digest: task.tree_digest,
        verifier_digest: task.verifier_digest,
        image_digest,
        limits: prove::limits(opened.config()),
        engine: engine.to_owned(),
        cheat_group,
    })
}

fn rule(project: &Project) -> ProofRule {
    let recipe = &project.recipe.prove;
    ProofRule {
        nop_runs: recipe.nop_runs,
        oracle_runs: recipe.oracle_runs,
        confirm_runs: recipe.confirm_runs,
        retries: RETRIES,
        cheats: match recipe.cheats {
            CheatPolicy::PerTask => cheats::asked(false).into(),
            CheatPolicy::PerVerifier => cheats::asked(true).into(),
            CheatPolicy::Off => Arc::default(),
        },
    }
}

fn inputs(project: &Project, materialized: Digest, checks: Digest) -> Result<artifact::Inputs> {
    Ok(BTreeMap::from([
        (MATERIALIZE.to_owned(), materialized),
        (CHECKS.to_owned(), checks),
        (RECIPE.to_owned(), section_digest(&project.recipe.prove)?),
    ]))
}

fn summarize(output: Output, tasks: &[ProvedTask]) {
    let accepted = tasks.iter().filter(|task| task.verdict == Status::Accepted).count();
    output.stage("prove", format_args!("{} tasks, {accepted} accepted", tasks.len()));
    for task in tasks {
        if let Status::Rejected { reason, detail } | Status::Error { reason, detail, .. } = &task.verdict {
            output.stage("", format_args!("{}: {reason} ({detail})", task.task_id));
        }
    }
}
