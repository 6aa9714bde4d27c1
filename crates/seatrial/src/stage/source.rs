//! `seatrial source pull`: every source read, every source distribution fetched, the lock written.

use serde_json::json;
use source::{PullMode, Pulled, Reading};

use crate::cli::Pull;
use crate::failure::Result;
use crate::output::Output;
use crate::project::Project;
use crate::sources::{self, LOCK};
use crate::workbench::run_alone;

/// The command.
pub fn run(output: Output, project: &Project, arguments: &Pull) -> Result {
    let mode = if arguments.update { PullMode::Update } else { PullMode::Lock };
    let pulled = pull(output, project, mode)?;
    let sources: Vec<_> = pulled
        .records
        .iter()
        .map(|(name, records)| json!({"name": name, "rows": records.report().rows, "notes": records.report().notes, "left_out": records.report().faults.total}))
        .collect();
    output.json(&json!({
        "sources": sources,
        "distributions": pulled.distributions.len(),
        "changes": pulled.changes.iter().map(|change| &change.what).collect::<Vec<_>>(),
    }))
}

/// Pulls and writes the lock.
pub fn pull(output: Output, project: &Project, mode: PullMode) -> Result<Pulled> {
    let pulled = run_alone(sources::read(project, mode, Reading::default(), true))?;
    for (name, records) in &pulled.records {
        for note in &records.report().notes {
            output.warn(format_args!("source `{name}`: {note}"));
        }
        let faults = &records.report().faults;
        if !faults.is_empty() {
            output.warn(format_args!("source `{name}`: {faults}"));
        }
    }
    if !pulled.changes.is_empty() || !project.path(LOCK).exists() {
        pulled.lock.store(&project.path(LOCK))?;
    }
    let rows: u64 = pulled.records.values().map(|records| records.report().rows).sum();
    output.stage(
        "source pull",
        format_args!(
            "{} sources, {rows} rows, {} source distributions, {}",
            pulled.records.len(),
            pulled.distributions.len(),
            match pulled.changes.len() {
                0 => "as locked".to_owned(),
                changes => format!("{changes} lock entries written"),
            }
        ),
    );
    Ok(pulled)
}
