//! What was found while a set was read.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::export::LeftOut;

/// What was found while a set was read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ReadReport {
    /// Files that were read.
    pub files: u64,
    /// Rows that were read.
    pub rows: u64,
    /// What is named like a file of rows and was not read: links and special files.
    pub odd: Vec<LeftOut>,
    /// Rows that could not be read, by place.
    pub skipped: Vec<SkippedRow>,
    /// Columns of the field that a file does not have, with the number of such files.
    pub missing: BTreeMap<String, u64>,
    /// Columns that were not read.
    pub others: BTreeSet<String>,
    /// Halves of surrogate pairs that became U+FFFD.
    pub surrogates: u64,
    /// Lines and cells with bytes that were not UTF-8.
    pub not_utf8: u64,
    /// Messages whose content was missing or null.
    pub empty_contents: u64,
    /// Messages whose content was a list of parts.
    pub parts: u64,
    /// Calls of tools that became text of their message.
    pub tool_calls: u64,
    /// Images and sounds, which rows do not hold.
    pub media: u64,
}

/// A row that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct SkippedRow {
    /// The file, with the line and byte or the group and row.
    pub place: String,
    /// Why.
    pub why: String,
}

impl std::fmt::Display for SkippedRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.place, self.why)
    }
}

impl ReadReport {
    /// Adds what was found elsewhere.
    pub(crate) fn add(&mut self, other: Self) {
        self.files += other.files;
        self.rows += other.rows;
        self.odd.extend(other.odd);
        self.skipped.extend(other.skipped);
        for (column, files) in other.missing {
            *self.missing.entry(column).or_default() += files;
        }
        self.others.extend(other.others);
        self.surrogates += other.surrogates;
        self.not_utf8 += other.not_utf8;
        self.empty_contents += other.empty_contents;
        self.parts += other.parts;
        self.tool_calls += other.tool_calls;
        self.media += other.media;
    }
}
