//! `config.json` of jobs and trials.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::MaskedEnv;

/// A job's `config.json`.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are Harbor's, named and described in its job configuration")]
pub struct JobConfig {
    pub schema_version: u32,
    pub job_name: String,
    pub jobs_dir: String,
    pub n_attempts: u32,
    pub install_only: bool,
    pub skip_credential_checks: bool,
    pub timeout_multiplier: f64,
    pub agent_timeout_multiplier: Option<f64>,
    pub verifier_timeout_multiplier: Option<f64>,
    pub agent_setup_timeout_multiplier: Option<f64>,
    pub environment_build_timeout_multiplier: Option<f64>,
    pub debug: bool,
    pub n_concurrent_trials: usize,
    pub quiet: bool,
    pub retry: RetryConfig,
    pub override_error_policy: Map<String, Value>,
    pub environment: EnvironmentConfig,
    pub verifier: VerifierConfig,
    pub metrics: Vec<Value>,
    pub agents: Vec<AgentConfig>,
    pub user_agent: Option<Value>,
    pub datasets: Vec<Value>,
    pub tasks: Vec<TaskConfig>,
    pub artifacts: Vec<Value>,
    pub extra_instruction_paths: Vec<String>,
    pub extra_instructions: Vec<String>,
    pub source_jobs: Vec<Value>,
}

/// A trial's `config.json`.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are Harbor's, named and described in its trial configuration")]
pub struct TrialConfig {
    pub schema_version: u32,
    pub task: TaskConfig,
    pub trial_name: String,
    pub trials_dir: String,
    pub install_only: bool,
    pub timeout_multiplier: f64,
    pub agent_timeout_multiplier: Option<f64>,
    pub verifier_timeout_multiplier: Option<f64>,
    pub agent_setup_timeout_multiplier: Option<f64>,
    pub environment_build_timeout_multiplier: Option<f64>,
    pub agent: AgentConfig,
    pub user_agent: Option<Value>,
    pub environment: EnvironmentConfig,
    pub verifier: VerifierConfig,
    pub override_error_policy: Map<String, Value>,
    pub artifacts: Vec<Value>,
    pub extra_instruction_paths: Vec<String>,
    pub extra_instructions: Vec<String>,
    pub job_id: Option<String>,
    pub source_trial: Option<Value>,
}

/// Where a trial's task comes from.
#[derive(Debug, Clone, Default, Serialize)]
#[expect(missing_docs, reason = "the fields are Harbor's, named and described in its task configuration")]
pub struct TaskConfig {
    pub path: String,
    pub git_url: Option<String>,
    pub git_commit_id: Option<String>,
    pub name: Option<String>,
    #[serde(rename = "ref")]
    pub reference: Option<String>,
    pub overwrite: bool,
    pub download_dir: Option<String>,
    pub source: Option<String>,
}

/// When a failed trial is tried again.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are Harbor's, named and described in its retry configuration")]
pub struct RetryConfig {
    pub max_retries: u32,
    pub include_exceptions: Option<Vec<String>>,
    pub exclude_exceptions: Vec<String>,
    pub wait_multiplier: f64,
    pub min_wait_sec: f64,
    pub max_wait_sec: f64,
}

impl Default for RetryConfig {
    fn default() -> Self {
        Self {
            max_retries: 0,
            include_exceptions: None,
            exclude_exceptions: crate::never_retried(),
            wait_multiplier: 1.0,
            min_wait_sec: 1.0,
            max_wait_sec: 60.0,
        }
    }
}

/// The agent of a trial.
#[derive(Debug, Clone, Default, Serialize)]
#[expect(missing_docs, reason = "the fields are Harbor's, named and described in its agent configuration")]
pub struct AgentConfig {
    pub name: Option<String>,
    pub import_path: Option<String>,
    pub model_name: Option<String>,
    pub base_url: Option<String>,
    pub model_api_key_name: Option<String>,
    pub model_api_format: Option<String>,
    pub skip_model_parsing: bool,
    pub n_concurrent: Option<u32>,
    pub concurrency_group: Option<String>,
    pub skills: Vec<String>,
    pub override_timeout_sec: Option<f64>,
    pub override_setup_timeout_sec: Option<f64>,
    pub max_timeout_sec: Option<f64>,
    pub resume_trajectory: bool,
    pub load_trajectory: Option<String>,
    pub extra_allowed_hosts: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub include_logs: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exclude_logs: Vec<String>,
    pub kwargs: Map<String, Value>,
    #[serde(skip_serializing_if = "MaskedEnv::is_empty")]
    pub env: MaskedEnv,
    pub mcp_servers: Vec<Value>,
}

/// The engine of a trial and its overrides.
#[derive(Debug, Clone, Serialize)]
#[expect(
    missing_docs,
    reason = "the fields are Harbor's, named and described in its environment configuration"
)]
pub struct EnvironmentConfig {
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub import_path: Option<String>,
    pub force_build: bool,
    pub delete: bool,
    pub stream: bool,
    pub cpu_enforcement_policy: String,
    pub memory_enforcement_policy: String,
    pub override_cpus: Option<f64>,
    pub override_memory_mb: Option<u64>,
    pub override_storage_mb: Option<u64>,
    pub override_gpus: Option<u64>,
    pub override_tpu: Option<Value>,
    pub mounts: Option<Value>,
    pub extra_docker_compose: Vec<String>,
    #[serde(skip_serializing_if = "MaskedEnv::is_empty")]
    pub env: MaskedEnv,
    pub kwargs: Map<String, Value>,
    pub extra_allowed_hosts: Vec<String>,
}

impl EnvironmentConfig {
    /// The configuration for an engine by Seatrial's name of it.
    pub fn for_engine(engine: &str) -> Self {
        // Harbor accepts any text as an import path and refuses kinds that it does not know.
        let known = engine == "docker";
        Self {
            kind: known.then(|| engine.to_owned()),
            import_path: (!known).then(|| format!("seatrial:{engine}")),
            force_build: false,
            delete: true,
            stream: false,
            cpu_enforcement_policy: "auto".into(),
            memory_enforcement_policy: "auto".into(),
            override_cpus: None,
            override_memory_mb: None,
            override_storage_mb: None,
            override_gpus: None,
            override_tpu: None,
            mounts: None,
            extra_docker_compose: Vec::new(),
            env: MaskedEnv::default(),
            kwargs: Map::new(),
            extra_allowed_hosts: Vec::new(),
        }
    }
}

/// Overrides of the verifier.
#[derive(Debug, Clone, Default, Serialize)]
#[expect(missing_docs, reason = "the fields are Harbor's, named and described in its verifier configuration")]
pub struct VerifierConfig {
    pub override_timeout_sec: Option<f64>,
    pub max_timeout_sec: Option<f64>,
    pub disable: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub include_logs: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exclude_logs: Vec<String>,
    #[serde(skip_serializing_if = "MaskedEnv::is_empty")]
    pub env: MaskedEnv,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub import_path: Option<String>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub kwargs: Map<String, Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extra_allowed_hosts: Vec<String>,
}
