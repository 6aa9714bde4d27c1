//! Why a public repository did not give what was wanted.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// What can go wrong between a recipe's repository and a verified file. Addresses are shown without user, password and
/// query, and tokens never.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The network may not be used.
    #[error("{what} is not here, and {why} forbids the network; pull once with a network, or fill the cache")]
    Offline {
        /// What was wanted.
        what: String,
        /// Who forbids it.
        why: &'static str,
    },
    /// A setting that makes no sense. Its value is not shown: it may hold a password.
    #[error("{name} {detail}")]
    Setting {
        /// The variable.
        name: &'static str,
        /// What is wrong with it.
        detail: &'static str,
    },
    /// Writing needs a token.
    #[error("{what} can only be written with a token; set {name} to one that may write")]
    NoToken {
        /// What was to be written.
        what: String,
        /// The variable.
        name: &'static str,
    },
    /// Somebody else wrote at the same time.
    #[error(
        "{what} was changed by somebody else meanwhile; nothing was committed, run the same command again"
    )]
    Moved {
        /// What was to be written.
        what: String,
    },
    /// The server wants to know who asks, or does not let everybody in.
    #[error("{what} is not given out ({status}): {remedy}")]
    Denied {
        /// What was wanted.
        what: String,
        /// The status: 401 or 403.
        status: u16,
        /// What may help.
        remedy: String,
    },
    /// There is no such thing.
    #[error("{what} does not exist{said}; check its name in the recipe, and whether it needs a token")]
    Missing {
        /// What was wanted.
        what: String,
        /// What the server says is missing, in parentheses, or nothing.
        said: String,
    },
    /// Too many requests, and the wait is longer than anybody waits.
    #[error(
        "{host} takes no more requests from here{}; what was fetched is kept, run the same command again later, \
         or set {token} for a higher limit", for_how_long(*wait)
    )]
    RateLimited {
        /// The server.
        host: String,
        /// How long it asks to wait, where it says so.
        wait: Option<Duration>,
        /// The variable of the token.
        token: &'static str,
    },
    /// The server answered, and it will answer the same next time.
    #[error("{what}: {url} answers {status}{said}")]
    Refused {
        /// What was wanted.
        what: String,
        /// The address.
        url: String,
        /// The status.
        status: u16,
        /// What the server says about it, in parentheses, or nothing.
        said: String,
    },
    /// A redirect that is not followed.
    #[error("{what}: {url} {detail}")]
    Redirect {
        /// What was wanted.
        what: String,
        /// The address.
        url: String,
        /// Why it is not followed.
        detail: String,
    },
    /// Nothing whole came, however often it was tried.
    #[error(
        "{what}: {url} could not be fetched in {attempts} attempts: {detail}; try again later, what came is kept"
    )]
    Unreachable {
        /// What was wanted.
        what: String,
        /// The address.
        url: String,
        /// How often it was tried.
        attempts: u32,
        /// What the last attempt said.
        detail: String,
    },
    /// An answer that is none.
    #[error("{what}: the answer of {url} cannot be used: {detail}")]
    Answer {
        /// What was wanted.
        what: String,
        /// The address.
        url: String,
        /// What is wrong with it.
        detail: String,
    },
    /// Other content than the repository says it has.
    #[error("{what}: its {kind} is {found}, but the {by} says {wanted}; it is not used")]
    WrongContent {
        /// The file.
        what: String,
        /// `sha256`, `git blob id`, `size` or `commit`.
        kind: &'static str,
        /// Who says otherwise: `repository`, `lock` or `recipe`.
        by: &'static str,
        /// What it should be.
        wanted: String,
        /// What it is.
        found: String,
    },
    /// A name in a repository that is no path below it.
    #[error("{what} lists {path:?}, which is no plain path; nothing of it is used")]
    Path {
        /// The repository.
        what: String,
        /// The name.
        path: String,
    },
    /// A link, a submodule or a directory where a file was named.
    #[error("{what} is {kind}; name a regular file")]
    NotAFile {
        /// What was named.
        what: String,
        /// What it is.
        kind: String,
    },
    /// Files of a series that are not there.
    #[error("{what}: {detail}")]
    Incomplete {
        /// The repository.
        what: String,
        /// Which are missing.
        detail: String,
    },
    /// The HTTP client could not be set up.
    #[error(
        "the HTTPS client cannot be set up: {detail}; SSL_CERT_FILE may name the certificates of this machine"
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
    /// A worker ended without an answer.
    #[error("{what}: the worker stopped: {detail}")]
    Worker {
        /// What it worked on.
        what: String,
        /// What the runtime says.
        detail: String,
    },
}

fn for_how_long(wait: Option<Duration>) -> String {
    wait.map_or_else(String::new, |wait| format!(" for {} seconds", wait.as_secs()))
}
