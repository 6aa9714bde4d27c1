//! A task that is to be proved.

use std::sync::Arc;

use ident::{Digest, TaskId};
use trial::TrialTask;

/// A materialized task.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// The task's id.
    pub task_id: TaskId,
    /// Its directory, with the digests that its verdict will be tied to.
    pub task: Arc<TrialTask>,
    /// The tasks that its cheats speak for, see [`crate::cheat_group`]; none for a task that stands by itself.
    pub cheat_group: Option<Digest>,
}
