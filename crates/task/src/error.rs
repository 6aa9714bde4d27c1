//! Why a task directory cannot be read or written.

use std::io;
use std::path::PathBuf;

use artifact::ArtifactError;

use crate::config::ConfigError;

/// Why a task directory cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// The system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// There is no directory of this name.
    #[error("{} is not a directory", path.display())]
    NotADirectory {
        /// The path.
        path: PathBuf,
    },
    /// A link leads out of the task, or would once the task is moved.
    #[error("link `{link}` leads out of the task, to `{target}`; replace it by a copy of what it points at")]
    LinkOutside {
        /// The link, relative to the task.
        link: String,
        /// Its target text.
        target: String,
    },
    /// A link points at nothing.
    #[error("link `{link}` points at `{target}`, which does not exist; remove it")]
    LinkDangling {
        /// The link, relative to the task.
        link: String,
        /// Its target text.
        target: String,
    },
    /// Following links never ends.
    #[error("link `{link}` leads back to a directory that holds it; remove it")]
    LinkCycle {
        /// The link, relative to the task.
        link: String,
    },
    /// A pipe, a socket or a device.
    #[error("`{path}` is neither file, directory nor link; remove it")]
    SpecialFile {
        /// The entry, relative to the task.
        path: String,
    },
    /// More entries than any task has.
    #[error("{} holds more than {limit} files and directories", path.display())]
    TooManyEntries {
        /// The task directory.
        path: PathBuf,
        /// The bound.
        limit: usize,
    },
    /// Directories nested deeper than any task nests them.
    #[error("`{path}` is nested deeper than {limit} directories")]
    TooDeep {
        /// The directory, relative to the task.
        path: String,
        /// The bound.
        limit: usize,
    },
    /// A file could not be read within its bound, or not be written.
    #[error(transparent)]
    File(#[from] ArtifactError),
    /// `task.toml` cannot be read at all.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The directory is no valid task; everything that is wrong is listed.
    #[error("{} is not a valid task: {}", path.display(), defects.join("; "))]
    Invalid {
        /// The task directory.
        path: PathBuf,
        /// One line for each thing that is missing or wrong.
        defects: Vec<String>,
    },
    /// A ready-made task that does not carry the instance it was made from.
    #[error("{} cannot be imported: {detail}", path.display())]
    Import {
        /// The file that should have told.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
}
