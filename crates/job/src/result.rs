//! `result.json` of jobs and trials.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Number, Value};

use crate::{ExceptionPolicy, PolicyOverride, TrialConfig};

/// Named rewards, for computing.
pub type Rewards = BTreeMap<String, f64>;

/// A trial's `result.json`.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are Harbor's")]
pub struct TrialResult {
    pub schema_version: u32,
    pub id: String,
    pub task_name: String,
    pub trial_name: String,
    pub trial_uri: String,
    pub task_id: TaskPath,
    pub source: Option<String>,
    pub task_checksum: String,
    pub config: TrialConfig,
    pub agent_info: AgentInfo,
    pub agent_result: Option<AgentContext>,
    pub verifier_result: Option<VerifierResult>,
    pub verifier_environment_mode: Option<String>,
    pub exception_info: Option<ExceptionInfo>,
    pub started_at: Option<String>,
    pub finished_at: Option<String>,
    pub environment_setup: Option<Span>,
    pub agent_setup: Option<Span>,
    pub agent_execution: Option<Span>,
    pub verifier: Option<Span>,
    pub step_results: Option<Vec<StepResult>>,
    pub reward_valid: bool,
}

/// Identity of a local task.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are Harbor's")]
pub struct TaskPath {
    pub path: String,
}

/// The agent as it reported itself.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are Harbor's")]
pub struct AgentInfo {
    pub name: String,
    pub version: String,
    pub model_info: Option<ModelInfo>,
}

/// The model that an agent worked with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the fields are Harbor's")]
pub struct ModelInfo {
    pub name: String,
    pub provider: Option<String>,
}

/// What the agent used.
#[derive(Debug, Clone, Default, Serialize)]
#[expect(missing_docs, reason = "the fields are Harbor's")]
pub struct AgentContext {
    pub n_input_tokens: Option<u64>,
    pub n_cache_tokens: Option<u64>,
    pub n_output_tokens: Option<u64>,
    pub cost_usd: Option<f64>,
    pub model_usage: Option<BTreeMap<String, ModelUsage>>,
    pub rollout_details: Option<Value>,
    pub metadata: Option<Map<String, Value>>,
}

/// What an agent used of one model.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "the fields are Harbor's")]
pub struct ModelUsage {
    pub n_input_tokens: u64,
    pub n_cache_tokens: u64,
    pub n_output_tokens: u64,
    pub cost_usd: Option<f64>,
}

/// What the verifier said.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are Harbor's")]
pub struct VerifierResult {
    pub rewards: Option<BTreeMap<String, Number>>,
}

impl VerifierResult {
    /// Rewards as `reward.json` has them: integers stay integers.
    pub fn numbers(rewards: BTreeMap<String, Number>) -> Self {
        Self { rewards: Some(rewards) }
    }
}

/// What came out of one step of a task with several.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are Harbor's")]
pub struct StepResult {
    pub step_name: String,
    pub agent_result: Option<AgentContext>,
    pub verifier_result: Option<VerifierResult>,
    pub exception_info: Option<ExceptionInfo>,
    pub agent_execution: Option<Span>,
    pub verifier: Option<Span>,
}

/// Begin and end of a phase.
#[derive(Debug, Clone, Default, Serialize)]
#[expect(missing_docs, reason = "the fields are Harbor's")]
pub struct Span {
    pub started_at: Option<String>,
    pub finished_at: Option<String>,
}

/// A failure by Harbor's name.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are Harbor's")]
pub struct ExceptionInfo {
    pub exception_type: String,
    pub exception_message: String,
    pub exception_traceback: String,
    pub occurred_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_override: Option<PolicyOverride>,
    pub policy: ExceptionPolicy,
}

/// A job's `result.json`.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are Harbor's")]
pub struct JobResult {
    pub schema_version: u32,
    pub id: String,
    pub started_at: String,
    pub updated_at: String,
    pub finished_at: Option<String>,
    pub n_total_trials: usize,
    pub stats: JobStats,
}

/// Counts of a job.
#[derive(Debug, Clone, Default, Serialize)]
#[expect(missing_docs, reason = "the fields are Harbor's")]
pub struct JobStats {
    pub n_completed_trials: usize,
    pub n_errored_trials: usize,
    pub n_running_trials: usize,
    pub n_pending_trials: usize,
    pub n_cancelled_trials: usize,
    pub n_retries: usize,
    pub evals: BTreeMap<String, EvalStats>,
    pub n_input_tokens: Option<u64>,
    pub n_cache_tokens: Option<u64>,
    pub n_output_tokens: Option<u64>,
    pub cost_usd: Option<f64>,
}

/// Results of one agent on one source of tasks.
#[derive(Debug, Clone, Default, Serialize)]
#[expect(missing_docs, reason = "the fields are Harbor's")]
pub struct EvalStats {
    pub n_trials: usize,
    pub n_errors: usize,
    pub metrics: Vec<BTreeMap<String, f64>>,
    pub pass_at_k: BTreeMap<String, f64>,
    pub reward_stats: BTreeMap<String, BTreeMap<String, Vec<String>>>,
    pub exception_stats: BTreeMap<String, Vec<String>>,
}

/// A reward as Python prints a float: `1.0`, `0.5`, `1e-07`.
pub fn python_float(value: f64) -> String {
    let magnitude = value.abs();
    if value == 0.0 || (1e-4..1e16).contains(&magnitude) {
        return format!("{value:?}");
    }
    let text = format!("{value:e}");
    match text.split_once('e') {
        Some((digits, exponent)) => {
            let (sign, exponent) = match exponent.strip_prefix('-') {
                Some(rest) => ('-', rest),
                None => ('+', exponent),
            };
            format!("{digits}e{sign}{exponent:0>2}")
        }
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_look_like_python() {
        let pairs = [
            (1.0, "1.0"),
            (0.0, "0.0"),
            (0.5, "0.5"),
            (-1.0, "-1.0"),
            (1e-7, "1e-07"),
            (1.5e300, "1.5e+300"),
        ];
        for (value, text) in pairs {
            assert_eq!(python_float(value), text);
        }
    }
}
