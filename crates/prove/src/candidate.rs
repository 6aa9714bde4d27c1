//! A task that is to be proved.

use ident::{Digest, TaskId};
use trial::TrialTask;

/// A materialized task with the digests that its verdict will be tied to.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// The task's id.
    pub task_id: TaskId,
    /// Its directory.
    pub task: TrialTask,
    /// Tree digest of its `tests/`.
    pub verifier_digest: Digest,
}
