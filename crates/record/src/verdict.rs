//! Findings of static rules and verdicts of proofs.

use std::collections::BTreeMap;

use ident::{Digest, TaskId};
use serde::{Deserialize, Serialize};

use crate::SimilarTasks;

use crate::CheatName;

/// How much a finding weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Probably wrong; the task is still accepted.
    Warning,
    /// The task is rejected.
    Error,
}

/// One thing that a static rule found.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Finding {
    /// The file inside the task directory, with odd bytes escaped.
    pub file: String,
    /// Line, counted from 1, where one can be named.
    pub line: Option<u32>,
    /// The rule's name.
    pub rule: String,
    /// How much it weighs.
    pub severity: Severity,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub fix: String,
}

/// `checks.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckDocument {
    /// `seatrial.checks/1`.
    pub schema: String,
    /// Digests of what was checked.
    pub inputs: BTreeMap<String, Digest>,
    /// One entry a task, in materialized order.
    pub tasks: Vec<CheckedTask>,
    /// Tasks that are nearly the same, in order of the one that is not to be kept.
    #[serde(default)]
    pub similar: Vec<SimilarTasks>,
}

/// What the static rules say about one task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckedTask {
    /// The task.
    pub task_id: TaskId,
    /// The tree that was looked at.
    pub tree_digest: Digest,
    /// Whether no finding of severity error stands.
    pub accepted: bool,
    /// Findings in order of file, line, rule.
    pub findings: Vec<Finding>,
}

/// Where a task stands. Every task has exactly one status, so the sums close.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "status")]
pub enum Status {
    /// Everything that was asked is proved.
    Accepted,
    /// It can never be used as it is.
    Rejected {
        /// Stable name of the reason.
        reason: String,
        /// What happened, for people.
        detail: String,
    },
    /// It could not be decided.
    Error {
        /// Stable name of the reason.
        reason: String,
        /// Whether another try may help.
        retryable: bool,
        /// What happened, for people.
        detail: String,
    },
    /// Not yet run.
    Pending,
}

/// `proofs.json`: the verdicts as the ledger gives them for the digests in hand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProofDocument {
    /// `seatrial.proofs/1`.
    pub schema: String,
    /// Digests of what the verdicts are about.
    pub inputs: BTreeMap<String, Digest>,
    /// One entry a task, in materialized order.
    pub tasks: Vec<ProvedTask>,
}

/// The verdict on one task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProvedTask {
    /// The task.
    pub task_id: TaskId,
    /// The tree that the verdict is about.
    pub tree_digest: Digest,
    /// The tests that gave it.
    pub verifier_digest: Digest,
    /// The root file system that it was made on; empty while nothing was run.
    pub image_digest: String,
    /// The engine.
    pub engine: String,
    /// The tasks with which it shares what was seen of cheats; none where it shares with nobody, or nothing was run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cheat_group: Option<Digest>,
    /// Finished nop trials that count.
    pub nop_runs: u32,
    /// Finished oracle trials that count.
    pub oracle_runs: u32,
    /// Cheats that are known to get nothing, in the order in which they are tried.
    #[serde(default)]
    pub cheats: Vec<CheatName>,
    /// Required tests that had more than one status in runs of one kind, by name.
    #[serde(default)]
    pub flaky_tests: BTreeMap<String, FlakyTest>,
    /// The verdict.
    pub verdict: Status,
}

/// How often a test had which status.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlakyTest {
    /// With nothing done.
    pub nop: BTreeMap<String, u32>,
    /// With the solution applied.
    pub oracle: BTreeMap<String, u32>,
}
