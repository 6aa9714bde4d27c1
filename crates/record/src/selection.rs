//! The final set and its splits.

use std::collections::BTreeMap;
use std::fmt;

use ident::{Digest, RepoKey, TaskId};
use serde::{Deserialize, Serialize};

/// One of the three splits; the order is the order of tie-breaking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Split {
    /// Training.
    Train,
    /// Validation.
    Validation,
    /// Test.
    Test,
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Train => "train",
            Self::Validation => "validation",
            Self::Test => "test",
        })
    }
}

/// `selection.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selection {
    /// `seatrial.selection/1`.
    pub schema: String,
    /// Version of the rules, `resolve/1`.
    pub rules: String,
    /// Digests of what was read.
    pub inputs: BTreeMap<String, Digest>,
    /// The chosen tasks: pools in the recipe's order, primaries in plan order, then reserves.
    pub tasks: Vec<SelectedTask>,
    /// What is missing against the recipe, empty when nothing is.
    pub shortages: Vec<Shortage>,
}

/// One chosen task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelectedTask {
    /// The task.
    pub task_id: TaskId,
    /// Its pool.
    pub stage: String,
    /// Its canonical repository.
    pub repo: RepoKey,
    /// Its split.
    pub split: Split,
    /// Whether it came from the reserves.
    pub reserve: bool,
    /// Evidence tier, where there is one.
    pub evidence_tier: Option<u8>,
    /// The tree that was proved.
    pub tree_digest: Digest,
}

/// Something the recipe wanted and the accepted tasks could not give.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shortage {
    /// What is short: `pool:<name>` or `split:<name>`.
    pub what: String,
    /// How many were wanted.
    pub wanted: u64,
    /// How many there are.
    pub have: u64,
}
