//! `task.toml`: Harbor's schema 1.4 and every older spelling that Harbor 0.26 still reads.

mod model;
mod names;
mod problem;
mod read;
mod section;

pub use model::{
    AgentConfig, Artifact, CollectStep, EnvironmentConfig, Healthcheck, McpServer, MinReward, Network,
    NetworkMode, Os, Package, RewardStrategy, Step, TaskConfig, Tpu, VerifierConfig, VerifierMode,
};
pub use names::{is_package_name, is_step_name};
pub use problem::{ConfigError, ConfigProblem, ProblemKind};
pub use read::{ConfigReading, read_config};
