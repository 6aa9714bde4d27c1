//! What was run, on what, and what came out.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use ident::{Digest, TaskId};
use serde::{Deserialize, Serialize};

/// One finished trial that says something about a task. Observations are appended to the ledger and never edited.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// The task.
    pub task_id: TaskId,
    /// What was tried.
    pub kind: TrialKind,
    /// Tree digest of the task directory.
    pub tree_digest: Digest,
    /// Tree digest of its `tests/`.
    pub verifier_digest: Digest,
    /// Identity of the root file system that it ran on.
    pub image_digest: String,
    /// Limits it ran under.
    pub limits: Limits,
    /// The engine.
    pub engine: String,
    /// What came out.
    pub outcome: Outcome,
    /// Status of every required test, where the verifier reported them.
    #[serde(default)]
    pub tests: BTreeMap<String, String>,
    /// Wall-clock time of the whole trial in milliseconds.
    pub wall_ms: u64,
    /// The trial directory, relative to the project.
    pub trial: String,
    /// When it ended, RFC 3339 in UTC.
    pub ended_at: String,
    /// Of a cheat's trial what its outcome also speaks for: every task with the same verifier program, profile and repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cheat_group: Option<Digest>,
}

/// What a proof trial tries, as text `nop`, `oracle` or `cheat:NAME`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum TrialKind {
    /// Nothing is done: the reward must stay below 1.
    Nop,
    /// The gold solution is applied: the reward must be 1.
    Oracle,
    /// The reward is sought without solving the task: it must stay below 1.
    Cheat(CheatName),
}

/// In front of a cheat's name where kinds of trials are written.
const CHEAT: &str = "cheat:";

impl fmt::Display for TrialKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nop => f.write_str("nop"),
            Self::Oracle => f.write_str("oracle"),
            Self::Cheat(name) => write!(f, "{CHEAT}{name}"),
        }
    }
}

impl FromStr for TrialKind {
    type Err = KindError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match (text, text.strip_prefix(CHEAT)) {
            ("nop", _) => Ok(Self::Nop),
            ("oracle", _) => Ok(Self::Oracle),
            (_, Some(name)) => name.parse().map(Self::Cheat),
            (_, None) => Err(KindError(text.to_owned())),
        }
    }
}

impl TryFrom<String> for TrialKind {
    type Error = KindError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<TrialKind> for String {
    fn from(kind: TrialKind) -> Self {
        kind.to_string()
    }
}

/// Name of a cheat: lower-case letters, digits and dashes, a letter first, at most 64 of them.
///
/// A cheat that comes to do something else gets a new name, since what was observed of the old one says nothing about it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CheatName(String);

impl CheatName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CheatName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for CheatName {
    type Err = KindError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let named = text.starts_with(|c: char| c.is_ascii_lowercase()) && text.chars().all(plain);
        if named && text.len() <= 64 { Ok(Self(text.to_owned())) } else { Err(KindError(text.to_owned())) }
    }
}

impl TryFrom<String> for CheatName {
    type Error = KindError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<CheatName> for String {
    fn from(name: CheatName) -> Self {
        name.0
    }
}

/// A text that is no kind of trial.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no kind of trial; there are `nop`, `oracle` and `cheat:NAME`")]
pub struct KindError(String);

/// Limits that decide whether an earlier observation still counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Time limit of the verifier in seconds.
    pub verifier_sec: u64,
    /// Memory in MiB, where limited.
    pub memory_mb: Option<u64>,
    /// Thousandths of a processor, where limited.
    pub millicpus: Option<u64>,
}

/// A reward, or a typed reason why there is none. Never a silent zero.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The verifier gave exactly one reward.
    Reward(f64),
    /// There is no reward.
    Failed {
        /// Why.
        reason: Reason,
        /// Whose fault it is.
        class: FailureClass,
        /// Whether another try may help.
        retryable: bool,
        /// What happened, for people.
        detail: String,
    },
}

/// Why a trial has no reward. The list is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The task directory cannot be run: it does not parse, or asks for something unsupported.
    TaskInvalid,
    /// The image could not be built.
    EnvironmentBuildFailed,
    /// The sandbox did not start.
    EnvironmentStartFailed,
    /// The healthcheck never succeeded.
    HealthcheckFailed,
    /// The agent could not be set up.
    AgentSetupFailed,
    /// The agent ended with an error.
    AgentError,
    /// The agent ran into its time limit.
    AgentTimeout,
    /// The conversation outgrew the model's context.
    ContextOverflow,
    /// An answer of the model was cut at its length limit.
    OutputOverflow,
    /// The model declined to work on the task.
    AgentRefused,
    /// The model's endpoint did not accept the credentials.
    AgentAuthFailed,
    /// The model's endpoint does not know the model.
    ModelNotFound,
    /// The model's endpoint failed, was overloaded or out of reach.
    ApiFailed,
    /// The verifier ran into its time limit.
    VerifierTimeout,
    /// The verifier could not be started or its files could not be brought in.
    VerifierSetupFailed,
    /// No reward file.
    RewardMissing,
    /// An empty reward file.
    RewardEmpty,
    /// A reward file that holds no number.
    RewardUnparsable,
    /// NaN or an infinity.
    RewardNonFinite,
    /// Two reward files that disagree.
    RewardConflict,
    /// A reward outside [0, 1]. It never ends a trial: the reward is kept as it is, and this is noted beside it.
    RewardOutOfRange,
    /// A link, a directory, a special file or an oversized file in place of the reward.
    RewardUnsafe,
    /// The environment knows other commits than the one that is checked out.
    HistoryLeak,
    /// No reward, and a program that the verifier called was not found.
    ToolNotFound,
    /// The memory limit was hit.
    OutOfMemory,
    /// More was written than the task's storage limit allows.
    StorageLimit,
    /// The host's disk is full.
    DiskFull,
    /// The trial as a whole ran into its time limit.
    TrialTimeout,
    /// The run was stopped.
    Cancelled,
    /// The engine or the sandbox vanished.
    EngineLost,
}

impl Reason {
    /// The whole list, in the order of its declaration.
    pub const ALL: [Self; 30] = [
        Self::TaskInvalid,
        Self::EnvironmentBuildFailed,
        Self::EnvironmentStartFailed,
        Self::HealthcheckFailed,
        Self::AgentSetupFailed,
        Self::AgentError,
        Self::AgentTimeout,
        Self::ContextOverflow,
        Self::OutputOverflow,
        Self::AgentRefused,
        Self::AgentAuthFailed,
        Self::ModelNotFound,
        Self::ApiFailed,
        Self::VerifierTimeout,
        Self::VerifierSetupFailed,
        Self::RewardMissing,
        Self::RewardEmpty,
        Self::RewardUnparsable,
        Self::RewardNonFinite,
        Self::RewardConflict,
        Self::RewardOutOfRange,
        Self::RewardUnsafe,
        Self::HistoryLeak,
        Self::ToolNotFound,
        Self::OutOfMemory,
        Self::StorageLimit,
        Self::DiskFull,
        Self::TrialTimeout,
        Self::Cancelled,
        Self::EngineLost,
    ];
}

impl fmt::Display for Reason {
    /// The name as it is written in documents.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Whose fault a failure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// The task's.
    Task,
    /// The agent's.
    Agent,
    /// The machine's, the network's or ours.
    Infrastructure,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_come_back_as_they_were_written() {
        for text in ["nop", "oracle", "cheat:skip-all", "cheat:x2"] {
            let kind: TrialKind = serde_json::from_value(text.into()).unwrap();
            assert_eq!(serde_json::to_value(&kind).unwrap(), text);
        }
        for text in ["", "Nop", "cheat:", "cheat:-x", "cheat:A", "cheat:a b", "cheat:a/b", "cheats:a"] {
            assert!(text.parse::<TrialKind>().is_err(), "{text:?}");
        }
        assert!(format!("cheat:{}", "a".repeat(65)).parse::<TrialKind>().is_err());
    }
}
