//! What a trial's `result.json` says about itself, as far as rows need it.

use std::ffi::OsStr;
use std::path::Path;

use job::{Generation, python_float};

use crate::json::Json;

/// What agents call their trajectory; only the directories above say which trial it is of.
pub(crate) const LONE: &str = "trajectory.json";

/// Directories between a trial and its trajectory.
const BETWEEN: [&str; 2] = ["agent", "artifacts"];

/// The name of the run that a trial belongs to, by the directories above it: the next one, or in a run of Terminal-Bench, which
/// has a directory for each task, the one above that.
pub(crate) fn run_above(path: &Path, generation: Generation) -> String {
    let levels = if generation == Generation::TerminalBench { 2 } else { 1 };
    let above = path.ancestors().nth(levels).and_then(Path::file_name);
    above.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The head of a trial.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Head {
    /// Name of the trial.
    pub(crate) trial_name: Option<String>,
    /// Name of the task.
    pub(crate) task: Option<String>,
    /// Name of the agent by the configuration, else by the agent itself.
    pub(crate) agent: Option<String>,
    /// Name of the model.
    pub(crate) model: Option<String>,
    /// Provider of the model.
    pub(crate) provider: Option<String>,
    /// When the trial began, as written.
    pub(crate) started_at: Option<String>,
    /// Identity of the job, where the trial's own documents say it.
    pub(crate) run_id: Option<String>,
    /// Name of what went wrong.
    pub(crate) exception: Option<String>,
    /// The reward called `reward`, whatever it is worth.
    pub(crate) reward: Option<f64>,
    /// Whether the reward is written as a truth value; Harbor's exporter takes 1 and 0 from it.
    pub(crate) reward_is_bool: bool,
    /// Whether a reward beside what went wrong counts.
    pub(crate) policy: Option<bool>,
}

impl Head {
    /// Reads the result of a trial; `None` for that of a job or for another document.
    pub(crate) fn read(result: &Json<'_>) -> Option<Self> {
        let is_job = result.get("stats").is_some() || result.get("n_total_trials").is_some();
        let is_trial = ["trial_name", "task_name", "verifier_result", "agent_info"]
            .iter()
            .any(|key| result.get(key).is_some());
        if is_job || !is_trial {
            return None;
        }
        let path = |keys: &[&str]| -> Option<String> {
            let (last, above) = keys.split_last()?;
            let mut value = result;
            for key in above {
                value = value.get(key)?;
            }
            value.text(last).filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let first = |paths: &[&[&str]]| paths.iter().find_map(|keys| path(keys));
        let reward =
            result.get("verifier_result").and_then(|verifier| verifier.get("rewards")?.get("reward"));
        let reward_is_bool = matches!(reward, Some(Json::Bool(_)));
        Some(Self {
            trial_name: path(&["trial_name"]),
            task: path(&["task_name"]),
            agent: first(&[&["config", "agent", "name"], &["agent_info", "name"]]),
            model: first(&[
                &["agent_info", "model_info", "name"],
                &["config", "agent", "model_name"],
                &["agent_info", "model_name"],
                &["config", "engine"],
            ]),
            provider: first(&[
                &["agent_info", "model_info", "provider"],
                &["config", "agent", "provider"],
                &["agent_info", "provider"],
                &["config", "engine"],
            ]),
            started_at: path(&["started_at"]),
            run_id: first(&[&["config", "job_id"], &["config", "job_name"], &["job_id"], &["run_id"]]),
            exception: path(&["exception_info", "exception_type"]),
            reward: match reward {
                Some(Json::Bool(value)) => Some(f64::from(u8::from(*value))),
                other => other.and_then(Json::as_number),
            },
            reward_is_bool,
            policy: match result
                .get("exception_info")
                .and_then(|info| info.get("policy")?.get("has_valid_reward"))
            {
                Some(Json::Bool(valid)) => Some(*valid),
                _ => None,
            },
        })
    }

    /// The head of a trajectory that no trial is around: the file's name without its suffix is the task and the trial, and the
    /// directory above is the run. A file whose name says nothing has that of its directory.
    pub(crate) fn of_file(path: &Path) -> Self {
        let is_between = |name: &OsStr| BETWEEN.iter().any(|between| name == *between);
        let above = path.ancestors().skip(1);
        let mut above = above.filter(|above| above.file_name().is_some_and(|name| !is_between(name)));
        let path = match path.file_name() {
            Some(name) if name == LONE => above.next().unwrap_or(path),
            _ => path,
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let stem = [".trajectory.json", ".traj.json", ".traj", ".json"]
            .iter()
            .find_map(|end| name.strip_suffix(end));
        let stem = stem.unwrap_or(&name).to_owned();
        // SWE-agent keeps each trajectory in a directory of the same name, and others in one called `trajs`.
        let above = path.ancestors().skip(1).filter_map(Path::file_name).map(|name| name.to_string_lossy());
        let run = above.map(std::borrow::Cow::into_owned).find(|name| *name != stem && name != "trajs");
        Self { trial_name: Some(stem.clone()), task: Some(stem), run_id: run, ..Self::default() }
    }

    /// The trial's `result` by Harbor's rule: the name of what went wrong, else the reward as Python writes a float.
    pub(crate) fn harbor_result(&self) -> Option<String> {
        self.exception.clone().or_else(|| self.reward.map(python_float))
    }

    /// The reward that counts: none where it is no number, or where what went wrong takes it away.
    pub(crate) fn counted_reward(&self) -> Option<f64> {
        let counts = self.exception.as_deref().is_none_or(|exception| {
            self.policy.unwrap_or_else(|| job::policy_of(exception).has_valid_reward)
        });
        self.reward.filter(|_| counts && !self.reward_is_bool)
    }
}
