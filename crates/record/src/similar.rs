//! Tasks of one set that are nearly the same.

use ident::TaskId;
use serde::{Deserialize, Serialize};

/// Two tasks that are nearly the same. A task is the `other` of at most one pair of each kind, and the one that is
/// `kept` there is the `other` of none of that kind among tasks of its repository.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SimilarTasks {
    /// The task that comes first in the order of the set, and is the one to keep.
    pub kept: TaskId,
    /// The task that is like it.
    pub other: TaskId,
    /// What they are alike in.
    pub by: SimilarBy,
    /// How much, in thousandths.
    pub permille: u16,
}

/// What two tasks are alike in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SimilarBy {
    /// Their solutions make the same change.
    Solution,
    /// Their instructions say nearly the same.
    Instruction,
}
