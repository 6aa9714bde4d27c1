//! Unified and git diffs as bytes: read, turned around, applied strictly, written.
//!
//! The rules are those of `git apply` without options: context has to match exactly, at the stated line or, failing
//! that, at the nearest other place; nothing is applied when any part does not apply. Two faults of transport are
//! repaired and noted, a lost final newline and line ends turned into CRLF.
//!
//! The parser is not the `diffy` crate's, which turns diffs around and writes them well but does not say which file and
//! line refuses, lets paths escape, and reads neither a cut final newline nor CRLF headers; `diffy` computes the hunks of
//! [`Patch::between`].

mod apply;
mod between;
mod model;
mod parse;
mod path;
mod write;

pub use apply::Applied;
pub use model::{FileChange, Hunk, Line, LineKind, Note, Patch, PatchProblem};
