//! What can go wrong between Seatrial and a sandbox.

/// Why an engine could not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// The engine cannot run on this machine, or not with these settings.
    #[error("the {engine} engine cannot run here: {reason}")]
    Unavailable {
        /// Engine name.
        engine: &'static str,
        /// What is missing, and what to do about it.
        reason: String,
    },
    /// A setting that this engine does not offer.
    #[error("the {engine} engine does not support {what}")]
    Unsupported {
        /// Engine name.
        engine: &'static str,
        /// The setting by name.
        what: String,
    },
    /// The sandbox did not come up.
    #[error("sandbox {name} did not start: {reason}")]
    Start {
        /// Sandbox name.
        name: String,
        /// The step that failed and why.
        reason: String,
    },
    /// An image could not be built.
    #[error("the image was not built{}: {reason}{}", at(step), below(tail))]
    Build {
        /// The instruction that failed; empty when it is not known.
        step: String,
        /// Why.
        reason: String,
        /// The end of the instruction's output.
        tail: String,
    },
    /// The program was not found or could not be started inside the sandbox.
    #[error("cannot run `{program}` in the sandbox: {reason}")]
    Spawn {
        /// The program as asked for.
        program: String,
        /// Why not.
        reason: String,
    },
    /// A path that does not exist inside the sandbox.
    #[error("no such path in the sandbox: {0}")]
    NoSuchPath(String),
    /// More data than the caller was willing to take.
    #[error("{what} is larger than {limit} bytes")]
    TooLarge {
        /// What was read.
        what: String,
        /// The bound in bytes.
        limit: u64,
    },
    /// The sandbox is gone: its init died or the connection broke.
    #[error("the sandbox is gone: {0}")]
    Lost(String),
    /// Files or system calls on the host's side.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done.
        doing: String,
        /// The system's answer.
        source: std::io::Error,
    },
}

fn at(step: &str) -> String {
    if step.is_empty() { String::new() } else { format!(", at `{step}`") }
}

fn below(tail: &str) -> String {
    if tail.is_empty() { String::new() } else { format!("\n{tail}") }
}

/// An error with everything behind it, each thing once: libraries repeat what their errors were made of.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        next = error.source();
    }
    text
}
