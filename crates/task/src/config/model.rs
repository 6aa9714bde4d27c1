//! The typed content of `task.toml`.

use std::collections::BTreeMap;

/// A task's configuration with every old spelling already translated.
///
/// An absent resource is `None`: no limit was asked for. Durations are in seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskConfig {
    /// The schema that the file names; `1.4` when it names none.
    pub schema_version: String,
    /// Where the task comes from, in the author's words.
    pub source: Option<String>,
    /// How the rewards of several steps become one.
    pub multi_step_reward_strategy: Option<RewardStrategy>,
    /// What is kept of the environment after the agent.
    pub artifacts: Vec<Artifact>,
    /// The steps; empty for a task of a single step.
    pub steps: Vec<Step>,
    /// The author's free table.
    pub metadata: toml::Table,
    /// Package identity.
    pub package: Option<Package>,
    /// Limits and user of the agent.
    pub agent: AgentConfig,
    /// Limits and environment of the verifier.
    pub verifier: VerifierConfig,
    /// The environment that agent and, usually, verifier run in.
    pub environment: EnvironmentConfig,
    /// Environment variables of the reference solution; values may be host templates.
    pub solution_env: BTreeMap<String, String>,
}

/// `[task]`: the package identity.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Package {
    /// `org/name`.
    pub name: String,
    /// Version of the package.
    pub version: Option<String>,
    /// One line about the task.
    pub description: String,
    /// Names of the authors.
    pub authors: Vec<String>,
    /// Keywords.
    pub keywords: Vec<String>,
}

/// How the rewards of several steps become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RewardStrategy {
    /// The mean of the steps.
    Mean,
    /// The last step alone.
    Final,
}

/// `[agent]`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AgentConfig {
    /// Time limit; `None` means that the task sets none.
    pub timeout_sec: Option<f64>,
    /// The user to run as; numbers as text.
    pub user: Option<String>,
    /// Network of this phase, where it differs from the environment's.
    pub network: Option<Network>,
}

/// `[verifier]`.
#[derive(Debug, Clone, PartialEq)]
pub struct VerifierConfig {
    /// Time limit.
    pub timeout_sec: f64,
    /// Environment variables; values may be host templates such as `${NAME:-default}`.
    pub env: BTreeMap<String, String>,
    /// The user to run as; numbers as text.
    pub user: Option<String>,
    /// Whether the verifier runs where the agent ran.
    pub mode: VerifierMode,
    /// The verifier's own environment.
    pub environment: Option<Box<EnvironmentConfig>>,
    /// Commands between agent and artifact collection.
    pub collect: Vec<CollectStep>,
    /// Network of this phase, where it differs from the environment's.
    pub network: Option<Network>,
}

impl Default for VerifierConfig {
    fn default() -> Self {
        Self {
            timeout_sec: 600.0,
            env: BTreeMap::new(),
            user: None,
            mode: VerifierMode::Shared,
            environment: None,
            collect: Vec::new(),
            network: None,
        }
    }
}

/// Where the verifier runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerifierMode {
    /// In the agent's environment.
    Shared,
    /// In one of its own; only artifacts cross over.
    Separate,
}

/// One command of `[[verifier.collect]]`.
#[derive(Debug, Clone, PartialEq)]
pub struct CollectStep {
    /// The shell command.
    pub command: String,
    /// The compose service it runs in.
    pub service: String,
    /// Time limit.
    pub timeout_sec: f64,
    /// The user to run as.
    pub user: Option<String>,
}

/// `[environment]`, also inside `[verifier]`.
#[derive(Debug, Clone, PartialEq)]
pub struct EnvironmentConfig {
    /// Time limit of the whole environment start.
    pub build_timeout_sec: f64,
    /// A prebuilt image in place of a Dockerfile.
    pub docker_image: Option<String>,
    /// Operating system of the image.
    pub os: Os,
    /// Processors.
    pub cpus: Option<f64>,
    /// Memory in MiB.
    pub memory_mb: Option<u64>,
    /// Disk space in MiB.
    pub storage_mb: Option<u64>,
    /// Number of GPUs.
    pub gpus: Option<u64>,
    /// Acceptable kinds of GPU; `None` means any.
    pub gpu_types: Option<Vec<String>>,
    /// A TPU slice.
    pub tpu: Option<Tpu>,
    /// Tool servers offered to the agent.
    pub mcp_servers: Vec<McpServer>,
    /// Environment variables; values may be host templates.
    pub env: BTreeMap<String, String>,
    /// Path of skills inside the container.
    pub skills_dir: Option<String>,
    /// When the environment counts as ready.
    pub healthcheck: Option<Healthcheck>,
    /// Working directory of every command.
    pub workdir: Option<String>,
    /// The network that every phase has unless it says otherwise.
    pub network: Network,
}

impl Default for EnvironmentConfig {
    fn default() -> Self {
        Self {
            build_timeout_sec: 600.0,
            docker_image: None,
            os: Os::Linux,
            cpus: None,
            memory_mb: None,
            storage_mb: None,
            gpus: None,
            gpu_types: None,
            tpu: None,
            mcp_servers: Vec::new(),
            env: BTreeMap::new(),
            skills_dir: None,
            healthcheck: None,
            workdir: None,
            network: Network { mode: NetworkMode::Public, allowed_hosts: Vec::new() },
        }
    }
}

/// A network policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    /// The kind of policy.
    pub mode: NetworkMode,
    /// Hosts in lower case, for [`NetworkMode::Allowlist`].
    pub allowed_hosts: Vec<String>,
}

/// Kinds of network policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkMode {
    /// None at all.
    NoNetwork,
    /// Everything.
    Public,
    /// Named hosts only.
    Allowlist,
}

/// Operating system of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Os {
    /// Linux.
    Linux,
    /// Windows.
    Windows,
}

/// `[environment.tpu]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tpu {
    /// Kind of TPU.
    pub kind: String,
    /// `NxM` or `NxMxK`.
    pub topology: String,
}

/// One tool server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServer {
    /// Its name.
    pub name: String,
    /// `stdio`, `sse` or `streamable-http`.
    pub transport: String,
    /// Address, for the HTTP transports.
    pub url: Option<String>,
    /// Program, for `stdio`.
    pub command: Option<String>,
    /// Its arguments.
    pub args: Vec<String>,
    /// HTTP headers.
    pub headers: BTreeMap<String, String>,
}

/// `[environment.healthcheck]`, also inside steps.
#[derive(Debug, Clone, PartialEq)]
pub struct Healthcheck {
    /// The shell command.
    pub command: String,
    /// Time between two tries.
    pub interval_sec: f64,
    /// Time limit of one try.
    pub timeout_sec: f64,
    /// Time during which failures do not count.
    pub start_period_sec: f64,
    /// Time between two tries during that period.
    pub start_interval_sec: f64,
    /// Failures in a row that count.
    pub retries: u64,
}

/// One of `[[steps]]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Name of the step and of its directory.
    pub name: String,
    /// Limits of the agent in this step.
    pub agent: AgentConfig,
    /// The verifier of this step.
    pub verifier: VerifierConfig,
    /// The reward below which the remaining steps are not run.
    pub min_reward: Option<MinReward>,
    /// A healthcheck in addition to the environment's.
    pub healthcheck: Option<Healthcheck>,
    /// Artifacts in addition to the task's.
    pub artifacts: Vec<Artifact>,
}

/// The gate behind a step.
#[derive(Debug, Clone, PartialEq)]
pub enum MinReward {
    /// For the key `reward`.
    Single(f64),
    /// For several keys.
    ByKey(BTreeMap<String, f64>),
}

/// Something of the environment that is kept after the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// Path inside the container.
    pub source: String,
    /// Path below the trial's `artifacts/`; the mirrored source when absent.
    pub destination: Option<String>,
    /// Archive patterns that are left out.
    pub exclude: Vec<String>,
    /// The compose service; `main` when absent.
    pub service: Option<String>,
}
