//! `seatrial status TASK`: everything that is known about one task, stage by stage.

use std::collections::BTreeMap;

use ident::TaskId;
use ledger::{Filter, Ledger, flake_bound};
use prove::cheats::CHEATS;
use record::{Outcome, ProvedTask, Severity, Status};
use serde_json::json;

use crate::failure::{Exit, Failure, Result};
use crate::output::{Output, count, table};
use crate::progress::name_of;
use crate::project::Project;
use crate::stage::prove::LEDGER;
use crate::stage::status::{Standing, shortened};

/// Shows the life of one planned task.
pub fn show(output: Output, project: &Project, standing: &Standing, task: &TaskId) -> Result {
    let Some(planned) = standing.tasks.iter().find(|planned| planned.task_id == *task) else {
        return Err(Failure::new(Exit::Usage, format!("task `{task}` is not planned")));
    };
    let observations = match Ledger::open_existing(&project.path(LEDGER))? {
        Some(ledger) => ledger.observations(&Filter::of_task(task))?,
        None => Vec::new(),
    };
    let documents = &standing.documents;
    let written =
        documents.materialized.iter().flat_map(|document| &document.tasks).find(|made| made.task_id == *task);
    let checked =
        documents.checks.iter().flat_map(|document| &document.tasks).find(|seen| seen.task_id == *task);
    let proved =
        documents.proofs.iter().flat_map(|document| &document.tasks).find(|seen| seen.task_id == *task);
    let statuses = standing.of(task);
    output.json(&json!({
        "task_id": task,
        "pool": planned.pool,
        "reserve": planned.reserve,
        "status": statuses.first(),
        "statuses": statuses,
        "materialized": written,
        "checked": checked,
        "proved": proved,
        "split": standing.selected.get(task),
        "observations": observations,
    }))?;
    let place = if planned.reserve { "reserve" } else { "primary" };
    output.print(format_args!("{task}\n  pool         {}, {place}", planned.pool))?;
    for status in &statuses {
        output.print(format_args!("  status       {}", described(status)))?;
    }
    if standing.disowned.contains(task) {
        output.print("  ledger       says something else; run `seatrial prove`")?;
    }
    if let Some(written) = written {
        let quarantined = match written.quarantined.len() {
            0 => String::new(),
            many => format!(", without {}: {}", count(many, "varying test"), written.quarantined.join(", ")),
        };
        output
            .print(format_args!("  materialize  tree {}{quarantined}", short(&written.tree_digest.hex())))?;
    }
    if let Some(checked) = checked {
        let mut severities: BTreeMap<Severity, usize> = BTreeMap::new();
        checked.findings.iter().for_each(|finding| *severities.entry(finding.severity).or_default() += 1);
        let found = severities.iter().rev().map(|(severity, many)| count(*many, &name_of(severity)));
        let found: Vec<_> = found.collect();
        let found = if found.is_empty() { "no findings".to_owned() } else { found.join(", ") };
        output.print(format_args!("  check        {found}"))?;
    }
    if let Some(proved) = proved {
        output.print(format_args!("  prove        {}", runs(proved)))?;
        for (test, seen) in &proved.flaky_tests {
            let counts = |counts: &BTreeMap<String, u32>| {
                let counts = counts.iter().map(|(status, many)| format!("{status} x {many}"));
                counts.collect::<Vec<_>>().join(", ")
            };
            output.print(format_args!(
                "  varied       {test} (nop: {}; oracle: {})",
                counts(&seen.nop),
                counts(&seen.oracle)
            ))?;
        }
    }
    if let Some(split) = standing.selected.get(task) {
        output.print(format_args!("  resolve      chosen for {split}"))?;
    }
    let rows = observations.iter().map(|seen| {
        let outcome = match &seen.outcome {
            Outcome::Reward(reward) => format!("reward {reward}"),
            Outcome::Failed { reason, detail, .. } => format!("{} ({})", name_of(*reason), shortened(detail)),
        };
        let wall = format!("{:.2} s", seen.wall_ms as f64 / 1000.0);
        [seen.kind.to_string(), outcome, wall, seen.ended_at.clone(), seen.trial.clone()]
    });
    output.print(table(["trial", "outcome", "wall", "ended", "directory"], rows))
}

/// What the runs of a proof can say, and no more.
pub fn runs(proved: &ProvedTask) -> String {
    let ProvedTask { nop_runs, oracle_runs, cheats, .. } = proved;
    let agreed = if proved.verdict == Status::Accepted {
        let bound = flake_bound(*nop_runs.min(oracle_runs)) * 100.0;
        format!(" agreed: a flake rate above {bound:.0}% would have shown with 95%")
    } else {
        String::new()
    };
    let withstood = match cheats.len() {
        0 => String::new(),
        many => format!("; {many} of {} cheats got nothing", CHEATS.len()),
    };
    format!("nop x {nop_runs}, oracle x {oracle_runs}{agreed}{withstood}")
}

/// A status in one line.
pub fn described(status: &Status) -> String {
    match status {
        Status::Accepted => "accepted".into(),
        Status::Pending => "pending".into(),
        Status::Rejected { reason, detail } => format!("rejected: {reason} ({detail})"),
        Status::Error { reason, detail, .. } => format!("error: {reason} ({detail})"),
    }
}

fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}
