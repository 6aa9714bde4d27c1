//! `seatrial traces export`.

use std::path::Path;

use serde_json::json;
use task::printable;
use trace::{ExportOptions, ExportReport, LeftOut};

use super::arguments::{Episodes, Export};
use super::failure;
use crate::failure::{Exit, Failure, Result};
use crate::output::{Output, count};

/// More trials than these are counted and not named.
pub const NAMED: usize = 20;

/// Writes the rows and tells what became of every trial.
pub fn run(output: Output, directory: &Path, arguments: &Export) -> Result {
    let harbor = arguments.compat.is_some();
    let options = ExportOptions {
        episodes: match arguments.episodes {
            Episodes::Last => trace::Episodes::Last,
            Episodes::All => trace::Episodes::All,
        },
        filter: arguments.filter.map(Into::into),
        instruction: arguments.instruction,
        verifier_output: arguments.verifier || !harbor,
        tools: arguments.tools,
        helpers: !arguments.no_subagents,
        system_role: false,
        harbor,
    };
    let jobs: Vec<_> = arguments.jobs.iter().map(|job| directory.join(job)).collect();
    let out = directory.join(&arguments.out);
    let (report, written) =
        trace::export_set(&jobs, options, arguments.sharegpt, arguments.shard_bytes, &out)
            .map_err(|error| failure(&error))?;
    output.json(&json!({
        "schema": "seatrial.traces-export/1",
        "out": out.display().to_string(),
        "trials": report,
        "written": written,
    }))?;
    if let Some(written) = &written {
        output.print(format_args!(
            "{}: {} of {} in {} bytes",
            out.display(),
            count(written.rows as usize, "row"),
            count(report.exported as usize, "trial"),
            written.bytes
        ))?;
    }
    tell(output, &report);
    match written {
        Some(_) => Ok(()),
        None if report.trials == 0 => Err(nothing("no trial was found")),
        None => Err(nothing("no trial became a row")),
    }
}

/// The failure of a command that has nothing to write.
pub fn nothing(why: &str) -> Failure {
    Failure::new(Exit::Failed, format_args!("{why}; nothing was written")).silent()
}

/// What did not become rows, for people.
fn tell(output: Output, report: &ExportReport) {
    let counts = [
        (report.filtered, "left out by the filter"),
        (report.without_trajectory, "without a trajectory"),
        (report.without_turn, "without a turn of the agent"),
        (report.copies, "equal copies of others"),
        (report.quarantined.len() as u64, "malformed"),
    ];
    let parts: Vec<_> = counts
        .into_iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, what)| format!("{number} {what}"))
        .collect();
    if !parts.is_empty() {
        output.say(format_args!("of {}: {}", count(report.trials as usize, "trial"), parts.join(", ")));
    }
    let mended = [
        (report.surrogates, "halves of surrogate pairs became U+FFFD"),
        (report.not_utf8, "documents with bytes that are not UTF-8"),
        (report.cut, "trajectories whose end was cut, read up to there"),
        (report.media, "images or sounds, which rows do not hold"),
    ];
    for (number, what) in mended.into_iter().filter(|(number, _)| *number > 0) {
        output.say(format_args!("{number} {what}"));
    }
    named(output, "malformed", &report.quarantined);
    named(output, "odd", &report.odd);
}

/// Names what was left out, up to a bound.
pub fn named(output: Output, what: &str, left: &[LeftOut]) {
    for one in left.iter().take(NAMED) {
        output.warn(format_args!("{what}: {}", printable(one.to_string().as_bytes())));
    }
    if let Some(more @ 1..) = left.len().checked_sub(NAMED) {
        output.warn(format_args!("{what}: {more} more; --json names all"));
    }
}
