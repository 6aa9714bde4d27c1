//! Why sources could not be read, locked or fetched.

use std::io;
use std::path::{Path, PathBuf};

use artifact::ArtifactError;

use crate::index::IndexError;
use crate::lock::Drift;
use crate::read::Faults;
use crate::remote::RemoteError;
use crate::spec::SpecError;

/// What this crate refuses, and why.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The specification makes no sense.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The system refused.
    #[error("source `{name}`: {}", io_text(path, source))]
    Io {
        /// The source.
        name: String,
        /// The file or directory.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// Nothing stands where a file or a directory should be.
    #[error("source `{name}`: there is no {}; correct its path in the recipe, or put it there", path.display())]
    Absent {
        /// The source.
        name: String,
        /// The path.
        path: PathBuf,
    },
    /// Something else stands where a file or a directory should be.
    #[error("source `{name}`: {} is not {expected}", path.display())]
    WrongPlace {
        /// The source.
        name: String,
        /// The path.
        path: PathBuf,
        /// What was expected: `a regular file` or `a directory`.
        expected: &'static str,
    },
    /// A file whose name does not tell how to read it.
    #[error("source `{name}`: {} has no format that can be read as `{role}`; {remedy}", path.display())]
    Format {
        /// The source.
        name: String,
        /// The file.
        path: PathBuf,
        /// What its rows should be.
        role: record::SourceRole,
        /// Which names would tell.
        remedy: &'static str,
    },
    /// A document that is no list of rows.
    #[error("source `{name}`: {}: {detail}", path.display())]
    Document {
        /// The source.
        name: String,
        /// The file.
        path: PathBuf,
        /// What is wrong with it as a whole.
        detail: String,
    },
    /// Rows that are no records.
    #[error("source `{name}`: {faults}")]
    Rows {
        /// The source.
        name: String,
        /// The rows and what is wrong with each.
        faults: Faults,
    },
    /// The data is not what the lock says.
    #[error(transparent)]
    Drift(#[from] Drift),
    /// The lock file itself.
    #[error(transparent)]
    Lock(#[from] ArtifactError),
    /// Two sources of one name.
    #[error("two sources are named `{0}`; rename one of them in the recipe")]
    DuplicateName(String),
    /// A profile whose source distribution cannot be told.
    #[error("source `{name}`: profile of `{repo}`: {detail}")]
    Distribution {
        /// The source.
        name: String,
        /// The repository.
        repo: String,
        /// What is missing or wrong.
        detail: String,
    },
    /// Files that cannot be told from the recipe.
    #[error("source `{name}`: {detail}")]
    Choice {
        /// The source.
        name: String,
        /// What is wrong.
        detail: String,
    },
    /// Another number of rows than the recipe expects.
    #[error(
        "source `{name}` has {found} rows, and {left_out} that cannot be read; the recipe expects {expected}; \
         correct expect_rows, or the revision"
    )]
    RowCount {
        /// The source.
        name: String,
        /// What the recipe says.
        expected: u64,
        /// Rows that were read.
        found: u64,
        /// Rows that were left out.
        left_out: u64,
    },
    /// A source elsewhere where only local ones can be read.
    #[error("source `{0}` does not lie on this machine; pull it")]
    Elsewhere(String),
    /// A public repository.
    #[error("source `{name}`: {source}")]
    Remote {
        /// The source.
        name: String,
        /// What its server said.
        source: Box<RemoteError>,
    },
    /// The package index.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// A worker ended without an answer.
    #[error("source `{name}`: the reader stopped: {detail}")]
    Worker {
        /// The source.
        name: String,
        /// What the runtime says.
        detail: String,
    },
}

/// An answer of the system with the path it is about, which some layers below have added already.
pub(crate) fn io_text(path: &Path, error: &io::Error) -> String {
    let (path, text) = (path.display().to_string(), error.to_string());
    if text.contains(&path) { text } else { format!("{path}: {text}") }
}
