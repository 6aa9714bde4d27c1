//! Materialized tasks.

use std::collections::BTreeMap;

use ident::{Digest, RepoKey, TaskId};
use serde::{Deserialize, Serialize};

use crate::FlakyTest;

/// `materialize.json`: every task directory that was written, and every task that could not be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MaterializeDocument {
    /// `seatrial.materialize/1`.
    pub schema: String,
    /// Digests of what the tasks were made from.
    pub inputs: BTreeMap<String, Digest>,
    /// Written tasks in plan order, reserves behind primaries.
    pub tasks: Vec<MaterializedTask>,
    /// Tasks that could not be written, in the same order.
    pub refused: Vec<RefusedTask>,
}

/// One written task directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MaterializedTask {
    /// The task.
    pub task_id: TaskId,
    /// Its pool.
    pub stage: String,
    /// Its canonical repository.
    pub repo: RepoKey,
    /// Harbor's content hash.
    pub content_hash: Digest,
    /// Harbor's older whole-directory checksum.
    pub task_checksum: Digest,
    /// Digest over names, content, modes and links: the identity that verdicts are tied to.
    pub tree_digest: Digest,
    /// The tree digest of `tests/` alone.
    pub verifier_digest: Digest,
    /// The image that the environment starts from, as written in the task.
    pub base_image: String,
    /// What that image is a copy of, where a mirror's copy stands in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy_of: Option<String>,
    /// Digest of the pinned source tree: source distribution, image or commit.
    pub workspace_source: String,
    /// Digest of the instance row.
    pub instance_digest: Digest,
    /// Tests of PASS_TO_PASS that were left out because earlier proofs saw them vary, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quarantined: Vec<String>,
}

/// `quarantine.json`: tests that are left out of tasks because proofs saw them vary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuarantineDocument {
    /// `seatrial.quarantine/1`.
    pub schema: String,
    /// By task what is left out.
    pub tasks: BTreeMap<TaskId, QuarantinedTask>,
}

/// The tests that are left out of one task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuarantinedTask {
    /// Digest of the instance row that the task was made from; of any other row nothing is known to vary.
    pub instance_digest: Digest,
    /// By test how often it had which status.
    pub tests: BTreeMap<String, FlakyTest>,
}

/// A task that could not be materialized.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedTask {
    /// The task.
    pub task_id: TaskId,
    /// Its pool.
    pub stage: String,
    /// Stable name of the reason, such as `patch_does_not_apply`.
    pub reason: String,
    /// What happened, for people.
    pub detail: String,
}
