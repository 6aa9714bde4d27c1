//! `seatrial source pull`: every source read, every source distribution fetched, the lock written.

use serde_json::json;
use source::{Keep, Network, PullMode, Pulled, Reading};

use crate::cli::Pull;
use crate::failure::Result;
use crate::output::{Output, count};
use crate::project::Project;
use crate::sources::{self, LOCK, Wish};
use crate::workbench::run_alone;

/// The command.
pub fn run(output: Output, project: &Project, arguments: &Pull) -> Result {
    let mode = match (arguments.update, arguments.locked) {
        (true, _) => PullMode::Update,
        (_, true) => PullMode::Locked,
        _ => PullMode::Lock,
    };
    let wish = Wish {
        mode,
        reading: Reading { strict: arguments.strict, keep: Keep::Counts },
        network: Network::Ask,
        offline: arguments.offline,
        output: Some(output),
        fetch: true,
    };
    let pulled = carry_out(output, project, wish)?;
    let sources: Vec<_> = pulled
        .records
        .iter()
        .map(|(name, records)| {
            let (input, report) = (records.input(), records.report());
            json!({
                "name": name,
                "origin": input.origin,
                "revision": input.revision,
                "rows": report.rows,
                "left_out": report.faults.total,
                "notes": report.notes,
            })
        })
        .collect();
    output.json(&json!({
        "sources": sources,
        "distributions": pulled.distributions.len(),
        "changes": pulled.changes.iter().map(|change| &change.what).collect::<Vec<_>>(),
    }))
}

/// Pulls for a plan, and writes the lock. What the lock knows is not asked for again.
pub fn pull(output: Output, project: &Project, mode: PullMode) -> Result<Pulled> {
    let wish = Wish {
        mode,
        reading: Reading { strict: false, keep: Keep::Keys { whole: true } },
        network: Network::Missing,
        offline: false,
        output: Some(output),
        fetch: true,
    };
    carry_out(output, project, wish)
}

fn carry_out(output: Output, project: &Project, wish: Wish) -> Result<Pulled> {
    let mode = wish.mode;
    let old = sources::old_lock(output, project, mode)?;
    let pulled = run_alone(sources::pull(project, old.as_ref(), wish))?;
    for (name, records) in &pulled.records {
        for note in &records.report().notes {
            output.warn(format_args!("source `{name}`: {note}"));
        }
        let faults = &records.report().faults;
        if !faults.is_empty() {
            output.warn(format_args!("source `{name}`: {faults}"));
        }
    }
    // A binding lock is never written: nothing has differed from it.
    if mode != PullMode::Locked && old.as_ref() != Some(&pulled.lock) {
        pulled.lock.store(&project.path(LOCK))?;
    }
    let rows: u64 = pulled.records.values().map(|records| records.report().rows).sum();
    output.stage(
        "source pull",
        format_args!(
            "{}, {}, {}, {}",
            count(pulled.records.len(), "source"),
            count(rows as usize, "row"),
            count(pulled.distributions.len(), "source distribution"),
            match pulled.changes.len() {
                0 => "as locked".to_owned(),
                1 => "1 lock entry written".to_owned(),
                changes => format!("{changes} lock entries written"),
            }
        ),
    );
    Ok(pulled)
}
