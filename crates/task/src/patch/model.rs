//! What a patch is made of.

use std::collections::BTreeSet;
use std::fmt;

use crate::printable;

/// A parsed patch: changes to files in the order in which they are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch {
    /// The changes, at least one.
    pub files: Vec<FileChange>,
    /// What was repaired while reading.
    pub notes: Vec<Note>,
    /// Every line end was CRLF, as after a careless transport; the lines are kept without their CR.
    pub(super) line_ends_lost: bool,
}

/// The change of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// Its path before; `None` for a new file.
    pub old: Option<Vec<u8>>,
    /// Its path after; `None` for a deleted file.
    pub new: Option<Vec<u8>>,
    /// Its mode before, as git writes it, where stated.
    pub old_mode: Option<u32>,
    /// Its mode after, where stated.
    pub new_mode: Option<u32>,
    /// Whether the old file stays, as in a copy.
    pub keeps_old: bool,
    /// The changed places.
    pub hunks: Vec<Hunk>,
}

/// One changed place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunk {
    /// First line before, counted from 1; 0 for an empty file.
    pub old_start: u64,
    /// First line after.
    pub new_start: u64,
    /// Context, removed and added lines in order.
    pub lines: Vec<Line>,
}

/// One line of a hunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// What happens to it.
    pub kind: LineKind,
    /// Its bytes with the line end; without one at the end of a file that has none.
    pub text: Vec<u8>,
}

/// What happens to a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineKind {
    /// It stays.
    Context,
    /// It goes.
    Remove,
    /// It comes.
    Add,
}

/// Something that was repaired or is worth knowing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Note {
    /// The last line had lost its newline.
    FinalNewlineRepaired,
    /// Every line of the patch ended in CRLF; the line ends were taken back to LF.
    LineEndsRepaired,
    /// A hunk matched at another line than stated.
    Offset {
        /// The file.
        path: String,
        /// The hunk, counted from 1.
        hunk: usize,
        /// By how many lines it moved.
        lines: i64,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FinalNewlineRepaired => f.write_str("the patch had lost its final newline"),
            Self::LineEndsRepaired => f.write_str("the patch had got CRLF line ends"),
            Self::Offset { path, hunk, lines } => {
                write!(
                    f,
                    "hunk {hunk} of `{path}` applies {} lines {}",
                    lines.abs(),
                    if *lines < 0 { "earlier" } else { "later" }
                )
            }
        }
    }
}

/// Why a patch cannot be read or applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchProblem {
    /// Nothing but white space.
    #[error("the patch is empty")]
    Empty,
    /// Not a patch.
    #[error("line {line} of the patch: {message}")]
    Malformed {
        /// Line, counted from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// A path that leaves the tree or reaches into a repository's own files.
    #[error("the patch names the path `{path}`, which is refused: {reason}")]
    PathEscape {
        /// The path.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A change of bytes that are no text.
    #[error("the patch changes `{path}` as a binary file, which is not supported")]
    Binary {
        /// The file.
        path: String,
    },
    /// A kind of change that cannot be carried out.
    #[error("the patch wants to make `{path}` {what}, which is not supported")]
    Unsupported {
        /// The file.
        path: String,
        /// The kind of change.
        what: String,
    },
    /// A part that does not fit the tree.
    #[error("the patch does not apply to `{path}`{}: {reason}", hunk.map(|hunk| format!(", hunk {hunk}")).unwrap_or_default())]
    DoesNotApply {
        /// The file.
        path: String,
        /// The hunk, counted from 1, where one can be named.
        hunk: Option<usize>,
        /// What does not fit.
        reason: String,
    },
}

impl PatchProblem {
    /// A stable name for the kind of problem.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Empty => "patch_empty",
            Self::Malformed { .. } => "patch_malformed",
            Self::PathEscape { .. } => "patch_escapes",
            Self::Binary { .. } => "patch_binary",
            Self::Unsupported { .. } => "patch_unsupported",
            Self::DoesNotApply { .. } => "patch_does_not_apply",
        }
    }
}

impl FileChange {
    /// The path for messages: the one after the change, or before it for a deleted file.
    pub fn name(&self) -> String {
        printable(self.new.as_ref().or(self.old.as_ref()).map_or(b"", Vec::as_slice))
    }

    fn reversed(&self) -> Self {
        Self {
            old: self.new.clone(),
            new: self.old.clone(),
            old_mode: self.new_mode,
            new_mode: self.old_mode,
            keeps_old: false,
            hunks: self.hunks.iter().map(Hunk::reversed).collect(),
        }
    }
}

impl Hunk {
    fn reversed(&self) -> Self {
        let mut lines: Vec<Line> = Vec::with_capacity(self.lines.len());
        // Removed lines stand in front of added ones within each change, as every tool writes them.
        let mut added = Vec::new();
        for line in &self.lines {
            let text = line.text.clone();
            match line.kind {
                LineKind::Context => {
                    lines.append(&mut added);
                    lines.push(Line { kind: LineKind::Context, text });
                }
                LineKind::Add => lines.push(Line { kind: LineKind::Remove, text }),
                LineKind::Remove => added.push(Line { kind: LineKind::Add, text }),
            }
        }
        lines.append(&mut added);
        Self { old_start: self.new_start, new_start: self.old_start, lines }
    }

    pub(super) fn count(&self, side: LineKind) -> usize {
        self.lines.iter().filter(|line| line.kind == LineKind::Context || line.kind == side).count()
    }
}

impl Patch {
    /// The patch that undoes this one. A copy becomes the removal of the copied file.
    #[must_use]
    pub fn reversed(&self) -> Self {
        let files = self.files.iter().rev().map(|file| {
            let mut back = file.reversed();
            if file.keeps_old {
                back.new = None;
            }
            back
        });
        Self { files: files.collect(), notes: Vec::new(), line_ends_lost: self.line_ends_lost }
    }

    /// Every path that the patch reads or writes.
    pub fn paths(&self) -> BTreeSet<Vec<u8>> {
        self.files.iter().flat_map(|file| [&file.old, &file.new]).flatten().cloned().collect()
    }
}
