//! Why traces could not be read or written.

use std::io;
use std::path::{Path, PathBuf};

/// Why traces could not be read or written.
///
/// A trial that is malformed is no error: it is left out by name and counted.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A job that could not be read at all.
    #[error(transparent)]
    Job(#[from] job::JobError),
    /// A file that is no set of traces.
    #[error("{}: {detail}", path.display())]
    NotTraces {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and where.
        detail: String,
    },
    /// The output stands in the way.
    #[error("{} is there already and is not empty; remove it or name another one", path.display())]
    Occupied {
        /// The directory.
        path: PathBuf,
    },
    /// Something has taken the place of the output while it was written.
    #[error("{} has been made by somebody else meanwhile; it stays as it is, name another one", path.display())]
    Overtaken {
        /// The directory.
        path: PathBuf,
    },
    /// An output whose name does not say its format, or whose place is none.
    #[error("{}: {wanted}", path.display())]
    Output {
        /// The path.
        path: PathBuf,
        /// What is wanted.
        wanted: &'static str,
    },
    /// Two rows that should be one and say different things.
    #[error("{key}: {first} and {second} say different things; leave one of them out")]
    Conflict {
        /// The row.
        key: String,
        /// Where it stands.
        first: String,
        /// Where it stands again.
        second: String,
    },
    /// Harbor's exporter stops at this trial.
    #[error(
        "trial {trial}: {detail}; Harbor's exporter stops here, without --compat the trial is left out by name"
    )]
    Harbor {
        /// The trial.
        trial: String,
        /// Why.
        detail: String,
    },
    /// A sample whose tokens do not fit together.
    #[error("trial {trial}, turn {turn}: {detail}")]
    Tokens {
        /// The trial.
        trial: String,
        /// The turn, from 0.
        turn: usize,
        /// What does not fit.
        detail: String,
    },
    /// A column that could not be written.
    #[error("{}: {source}", path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// What the encoder said.
        source: parquet::errors::ParquetError,
    },
}

impl TraceError {
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::Io { path: path.to_owned(), source }
    }

    pub(crate) fn parquet(path: &Path) -> impl FnOnce(parquet::errors::ParquetError) -> Self + '_ {
        move |source| match source {
            parquet::errors::ParquetError::External(inner) => match inner.downcast::<io::Error>() {
                Ok(source) => Self::Io { path: path.to_owned(), source: *source },
                Err(inner) => Self::Parquet {
                    path: path.to_owned(),
                    source: parquet::errors::ParquetError::External(inner),
                },
            },
            source => Self::Parquet { path: path.to_owned(), source },
        }
    }
}
