//! The files of a set, and their rows one after the other.

use std::fs::File;
use std::path::{Path, PathBuf};

use fs_err as fs;

use super::{ReadReport, lines, parquet};
use crate::TraceError;
use crate::row::Row;

/// What is read of every row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Everything.
    Rows,
    /// The columns of short texts, and of the messages only who they come from. Columns are left where they are, so this is fast
    /// for Parquet.
    Turns,
    /// The columns of short texts only.
    Facts,
}

/// Where a row stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place<'a> {
    /// The file.
    pub file: &'a Path,
    /// Its number in the file, from 1.
    pub at: u64,
    /// Whether the number is that of a line.
    pub is_line: bool,
}

impl std::fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, {} {}", self.file.display(), if self.is_line { "line" } else { "row" }, self.at)
    }
}

/// Takes rows.
pub(super) type Sink<'s> = dyn FnMut(Place<'_>, Row) -> Result<(), TraceError> + 's;

/// The files of a set: the file itself, or the Parquet files and JSON lines of a directory and of its `data`, by name. `None`
/// where there are none.
pub fn set_files(path: &Path) -> Result<Option<Vec<PathBuf>>, TraceError> {
    if !path.is_dir() {
        return Ok(is_set(path).then(|| vec![path.to_owned()]));
    }
    let mut files = Vec::new();
    for directory in [path.to_owned(), path.join("data")] {
        let Ok(entries) = fs::read_dir(&directory) else { continue };
        for entry in entries {
            let entry = entry.map_err(TraceError::io(&directory))?;
            let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
            if is_file && is_set(&entry.path()) {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    Ok(Some(files).filter(|files| !files.is_empty()))
}

/// Whether a name is that of a file of rows.
fn is_set(path: &Path) -> bool {
    let suffix = path.extension().and_then(|suffix| suffix.to_str());
    matches!(suffix, Some("parquet" | "jsonl" | "ndjson"))
}

/// Hands the rows of all files over, one after the other.
pub fn read_rows(
    files: &[PathBuf],
    wanted: Wanted,
    sink: &mut dyn FnMut(Place<'_>, Row) -> Result<(), TraceError>,
) -> Result<ReadReport, TraceError> {
    let mut report = ReadReport::default();
    for path in files {
        let file = File::open(path).map_err(TraceError::io(path))?;
        if !file.metadata().map_err(TraceError::io(path))?.is_file() {
            return Err(TraceError::NotTraces { path: path.clone(), detail: "is no regular file".into() });
        }
        report.files += 1;
        if path.extension().is_some_and(|suffix| suffix == "parquet") {
            parquet::read(path, file, wanted, &mut report, sink)?;
        } else {
            lines::read(path, file, wanted, &mut report, sink)?;
        }
    }
    Ok(report)
}

/// Whether a file has a column, as far as that can be told without reading it: Parquet says it, and of JSON lines the first row.
pub(crate) fn has_column(path: &Path, name: &str) -> bool {
    let Ok(file) = File::open(path) else { return false };
    if path.extension().is_some_and(|suffix| suffix == "parquet") {
        return parquet::has_column(file, name);
    }
    let mut first = None;
    let files = [path.to_owned()];
    let _ = read_rows(&files, Wanted::Facts, &mut |_, row| {
        first = crate::write::Column::of_texts(name).and_then(|column| column.text(&row).cloned());
        // One row is enough.
        Err(TraceError::NotTraces { path: path.to_owned(), detail: String::new() })
    });
    first.is_some()
}
