//! Rows that are no records, and the exact place of each.

use std::fmt;
use std::sync::Arc;

use ident::TaskIdError;

/// Where in a source a row stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Line of a text or JSON-lines file, counted from 1.
    Line(u64),
    /// Element of a JSON array, or row of a CSV file, counted from 1.
    Row(u64),
    /// Row of a row group of a Parquet file, both counted from 1; it has no byte offset.
    Group {
        /// The row group.
        group: u64,
        /// The row inside it.
        row: u64,
    },
    /// Bad entry of a directory, counted from 1; it has no byte offset.
    Entry(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(number) => write!(f, "line {number}"),
            Self::Row(number) => write!(f, "row {number}"),
            Self::Group { group, row } => write!(f, "row group {group}, row {row}"),
            Self::Entry(number) => write!(f, "entry {number}"),
        }
    }
}

impl Place {
    /// Whether the place has a byte offset.
    fn has_offset(self) -> bool {
        matches!(self, Self::Line(_) | Self::Row(_))
    }
}

/// A row of one of the files of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spot {
    /// The file, as messages call it.
    pub file: Arc<str>,
    /// The row in it.
    pub place: Place,
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.file.escape_debug(), self.place)
    }
}

/// One row that is no record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowFault {
    /// The file, as messages call it.
    pub file: Arc<str>,
    /// The row.
    pub place: Place,
    /// Byte offset in the file: of the fault itself where it has one, else of the row's first byte.
    pub offset: u64,
    /// The row's id, as far as it could be read.
    pub id: Option<String>,
    /// The field.
    pub field: Option<String>,
    /// What is wrong.
    pub problem: RowProblem,
}

/// What can be wrong with a row.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RowProblem {
    /// The file ends inside the row.
    #[error("is cut: it ends in the middle of its JSON; write the row again")]
    Cut,
    /// Bytes that are no UTF-8.
    #[error("is not valid UTF-8")]
    NotUtf8,
    /// Longer than any row may be.
    #[error("is longer than {limit} bytes")]
    TooLong {
        /// The bound in bytes.
        limit: u64,
    },
    /// Not JSON.
    #[error("is not valid JSON: {0}")]
    Json(String),
    /// A number that is none; Python writes it as a token that JSON does not have.
    #[error("holds {0}, which is no finite number; write null or leave the field out")]
    NonFinite(&'static str),
    /// A number that no 64-bit float can hold.
    #[error("holds a number beyond the range of 64-bit floats")]
    TooLarge,
    /// One key twice in one object.
    #[error("has the key `{0}` twice in one object")]
    DuplicateKey(String),
    /// Half a surrogate pair, which no text can hold.
    #[error("holds the lone surrogate \\u{0}, half a character; write the character in full or U+FFFD")]
    LoneSurrogate(String),
    /// Something else where an object or a string should be.
    #[error("is {found}; expected {expected}")]
    WrongType {
        /// What was expected.
        expected: &'static str,
        /// What is there.
        found: &'static str,
    },
    /// A field that must be there.
    #[error("is missing")]
    Missing,
    /// A text that is no task id.
    #[error(transparent)]
    TaskId(#[from] TaskIdError),
    /// A value that the field cannot have.
    #[error("{0}")]
    Value(String),
    /// Two rows of one id that say different things.
    #[error("differs from the row of the same id at {first}")]
    Contradiction {
        /// The earlier row.
        first: Spot,
    },
    /// Two ids that some file systems cannot tell apart.
    #[error("differs from `{other}` at {first} in case only; task directories of these names would collide")]
    CaseOnly {
        /// The other id.
        other: String,
        /// The earlier row.
        first: Spot,
    },
    /// Two ids that people cannot tell apart.
    #[error("differs from `{other}` at {first} in white space only; remove the white space, or the row")]
    WhiteSpaceOnly {
        /// The other id.
        other: String,
        /// Its first row.
        first: Spot,
    },
}

impl fmt::Display for RowFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.file.escape_debug(), self.place)?;
        if self.place.has_offset() {
            write!(f, " (byte {})", self.offset)?;
        }
        if let Some(id) = &self.id {
            write!(f, ", {id:?}")?;
        }
        if let Some(field) = &self.field {
            write!(f, ", field `{}`", field.escape_debug())?;
        }
        write!(f, ": {}", self.problem)
    }
}

/// The rows of one source that are no records: all of them counted, the first ones kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults {
    /// How many there are.
    pub total: u64,
    /// The first of them, in order of the files and of their rows.
    pub shown: Vec<RowFault>,
}

impl Faults {
    /// How many faults are kept.
    pub const SHOWN: usize = 20;

    /// Whether every row is a record.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    pub(crate) fn push(&mut self, fault: RowFault) {
        self.total += 1;
        if self.shown.len() < Self::SHOWN {
            self.shown.push(fault);
        }
    }

    /// These and others behind them.
    pub(crate) fn and(mut self, others: Self) -> Self {
        self.total += others.total;
        self.shown.extend(others.shown);
        self.shown.truncate(Self::SHOWN);
        self
    }
}

/// Writes faults as their number and one sentence each.
pub(crate) fn serialize_faults<S: serde::Serializer>(
    faults: &Faults,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    use serde::ser::SerializeStruct;
    let shown: Vec<_> = faults.shown.iter().map(ToString::to_string).collect();
    let mut written = serializer.serialize_struct("Faults", 2)?;
    written.serialize_field("total", &faults.total)?;
    written.serialize_field("shown", &shown)?;
    written.end()
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let directories = matches!(self.shown.first(), Some(RowFault { place: Place::Entry(_), .. }));
        let what = if directories { "directories" } else { "rows" };
        write!(f, "{what} that cannot be read: {}", self.total)?;
        for fault in &self.shown {
            write!(f, "\n  {fault}")?;
        }
        match self.total - self.shown.len() as u64 {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}
