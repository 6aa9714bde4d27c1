//! What can be wrong with a `task.toml`.

use std::fmt;

/// Why `task.toml` cannot be read at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Not UTF-8.
    #[error("task.toml is not UTF-8: byte {offset} fits no character")]
    NotUtf8 {
        /// Offset of the first wrong byte.
        offset: usize,
    },
    /// Not TOML.
    #[error("task.toml, line {line}, column {column}: {message}")]
    Syntax {
        /// Line, counted from 1.
        line: u32,
        /// Column in characters, counted from 1.
        column: u32,
        /// The parser's words.
        message: String,
    },
}

/// One thing that is wrong or doubtful in a `task.toml` that parses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigProblem {
    /// How much it matters.
    pub kind: ProblemKind,
    /// The key with its path, such as `verifier.timeout_secs` or `steps[0].name`.
    pub key: String,
    /// Line, counted from 1.
    pub line: u32,
    /// Column in characters, counted from 1.
    pub column: u32,
    /// What is wrong.
    pub message: String,
    /// For an unknown key, the known one that was probably meant.
    pub near: Option<String>,
}

/// How much a problem matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProblemKind {
    /// Harbor does not know the key and drops it; a default may stand where the author set something else.
    UnknownKey,
    /// Harbor knows the key and drops this value of it in silence.
    Dropped,
    /// A limit that no trial can run under: zero, negative, infinite or not a number.
    Limit,
    /// Harbor refuses the file because of it.
    Invalid,
}

impl ProblemKind {
    /// Whether no trial may be run on a task with such a problem.
    pub fn refuses(self) -> bool {
        matches!(self, Self::Limit | Self::Invalid)
    }
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task.toml, line {}: `{}` {}", self.line, self.key, self.message)?;
        match &self.near {
            Some(near) => write!(f, "; is `{near}` meant?"),
            None => Ok(()),
        }
    }
}
