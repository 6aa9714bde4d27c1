//! A task directory, ready to be tried.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use record::Reason;
use sandbox::Archive;
use task::config::{Network, Os, TaskConfig, VerifierConfig, VerifierMode};
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
    /// What `.harborignore` files keep out of sandboxes.
    not_uploaded: BTreeSet<PathBuf>,
}

impl TrialTask {
    /// Reads a task directory.
    pub fn open(directory: &Path, source: Option<&str>) -> Result<Self, TrialError> {
        let digests = task::digest_task(directory)?;
        let task = TaskDir::open(directory)?;
        let mut not_uploaded = BTreeSet::new();
        if has_harborignore(directory) {
            not_uploaded.extend(task::not_uploaded(directory)?.iter().map(|path| directory.join(path)));
        }
        Ok(Self {
            name: task.display_name(),
            directory: directory.to_owned(),
            source: source.map(str::to_owned),
            has_solution: task.has_solution(),
            not_uploaded,
            config: task.config().clone(),
            digests,
        })
    }

    /// What an agent is told to do: of the whole task, or of one of its steps.
    pub fn instruction(&self, step: Option<&str>) -> Result<String, TrialError> {
        let task = TaskDir::open(&self.directory)?;
        Ok(match step {
            Some(step) => task.step_instruction(step)?,
            None => task.instruction()?,
        })
    }

    /// What the task's environment is made from.
    pub fn environment(&self) -> EnvironmentSource {
        EnvironmentSource {
            docker_image: self.config.environment.docker_image.clone(),
            context: self.directory.join("environment"),
        }
    }

    /// Refuses by name what trials do not offer. Networks matter only where the run allows any.
    pub(crate) fn supported(&self, agent: Agent, network_allowed: bool) -> Result<(), String> {
        let config = &self.config;
        let verifiers =
            || std::iter::once(&config.verifier).chain(config.steps.iter().map(|step| &step.verifier));
        let environments = || {
            std::iter::once(&config.environment)
                .chain(verifiers().filter_map(|own| own.environment.as_deref()))
        };
        let artifacts =
            || config.artifacts.iter().chain(config.steps.iter().flat_map(|step| &step.artifacts));
        let elsewhere = |service: Option<&str>| service.is_some_and(|service| service != "main");
        // One sandbox has one network, so a phase in it cannot have another.
        let other =
            |own: &Option<Network>| own.as_ref().is_some_and(|own| *own != config.environment.network);
        let steps = || config.steps.iter();
        let shared = |verifier: &VerifierConfig| {
            verifier.mode == VerifierMode::Shared && config.verifier.mode == VerifierMode::Shared
        };
        let networks = other(&config.agent.network)
            || steps().any(|step| other(&step.agent.network))
            || verifiers().any(|verifier| shared(verifier) && other(&verifier.network));
        let refused = [
            (environments().any(|own| own.os != Os::Linux), "an operating system other than Linux"),
            (
                environments().any(|own| own.gpus.is_some_and(|gpus| gpus > 0) || own.tpu.is_some()),
                "accelerators",
            ),
            (environments().any(|own| !own.mcp_servers.is_empty()), "MCP servers"),
            (network_allowed && networks, "a phase with a network of its own"),
            (
                artifacts().any(|artifact| elsewhere(artifact.service.as_deref()))
                    || verifiers().flat_map(|own| &own.collect).any(|hook| elsewhere(Some(&hook.service))),
                "services other than main",
            ),
            (self.has("environment/docker-compose.yaml"), "environment/docker-compose.yaml"),
            (self.has("environment/docker-compose.yml"), "environment/docker-compose.yml"),
            (self.has("tests/docker-compose.yaml"), "tests/docker-compose.yaml"),
            (self.has("tests/docker-compose.yml"), "tests/docker-compose.yml"),
        ];
        let names: Vec<_> = refused.iter().filter(|(refused, _)| *refused).map(|(_, name)| *name).collect();
        match (names.is_empty(), agent == Agent::Oracle && !self.has_solution) {
            (false, _) => Err(format!("trials do not support {}", names.join(", "))),
            (true, true) => Err("the task has no solution for the oracle".into()),
            (true, false) => Ok(()),
        }
    }

    /// Packs directories of the task as they are brought into a sandbox, later ones over earlier ones.
    pub(crate) fn pack(&self, directories: &[impl AsRef<Path>]) -> std::io::Result<Archive> {
        crate::files::pack_without(directories, &self.not_uploaded)
    }

    fn has(&self, file: &str) -> bool {
        std::fs::symlink_metadata(self.directory.join(file)).is_ok()
    }
}

/// Whether any folder that is brought into sandboxes has an ignore file. Most tasks have none, and the whole tree need not be
/// read for them.
fn has_harborignore(directory: &Path) -> bool {
    let mut pending: Vec<_> = ["tests", "solution", "steps"].map(|part| directory.join(part)).into();
    while let Some(place) = pending.pop() {
        for entry in std::fs::read_dir(place).into_iter().flatten().flatten() {
            if entry.file_name() == ".harborignore" {
                return true;
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                pending.push(entry.path());
            }
        }
    }
    false
}

/// MiB of a task's settings as bytes; what does not fit is as good as no limit.
pub(crate) fn bytes(mib: u64) -> u64 {
    mib.saturating_mul(1 << 20)
}

/// Fills in `${VAR:-default}`. Tasks are untrusted, so no variable of the host is ever handed out: one without a default is
/// an error that names it.
pub(crate) fn resolved(
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
