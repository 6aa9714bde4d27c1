//! `seatrial traces merge`.

use std::path::Path;

use serde_json::json;

use super::arguments::Merge;
use super::{failure, skipped};
use crate::failure::Result;
use crate::output::{Output, count};

/// Merges sets.
pub fn run(output: Output, directory: &Path, arguments: &Merge) -> Result {
    let sets: Vec<_> = arguments.sets.iter().map(|set| directory.join(set)).collect();
    let out = directory.join(&arguments.out);
    let (report, written) =
        trace::merge(&sets, arguments.shard_bytes, &out).map_err(|error| failure(&error))?;
    output.json(&json!({
        "schema": "seatrial.traces-merge/1",
        "out": out.display().to_string(),
        "merge": report,
        "written": written,
    }))?;
    if let Some(written) = &written {
        output.print(format_args!(
            "{}: {} of {} in {} bytes, {} dropped as equal",
            out.display(),
            count(written.rows as usize, "row"),
            count(report.read.files as usize, "file"),
            written.bytes,
            report.copies
        ))?;
    }
    skipped(output, &report.read);
    match written {
        Some(_) => Ok(()),
        None => Err(super::export::nothing("no row was read")),
    }
}
