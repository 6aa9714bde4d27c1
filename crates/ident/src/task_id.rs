//! Task ids: one portable path component, compared byte by byte.

use std::borrow::Borrow;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The identity of a task, safe to use as one directory name.
///
/// Letters of any script are allowed and never normalised: two ids that look alike but differ in their bytes are
/// different ids, and they sort by those bytes on every system.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TaskId(String);

/// Why a text is no task id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TaskIdError {
    /// Nothing at all.
    #[error("a task id is empty")]
    Empty,
    /// Longer than a file name may be.
    #[error("task id `{start}…` has {bytes} bytes; a file name holds at most {limit}", limit = TaskId::MAX_BYTES)]
    TooLong {
        /// How the id begins.
        start: String,
        /// Its length in UTF-8 bytes.
        bytes: usize,
    },
    /// A character that has no place in a file name.
    #[error("task id {id:?} holds {character:?}, which has no place in a file name")]
    Character {
        /// The id as given.
        id: String,
        /// The first such character.
        character: char,
    },
    /// A character that shells act on: scripts of others loop over task directories, and not all of them quote.
    #[error("task id {id:?} holds {character:?}, which shells act on")]
    Shell {
        /// The id as given.
        id: String,
        /// The first such character.
        character: char,
    },
    /// The name of a device on some systems, with or without an ending.
    #[error("task id {0:?} is the name of a device on some systems")]
    Device(String),
    /// Only dots: a name that file systems treat as a direction.
    #[error("task id {0:?} consists of dots only")]
    Dots(String),
    /// Programs would read it as an option.
    #[error("task id {0:?} begins with a dash, which programs read as an option")]
    LeadingDash(String),
    /// White space at an end, or a trailing dot: names that some systems change silently.
    #[error("task id {0:?} begins or ends with white space, or ends with a dot")]
    Edge(String),
}

impl TaskId {
    /// The longest id in bytes: room is left for suffixes such as a trial's.
    pub const MAX_BYTES: usize = 200;

    /// Checks `text` and makes it a task id.
    pub fn new(text: impl Into<String>) -> Result<Self, TaskIdError> {
        let id = text.into();
        if id.is_empty() {
            return Err(TaskIdError::Empty);
        }
        if id.len() > Self::MAX_BYTES {
            let start = id.chars().take(24).collect();
            return Err(TaskIdError::TooLong { start, bytes: id.len() });
        }
        let forbidden =
            |c: char| c.is_control() || matches!(c, '/' | '\\' | ':' | '*' | '?' | '"' | '<' | '>' | '|');
        if let Some(character) = id.chars().find(|&c| forbidden(c) || is_invisible(c)) {
            return Err(TaskIdError::Character { id, character });
        }
        if let Some(character) = id.chars().find(|c| matches!(c, '$' | '`' | ';' | '&')) {
            return Err(TaskIdError::Shell { id, character });
        }
        if is_device(&id) {
            return Err(TaskIdError::Device(id));
        }
        if id.chars().all(|c| c == '.') {
            return Err(TaskIdError::Dots(id));
        }
        if id.starts_with('-') {
            return Err(TaskIdError::LeadingDash(id));
        }
        if id.trim() != id || id.ends_with('.') {
            return Err(TaskIdError::Edge(id));
        }
        Ok(Self(id))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Format characters that change how text is shown without being seen: direction overrides, joiners, BOM.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// Names that Windows gives to devices, whatever ending stands behind them.
fn is_device(id: &str) -> bool {
    let name = id.split('.').next().unwrap_or(id).trim_end().to_ascii_lowercase();
    let numbered = |name: &str| matches!(name.as_bytes(), [b'1'..=b'9']);
    matches!(name.as_str(), "con" | "prn" | "aux" | "nul")
        || ["com", "lpt"].iter().any(|port| name.strip_prefix(port).is_some_and(numbered))
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for TaskId {
    type Error = TaskIdError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::new(text)
    }
}

impl std::str::FromStr for TaskId {
    type Err = TaskIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::new(text)
    }
}

impl From<TaskId> for String {
    fn from(id: TaskId) -> Self {
        id.0
    }
}

impl AsRef<str> for TaskId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for TaskId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_ids_pass() {
        for id in [
            "oauthlib__oauthlib.1fd52536.combine_file__09vlzwgc",
            "pdfminer__pdfminer.six.1a8bd2f7.pr_12",
            "a",
            "concat__x.0123abcd.pr_1",
            "com10",
        ] {
            assert_eq!(TaskId::new(id).unwrap().as_str(), id);
        }
    }

    #[test]
    fn hostile_names_are_refused() {
        let long = "x".repeat(TaskId::MAX_BYTES + 1);
        for id in [
            "",
            ".",
            "..",
            "...",
            "../x",
            "a/b",
            "a\\b",
            "a\0b",
            "a\nb",
            "-rf",
            " a",
            "a ",
            "a\t",
            "a.",
            "a\u{202e}b",
            "c:d",
            "$(id)",
            "`id`",
            "a;b",
            "a&b",
            "con",
            "NUL.txt",
            "lpt1",
            &long,
        ] {
            assert!(TaskId::new(id).is_err(), "{id:?} was accepted");
        }
    }

    #[test]
    fn composed_and_decomposed_letters_stay_different() {
        let composed = TaskId::new("caf\u{e9}").unwrap();
        let decomposed = TaskId::new("cafe\u{301}").unwrap();
        assert_ne!(composed, decomposed);
        assert!(decomposed < composed);
    }
}
