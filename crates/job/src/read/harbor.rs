//! `result.json` and `config.json` of Harbor's trials, of every generation that has them.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::Moment;
use super::field::{Field, Length, Object, RewardNumber, Time};
use super::oddity::{Odd, What};
use super::outcome::decide;
use super::view::{Failure, Generation, PhaseView, StepView, Tokens, TrialState};
use crate::{ExceptionPolicy, Phase, policy_of, reason_of, rule};

/// The one version of results and configurations that there is.
const VERSION: u64 = 1;

/// A trial's `result.json`, as far as it is looked at.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ResultDocument {
    schema_version: Field<u64>,
    id: Field<String>,
    task_name: Field<String>,
    pub(super) trial_name: Field<String>,
    source: Field<String>,
    task_checksum: Field<String>,
    config: Field<Object<ConfigDocument>>,
    agent_info: Field<Object<AgentInfo>>,
    agent_result: Field<Object<AgentResult>>,
    verifier_result: Field<Object<VerifierResult>>,
    exception_info: Field<Object<ExceptionInfo>>,
    started_at: Field<Time>,
    finished_at: Field<Time>,
    environment_setup: Field<Object<Span>>,
    agent_setup: Field<Object<Span>>,
    agent_execution: Field<Object<Span>>,
    verifier: Field<Object<Span>>,
    step_results: Field<Vec<Field<Object<StepResult>>>>,
    reward_valid: Field<bool>,
    /// Only a job's result has this.
    pub(super) n_total_trials: Field<u64>,
    /// Only a job's result of Terminal-Bench has this.
    pub(super) results: Field<Length>,
}

/// A trial's `config.json`, as far as it is looked at.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ConfigDocument {
    schema_version: Field<u64>,
    pub(super) trial_name: Field<String>,
    pub(super) job_name: Field<String>,
    task: Field<Object<TaskConfig>>,
    agent: Field<Object<AgentConfig>>,
    environment: Field<Object<EnvironmentConfig>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TaskConfig {
    path: Field<String>,
    name: Field<String>,
    source: Field<String>,
}

/// An agent, as a configuration names it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct AgentConfig {
    name: Field<String>,
    import_path: Field<String>,
    model_name: Field<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct EnvironmentConfig {
    #[serde(rename = "type")]
    kind: Field<String>,
    import_path: Field<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AgentInfo {
    name: Field<String>,
    version: Field<String>,
    model_info: Field<Object<ModelInfo>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ModelInfo {
    name: Field<String>,
    provider: Field<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AgentResult {
    n_input_tokens: Field<u64>,
    n_cache_tokens: Field<u64>,
    n_output_tokens: Field<u64>,
    cost_usd: Field<f64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct VerifierResult {
    rewards: Field<BTreeMap<String, Field<RewardNumber>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ExceptionInfo {
    exception_type: Field<String>,
    exception_message: Field<String>,
    policy: Field<Object<Policy>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Policy {
    should_retry: Field<bool>,
    should_grade: Field<bool>,
    has_valid_reward: Field<bool>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Span {
    started_at: Field<Time>,
    finished_at: Field<Time>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct StepResult {
    step_name: Field<String>,
    agent_result: Field<Object<AgentResult>>,
    verifier_result: Field<Object<VerifierResult>>,
    exception_info: Field<Object<ExceptionInfo>>,
    agent_execution: Field<Object<Span>>,
    verifier: Field<Object<Span>>,
}

/// What one or several documents of Harbor's say about a trial.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub(super) generation: Option<Generation>,
    pub(super) name: Option<String>,
    pub(super) id: Option<String>,
    pub(super) task: Option<String>,
    pub(super) source: Option<String>,
    pub(super) task_checksum: Option<String>,
    pub(super) agent: Option<String>,
    pub(super) agent_version: Option<String>,
    pub(super) model: Option<String>,
    pub(super) provider: Option<String>,
    pub(super) engine: Option<String>,
    pub(super) state: Option<TrialState>,
    pub(super) rewards: BTreeMap<String, f64>,
    pub(super) started_at: Option<Moment>,
    pub(super) finished_at: Option<Moment>,
    pub(super) phases: Vec<PhaseView>,
    pub(super) steps: Vec<StepView>,
    pub(super) tokens: Tokens,
}

impl ResultDocument {
    /// Takes out what it says, and reports what is odd.
    pub(super) fn said(self, odd: &mut Odd) -> Said {
        let mut said = self
            .config
            .take("config", odd)
            .map_or_else(Said::default, |config| config.0.said("config.", odd));
        said.generation = Some(generation(self.schema_version, odd));
        said.id = self.id.take("id", odd);
        said.name = self.trial_name.take("trial_name", odd).or(said.name);
        said.task = self.task_name.take("task_name", odd).or(said.task);
        said.source = self.source.take("source", odd).or(said.source);
        said.task_checksum = self.task_checksum.take("task_checksum", odd);
        if let Some(Object(agent)) = self.agent_info.take("agent_info", odd) {
            said.agent = agent.name.take("agent_info.name", odd).or(said.agent);
            said.agent_version = agent.version.take("agent_info.version", odd);
            if let Some(Object(model)) = agent.model_info.take("agent_info.model_info", odd) {
                said.model = model.name.take("agent_info.model_info.name", odd).or(said.model);
                said.provider = model.provider.take("agent_info.model_info.provider", odd);
            }
        }
        said.tokens = tokens(self.agent_result, "agent_result", odd);
        said.rewards = rewards(self.verifier_result, "verifier_result", odd);
        let mut failures: Vec<_> = failure(self.exception_info, "exception_info", odd).into_iter().collect();
        (said.started_at, said.finished_at) =
            span(Span { started_at: self.started_at, finished_at: self.finished_at }, "", odd);
        let agent_is_null = self.agent_execution == Field::Null;
        let spans = [
            (Phase::Start, "environment_setup", self.environment_setup),
            (Phase::Setup, "agent_setup", self.agent_setup),
            (Phase::Agent, "agent_execution", self.agent_execution),
            (Phase::Verifier, "verifier", self.verifier),
        ];
        said.phases
            .extend(spans.into_iter().filter_map(|(phase, key, span)| view(phase, None, key, span, odd)));
        for (index, step) in self.step_results.take("step_results", odd).into_iter().flatten().enumerate() {
            let key = format!("step_results[{index}]");
            let Some(Object(step)) = step.take(&key, odd) else { continue };
            let name = step.step_name.take(&format!("{key}.step_name"), odd);
            let spans = [
                (Phase::Agent, format!("{key}.agent_execution"), step.agent_execution),
                (Phase::Verifier, format!("{key}.verifier"), step.verifier),
            ];
            let label = name.clone().unwrap_or_else(|| index.to_string());
            let spans =
                spans.into_iter().filter_map(|(phase, key, span)| view(phase, Some(&label), &key, span, odd));
            said.phases.extend(spans.collect::<Vec<_>>());
            said.tokens = said.tokens.plus(tokens(step.agent_result, &format!("{key}.agent_result"), odd));
            let rewards = rewards(step.verifier_result, &format!("{key}.verifier_result"), odd);
            let failure = failure(step.exception_info, &format!("{key}.exception_info"), odd)
                .map(|failure| Failure { step: Some(label), ..failure });
            failures.extend(failure.clone());
            said.steps.push(StepView { name, rewards, failure });
        }
        if agent_is_null && said.steps.is_empty() && !said.rewards.is_empty() {
            odd.add(What::NoAgent);
        }
        let claimed = self.reward_valid.take("reward_valid", odd);
        said.state = Some(decide(&said.rewards, failures, claimed, odd));
        said
    }
}

impl ConfigDocument {
    /// Takes out what it says; `at` stands before its keys in reports.
    pub(super) fn said(self, at: &str, odd: &mut Odd) -> Said {
        let key = |name: &str| format!("{at}{name}");
        let mut said = Said { name: self.trial_name.take(&key("trial_name"), odd), ..Said::default() };
        if at.is_empty() {
            said.generation = Some(generation(self.schema_version, odd));
        }
        if let Some(Object(task)) = self.task.take(&key("task"), odd) {
            let path = task.path.take(&key("task.path"), odd);
            let last = |path: String| path.trim_end_matches('/').rsplit('/').next().map(str::to_owned);
            said.task = task.name.take(&key("task.name"), odd).or_else(|| path.and_then(last));
            said.source = task.source.take(&key("task.source"), odd);
        }
        if let Some(Object(agent)) = self.agent.take(&key("agent"), odd) {
            (said.agent, said.model) = agent.names(&key("agent"), odd);
        }
        if let Some(Object(environment)) = self.environment.take(&key("environment"), odd) {
            let kind = environment.kind.take(&key("environment.type"), odd);
            let path = environment.import_path.take(&key("environment.import_path"), odd);
            // Seatrial writes its own engines the way Harbor writes foreign ones.
            said.engine =
                path.map(|path| path.strip_prefix("seatrial:").map(str::to_owned).unwrap_or(path)).or(kind);
        }
        said
    }
}

impl AgentConfig {
    /// The names of the agent and of its model.
    pub(super) fn names(self, key: &str, odd: &mut Odd) -> (Option<String>, Option<String>) {
        let name = self.name.take(&format!("{key}.name"), odd);
        let path = self.import_path.take(&format!("{key}.import_path"), odd);
        (name.or(path), self.model_name.take(&format!("{key}.model_name"), odd))
    }
}

/// Documents say their version since 0.26 or a little before.
pub(super) fn generation(version: Field<u64>, odd: &mut Odd) -> Generation {
    let is_there = version.is_there();
    match version.take("schema_version", odd) {
        Some(version) if version != VERSION => odd.add(What::UnknownVersion(version)),
        _ => {}
    }
    if is_there { Generation::Present } else { Generation::Older }
}

fn tokens(result: Field<Object<AgentResult>>, key: &str, odd: &mut Odd) -> Tokens {
    let Some(Object(result)) = result.take(key, odd) else { return Tokens::default() };
    Tokens {
        input: result.n_input_tokens.take(&format!("{key}.n_input_tokens"), odd),
        cache: result.n_cache_tokens.take(&format!("{key}.n_cache_tokens"), odd),
        output: result.n_output_tokens.take(&format!("{key}.n_output_tokens"), odd),
        cost_usd: result.cost_usd.take(&format!("{key}.cost_usd"), odd),
    }
}

fn rewards(result: Field<Object<VerifierResult>>, key: &str, odd: &mut Odd) -> BTreeMap<String, f64> {
    let Some(Object(result)) = result.take(key, odd) else { return BTreeMap::new() };
    let rewards = result.rewards.take(&format!("{key}.rewards"), odd).unwrap_or_default();
    let reward = |(name, value): (String, Field<RewardNumber>)| {
        let value = value.take(&format!("{key}.rewards.{name}"), odd)?;
        Some((name, value.0))
    };
    rewards.into_iter().filter_map(reward).collect()
}

fn failure(info: Field<Object<ExceptionInfo>>, key: &str, odd: &mut Odd) -> Option<Failure> {
    let Object(info) = info.take(key, odd)?;
    // An exception without a name is still one.
    let exception = info.exception_type.take(&format!("{key}.exception_type"), odd).unwrap_or_default();
    let message = info.exception_message.take(&format!("{key}.exception_message"), odd).unwrap_or_default();
    let known = policy_of(&exception);
    let policy = info.policy.take(&format!("{key}.policy"), odd).map_or(known, |Object(policy)| {
        let mut flag = |field: Field<bool>, name: &str, known| {
            field.take(&format!("{key}.policy.{name}"), odd).unwrap_or(known)
        };
        ExceptionPolicy {
            should_retry: flag(policy.should_retry, "should_retry", known.should_retry),
            should_grade: flag(policy.should_grade, "should_grade", known.should_grade),
            has_valid_reward: flag(policy.has_valid_reward, "has_valid_reward", known.has_valid_reward),
        }
    });
    let reason = reason_of(&exception);
    Some(Failure {
        message,
        reason,
        class: reason.map(|reason| rule(reason).class),
        policy,
        retryable: policy.should_retry,
        step: None,
        exception,
    })
}

fn view(
    phase: Phase,
    step: Option<&str>,
    key: &str,
    field: Field<Object<Span>>,
    odd: &mut Odd,
) -> Option<PhaseView> {
    let Object(field) = field.take(key, odd)?;
    let (started_at, finished_at) = span(field, key, odd);
    Some(PhaseView { phase, step: step.map(str::to_owned), started_at, finished_at, outcome: None })
}

fn span(span: Span, key: &str, odd: &mut Odd) -> (Option<Moment>, Option<Moment>) {
    let name = |end: &str| if key.is_empty() { end.to_owned() } else { format!("{key}.{end}") };
    let started_at = span.started_at.moment(&name("started_at"), odd);
    let finished_at = span.finished_at.moment(&name("finished_at"), odd);
    if let (Some(start), Some(end)) = (started_at, finished_at)
        && end < start
    {
        let key = if key.is_empty() { "the trial" } else { key };
        odd.add(What::EndsBeforeItBegins { key: key.to_owned() });
    }
    (started_at, finished_at)
}
