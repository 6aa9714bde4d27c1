//! A task that is to be proved.

use std::sync::Arc;

use ident::TaskId;
use trial::TrialTask;

/// A materialized task.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// The task's id.
    pub task_id: TaskId,
    /// Its directory, with the digests that its verdict will be tied to.
    pub task: Arc<TrialTask>,
    /// What it has to have in common with other tasks so that a cheat on one speaks for them; none for a task that stands by
    /// itself.
    pub origin: Option<Origin>,
}

/// What a task of a recipe was made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The canonical repository.
    pub repo: String,
    /// Name of the image that its environment starts from.
    pub base_image: String,
}
