//! The documents of a job and its trials, filled in.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use artifact::Document as _;
use jiff::Timestamp;
use job::{
    AgentConfig, AgentContext, AgentInfo, EarlierTry, EnvironmentConfig, ExceptionInfo, JobConfig, ModelInfo,
    ModelUsage, ModelWork, Phase, RetryConfig, TaskConfig, TaskPath, TrialConfig, TrialRecord, TrialResult,
    VerifierConfig, VerifierResult,
};
use record::Reason;
use serde_json::Map;

use crate::jobs::{JobSpec, PlannedTrial};
use crate::life::Lived;
use crate::{Agent, Model, TrialTask};

/// A job's `config.json`.
pub(crate) fn job_config<'a>(
    spec: &JobSpec,
    engine: &str,
    slots: usize,
    tasks: impl IntoIterator<Item = &'a TrialTask>,
) -> JobConfig {
    JobConfig {
        schema_version: 1,
        job_name: spec.name.clone(),
        jobs_dir: spec.jobs_dir.display().to_string(),
        n_attempts: spec.attempts,
        install_only: false,
        skip_credential_checks: false,
        timeout_multiplier: spec.budgets.timeout_multiplier,
        agent_timeout_multiplier: spec.budgets.agent.multiplier,
        verifier_timeout_multiplier: spec.budgets.verifier.multiplier,
        agent_setup_timeout_multiplier: spec.budgets.setup.multiplier,
        environment_build_timeout_multiplier: spec.budgets.build.multiplier,
        debug: false,
        n_concurrent_trials: slots,
        quiet: false,
        retry: retry_config(spec),
        override_error_policy: Map::new(),
        environment: EnvironmentConfig::for_engine(engine),
        verifier: verifier_config(spec),
        metrics: Vec::new(),
        agents: spec.agents.iter().map(|agent| agent_config(*agent, spec)).collect(),
        user_agent: None,
        datasets: Vec::new(),
        tasks: tasks.into_iter().map(task_config).collect(),
        artifacts: Vec::new(),
        extra_instruction_paths: Vec::new(),
        extra_instructions: Vec::new(),
        source_jobs: Vec::new(),
    }
}

/// When a failed trial is tried again.
pub(crate) fn retry_config(spec: &JobSpec) -> RetryConfig {
    RetryConfig { max_retries: spec.max_retries, wait_multiplier: 2.0, ..RetryConfig::default() }
}

/// A trial's `config.json`.
pub(crate) fn trial_config(
    trial: &PlannedTrial,
    spec: &JobSpec,
    job: &Path,
    job_id: &str,
    engine: &str,
) -> TrialConfig {
    TrialConfig {
        schema_version: 1,
        task: task_config(&trial.task),
        trial_name: trial.name.clone(),
        trials_dir: job.display().to_string(),
        install_only: false,
        timeout_multiplier: spec.budgets.timeout_multiplier,
        agent_timeout_multiplier: spec.budgets.agent.multiplier,
        verifier_timeout_multiplier: spec.budgets.verifier.multiplier,
        agent_setup_timeout_multiplier: spec.budgets.setup.multiplier,
        environment_build_timeout_multiplier: spec.budgets.build.multiplier,
        agent: agent_config(trial.agent, spec),
        user_agent: None,
        environment: EnvironmentConfig::for_engine(engine),
        verifier: verifier_config(spec),
        override_error_policy: Map::new(),
        artifacts: Vec::new(),
        extra_instruction_paths: Vec::new(),
        extra_instructions: Vec::new(),
        job_id: Some(job_id.to_owned()),
        source_trial: None,
    }
}

/// Seatrial's own record of an ended trial.
pub(crate) fn trial_record(
    trial: &PlannedTrial,
    engine: &str,
    lived: &Lived,
    retries: &[EarlierTry],
    wall: Duration,
    ended: Timestamp,
) -> TrialRecord {
    TrialRecord {
        schema: TrialRecord::SCHEMA.into(),
        trial: trial.name.clone(),
        task: trial.task.name.clone(),
        tree_digest: trial.task.digests.tree_digest,
        agent: trial.agent.name().into(),
        model: lived.model.clone(),
        attempt: trial.attempt,
        engine: engine.to_owned(),
        image_digest: lived.image_digest.clone(),
        outcome: lived.outcome.clone(),
        rewards: lived.rewards.clone(),
        exception: lived.exception.as_ref().map(|(reason, _)| *reason),
        flags: lived.flags.clone(),
        phases: lived.phases.clone(),
        tests: lived.tests.clone(),
        usage: lived.usage,
        wall_ms: u64::try_from(wall.as_millis()).unwrap_or(u64::MAX),
        ended_at: ended.to_string(),
        retries: retries.to_vec(),
    }
}

/// A trial's `result.json`.
pub(crate) fn trial_result(
    trial: &PlannedTrial,
    job: &Path,
    config: TrialConfig,
    model: Option<&Model>,
    lived: &Lived,
    started: Timestamp,
    ended: Timestamp,
) -> TrialResult {
    let task = &trial.task;
    let exception_info =
        lived.exception.as_ref().map(|(reason, detail)| exception_info(*reason, detail, ended));
    let counts = exception_info.as_ref().is_none_or(|exception| exception.policy.has_valid_reward);
    let several = lived.steps.is_some();
    TrialResult {
        schema_version: 1,
        id: uuid::Uuid::new_v4().to_string(),
        task_name: task.name.clone(),
        trial_name: trial.name.clone(),
        trial_uri: format!("file://{}", absolute(&job.join(&trial.name)).display()),
        task_id: TaskPath { path: task.directory.display().to_string() },
        source: task.source.clone(),
        task_checksum: task.digests.task_checksum.hex(),
        agent_info: AgentInfo {
            name: trial.agent.name().into(),
            version: trial.agent.version().into(),
            model_info: model.map(|model| ModelInfo { name: model.name().to_owned(), provider: None }),
        },
        agent_result: (!several && lived.span(Phase::Agent).is_some())
            .then(|| agent_context(lived.model.as_ref())),
        reward_valid: counts && lived.rewards.is_some(),
        verifier_result: lived.rewards.clone().map(VerifierResult::numbers),
        verifier_environment_mode: (!several).then(|| lived.verifier_mode.to_owned()),
        exception_info,
        started_at: Some(job::utc(started)),
        finished_at: Some(job::utc(ended)),
        environment_setup: lived.span(Phase::Start),
        agent_setup: lived.span(Phase::Setup),
        agent_execution: if several { None } else { lived.span(Phase::Agent) },
        verifier: if several { None } else { lived.span(Phase::Verifier) },
        step_results: lived.steps.clone(),
        config,
    }
}

/// What an agent used, as Harbor's results show it.
pub(crate) fn agent_context(work: Option<&ModelWork>) -> AgentContext {
    let Some(work) = work else { return AgentContext::default() };
    let usage = ModelUsage {
        n_input_tokens: work.input_tokens.unwrap_or(0),
        n_cache_tokens: work.cache_tokens.unwrap_or(0),
        n_output_tokens: work.output_tokens.unwrap_or(0),
        cost_usd: work.cost_usd,
    };
    // The table of models has no place for what is unknown.
    let known = work.input_tokens.is_some() && work.output_tokens.is_some();
    let metadata = [("n_episodes", work.turns.into()), ("end", work.end.clone().into())];
    AgentContext {
        n_input_tokens: work.input_tokens,
        n_cache_tokens: work.cache_tokens,
        n_output_tokens: work.output_tokens,
        cost_usd: work.cost_usd,
        model_usage: known.then(|| BTreeMap::from([(work.name.clone(), usage)])),
        rollout_details: None,
        metadata: Some(metadata.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
    }
}

/// A failure by Harbor's name.
pub(crate) fn exception_info(reason: Reason, detail: &str, at: Timestamp) -> ExceptionInfo {
    let exception = job::rule(reason).exception;
    ExceptionInfo {
        exception_type: exception.into(),
        exception_message: detail.to_owned(),
        exception_traceback: format!("{exception}: {detail}\n"),
        occurred_at: job::utc(at),
        policy_override: None,
        policy: job::policy_of(exception),
    }
}

fn task_config(task: &TrialTask) -> TaskConfig {
    TaskConfig {
        path: task.directory.display().to_string(),
        source: task.source.clone(),
        ..TaskConfig::default()
    }
}

fn agent_config(agent: Agent, spec: &JobSpec) -> AgentConfig {
    let model = agent_model(agent, spec);
    AgentConfig {
        name: Some(agent.name().into()),
        model_name: model.map(|model| model.name().to_owned()),
        base_url: model.map(|model| model.client.settings().url.clone()),
        model_api_format: model.map(|_| "openai_chat_completions".to_owned()),
        override_timeout_sec: spec.budgets.agent.override_sec,
        max_timeout_sec: spec.budgets.agent.max_sec,
        override_setup_timeout_sec: spec.budgets.setup.override_sec,
        ..AgentConfig::default()
    }
}

/// The run's model, for an agent that asks one.
pub(crate) fn agent_model(agent: Agent, spec: &JobSpec) -> Option<&Model> {
    spec.model.as_deref().filter(|_| agent.asks_model())
}

fn verifier_config(spec: &JobSpec) -> VerifierConfig {
    VerifierConfig {
        override_timeout_sec: spec.budgets.verifier.override_sec,
        max_timeout_sec: spec.budgets.verifier.max_sec,
        ..VerifierConfig::default()
    }
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
