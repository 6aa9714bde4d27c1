//! A task directory, ready to be tried.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use record::Reason;
use task::config::{NetworkMode, Os, TaskConfig, VerifierMode};
use task::{TaskDigests, TaskDir};

use crate::{Agent, EnvironmentSource, TrialError};

/// A task directory with its configuration and digests.
#[derive(Debug, Clone)]
pub struct TrialTask {
    /// The directory.
    pub directory: PathBuf,
    /// Display name: the package name where there is one, else the directory's name.
    pub name: String,
    /// The data set it belongs to, for the job's statistics.
    pub source: Option<String>,
    /// Configuration.
    pub config: TaskConfig,
    /// Digests of the directory as it stands.
    pub digests: TaskDigests,
    /// Whether it has a reference solution.
    pub has_solution: bool,
}

impl TrialTask {
    /// Reads a task directory.
    pub fn open(directory: &Path, source: Option<&str>) -> Result<Self, TrialError> {
        let digests = task::digest_task(directory)?;
        let task = TaskDir::open(directory)?;
        Ok(Self {
            name: task.display_name(),
            directory: directory.to_owned(),
            source: source.map(str::to_owned),
            has_solution: task.has_solution(),
            config: task.config().clone(),
            digests,
        })
    }

    /// What the task's environment is made from.
    pub fn environment(&self) -> EnvironmentSource {
        EnvironmentSource {
            docker_image: self.config.environment.docker_image.clone(),
            context: self.directory.join("environment"),
        }
    }

    /// Refuses by name what trials do not offer yet.
    pub(crate) fn supported(&self, agent: Agent) -> Result<(), String> {
        let environment = &self.config.environment;
        let refused = [
            (!self.config.steps.is_empty(), "several [[steps]]"),
            (self.config.verifier.mode == VerifierMode::Separate, "a separate verifier environment"),
            (environment.os != Os::Linux, "an operating system other than Linux"),
            (environment.gpus.is_some_and(|gpus| gpus > 0) || environment.tpu.is_some(), "accelerators"),
            (environment.healthcheck.is_some(), "a healthcheck"),
            (!environment.mcp_servers.is_empty(), "MCP servers"),
            (environment.network.mode == NetworkMode::Allowlist, "a network allow-list"),
            (self.has("environment/docker-compose.yaml"), "environment/docker-compose.yaml"),
            (self.has("environment/docker-compose.yml"), "environment/docker-compose.yml"),
        ];
        let names: Vec<_> = refused.iter().filter(|(refused, _)| *refused).map(|(_, name)| *name).collect();
        match (names.is_empty(), agent == Agent::Oracle && !self.has_solution) {
            (false, _) => Err(format!("trials do not support {}", names.join(", "))),
            (true, true) => Err("the task has no solution for the oracle".into()),
            (true, false) => Ok(()),
        }
    }

    fn has(&self, file: &str) -> bool {
        std::fs::symlink_metadata(self.directory.join(file)).is_ok()
    }

    pub(crate) fn environment_env(&self) -> Result<BTreeMap<String, String>, (Reason, String)> {
        resolved("environment.env", &self.config.environment.env)
    }

    pub(crate) fn solution_env(&self) -> Result<BTreeMap<String, String>, (Reason, String)> {
        resolved("solution.env", &self.config.solution_env)
    }

    pub(crate) fn verifier_env(&self) -> Result<BTreeMap<String, String>, (Reason, String)> {
        resolved("verifier.env", &self.config.verifier.env)
    }
}

/// Fills in `${VAR:-default}`. Tasks are untrusted, so no variable of the host is ever handed out: one without a default is
/// an error that names it.
fn resolved(
    table: &str,
    env: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, (Reason, String)> {
    env.iter()
        .map(|(key, value)| {
            let inner = value.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
            match inner.map(|inner| inner.split_once(":-").ok_or(inner)) {
                None => Ok((key.clone(), value.clone())),
                Some(Ok((_, default))) => Ok((key.clone(), default.to_owned())),
                Some(Err(variable)) => {
                    let detail = format!(
                        "{table}.{key} asks for the host's variable `{variable}`, which is not handed out"
                    );
                    Err((Reason::TaskInvalid, detail))
                }
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_the_host_are_not_handed_out() {
        let env = |value: &str| BTreeMap::from([("A".to_owned(), value.to_owned())]);
        assert_eq!(resolved("environment.env", &env("plain")).unwrap()["A"], "plain");
        assert_eq!(resolved("environment.env", &env("${HOME:-/x}")).unwrap()["A"], "/x");
        let (reason, detail) = resolved("environment.env", &env("${HOME}")).unwrap_err();
        assert_eq!(reason, Reason::TaskInvalid);
        assert!(detail.contains("environment.env.A") && detail.contains("`HOME`"), "{detail}");
    }
}
