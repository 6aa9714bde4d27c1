//! Why a set cannot be registered.

use std::path::PathBuf;

use ident::Digest;

use crate::package::PackageFault;
use crate::{DatasetError, Problem};

/// Why a set cannot be registered or read from a registry.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// Nothing says what the package should be.
    #[error(
        "nothing says what the SHA-256 of {} is: put {} beside it, or give it with --sha256",
        package.display(), sums.display()
    )]
    NoSum {
        /// The package.
        package: PathBuf,
        /// The file that was looked for.
        sums: PathBuf,
    },
    /// The file with the sum does not hold one.
    #[error("{} holds no SHA-256 of {package}; fetch both again", path.display())]
    BadSum {
        /// The file.
        path: PathBuf,
        /// The name of the package.
        package: String,
    },
    /// The package is another one.
    #[error(
        "{}: its SHA-256 is {found}, and {said_by} says {expected}; it was changed or cut on its way, fetch it again",
        package.display()
    )]
    Digest {
        /// The package.
        package: PathBuf,
        /// The digest of the file.
        found: Digest,
        /// What it should be.
        expected: Digest,
        /// Who says so.
        said_by: String,
    },
    /// The file is no package, or a hostile one.
    #[error("{}: {problem}; nothing was registered", package.display())]
    Package {
        /// The package.
        package: PathBuf,
        /// What is wrong, and where.
        problem: String,
    },
    /// The set is not what its manifest says.
    #[error("{origin}: {}; nothing was registered", crate::error::shown(problems))]
    Unsound {
        /// What was to be registered.
        origin: String,
        /// Everything that is wrong.
        problems: Vec<Problem>,
    },
    /// Other content under a name and version.
    #[error(
        "{name} {version} is registered with other content ({}); the new set needs another version, or remove {} first",
        crate::error::shown(differing), path.display()
    )]
    Conflict {
        /// The set's name.
        name: String,
        /// Its version.
        version: String,
        /// The registration that is there.
        path: PathBuf,
        /// Files that differ or stand on one side only.
        differing: Vec<String>,
    },
    /// A registered set was changed.
    #[error("{} is not as it was registered: {}; remove it and register the package again", path.display(), crate::error::shown(problems))]
    Damaged {
        /// The registration.
        path: PathBuf,
        /// Everything that is wrong.
        problems: Vec<Problem>,
    },
    /// No such set.
    #[error("no set `{wanted}` is registered in {}{}", root.display(), known(sets))]
    Unknown {
        /// What was asked for.
        wanted: String,
        /// The registry.
        root: PathBuf,
        /// What is there.
        sets: Vec<String>,
    },
    /// Several versions, and none was named.
    #[error("`{name}` is registered in several versions; name one of {}", versions.join(", "))]
    Ambiguous {
        /// The set.
        name: String,
        /// `name@version` of each.
        versions: Vec<String>,
    },
    /// The system refused, or a document cannot be read.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
}

impl From<artifact::ArtifactError> for RegisterError {
    fn from(error: artifact::ArtifactError) -> Self {
        Self::Dataset(error.into())
    }
}

impl RegisterError {
    /// What a fault of a package means.
    pub(super) fn of_fault(package: PathBuf, fault: PackageFault) -> Self {
        match fault {
            PackageFault::Write { path, source } => DatasetError::Io { path, source }.into(),
            fault => Self::Package { package, problem: fault.to_string() },
        }
    }
}

fn known(sets: &[String]) -> String {
    if sets.is_empty() { "; there are none yet".into() } else { format!("; there are {}", sets.join(", ")) }
}
