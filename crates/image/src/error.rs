//! What can go wrong between an image reference and a mounted root file system.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::RunFailure;
use crate::reference::ReferenceError;

/// Why an image could not be read, fetched, unpacked or built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// A reference that breaks the grammar.
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    /// Files or system calls.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done, with the path.
        doing: String,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A layer archive that breaks a rule; nothing of it is kept.
    #[error("layer refused at entry `{entry}`: {rule}")]
    Entry {
        /// The entry's name as the archive spells it.
        entry: String,
        /// The rule that it breaks.
        rule: String,
    },
    /// A layer archive larger than its bounds.
    #[error("layer refused: more than {limit} {what}")]
    Bound {
        /// What was counted.
        what: &'static str,
        /// The bound.
        limit: u64,
    },
    /// An archive compressed in a way this program does not read.
    #[error("{name} is compressed with {method}, which is not supported; use gzip, zstd or no compression")]
    Compression {
        /// The archive.
        name: String,
        /// `xz`, `bzip2`…
        method: &'static str,
    },
    /// The layer store has no room left.
    #[error("layer store {root} holds {used} bytes and may hold {capacity}; collect unused layers first")]
    StoreFull {
        /// The store's directory.
        root: PathBuf,
        /// Bytes in use, the refused layer included.
        used: u64,
        /// The bound in bytes.
        capacity: u64,
    },
    /// A manifest, index or configuration that cannot be used.
    #[error("{place}: {what}")]
    Manifest {
        /// The file or the registry address.
        place: String,
        /// What is wrong with it.
        what: String,
    },
    /// Content whose digest is not the one it was asked for by.
    #[error("{place}: content has digest {found}, expected {expected}")]
    Digest {
        /// The file or the registry address.
        place: String,
        /// The digest it was asked for by.
        expected: String,
        /// The digest it has.
        found: String,
    },
    /// Content that ended too early, or goes on after its end.
    #[error("{place}: {digest} came with {found} bytes, and has {expected}")]
    Cut {
        /// The registry's repository, or the layout.
        place: String,
        /// The digest it was asked for by.
        digest: String,
        /// Its length.
        expected: u64,
        /// How many bytes came.
        found: u64,
    },
    /// The image is not where the reference says.
    #[error("no image {reference}: {reason}")]
    NotFound {
        /// The reference.
        reference: String,
        /// Where it was looked for.
        reason: String,
    },
    /// A reference that names something else than when it was looked up.
    #[error("{reference} names {found} now, and {planned} was planned; plan again")]
    SourceMoved {
        /// The reference.
        reference: String,
        /// Digest of what was planned.
        planned: String,
        /// Digest of what it names now.
        found: String,
    },
    /// A registry's answer that is not what the protocol says.
    #[error("registry {host}: {what}")]
    Registry {
        /// Host and port.
        host: String,
        /// The request and the answer.
        what: String,
    },
    /// A registry that has had enough of us for now.
    #[error("registry {host} refuses more requests{}", come_back(*.retry_after))]
    TooManyRequests {
        /// Host and port.
        host: String,
        /// When it wants to be asked again, where it says so.
        retry_after: Option<Duration>,
    },
    /// A registry that counts pulls, and of whose pulls the rest is kept for others.
    #[error("registry {host} has {remaining} pulls left, and {reserve} are kept back")]
    PullsSpent {
        /// Host and port.
        host: String,
        /// Pulls that are left.
        remaining: u64,
        /// Pulls that are kept back.
        reserve: u64,
    },
    /// A registry that wants credentials, or other ones.
    #[error("registry {host} refuses access to {what}: {reason}")]
    Denied {
        /// Host and port.
        host: String,
        /// Repository.
        what: String,
        /// Why, and where credentials are looked for.
        reason: String,
    },
    /// The host's own system cannot be offered as an image.
    #[error("the host's system cannot be used as an image: {0}")]
    Host(String),
    /// A Dockerfile that cannot be built, at its line.
    #[error("{file}:{line}: {instruction}: {what}")]
    Dockerfile {
        /// The Dockerfile.
        file: PathBuf,
        /// One-based line of the instruction.
        line: u32,
        /// The instruction's name in capitals.
        instruction: String,
        /// What is wrong, and the remedy where one is known.
        what: String,
    },
    /// A `RUN` instruction that failed.
    #[error("{file}:{line}: RUN: {failure}")]
    Run {
        /// The Dockerfile.
        file: PathBuf,
        /// One-based line of the instruction.
        line: u32,
        /// How it failed.
        failure: RunFailure,
    },
}

fn come_back(retry_after: Option<Duration>) -> String {
    retry_after
        .map_or_else(String::new, |wait| format!("; it wants to be asked again in {} s", wait.as_secs()))
}

impl ImageError {
    /// Whether the disk or a quota is full.
    pub fn is_disk_full(&self) -> bool {
        match self {
            Self::StoreFull { .. } => true,
            Self::Io { source, .. } => artifact::is_disk_full(source),
            _ => false,
        }
    }

    /// Whether it is a matter of time: a registry has had enough of us, or its pulls are spent.
    pub(crate) fn is_budget(&self) -> bool {
        matches!(self, Self::TooManyRequests { .. } | Self::PullsSpent { .. })
    }

    /// Wraps a system error with what was being done.
    pub(crate) fn io(doing: impl Into<String>, source: impl Into<std::io::Error>) -> Self {
        Self::Io { doing: doing.into(), source: source.into() }
    }

    /// Names the entry and the rule it breaks.
    pub(crate) fn entry(entry: &Path, rule: impl Into<String>) -> Self {
        Self::Entry { entry: entry.display().to_string(), rule: rule.into() }
    }
}
