//! One agent at work and its verification: the whole of a plain task, or one of several steps.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use task::config::{Artifact, CollectStep, Step, VerifierConfig, VerifierMode};

use crate::TrialTask;
use crate::trial_task::resolved;

use super::Failure;

/// What one round goes by, with everything that falls back to the task already filled in.
pub(super) struct Round<'a> {
    pub(super) step: Option<&'a Step>,
    pub(super) agent_sec: Option<f64>,
    pub(super) agent_user: Option<String>,
    pub(super) verifier: &'a VerifierConfig,
    pub(super) verifier_user: String,
    pub(super) separate: bool,
    /// Commands between agent and collection.
    pub(super) hooks: &'a [CollectStep],
    pub(super) artifacts: Vec<&'a Artifact>,
    pub(super) solution: PathBuf,
    /// Directories whose files make `/tests`, later ones over earlier ones.
    pub(super) tests: Vec<PathBuf>,
    task: &'a TrialTask,
}

impl<'a> Round<'a> {
    /// The only round of a plain task.
    pub(super) fn whole(task: &'a TrialTask) -> Self {
        let config = &task.config;
        Self {
            step: None,
            agent_sec: config.agent.timeout_sec,
            agent_user: config.agent.user.clone(),
            verifier: &config.verifier,
            verifier_user: config.verifier.user.clone().unwrap_or_else(root),
            separate: config.verifier.mode == VerifierMode::Separate,
            hooks: &config.verifier.collect,
            artifacts: config.artifacts.iter().collect(),
            solution: task.directory.join("solution"),
            tests: vec![task.directory.join("tests")],
            task,
        }
    }

    /// The round of one step. The agent's limit and the users fall back to the task's, the verifier's limit does not.
    pub(super) fn of_step(task: &'a TrialTask, step: &'a Step) -> Self {
        let config = &task.config;
        let directory = task.directory.join("steps").join(&step.name);
        let own_or = |own: PathBuf, other: &str| if own.exists() { own } else { task.directory.join(other) };
        let tests = [task.directory.join("tests"), directory.join("tests")];
        let user = step.verifier.user.clone().or_else(|| config.verifier.user.clone());
        Self {
            step: Some(step),
            agent_sec: step.agent.timeout_sec.or(config.agent.timeout_sec),
            agent_user: step.agent.user.clone().or_else(|| config.agent.user.clone()),
            verifier: &step.verifier,
            verifier_user: user.unwrap_or_else(root),
            separate: [config.verifier.mode, step.verifier.mode].contains(&VerifierMode::Separate),
            hooks: match step.verifier.collect.as_slice() {
                [] => &config.verifier.collect,
                own => own,
            },
            artifacts: config.artifacts.iter().chain(&step.artifacts).collect(),
            solution: own_or(directory.join("solution"), "solution"),
            tests: tests.into_iter().filter(|tests| tests.is_dir()).collect(),
            task,
        }
    }

    /// Name of the step, if it is one.
    pub(super) fn name(&self) -> Option<&'a str> {
        self.step.map(|step| step.name.as_str())
    }

    /// Where a file of this round lies in the trial's directory.
    pub(super) fn place(&self, file: &str) -> String {
        match self.step {
            Some(step) => format!("steps/{}/{file}", step.name),
            None => file.to_owned(),
        }
    }

    /// The verifier's variables: the step's go over the task's.
    pub(super) fn verifier_env(&self) -> Result<BTreeMap<String, String>, Failure> {
        let mut env = resolved("verifier.env", &self.task.config.verifier.env)?;
        if let Some(step) = self.step {
            env.extend(resolved(&format!("steps.{}.verifier.env", step.name), &step.verifier.env)?);
        }
        Ok(env)
    }

    /// Whether the verifier is the one that `materialize` brings into tasks.
    pub(super) fn has_vendored_verifier(&self) -> bool {
        let script =
            self.tests.iter().rev().map(|tests| tests.join("test.sh")).find(|script| script.is_file());
        let known = grade::vendored::TEST_SH;
        script
            .and_then(|script| artifact::read_bounded(&script, known.len() as u64).ok())
            .is_some_and(|text| text == known.as_bytes())
    }

    /// The directory from whose Dockerfile the verifier's own environment is built, where there is one.
    pub(super) fn tests_with_dockerfile(&self) -> Option<&Path> {
        self.tests.iter().rev().map(PathBuf::as_path).find(|tests| tests.join("Dockerfile").is_file())
    }
}

fn root() -> String {
    "0".to_owned()
}
