//! What a path that a user names holds: a set of rows, or jobs.

use std::path::{Path, PathBuf};

use crate::TraceError;
use crate::read::{SetFiles, set_files};
use crate::write::suffix;

/// What a path holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// The files of a set of rows.
    Set(SetFiles),
    /// A directory of jobs or trials, or the file of one trajectory.
    Jobs(PathBuf),
}

impl Input {
    /// Looks at a path. A directory is a set when it or its `data` holds Parquet, or JSON lines where no job left its files.
    pub fn of(path: &Path) -> Result<Self, TraceError> {
        std::fs::metadata(path).map_err(TraceError::io(path))?;
        let Some(set) = set_files(path)? else {
            let is_trajectory = matches!(suffix(path).as_deref(), Some("json" | "traj"));
            if path.is_dir() || (path.is_file() && is_trajectory) {
                return Ok(Self::Jobs(path.to_owned()));
            }
            let detail = "is neither a set of rows (.parquet, .jsonl), nor a trajectory (.json, .traj), nor a directory".to_owned();
            return Err(TraceError::NotTraces { path: path.to_owned(), detail });
        };
        let is_job =
            ["result.json", "config.json", "agent", "verifier"].iter().any(|name| path.join(name).exists());
        let has_parquet = set.files.iter().any(|file| suffix(file).as_deref() == Some("parquet"));
        if path.is_dir() && (is_job || (!has_parquet && has_directories(path))) {
            return Ok(Self::Jobs(path.to_owned()));
        }
        Ok(Self::Set(set.some(path)?))
    }
}

fn has_directories(path: &Path) -> bool {
    let Ok(entries) = fs_err::read_dir(path) else { return false };
    entries
        .flatten()
        .any(|entry| entry.file_name() != "data" && entry.file_type().is_ok_and(|kind| kind.is_dir()))
}
