//! `seatrial status`: where every task stands, with sums that close.

use std::collections::BTreeMap;

use artifact::Document;
use ident::TaskId;
use ledger::{Tally, TallyError, tally};
use record::{
    CheckDocument, MaterializeDocument, PlanDocument, ProofDocument, Selection, Severity, Split, Status,
};
use serde_json::{Value, json};

use crate::failure::{Exit, OrExit, Result};
use crate::output::{Output, table};
use crate::project::Project;
use crate::stage::check::CHECKS;
use crate::stage::life;
use crate::stage::materialize::{MATERIALIZE, file_digest};
use crate::stage::plan::{PLAN, RESERVES};
use crate::stage::prove::{self, Agreement, LEDGER, PROOFS};
use crate::stage::resolve::SELECTION;

/// The stages that give a task its status, in the order of the work.
const STAGES: [&str; 3] = ["materialize", "check", "prove"];

/// The command: the whole set, or the life of one task.
pub fn run(output: Output, project: &Project, task: Option<&str>) -> Result {
    let standing = Standing::load(output, project)?;
    match task {
        None => show(output, &standing),
        Some(task) => life::show(output, project, &standing, &task.parse::<TaskId>().or_exit(Exit::Usage)?),
    }
}

/// A planned task.
pub struct Planned {
    /// The task.
    pub task_id: TaskId,
    /// Its pool.
    pub pool: String,
    /// Whether it is a reserve.
    pub reserve: bool,
}

/// What one stage says about a task for good, or that it waits for that stage.
struct Stated {
    task_id: TaskId,
    stage: &'static str,
    status: Status,
}

/// The documents of the stages as far as they are there and about this plan.
#[derive(Default)]
pub struct Documents {
    /// The task directories.
    pub materialized: Option<MaterializeDocument>,
    /// The findings.
    pub checks: Option<CheckDocument>,
    /// The verdicts.
    pub proofs: Option<ProofDocument>,
}

impl Documents {
    /// Holds the verdicts against the ledger; tasks that a proof under way has decided meanwhile are no longer pending. Verdicts by
    /// other settings are left out, and that is said.
    fn disowned(&mut self, output: Output, project: &Project) -> Result<Vec<TaskId>> {
        let (Some(proofs), Some(materialized)) = (&mut self.proofs, &self.materialized) else {
            return Ok(Vec::new());
        };
        if !prove::is_by_recipe(project, proofs)? {
            output.warn(format_args!(
                "{PROOFS} was made by other settings than the recipe's and is left out; run `seatrial prove`, or `seatrial up`"
            ));
            self.proofs = None;
            return Ok(Vec::new());
        }
        let caught_up = prove::catch_up(project, materialized, proofs);
        match caught_up.and_then(|()| prove::disowned(project, proofs, materialized, Agreement::AtLeast)) {
            Err(failure) if failure.exit == Exit::Failed => {
                output.warn(format_args!("the verdicts were not held against {LEDGER}: {}", failure.report));
                Ok(Vec::new())
            }
            disowned => disowned,
        }
    }
}

/// Every planned task and what the stages say about it. Documents that are not there yet leave tasks pending.
pub struct Standing {
    /// All tasks in plan order, primaries before reserves.
    pub tasks: Vec<Planned>,
    /// The documents that it was read from.
    pub documents: Documents,
    /// Chosen tasks and their splits.
    pub selected: BTreeMap<TaskId, Split>,
    /// Tasks of which the verdicts are not what the ledger says.
    pub disowned: Vec<TaskId>,
    stated: Vec<Stated>,
}

impl Standing {
    /// Reads what the stages have written so far. What is about another plan or other tasks is left out, and that is said.
    pub fn load(output: Output, project: &Project) -> Result<Self> {
        let (plan, _) = artifact::load::<PlanDocument>(&project.path(PLAN))?;
        let (reserves, _) = artifact::load::<PlanDocument>(&project.path(RESERVES))?;
        let planned = |reserve| {
            move |task: record::PlannedTask| Planned { task_id: task.task_id, pool: task.stage, reserve }
        };
        let tasks: Vec<Planned> = plan
            .tasks
            .into_iter()
            .map(planned(false))
            .chain(reserves.tasks.into_iter().map(planned(true)))
            .collect();
        let materialized =
            current(output, project, MATERIALIZE, &[PLAN, RESERVES], |document: &MaterializeDocument| {
                &document.inputs
            })?;
        let mut documents = Documents { materialized, ..Documents::default() };
        if documents.materialized.is_some() {
            documents.checks =
                current(output, project, CHECKS, &[MATERIALIZE], |document: &CheckDocument| {
                    &document.inputs
                })?;
        }
        if documents.checks.is_some() {
            documents.proofs =
                current(output, project, PROOFS, &[MATERIALIZE, CHECKS], |document: &ProofDocument| {
                    &document.inputs
                })?;
        }
        let disowned = documents.disowned(output, project)?;
        let selected = artifact::load_optional::<Selection>(&project.path(SELECTION))?
            .map(|(selection, _)| {
                selection.tasks.into_iter().map(|task| (task.task_id, task.split)).collect()
            })
            .unwrap_or_default();
        let stated = stated(&tasks, &documents);
        Ok(Self { tasks, documents, selected, disowned, stated })
    }

    /// Every status that a task has; exactly one where the sums close.
    pub fn of(&self, task: &TaskId) -> Vec<Status> {
        let own = self.stated.iter().filter(|stated| stated.task_id == *task);
        own.map(|stated| stated.status.clone()).collect()
    }

    /// The status of every task, where the sums close.
    pub fn statuses(&self) -> Result<BTreeMap<&TaskId, &Status>> {
        self.tallies()?;
        Ok(self.stated.iter().map(|stated| (&stated.task_id, &stated.status)).collect())
    }

    /// Counts by pool; an error that names tasks when the sums do not close, or when the ledger says something else.
    pub fn tallies(&self) -> Result<BTreeMap<String, Tally>> {
        if !self.disowned.is_empty() {
            return Err(prove::disowned_failure(&self.disowned));
        }
        counted(&self.tasks, &self.stated).or_exit(Exit::Conflict)
    }

    /// What became of the tasks that came to each stage.
    pub fn stages(&self) -> Vec<(&'static str, Tally)> {
        let mut came = self.tasks.len() as u64;
        let mut stages = Vec::new();
        for stage in STAGES {
            let mut tally = Tally { total: came, ..Tally::default() };
            for stated in self.stated.iter().filter(|stated| stated.stage == stage) {
                match &stated.status {
                    Status::Accepted => {}
                    Status::Rejected { reason, .. } => {
                        *tally.rejected.entry(reason.clone()).or_default() += 1;
                    }
                    Status::Error { reason, .. } => *tally.error.entry(reason.clone()).or_default() += 1,
                    Status::Pending => tally.pending += 1,
                }
            }
            tally.accepted =
                came.saturating_sub(tally.rejected_total() + tally.error_total() + tally.pending);
            came = tally.accepted;
            stages.push((stage, tally));
        }
        stages
    }
}

/// A document, unless one of the files that it names as inputs is another one now.
fn current<D: Document>(
    output: Output,
    project: &Project,
    name: &str,
    made_from: &[&str],
    inputs: impl Fn(&D) -> &artifact::Inputs,
) -> Result<Option<D>> {
    let Some((document, _)) = artifact::load_optional::<D>(&project.path(name))? else { return Ok(None) };
    for file in made_from {
        let path = project.path(file);
        if !path.exists() || inputs(&document).get(*file) != Some(&file_digest(&path)?) {
            let stage = D::STAGE;
            output.warn(format_args!(
                "{name} is about another {file} and is left out; run `seatrial {stage}`, or `seatrial up`"
            ));
            return Ok(None);
        }
    }
    Ok(Some(document))
}

/// One statement a task where the documents agree. A task that stands in two lists gets two, and one that is in no plan one too
/// many: the sums then do not close.
fn stated(tasks: &[Planned], documents: &Documents) -> Vec<Stated> {
    let mut stated = Vec::new();
    let mut reached: BTreeMap<&TaskId, &'static str> =
        tasks.iter().map(|task| (&task.task_id, STAGES[0])).collect();
    let mut say = |task_id: &TaskId, stage, status| {
        stated.push(Stated { task_id: task_id.clone(), stage, status });
    };
    if let Some(document) = &documents.materialized {
        for task in &document.refused {
            reached.remove(&task.task_id);
            let (reason, detail) = (task.reason.clone(), task.detail.clone());
            say(&task.task_id, STAGES[0], Status::Rejected { reason, detail });
        }
        for task in &document.tasks {
            reached.insert(&task.task_id, STAGES[1]);
        }
    }
    if let Some(document) = &documents.checks {
        for task in &document.tasks {
            if task.accepted {
                reached.insert(&task.task_id, STAGES[2]);
                continue;
            }
            reached.remove(&task.task_id);
            let error = task.findings.iter().find(|finding| finding.severity == Severity::Error);
            let (reason, detail) = error.map_or_else(
                || ("unnamed".to_owned(), "the document names no error".to_owned()),
                |finding| (finding.rule.clone(), finding.message.clone()),
            );
            say(&task.task_id, STAGES[1], Status::Rejected { reason, detail });
        }
    }
    if let Some(document) = &documents.proofs {
        for task in &document.tasks {
            reached.remove(&task.task_id);
            say(&task.task_id, STAGES[2], task.verdict.clone());
        }
    }
    for (task, stage) in reached {
        say(task, stage, Status::Pending);
    }
    stated
}

fn counted(tasks: &[Planned], stated: &[Stated]) -> std::result::Result<BTreeMap<String, Tally>, TallyError> {
    let pools = tasks.iter().map(|task| (&task.task_id, task.pool.as_str()));
    tally(pools, stated.iter().map(|stated| (&stated.task_id, &stated.status)))
}

fn show(output: Output, standing: &Standing) -> Result {
    let tallies = standing.tallies()?;
    let statuses = standing.statuses()?;
    let stages = standing.stages();
    let rows = stages.iter().map(|(stage, tally)| row(stage, tally));
    output.print(table(["stage", "came", "went on", "rejected", "error", "pending"], rows))?;
    output.print("")?;
    let total = total(tallies.values());
    let rows = tallies.iter().map(|(pool, tally)| row(pool, tally)).chain([row("all", &total)]);
    output.print(table(["pool", "total", "accepted", "rejected", "error", "pending"], rows))?;
    let named = statuses.iter().filter_map(|(task, status)| match status {
        Status::Rejected { reason, detail } | Status::Error { reason, detail, .. } => {
            Some([task.to_string(), reason.clone(), shortened(detail)])
        }
        Status::Accepted | Status::Pending => None,
    });
    let named: Vec<_> = named.collect();
    if !named.is_empty() {
        output.print("")?;
        output.print(table(["task", "reason", "detail"], named))?;
    }
    let stages = stages.iter().map(|(stage, tally)| {
        json!({
            "stage": stage,
            "came": tally.total,
            "went_on": tally.accepted,
            "rejected": tally.rejected,
            "error": tally.error,
            "pending": tally.pending,
        })
    });
    output.json(&json!({
        "total": counts(&total),
        "pools": tallies.iter().map(|(pool, tally)| (pool, counts(tally))).collect::<BTreeMap<_, _>>(),
        "stages": stages.collect::<Vec<_>>(),
        "tasks": statuses,
    }))
}

fn row(name: &str, tally: &Tally) -> [String; 6] {
    [
        name.to_owned(),
        tally.total.to_string(),
        tally.accepted.to_string(),
        tally.rejected_total().to_string(),
        tally.error_total().to_string(),
        tally.pending.to_string(),
    ]
}

fn counts(tally: &Tally) -> Value {
    json!({
        "total": tally.total,
        "accepted": tally.accepted,
        "rejected": tally.rejected,
        "error": tally.error,
        "pending": tally.pending,
    })
}

fn total<'a>(tallies: impl Iterator<Item = &'a Tally>) -> Tally {
    tallies.fold(Tally::default(), |mut total, tally| {
        total.total += tally.total;
        total.accepted += tally.accepted;
        total.pending += tally.pending;
        for (sums, counts) in [(&mut total.rejected, &tally.rejected), (&mut total.error, &tally.error)] {
            for (reason, count) in counts {
                *sums.entry(reason.clone()).or_default() += count;
            }
        }
        total
    })
}

/// The first line of a text, cut where it is long.
pub fn shortened(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(90) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}
