//! What one run of a suite showed, before anything is decided about it.

use serde::{Deserialize, Serialize};

use crate::StatusMap;

/// How far a log or report goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Completion {
    /// It ends with its end mark or end record.
    Complete,
    /// The end is missing: the run was cut off.
    #[default]
    Incomplete,
    /// The suite reached its time limit.
    TimedOut,
    /// It holds what the runner cannot have written.
    Forged,
}

/// Everything known about one run of a suite.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SuiteRun {
    /// Tests with their statuses.
    pub statuses: StatusMap,
    /// How many skips were reported by place (file and line) instead of id; they show that tests were collected.
    pub placed_skips: usize,
    /// Names that appeared without a status, sorted.
    pub unresolved: Vec<String>,
    /// How far the log or report goes.
    pub completion: Completion,
    /// What was wrong with a forged one.
    pub detail: Option<String>,
    /// Exit status that the end record of a report names.
    pub end_exit: Option<i32>,
}
