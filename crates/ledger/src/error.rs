//! Why the ledger could not be opened, read or written.

use std::path::{Path, PathBuf};

use ident::TaskId;
use rusqlite::ErrorCode;

/// What goes wrong with a ledger.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The file holds something else.
    #[error(
        "{} is not a ledger: {detail}; name another file, or move this one away and a new ledger begins there",
        path.display()
    )]
    NotALedger {
        /// The file.
        path: PathBuf,
        /// What is there instead.
        detail: String,
    },
    /// The file was a ledger and is damaged.
    #[error(
        "{} is damaged: {detail}; put a copy back, or move it away and prove the tasks again",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found.
        detail: String,
    },
    /// A later version of the program wrote it.
    #[error(
        "{} has version {found} of the ledger's layout and this program knows up to {known}; use a newer seatrial",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The latest known one.
        known: i64,
    },
    /// Another process holds it.
    #[error("{} is in use by another process for more than {seconds} s; let that one end, and try again", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
        /// How long was waited.
        seconds: u64,
    },
    /// An observation that cannot be kept.
    #[error("the observation of task `{task_id}` cannot be kept: {detail}")]
    Observation {
        /// The task.
        task_id: TaskId,
        /// What is wrong with it.
        detail: String,
    },
    /// Anything else that SQLite says.
    #[error("{}: {source}", path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
}

impl LedgerError {
    /// Sorts an error of SQLite by what its reader can do about it.
    pub(crate) fn of_sqlite(path: &Path, source: rusqlite::Error) -> Self {
        let path = path.to_owned();
        match source.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => {
                Self::NotALedger { path, detail: "it is no SQLite database".into() }
            }
            Some(ErrorCode::DatabaseCorrupt) => Self::Damaged { path, detail: source.to_string() },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                Self::Busy { path, seconds: crate::schema::PATIENCE.as_secs() }
            }
            _ => Self::Sqlite { path, source },
        }
    }
}
