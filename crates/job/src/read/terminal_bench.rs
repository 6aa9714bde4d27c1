//! Results of the harness of Terminal-Bench, the ancestor of Harbor.
//!
//! A run is `<run>/<task>/<trial>/results.json`, with `run_metadata.json` and, when it ended, a `results.json` of all trials
//! beside the tasks. A trial is resolved or not, and may have a failure mode as well; where it is neither, there is no
//! reward.

use std::collections::BTreeMap;

use record::Reason;
use serde::Deserialize;

use super::field::{Field, Object, Time};
use super::harbor::Said;
use super::oddity::Odd;
use super::outcome::{REWARD, decide};
use super::view::{Failure, Generation, PhaseView, Tokens};
use crate::{ExceptionPolicy, Phase, policy_of, rule};

/// Name of the results of a trial or a run.
pub(super) const RESULTS: &str = "results.json";
/// Name of the description of a run.
pub(super) const METADATA: &str = "run_metadata.json";

/// A trial's results, by themselves or in those of the run.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct TrialResults {
    id: Field<String>,
    uuid: Field<String>,
    pub(super) trial_name: Field<String>,
    task_id: Field<String>,
    is_resolved: Field<bool>,
    failure_mode: Field<String>,
    parser_results: Field<BTreeMap<String, Field<String>>>,
    total_input_tokens: Field<u64>,
    total_output_tokens: Field<u64>,
    trial_started_at: Field<Time>,
    trial_ended_at: Field<Time>,
    agent_started_at: Field<Time>,
    agent_ended_at: Field<Time>,
    test_started_at: Field<Time>,
    test_ended_at: Field<Time>,
    /// Only the results of a run have this.
    pub(super) results: Field<super::field::Length>,
}

/// The results of a run.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RunResults {
    pub(super) results: Field<Vec<Field<Object<TrialResults>>>>,
    pub(super) n_resolved: Field<u64>,
    pub(super) n_unresolved: Field<u64>,
}

/// The description of a run.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Metadata {
    pub(super) run_id: Field<String>,
    pub(super) uuid: Field<String>,
    pub(super) agent_name: Field<String>,
    pub(super) model_name: Field<String>,
    pub(super) dataset_name: Field<String>,
    pub(super) dataset_size: Field<u64>,
    pub(super) n_attempts: Field<u64>,
    pub(super) start_time: Field<Time>,
    pub(super) end_time: Field<Time>,
}

/// What a run says about all of its trials.
#[derive(Debug, Clone, Default)]
pub(super) struct Run {
    pub(super) agent: Option<String>,
    pub(super) model: Option<String>,
    pub(super) source: Option<String>,
}

impl TrialResults {
    /// Takes out what it says, and the tests.
    pub(super) fn said(self, run: &Run, odd: &mut Odd) -> (Said, BTreeMap<String, String>) {
        let resolved = self.is_resolved.take("is_resolved", odd);
        let rewards: BTreeMap<_, _> =
            resolved.map(|resolved| (REWARD.to_owned(), f64::from(u8::from(resolved)))).into_iter().collect();
        let mode = self.failure_mode.take("failure_mode", odd);
        let failures = mode.filter(|mode| !matches!(mode.as_str(), "unset" | "none")).map(failure);
        let state = decide(&rewards, failures.into_iter().collect(), None, odd);
        let tests = self.parser_results.take("parser_results", odd).unwrap_or_default();
        let tests = tests.into_iter().filter_map(|(test, status)| {
            Some((test.clone(), status.take(&format!("parser_results.{test}"), odd)?))
        });
        let tests = tests.collect();
        let mut phase = |phase, key: &str, start: Field<Time>, end: Field<Time>| {
            let started_at = start.moment(&format!("{key}_started_at"), odd);
            let finished_at = end.moment(&format!("{key}_ended_at"), odd);
            (started_at.is_some() || finished_at.is_some()).then_some(PhaseView {
                phase,
                step: None,
                started_at,
                finished_at,
                outcome: None,
            })
        };
        let agent = phase(Phase::Agent, "agent", self.agent_started_at, self.agent_ended_at);
        let verifier = phase(Phase::Verifier, "test", self.test_started_at, self.test_ended_at);
        let said = Said {
            generation: Some(Generation::TerminalBench),
            name: self.trial_name.take("trial_name", odd),
            id: self.id.take("id", odd).or(self.uuid.take("uuid", odd)),
            task: self.task_id.take("task_id", odd),
            source: run.source.clone(),
            agent: run.agent.clone(),
            model: run.model.clone(),
            state: Some(state),
            rewards,
            started_at: self.trial_started_at.moment("trial_started_at", odd),
            finished_at: self.trial_ended_at.moment("trial_ended_at", odd),
            phases: agent.into_iter().chain(verifier).collect(),
            tokens: Tokens {
                input: self.total_input_tokens.take("total_input_tokens", odd),
                output: self.total_output_tokens.take("total_output_tokens", odd),
                ..Tokens::default()
            },
            ..Said::default()
        };
        (said, tests)
    }
}

/// A failure by its mode. Terminal-Bench counted a trial as resolved or not whatever its mode was.
fn failure(mode: String) -> Failure {
    let reason = match mode.as_str() {
        "agent_timeout" => Some(Reason::AgentTimeout),
        "test_timeout" => Some(Reason::VerifierTimeout),
        "parse_error" => Some(Reason::RewardUnparsable),
        "agent_installation_failed" => Some(Reason::AgentSetupFailed),
        "unknown_agent_error"
        | "fatal_llm_parse_error"
        | "context_length_exceeded"
        | "output_length_exceeded" => Some(Reason::AgentError),
        _ => None,
    };
    let known = policy_of(reason.map_or("", |reason| rule(reason).exception));
    Failure {
        exception: mode,
        message: String::new(),
        reason,
        class: reason.map(|reason| rule(reason).class),
        policy: ExceptionPolicy { has_valid_reward: true, ..known },
        retryable: known.should_retry,
        step: None,
    }
}

impl Metadata {
    /// What the run says about all of its trials.
    pub(super) fn run(&self) -> Run {
        let text = |field: &Field<String>| match field {
            Field::Is(text) => Some(text.clone()),
            _ => None,
        };
        Run { agent: text(&self.agent_name), model: text(&self.model_name), source: text(&self.dataset_name) }
    }
}
