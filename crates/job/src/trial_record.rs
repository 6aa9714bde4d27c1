//! `seatrial.json`: what Seatrial knows about a trial beyond Harbor's documents.

use std::collections::BTreeMap;

use artifact::Document;
use ident::Digest;
use record::{Outcome, Reason};
use serde::{Deserialize, Serialize};
use serde_json::Number;

/// Name of the record in a trial's directory.
pub const TRIAL_RECORD: &str = "seatrial.json";

/// Seatrial's record of one finished trial. [`artifact::store`] writes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialRecord {
    /// [`TrialRecord::SCHEMA`](Document::SCHEMA).
    pub schema: String,
    /// Name of the trial, which is that of its directory.
    pub trial: String,
    /// Name of the task.
    pub task: String,
    /// Tree digest of the task's directory.
    pub tree_digest: Digest,
    /// Name of the agent.
    pub agent: String,
    /// What the agent did with a model, where it is one that asks a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelWork>,
    /// Which of the attempts of the agent at the task this is, from 0.
    pub attempt: u32,
    /// Name of the engine.
    pub engine: String,
    /// Identity of the root file system; `None` when there was none yet.
    #[serde(default)]
    pub image_digest: Option<String>,
    /// What came out.
    pub outcome: Outcome,
    /// All rewards that the verifier named; `None` when there are none.
    #[serde(default)]
    pub rewards: Option<BTreeMap<String, Number>>,
    /// What went wrong; a reward may stand beside it, as when an agent that ran into its limit was graded.
    #[serde(default)]
    pub exception: Option<Reason>,
    /// What is noted beside a reward that stands: one outside [0, 1], or a tool that the verifier did not find.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<Flag>,
    /// The phases that were begun, in order.
    pub phases: Vec<PhaseRecord>,
    /// Status of every required test, where the verifier reported them.
    #[serde(default)]
    pub tests: BTreeMap<String, String>,
    /// What the sandbox used.
    #[serde(default)]
    pub usage: Usage,
    /// Wall-clock time of the whole trial in milliseconds.
    pub wall_ms: u64,
    /// When it ended, RFC 3339 in UTC.
    pub ended_at: String,
    /// Earlier tries of the same attempt that were given up, the oldest first.
    #[serde(default)]
    pub retries: Vec<EarlierTry>,
}

impl Document for TrialRecord {
    const SCHEMA: &'static str = "seatrial.trial/1";
    const STAGE: &'static str = "run";
}

/// What an agent did with a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelWork {
    /// Name of the model.
    pub name: String,
    /// How the work ended: `submitted`, `step_limit`, `cost_limit`, `token_limit`, or what `exception` says in other words.
    pub end: String,
    /// Answers of the model.
    pub turns: u32,
    /// Tokens of all prompts, those from a cache included; `None` as soon as one answer did not say.
    pub input_tokens: Option<u64>,
    /// Tokens of prompts from a cache.
    pub cache_tokens: Option<u64>,
    /// Tokens of all answers.
    pub output_tokens: Option<u64>,
    /// Dollars.
    pub cost_usd: Option<f64>,
}

/// A doubt about a reward that takes nothing away from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flag {
    /// What about it, by the reason that it would be if there were no reward.
    pub reason: Reason,
    /// What was seen, for people.
    pub detail: String,
}

/// A part of a trial's life. The list is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The image is fetched or built.
    Build,
    /// The sandbox is started.
    Start,
    /// The task's healthcheck is asked.
    Healthcheck,
    /// The agent is installed.
    Setup,
    /// The agent works.
    Agent,
    /// Logs and artifacts are brought out.
    Collect,
    /// The verifier works.
    Verifier,
    /// The sandbox is removed.
    Destroy,
}

impl Phase {
    /// The name as it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Build => "build",
            Self::Start => "start",
            Self::Healthcheck => "healthcheck",
            Self::Setup => "setup",
            Self::Agent => "agent",
            Self::Collect => "collect",
            Self::Verifier => "verifier",
            Self::Destroy => "destroy",
        }
    }
}

/// One phase of a trial that was begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseRecord {
    /// Which.
    pub phase: Phase,
    /// The step that it belongs to, in tasks of several steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// When it began, RFC 3339 in UTC.
    pub started_at: String,
    /// When it ended, RFC 3339 in UTC; `None` when it never did.
    pub finished_at: Option<String>,
    /// How it ended.
    pub outcome: PhaseOutcome,
}

/// How a phase ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PhaseOutcome {
    /// It did what it should.
    Done,
    /// It failed.
    Failed(Reason),
    /// It was broken off because something else failed, or on request.
    Stopped,
}

/// What a sandbox used. What could not be measured is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Most memory at any moment, in bytes.
    #[serde(default)]
    pub peak_memory: Option<u64>,
    /// How many processes were killed for want of memory.
    #[serde(default)]
    pub oom_kills: Option<u64>,
    /// Processor time in milliseconds.
    #[serde(default)]
    pub cpu_ms: Option<u64>,
}

/// A try that was given up for another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlierTry {
    /// Its directory, relative to the job's.
    pub trial: String,
    /// Why it had no reward.
    pub reason: Reason,
    /// What happened, for people.
    pub detail: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> TrialRecord {
        TrialRecord {
            schema: TrialRecord::SCHEMA.into(),
            trial: "a__1".into(),
            task: "org/a".into(),
            tree_digest: Digest::of("a"),
            agent: "oracle".into(),
            model: None,
            attempt: 0,
            engine: "native".into(),
            image_digest: None,
            outcome: Outcome::Reward(0.5),
            rewards: None,
            exception: None,
            flags: Vec::new(),
            phases: vec![PhaseRecord {
                phase: Phase::Agent,
                step: None,
                started_at: "2026-01-01T00:00:00Z".into(),
                finished_at: None,
                outcome: PhaseOutcome::Failed(Reason::AgentTimeout),
            }],
            tests: BTreeMap::new(),
            usage: Usage { peak_memory: Some(1), ..Usage::default() },
            wall_ms: 1,
            ended_at: "2026-01-01T00:00:01Z".into(),
            retries: Vec::new(),
        }
    }

    #[test]
    fn a_record_comes_back_as_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(TRIAL_RECORD);
        artifact::store(&path, &record()).unwrap();
        let (read, _) = artifact::load::<TrialRecord>(&path).unwrap();
        assert_eq!(read, record());
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("\"outcome\":{\"failed\":\"agent_timeout\"}"), "{text}");
        assert!(text.contains("\"usage\":{\"cpu_ms\":null,\"oom_kills\":null,\"peak_memory\":1}"), "{text}");
    }

    #[test]
    fn phases_have_the_names_that_are_written() {
        use Phase::{Agent, Build, Collect, Destroy, Healthcheck, Setup, Start, Verifier};
        for phase in [Build, Start, Healthcheck, Setup, Agent, Collect, Verifier, Destroy] {
            assert_eq!(serde_json::to_value(phase).unwrap(), phase.name());
        }
    }
}
