//! What an export found, kept and left out.

use serde::Serialize;

/// What an export found, kept and left out. Every trial is in exactly one of the counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ExportReport {
    /// Trials that were found.
    pub trials: u64,
    /// Trials that became rows.
    pub exported: u64,
    /// Rows.
    pub rows: u64,
    /// Rows of helpers among them.
    pub helper_rows: u64,
    /// Trials that the filter left out.
    pub filtered: u64,
    /// Trials whose agent left no trajectory, as with `oracle` and `nop`.
    pub without_trajectory: u64,
    /// Trials whose trajectory has no turn of the agent.
    pub without_turn: u64,
    /// Trials that are equal copies of others.
    pub copies: u64,
    /// Trials that were malformed, by name.
    pub quarantined: Vec<LeftOut>,
    /// Files of exported trials that were malformed, and what could not be looked into.
    pub odd: Vec<LeftOut>,
    /// Halves of surrogate pairs that became U+FFFD.
    pub surrogates: u64,
    /// Documents with bytes that were not UTF-8.
    pub not_utf8: u64,
    /// Trajectories whose end was cut, read up to there.
    pub cut: u64,
    /// Images and sounds, which have no place in a row.
    pub media: u64,
}

/// Something that was left out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct LeftOut {
    /// The trial's directory or another path.
    pub path: String,
    /// Why.
    pub why: String,
}

impl std::fmt::Display for LeftOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.path, self.why)
    }
}
