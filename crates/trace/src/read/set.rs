//! The files of a set, and their rows one after the other.

use std::fs::File;
use std::path::{Path, PathBuf};

use fs_err as fs;

use super::{ReadReport, lines, parquet};
use crate::TraceError;
use crate::export::LeftOut;
use crate::row::Row;
use crate::write::suffix;

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

/// The files of a set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SetFiles {
    /// The files that are read, by name.
    pub files: Vec<PathBuf>,
    /// What is named like a file of rows and is not read, since it is a link or a special file.
    pub odd: Vec<LeftOut>,
}

impl SetFiles {
    /// The files, or an error where there is none to read.
    pub(crate) fn some(self, path: &Path) -> Result<Self, TraceError> {
        match (self.files.first(), self.odd.first()) {
            (None, Some(odd)) => {
                let detail = format!(
                    "holds no file of rows that is read: {} and {} in all {}; name the files themselves, or copy the set with \
                     its links followed",
                    odd.path,
                    self.odd.len(),
                    if self.odd.len() == 1 {
                        "is a link or a special file"
                    } else {
                        "are links or special files"
                    }
                );
                Err(TraceError::NotTraces { path: path.to_owned(), detail })
            }
            _ => Ok(self),
        }
    }
}

/// The files of a set: the file itself, or the Parquet files and JSON lines of a directory and of its `data`. `None` where there
/// are none. Links are reported and not followed, save the path itself.
pub fn set_files(path: &Path) -> Result<Option<SetFiles>, TraceError> {
    if !path.is_dir() {
        return Ok(is_set(path).then(|| SetFiles { files: vec![path.to_owned()], odd: Vec::new() }));
    }
    let mut set = SetFiles::default();
    let odd = |path: PathBuf| LeftOut {
        path: path.display().to_string(),
        why: "is a link or a special file, and was not read".into(),
    };
    let data = path.join("data");
    let inner = match fs::symlink_metadata(&data) {
        Ok(there) if there.is_dir() => Some(data),
        Ok(there) if there.is_symlink() => {
            set.odd.push(odd(data));
            None
        }
        _ => None,
    };
    for directory in [Some(path.to_owned()), inner].into_iter().flatten() {
        for entry in fs::read_dir(&directory).map_err(TraceError::io(&directory))? {
            let entry = entry.map_err(TraceError::io(&directory))?;
            let kind = entry.file_type().map_err(TraceError::io(&entry.path()))?;
            if kind.is_dir() || !is_set(&entry.path()) {
                continue;
            }
            if kind.is_file() {
                set.files.push(entry.path());
            } else {
                set.odd.push(odd(entry.path()));
            }
        }
    }
    set.files.sort();
    set.odd.sort();
    Ok(Some(set).filter(|set| *set != SetFiles::default()))
}

/// Whether a name is that of a file of rows.
fn is_set(path: &Path) -> bool {
    matches!(suffix(path).as_deref(), Some("parquet" | "jsonl" | "ndjson"))
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
        if suffix(path).as_deref() == Some("parquet") {
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
    if suffix(path).as_deref() == Some("parquet") {
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
