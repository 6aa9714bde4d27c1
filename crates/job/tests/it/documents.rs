//! What is written, held against what Harbor wrote.

use std::path::Path;

use job::{
    AgentConfig, AgentContext, AgentInfo, EnvironmentConfig, EvalStats, ExceptionInfo, JobConfig, JobResult,
    JobStats, Span, StepResult, TaskConfig, TaskPath, TrialConfig, TrialResult, VerifierConfig,
    VerifierResult,
};
use serde_json::Value;

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// The keys at every depth, in order.
fn keys(value: &Value) -> Vec<String> {
    match value {
        Value::Object(map) => map
            .iter()
            .flat_map(|(key, value)| {
                std::iter::once(key.clone())
                    .chain(keys(value).into_iter().map(move |inner| format!("{key}.{inner}")))
            })
            .collect(),
        _ => Vec::new(),
    }
}

#[test]
fn retry_defaults_are_harbors() {
    let Some(jobs) = corpus::find("data/harbor-0.26-jobs") else { return };
    let written = serde_json::to_value(job::RetryConfig::default()).unwrap();
    assert_eq!(written, json(&jobs.join("odd/config.json"))["retry"]);
}

#[test]
fn the_lock_of_a_job_has_harbors_shape() {
    let Some(jobs) = corpus::find("data/harbor-0.26-jobs") else { return };
    let theirs = json(&jobs.join("one/lock.json"));
    let trials = theirs["trials"].as_array().unwrap().iter().cloned().map(Ok);
    let retry = job::RetryConfig::default();
    let ours = job::job_lock_text(jiff::Timestamp::UNIX_EPOCH, 1, &retry, trials).unwrap();
    let ours: Value = serde_json::from_str(&ours).unwrap();
    let without_version =
        |keys: Vec<String>| keys.into_iter().filter(|key| !key.starts_with("harbor.")).collect::<Vec<_>>();
    assert_eq!(without_version(keys(&ours)), without_version(keys(&theirs)));
    assert_eq!((&ours["retry"], &ours["trials"]), (&theirs["retry"], &theirs["trials"]));
}

#[test]
fn a_manifest_is_written_as_harbor_writes_it() {
    let Some(jobs) = corpus::find("data/harbor-0.26-jobs") else { return };
    let mut seen = 0;
    for trial in std::fs::read_dir(jobs.join("eight-n4")).unwrap() {
        let path = trial.unwrap().path().join("artifacts/manifest.json");
        let Ok(text) = std::fs::read_to_string(path) else { continue };
        let entries: Vec<job::ArtifactEntry> = serde_json::from_str(&text).unwrap();
        assert_eq!(job::manifest_text(&entries).unwrap(), text);
        seen += 1;
    }
    assert_eq!(seen, 8);
}

#[test]
fn policies_are_those_that_harbor_wrote() {
    let Some(jobs) = corpus::find("data/harbor-0.26-jobs") else { return };
    let odd = job::read_job(&jobs.join("odd")).unwrap();
    let failures: Vec<_> = odd.trials.iter().filter_map(|trial| trial.state.failure()).collect();
    assert_eq!(failures.len(), 1);
    assert_eq!(failures[0].policy, job::policy_of(&failures[0].exception));
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap().to_owned()
}

fn maybe_text(value: &Value, key: &str) -> Option<String> {
    value[key].as_str().map(str::to_owned)
}

fn oracle() -> AgentConfig {
    AgentConfig { name: Some("oracle".into()), ..AgentConfig::default() }
}

fn trial_config(theirs: &Value) -> TrialConfig {
    TrialConfig {
        schema_version: 1,
        task: TaskConfig {
            path: text(&theirs["task"], "path"),
            source: maybe_text(&theirs["task"], "source"),
            ..TaskConfig::default()
        },
        trial_name: text(theirs, "trial_name"),
        trials_dir: text(theirs, "trials_dir"),
        install_only: false,
        timeout_multiplier: 1.0,
        agent_timeout_multiplier: None,
        verifier_timeout_multiplier: None,
        agent_setup_timeout_multiplier: None,
        environment_build_timeout_multiplier: None,
        agent: oracle(),
        user_agent: None,
        environment: EnvironmentConfig::for_engine("docker"),
        verifier: VerifierConfig::default(),
        override_error_policy: serde_json::Map::new(),
        artifacts: Vec::new(),
        extra_instruction_paths: Vec::new(),
        extra_instructions: Vec::new(),
        job_id: maybe_text(theirs, "job_id"),
        source_trial: None,
    }
}

fn span(theirs: &Value) -> Option<Span> {
    let span = || Span {
        started_at: maybe_text(theirs, "started_at"),
        finished_at: maybe_text(theirs, "finished_at"),
    };
    theirs.is_object().then(span)
}

fn rewards(theirs: &Value) -> Option<VerifierResult> {
    let rewards = theirs["rewards"].as_object()?;
    let number = |(name, value): (&String, &Value)| Some((name.clone(), value.as_number()?.clone()));
    Some(VerifierResult::numbers(rewards.iter().filter_map(number).collect()))
}

fn exception(theirs: &Value) -> Option<ExceptionInfo> {
    let exception_type = maybe_text(theirs, "exception_type")?;
    Some(ExceptionInfo {
        policy: job::policy_of(&exception_type),
        exception_type,
        exception_message: text(theirs, "exception_message"),
        exception_traceback: text(theirs, "exception_traceback"),
        occurred_at: text(theirs, "occurred_at"),
        policy_override: None,
    })
}

fn step(theirs: &Value) -> StepResult {
    StepResult {
        step_name: text(theirs, "step_name"),
        agent_result: theirs["agent_result"].is_object().then(AgentContext::default),
        verifier_result: rewards(&theirs["verifier_result"]),
        exception_info: exception(&theirs["exception_info"]),
        agent_execution: span(&theirs["agent_execution"]),
        verifier: span(&theirs["verifier"]),
    }
}

fn trial_result(theirs: &Value) -> TrialResult {
    TrialResult {
        schema_version: 1,
        id: text(theirs, "id"),
        task_name: text(theirs, "task_name"),
        trial_name: text(theirs, "trial_name"),
        trial_uri: text(theirs, "trial_uri"),
        task_id: TaskPath { path: text(&theirs["task_id"], "path") },
        source: maybe_text(theirs, "source"),
        task_checksum: text(theirs, "task_checksum"),
        config: trial_config(&theirs["config"]),
        agent_info: AgentInfo { name: "oracle".into(), version: "1.0.0".into(), model_info: None },
        agent_result: theirs["agent_result"].is_object().then(AgentContext::default),
        verifier_result: rewards(&theirs["verifier_result"]),
        verifier_environment_mode: maybe_text(theirs, "verifier_environment_mode"),
        exception_info: exception(&theirs["exception_info"]),
        started_at: maybe_text(theirs, "started_at"),
        finished_at: maybe_text(theirs, "finished_at"),
        environment_setup: span(&theirs["environment_setup"]),
        agent_setup: span(&theirs["agent_setup"]),
        agent_execution: span(&theirs["agent_execution"]),
        verifier: span(&theirs["verifier"]),
        step_results: theirs["step_results"].as_array().map(|steps| steps.iter().map(step).collect()),
        reward_valid: theirs["reward_valid"] == true,
    }
}

#[test]
fn trials_are_written_byte_for_byte_as_harbor_writes_them() {
    let Some(jobs) = corpus::find("data/harbor-0.26-jobs") else { return };
    for trial in ["odd/noreward__bZGuFuD", "one/trivial-00__uCWA8n3"] {
        let theirs = |name: &str| std::fs::read_to_string(jobs.join(trial).join(name)).unwrap();
        let result = theirs("result.json");
        let value: Value = serde_json::from_str(&result).unwrap();
        assert_eq!(job::to_text(&trial_result(&value)).unwrap(), result, "{trial}");
        assert_eq!(job::to_text(&trial_config(&value["config"])).unwrap(), theirs("config.json"), "{trial}");
    }
    // The rewards of a step are sorted here; Harbor keeps the order in which the verifier wrote them.
    let steps = json(&jobs.join("odd/multi__Mg87sFf/result.json"));
    let ours = job::to_text(&trial_result(&steps)).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&ours).unwrap(), steps);
    assert!(ours.contains("\"reward\": 1\n"), "integers stay integers");
    let trial = jobs.join("one/trivial-00__uCWA8n3");
    let theirs = std::fs::read_to_string(trial.join("lock.json")).unwrap();
    let value: Value = serde_json::from_str(&theirs).unwrap();
    let digest =
        serde_json::from_value(text(&value["task"], "digest").trim_start_matches("sha256:").into()).unwrap();
    let config = trial_config(&json(&trial.join("config.json")));
    let ours = job::trial_lock(&config, &text(&value["task"], "name"), &digest).unwrap();
    assert_eq!(job::to_text(&ours).unwrap(), theirs);
}

#[test]
fn a_jobs_configuration_is_written_byte_for_byte_as_harbor_writes_it() {
    let Some(jobs) = corpus::find("data/harbor-0.26-jobs") else { return };
    let theirs = std::fs::read_to_string(jobs.join("odd/config.json")).unwrap();
    let value: Value = serde_json::from_str(&theirs).unwrap();
    let ours = JobConfig {
        schema_version: 1,
        job_name: "odd".into(),
        jobs_dir: "/data/jobs".into(),
        n_attempts: 1,
        install_only: false,
        skip_credential_checks: false,
        timeout_multiplier: 1.0,
        agent_timeout_multiplier: None,
        verifier_timeout_multiplier: None,
        agent_setup_timeout_multiplier: None,
        environment_build_timeout_multiplier: None,
        debug: false,
        n_concurrent_trials: 2,
        quiet: true,
        retry: job::RetryConfig::default(),
        override_error_policy: serde_json::Map::new(),
        environment: EnvironmentConfig::for_engine("docker"),
        verifier: VerifierConfig::default(),
        metrics: Vec::new(),
        agents: vec![oracle()],
        user_agent: None,
        datasets: value["datasets"].as_array().unwrap().clone(),
        tasks: Vec::new(),
        artifacts: Vec::new(),
        extra_instruction_paths: Vec::new(),
        extra_instructions: Vec::new(),
        source_jobs: Vec::new(),
    };
    assert_eq!(job::to_text(&ours).unwrap(), theirs);
}

#[test]
fn a_jobs_result_is_written_byte_for_byte_as_harbor_writes_it() {
    let Some(jobs) = corpus::find("data/harbor-0.26-jobs") else { return };
    let theirs = std::fs::read_to_string(jobs.join("odd/result.json")).unwrap();
    let value: Value = serde_json::from_str(&theirs).unwrap();
    let eval: &Value = &value["stats"]["evals"]["oracle__odd"];
    let stats = EvalStats {
        n_trials: 1,
        n_errors: 1,
        metrics: serde_json::from_value(eval["metrics"].clone()).unwrap(),
        pass_at_k: std::collections::BTreeMap::new(),
        reward_stats: serde_json::from_value(eval["reward_stats"].clone()).unwrap(),
        exception_stats: serde_json::from_value(eval["exception_stats"].clone()).unwrap(),
    };
    let ours = JobResult {
        schema_version: 1,
        id: text(&value, "id"),
        started_at: text(&value, "started_at"),
        updated_at: text(&value, "updated_at"),
        finished_at: maybe_text(&value, "finished_at"),
        n_total_trials: 2,
        stats: JobStats {
            n_completed_trials: 2,
            n_errored_trials: 1,
            evals: [("oracle__odd".to_owned(), stats)].into(),
            ..JobStats::default()
        },
    };
    assert_eq!(job::to_text(&ours).unwrap(), theirs);
}
