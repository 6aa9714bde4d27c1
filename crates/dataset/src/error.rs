//! Why a set cannot be frozen or exported.

use std::io;
use std::path::{Path, PathBuf};

use artifact::ArtifactError;
use ident::{AliasError, TaskId};
use task::TaskError;

use crate::{ImageGap, Leak, Problem};

/// Why a set cannot be frozen, verified or exported.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// The system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A table could not be written.
    #[error("writing {}: {source}", path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        source: parquet::errors::ParquetError,
    },
    /// A document could not be read or written.
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
    /// A task directory could not be read.
    #[error("task `{task_id}`: {source}")]
    Task {
        /// The task.
        task_id: TaskId,
        /// Why.
        source: TaskError,
    },
    /// Nothing is selected.
    #[error("the selection holds no task; run `seatrial resolve` once tasks are proved")]
    Empty,
    /// A name that cannot be part of a directory's name.
    #[error("{what} `{text}` cannot name a directory: use lower-case letters, digits, `.`, `_` and `-`")]
    Name {
        /// `name` or `version`.
        what: &'static str,
        /// The text.
        text: String,
    },
    /// A document says something else about a selected task than the selection.
    #[error("task `{task_id}`: {detail}; run `seatrial {stage}` again")]
    Stale {
        /// The task.
        task_id: TaskId,
        /// What does not fit.
        detail: String,
        /// The command that brings it up to date.
        stage: &'static str,
    },
    /// The selection breaks isolation.
    #[error("the selection is not isolated: {}; run `seatrial resolve` again", shown(.0))]
    Leaks(Vec<Leak>),
    /// Tasks of the selection have images that no registry was seen to have.
    #[error(
        "{} of the selection have no verified image: {}; run `seatrial images plan`, `mirror` and `verify`",
        .0.len(), shown(.0)
    )]
    Images(Vec<ImageGap>),
    /// A key that cannot sign or verify.
    #[error("the key {} {detail}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        detail: String,
    },
    /// The recipe's aliases contradict themselves.
    #[error(transparent)]
    Alias(#[from] AliasError),
    /// A file name that other systems read differently.
    #[error("task `{task_id}`: the name of `{file}` {problem}; rename the file")]
    OddName {
        /// The task.
        task_id: TaskId,
        /// The file, made printable.
        file: String,
        /// What is odd.
        problem: &'static str,
    },
    /// More files than any set has.
    #[error("{} holds more than {limit} files", path.display())]
    TooManyFiles {
        /// The directory.
        path: PathBuf,
        /// The bound.
        limit: usize,
    },
    /// There is something else under the name.
    #[error("{} exists with other content ({}); give the set a new version", path.display(), shown(differing))]
    Conflict {
        /// The directory.
        path: PathBuf,
        /// Files that differ or stand on one side only.
        differing: Vec<String>,
    },
    /// A frozen set is not what its manifest says.
    #[error("{} is not as it was frozen: {}", path.display(), shown(problems))]
    Unsound {
        /// The directory.
        path: PathBuf,
        /// Everything that is wrong.
        problems: Vec<Problem>,
    },
    /// A task without a name that packages can have.
    #[error("task `{task_id}`: `{name}` is no package name of the form organisation/name")]
    PackageName {
        /// The task.
        task_id: TaskId,
        /// The name.
        name: String,
    },
    /// A task that a format cannot hold.
    #[error("task `{task_id}` cannot be exported as {format}: {problem}")]
    Unfit {
        /// The task.
        task_id: TaskId,
        /// The format.
        format: &'static str,
        /// What is in the way, and what to do.
        problem: String,
    },
    /// A value without a text form.
    #[error("the data set's manifest cannot be written: {0}")]
    Toml(#[from] toml::ser::Error),
}

impl DatasetError {
    /// Wraps an answer of the system about `path`.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::Io { path: path.to_owned(), source }
    }
}

/// The first few entries and how many more there are.
pub(crate) fn shown<T: std::fmt::Display>(entries: &[T]) -> String {
    const SHOWN: usize = 5;
    let mut text = entries.iter().take(SHOWN).map(ToString::to_string).collect::<Vec<_>>().join("; ");
    if entries.len() > SHOWN {
        text = format!("{text}; and {} more", entries.len() - SHOWN);
    }
    text
}
