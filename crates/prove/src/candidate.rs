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
}
