//! `seatrial status`: where every task stands, with sums that close.

use std::collections::BTreeMap;

use ident::TaskId;
use ledger::{Filter, Ledger, Tally, tally};
use record::{
    CheckDocument, MaterializeDocument, Outcome, PlanDocument, ProofDocument, Selection, Severity, Status,
};
use serde_json::json;

use crate::failure::{Exit, Failure, OrExit, Result};
use crate::output::{Output, table};
use crate::progress::name_of;
use crate::project::Project;
use crate::stage::check::CHECKS;
use crate::stage::materialize::MATERIALIZE;
use crate::stage::plan::{PLAN, RESERVES};
use crate::stage::prove::{LEDGER, PROOFS};
use crate::stage::resolve::SELECTION;

/// The command: the whole set, or the life of one task.
pub fn run(output: Output, project: &Project, task: Option<&str>) -> Result {
    let standing = Standing::load(project)?;
    match task {
        None => show(output, &standing),
        Some(task) => {
            let task = task.parse::<TaskId>().or_exit(Exit::Usage)?;
            life(output, project, &standing, &task)
        }
    }
}

/// Every planned task and its status. Documents that are not there yet leave tasks pending.
pub struct Standing {
    /// Task, pool and whether it is a reserve, in plan order.
    pub tasks: Vec<(TaskId, String, bool)>,
    /// Exactly one status a task.
    pub statuses: BTreeMap<TaskId, Status>,
    /// Chosen tasks and their splits.
    pub selected: BTreeMap<TaskId, record::Split>,
}

impl Standing {
    /// Reads what the stages have written so far.
    pub fn load(project: &Project) -> Result<Self> {
        let (plan, _) = artifact::load::<PlanDocument>(&project.path(PLAN))?;
        let (reserves, _) = artifact::load::<PlanDocument>(&project.path(RESERVES))?;
        let primaries = plan.tasks.into_iter().map(|task| (task.task_id, task.stage, false));
        let reserves = reserves.tasks.into_iter().map(|task| (task.task_id, task.stage, true));
        let tasks: Vec<_> = primaries.chain(reserves).collect();
        let mut statuses: BTreeMap<TaskId, Status> =
            tasks.iter().map(|(task, ..)| (task.clone(), Status::Pending)).collect();
        let mut set = |task: TaskId, status: Status| {
            if let Some(slot) = statuses.get_mut(&task) {
                *slot = status;
            }
        };
        if let Some((document, _)) =
            artifact::load_optional::<MaterializeDocument>(&project.path(MATERIALIZE))?
        {
            for task in document.refused {
                set(task.task_id, Status::Rejected { reason: task.reason, detail: task.detail });
            }
        }
        if let Some((document, _)) = artifact::load_optional::<CheckDocument>(&project.path(CHECKS))? {
            for task in document.tasks.into_iter().filter(|task| !task.accepted) {
                let error = task.findings.into_iter().find(|finding| finding.severity == Severity::Error);
                let (reason, detail) =
                    error.map_or_else(Default::default, |finding| (finding.rule, finding.message));
                set(task.task_id, Status::Rejected { reason, detail });
            }
        }
        if let Some((document, _)) = artifact::load_optional::<ProofDocument>(&project.path(PROOFS))? {
            for task in document.tasks {
                set(task.task_id, task.verdict);
            }
        }
        let selected = artifact::load_optional::<Selection>(&project.path(SELECTION))?
            .map(|(selection, _)| {
                selection.tasks.into_iter().map(|task| (task.task_id, task.split)).collect()
            })
            .unwrap_or_default();
        Ok(Self { tasks, statuses, selected })
    }

    /// Counts by pool; an error when the sums do not close.
    pub fn tallies(&self) -> Result<BTreeMap<String, Tally>> {
        let tasks = self.tasks.iter().map(|(task, pool, _)| (task, pool.as_str()));
        tally(tasks, &self.statuses).or_exit(Exit::Conflict)
    }
}

fn show(output: Output, standing: &Standing) -> Result {
    let tallies = standing.tallies()?;
    let rows = tallies.iter().map(|(pool, tally)| {
        [
            pool.clone(),
            tally.total.to_string(),
            tally.accepted.to_string(),
            tally.rejected_total().to_string(),
            tally.error_total().to_string(),
            tally.pending.to_string(),
        ]
    });
    output.print(table(["pool", "total", "accepted", "rejected", "error", "pending"], rows))?;
    let named = standing.statuses.iter().filter_map(|(task, status)| match status {
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
    output.json(&json!({
        "pools": tallies.iter().map(|(pool, tally)| (pool, json!({
            "total": tally.total,
            "accepted": tally.accepted,
            "rejected": tally.rejected,
            "error": tally.error,
            "pending": tally.pending,
        }))).collect::<BTreeMap<_, _>>(),
        "tasks": standing.statuses,
    }))
}

fn life(output: Output, project: &Project, standing: &Standing, task: &TaskId) -> Result {
    let Some((_, pool, reserve)) = standing.tasks.iter().find(|(planned, ..)| planned == task) else {
        return Err(Failure::new(Exit::Usage, format!("task `{task}` is not planned")));
    };
    let status = &standing.statuses[task];
    let observations = match Ledger::open_existing(&project.path(LEDGER))? {
        Some(ledger) => ledger.observations(&Filter::of_task(task))?,
        None => Vec::new(),
    };
    output.json(&json!({
        "task_id": task,
        "pool": pool,
        "reserve": reserve,
        "status": status,
        "split": standing.selected.get(task),
        "observations": observations,
    }))?;
    output
        .print(format_args!("{task}\n  pool     {pool}, {}", if *reserve { "reserve" } else { "primary" }))?;
    output.print(format_args!("  status   {}", described(status)))?;
    if let Some(split) = standing.selected.get(task) {
        output.print(format_args!("  split    {split}"))?;
    }
    let rows = observations.iter().map(|seen| {
        let outcome = match &seen.outcome {
            Outcome::Reward(reward) => format!("reward {reward}"),
            Outcome::Failed { reason, detail, .. } => format!("{} ({})", name_of(*reason), shortened(detail)),
        };
        let wall = format!("{:.2} s", seen.wall_ms as f64 / 1000.0);
        [name_of(seen.kind), outcome, wall, seen.ended_at.clone(), seen.trial.clone()]
    });
    output.print(table(["trial", "outcome", "wall", "ended", "directory"], rows))
}

/// A status in one line.
fn described(status: &Status) -> String {
    match status {
        Status::Accepted => "accepted".into(),
        Status::Pending => "pending".into(),
        Status::Rejected { reason, detail } => format!("rejected: {reason} ({detail})"),
        Status::Error { reason, detail, .. } => format!("error: {reason} ({detail})"),
    }
}

fn shortened(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(90) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}
