//! The plan: which candidates are tried, and in which order replacements come.

use std::collections::BTreeMap;

use ident::{Digest, RepoKey, TaskId};
use serde::{Deserialize, Serialize};

use crate::ImageStatus;

/// `plan.json` and `reserves.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanDocument {
    /// `seatrial.plan/1`.
    pub schema: String,
    /// Version of the rules, `plan/1`.
    pub rules: String,
    /// What was read.
    pub inputs: BTreeMap<String, SourceInput>,
    /// The pools in the recipe's order.
    pub pools: Vec<PoolSummary>,
    /// The tasks in order of selection within their pool, pools in the recipe's order.
    pub tasks: Vec<PlannedTask>,
}

/// One pinned source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceInput {
    /// Revision, where the source has one.
    pub revision: Option<String>,
    /// Digest of every file that was read.
    pub sha256: BTreeMap<String, Digest>,
    /// Number of rows.
    pub rows: u64,
}

/// What became of one pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolSummary {
    /// The pool's name.
    pub stage: String,
    /// How many tasks were wanted.
    pub target: u64,
    /// The initial cap per repository.
    pub cap: u64,
    /// How often the cap was raised by one.
    pub relaxed: u64,
    /// How many tasks were selected.
    pub selected: u64,
    /// How many are missing.
    pub shortage: u64,
}

/// One selected candidate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedTask {
    /// The task.
    pub task_id: TaskId,
    /// The pool it was selected for.
    pub stage: String,
    /// Its canonical repository.
    pub repo: RepoKey,
    /// The collection's image name, as given.
    pub base_image: String,
    /// Evidence tier 1 to 4, or none.
    pub evidence_tier: Option<u8>,
    /// Model families with a resolved trajectory, in order of preference.
    pub official_models: Vec<String>,
    /// What the reward means say.
    pub swe_master: SweMaster,
    /// State of the image.
    pub image_status: ImageStatus,
    /// Whether it had to be kept.
    pub retained: bool,
    /// Whether it belongs to the canary set.
    pub canary: bool,
}

/// A reward mean, reduced to what the tiers ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SweMaster {
    /// Exactly 1.
    Full,
    /// Between 0 and 1.
    Partial,
    /// Exactly 0.
    Zero,
    /// No row.
    None,
}

impl SweMaster {
    /// The word in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Partial => "partial",
            Self::Zero => "zero",
            Self::None => "none",
        }
    }
}
