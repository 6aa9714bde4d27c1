//! A trial as it is seen by whoever looks at jobs, whatever wrote it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use record::{FailureClass, Reason};
use serde::Serialize;

use super::oddity::What;
use super::{Moment, Oddity};
use crate::{EarlierTry, ExceptionPolicy, Flag, Phase, PhaseOutcome, Usage};

/// One trial.
///
/// What no document says is `None` or empty. A number that is 0 was written as 0.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrialView {
    /// The trial's name: what its result says, else that of its directory.
    pub name: String,
    /// Its directory. Where it is written as text, what is not UTF-8 is replaced.
    #[serde(serialize_with = "lossy")]
    pub directory: PathBuf,
    /// What wrote it.
    pub generation: Generation,
    /// Identity of the trial, as written.
    pub id: Option<String>,
    /// Name of the task.
    pub task: Option<String>,
    /// Where the task comes from, such as the name of its data set.
    pub source: Option<String>,
    /// The checksum of the task that the result holds, as written.
    pub task_checksum: Option<String>,
    /// Name of the agent.
    pub agent: Option<String>,
    /// Version of the agent.
    pub agent_version: Option<String>,
    /// Name of the model.
    pub model: Option<String>,
    /// Provider of the model.
    pub provider: Option<String>,
    /// Which attempt of the agent at the task it is, from 0.
    pub attempt: Option<u32>,
    /// The engine that it ran on, by Seatrial's or Harbor's name.
    pub engine: Option<String>,
    /// Identity of the root file system.
    pub image_digest: Option<String>,
    /// What came out.
    #[serde(flatten)]
    pub state: TrialState,
    /// Every named reward, whether it counts or not.
    pub rewards: BTreeMap<String, f64>,
    /// Doubts about the reward that take nothing away from it.
    pub flags: Vec<Flag>,
    /// Status of the required tests, where they were reported.
    pub tests: BTreeMap<String, String>,
    /// When it began.
    pub started_at: Option<Moment>,
    /// When it ended.
    pub finished_at: Option<Moment>,
    /// How long it took in milliseconds.
    pub wall_ms: Option<u64>,
    /// Its phases, in the order of the documents.
    pub phases: Vec<PhaseView>,
    /// The steps of a task that has several.
    pub steps: Vec<StepView>,
    /// What the model used.
    pub tokens: Tokens,
    /// What the sandbox used.
    pub usage: Usage,
    /// Tries of the same attempt that were given up before, the oldest first.
    pub retries: Vec<EarlierTry>,
    /// What is odd about its files; paths are relative to its directory.
    pub oddities: Vec<Oddity>,
}

/// Writes a path that need not be UTF-8.
pub(super) fn lossy<S: serde::Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}

/// What wrote a trial or a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Generation {
    /// Harbor as of 0.26, or Seatrial: documents say their `schema_version`.
    Present,
    /// An earlier Harbor.
    Older,
    /// The harness of Terminal-Bench, before there was Harbor.
    TerminalBench,
    /// There is no document that tells.
    Unknown,
}

/// What came out of a trial.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum TrialState {
    /// It has a reward that counts.
    Rewarded {
        /// The reward called `reward`.
        reward: f64,
        /// What went wrong all the same, such as an agent that ran out of time before the verifier was content.
        failure: Option<Failure>,
    },
    /// It failed and has no reward that counts.
    Errored {
        /// Why.
        failure: Failure,
    },
    /// It ended without a failure and without a reward, as with a verifier that is switched off.
    Ungraded,
    /// Its result is not there, or cannot be read.
    Incomplete {
        /// What is the matter with it.
        cause: Incomplete,
    },
    /// It has no result yet, and its job is being run.
    Running,
}

impl TrialState {
    /// The reward that counts.
    pub fn reward(&self) -> Option<f64> {
        match self {
            Self::Rewarded { reward, .. } => Some(*reward),
            _ => None,
        }
    }

    /// What went wrong, whether a reward counts or not.
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Rewarded { failure, .. } => failure.as_ref(),
            Self::Errored { failure } => Some(failure),
            _ => None,
        }
    }

    /// Whether the trial has a result.
    pub const fn has_ended(&self) -> bool {
        matches!(self, Self::Rewarded { .. } | Self::Errored { .. } | Self::Ungraded)
    }

    /// The name of the state as it is written.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Rewarded { .. } => "rewarded",
            Self::Errored { .. } => "errored",
            Self::Ungraded => "ungraded",
            Self::Incomplete { .. } => "incomplete",
            Self::Running => "running",
        }
    }
}

/// What is the matter with the result of an incomplete trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Incomplete {
    /// It was never written.
    NoResult,
    /// There is nothing in it.
    Empty,
    /// It ends in the middle.
    Cut,
    /// It is there and cannot be read; the oddities say why.
    Unreadable,
}

impl Incomplete {
    pub(super) const fn from_fault(what: &What) -> Self {
        match what {
            What::Empty => Self::Empty,
            What::Cut(_) => Self::Cut,
            _ => Self::Unreadable,
        }
    }
}

impl fmt::Display for Incomplete {
    /// The name as it is written in documents.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// What went wrong in a trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// The name it has where it was written: an exception of Harbor's, or a failure mode of Terminal-Bench.
    pub exception: String,
    /// What happened, for people.
    pub message: String,
    /// Seatrial's reason for it. Taken from Seatrial's own record where that agrees, else from the name; `None` when the
    /// name may stand for anything.
    pub reason: Option<Reason>,
    /// Whose fault it is, where the reason is known.
    pub class: Option<FailureClass>,
    /// What follows from it, as written, else from the name.
    pub policy: ExceptionPolicy,
    /// Whether another try may help: what Seatrial's record says where it agrees with the result, else what the policy says.
    pub retryable: bool,
    /// The step it happened in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
}

/// One phase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PhaseView {
    /// Which.
    pub phase: Phase,
    /// The step it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// When it began.
    pub started_at: Option<Moment>,
    /// When it ended.
    pub finished_at: Option<Moment>,
    /// How it ended, where that was written.
    pub outcome: Option<PhaseOutcome>,
}

/// What came out of one step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepView {
    /// Its name.
    pub name: Option<String>,
    /// Its rewards.
    pub rewards: BTreeMap<String, f64>,
    /// What went wrong in it.
    pub failure: Option<Failure>,
}

/// What a model used. Sums over the steps of a task that has several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Tokens {
    /// Tokens in prompts, those from a cache included.
    pub input: Option<u64>,
    /// Tokens in prompts that came from a cache.
    pub cache: Option<u64>,
    /// Tokens that the model wrote.
    pub output: Option<u64>,
    /// Cost in dollars.
    pub cost_usd: Option<f64>,
}

impl Tokens {
    /// The sum with another use. A number that only one of them has is that number.
    #[must_use]
    pub(super) fn plus(self, other: Self) -> Self {
        fn sum<T>(a: Option<T>, b: Option<T>, add: impl Fn(T, T) -> T) -> Option<T> {
            match (a, b) {
                (Some(a), Some(b)) => Some(add(a, b)),
                (a, b) => a.or(b),
            }
        }
        Self {
            input: sum(self.input, other.input, u64::saturating_add),
            cache: sum(self.cache, other.cache, u64::saturating_add),
            output: sum(self.output, other.output, u64::saturating_add),
            cost_usd: sum(self.cost_usd, other.cost_usd, |a, b| a + b),
        }
    }
}
