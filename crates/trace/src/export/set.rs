//! An export that goes into a set on disk.

use std::path::{Path, PathBuf};

use super::{ExportOptions, ExportReport, export};
use crate::TraceError;
use crate::row::Row;
use crate::write::{Column, Columns, RowSet, Target, Written};

/// Exports the trials below `paths` into a set at `out`, whose suffix says its form.
///
/// Without a row nothing is written, and what stood at `out` stays. Harbor's columns follow from the rows, so its rules take a
/// look at all of them first.
pub fn export_set(
    paths: &[PathBuf],
    options: ExportOptions,
    sharegpt: bool,
    shard_bytes: u64,
    out: &Path,
) -> Result<(ExportReport, Option<Written>), TraceError> {
    Target::of(out)?;
    let columns = if options.harbor {
        harbor_columns(paths, options, sharegpt)?
    } else {
        Columns::field(options.instruction, options.tools, sharegpt)
    };
    let mut set = RowSet::create(out, columns, shard_bytes)?;
    let report = export(paths, options, &mut |row| set.write(row))?;
    let written = if report.rows > 0 { Some(set.finish()?) } else { None };
    Ok((report, written))
}

/// The column of tools is there when the first row has it, that of sources when any row is a helper's.
fn harbor_columns(paths: &[PathBuf], options: ExportOptions, sharegpt: bool) -> Result<Columns, TraceError> {
    let (mut first, mut helpers) = (None, false);
    export(paths, options, &mut |row: Row| {
        first.get_or_insert(row.tool_definitions.is_some());
        helpers |= !row.is_main();
        Ok(())
    })?;
    let tools = first.unwrap_or(false);
    Ok(Columns::harbor(|column| match column {
        Column::ToolDefinitions => tools,
        Column::Instruction => options.instruction,
        Column::VerifierOutput => options.verifier_output,
        Column::Sharegpt => sharegpt,
        Column::TraceSource => helpers,
        _ => false,
    }))
}
