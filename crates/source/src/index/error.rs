//! Why a source distribution could not be had.

use std::io;
use std::path::PathBuf;

use ident::Digest;

use super::LocationError;

/// What can go wrong between a package's name and a verified file. URLs are shown without credentials.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// No index is known.
    #[error(transparent)]
    Location(#[from] LocationError),
    /// The specification names no file.
    #[error("source distribution `{what}`: {detail}")]
    Spec {
        /// The package or the file.
        what: String,
        /// What is missing or wrong.
        detail: String,
    },
    /// The index does not know the package.
    #[error(
        "the package index has no package `{package}` ({url}); \
         check the name, or the index in SEATRIAL_INDEX_URL"
    )]
    PackageMissing {
        /// The package.
        package: String,
        /// The page that was asked for.
        url: String,
    },
    /// The package has no such file.
    #[error(
        "the package index has no source distribution {file} of `{package}` ({url}); \
         it may have been withdrawn, put the file into SEATRIAL_SDIST_DIR if you have it"
    )]
    FileMissing {
        /// The package.
        package: String,
        /// The file, or the version that was asked for.
        file: String,
        /// The page or the file's address.
        url: String,
    },
    /// The network may not be used.
    #[error(
        "source distribution {file} is not here, and no network may be used; \
         pull once with a network, or put the file into SEATRIAL_SDIST_DIR"
    )]
    Offline {
        /// The file, or package and version.
        file: String,
    },
    /// The content is not what is pinned.
    #[error(
        "{file} from {place} has sha256 {found}, but {wanted} is pinned; \
         it is not used; do not trust this place until you know why"
    )]
    HashMismatch {
        /// The file.
        file: String,
        /// Where it came from.
        place: String,
        /// The pinned digest.
        wanted: Digest,
        /// The digest of what came.
        found: Digest,
    },
    /// Too much data.
    #[error("{url} gives more than {limit} bytes")]
    TooLarge {
        /// The address.
        url: String,
        /// The bound in bytes.
        limit: u64,
    },
    /// The server answered, and it will answer the same next time.
    #[error("{url} answers {status}; {remedy}")]
    Refused {
        /// The address.
        url: String,
        /// The status.
        status: u16,
        /// What may help.
        remedy: &'static str,
    },
    /// A page that is no index page.
    #[error("{url} is no package index page: {detail}")]
    Page {
        /// The address.
        url: String,
        /// What is wrong.
        detail: String,
    },
    /// Nothing came, however often it was tried.
    #[error(
        "{url} could not be fetched in {attempts} attempts: {detail}; \
         try again later, or put the file into SEATRIAL_SDIST_DIR"
    )]
    Unreachable {
        /// The address.
        url: String,
        /// How often it was tried.
        attempts: u32,
        /// What the last attempt said.
        detail: String,
    },
    /// The HTTP client could not be set up.
    #[error(
        "the HTTPS client cannot be set up: {detail}; \
         SSL_CERT_FILE or PIP_CERT may name the certificates of this machine"
    )]
    Client {
        /// What is wrong.
        detail: String,
    },
    /// The system refused.
    #[error("{}", crate::error::io_text(path, source))]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}
