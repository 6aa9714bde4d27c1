//! One job: a Harbor-compatible directory with its trials, and the running count over them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use job::{AgentConfig, EnvironmentConfig, EvalStats, JobConfig, JobResult, JobStats, TrialConfig};
use record::{Outcome, Reason};
use serde_json::Map;
use tokio::sync::mpsc::UnboundedSender;

use crate::environment::Images;
use crate::files::TrialFiles;
use crate::life::{Life, Lived, Phases};
use crate::{Agent, Event, TrialError, TrialTask, failed, name, policy, rule};

/// How often the job's `result.json` is rewritten while trials end.
const REWRITE: Duration = Duration::from_secs(1);

/// What a job is made from.
#[derive(Debug, Clone)]
pub struct JobSpec {
    /// Name of the job's directory.
    pub name: String,
    /// The directory of all jobs.
    pub jobs_dir: PathBuf,
    /// The agents that will run.
    pub agents: Vec<Agent>,
    /// How often every agent tries every task.
    pub attempts: u32,
    /// How many trials run at once.
    pub concurrency: usize,
    /// How many trials are planned; more may come.
    pub planned: usize,
}

/// A job that is running.
pub struct Job {
    spec: JobSpec,
    directory: PathBuf,
    id: String,
    started: Timestamp,
    zone: TimeZone,
    engine: Arc<dyn sandbox::Engine>,
    images: Arc<dyn Images>,
    scratch: PathBuf,
    events: Option<UnboundedSender<Event>>,
    tally: Mutex<Tally>,
}

#[derive(Debug, Default)]
struct Tally {
    running: usize,
    ended: usize,
    errored: usize,
    cancelled: usize,
    rewards: BTreeMap<String, Vec<(String, f64)>>,
    exceptions: BTreeMap<String, BTreeMap<&'static str, Vec<String>>>,
    written: Option<Instant>,
}

/// One finished trial.
#[derive(Debug, Clone)]
pub struct TrialReport {
    /// The trial's name.
    pub trial: String,
    /// Its directory.
    pub directory: PathBuf,
    /// What came out.
    pub outcome: Outcome,
    /// Status of the required tests, where the verifier reported them.
    pub tests: BTreeMap<String, String>,
    /// Identity of the root file system; empty when there was none.
    pub image_digest: String,
    /// Wall-clock time of the whole trial.
    pub wall: Duration,
    /// When it ended.
    pub ended_at: Timestamp,
}

impl Job {
    /// Creates the job's directory with its configuration; a directory of the same name is refused.
    ///
    /// `scratch` is where sandboxes keep their writable layers; it must exist.
    pub fn create(
        spec: JobSpec,
        engine: Arc<dyn sandbox::Engine>,
        images: Arc<dyn Images>,
        scratch: PathBuf,
        events: Option<UnboundedSender<Event>>,
    ) -> Result<Self, TrialError> {
        let directory = spec.jobs_dir.join(&spec.name);
        fs_err::create_dir_all(&spec.jobs_dir).map_err(TrialError::Io)?;
        fs_err::create_dir(&directory).map_err(TrialError::Io)?;
        let job = Self {
            directory,
            id: uuid::Uuid::new_v4().to_string(),
            started: Timestamp::now(),
            zone: TimeZone::system(),
            engine,
            images,
            scratch,
            events,
            tally: Mutex::default(),
            spec,
        };
        artifact::write_atomic(&job.directory.join("config.json"), job.config_text()?.as_bytes())?;
        job.write_result(false)?;
        Ok(job)
    }

    /// The job's directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Runs one trial to its end. Only a trial directory that cannot be written is an error.
    pub async fn run(
        &self,
        task: &TrialTask,
        agent: Agent,
        verifier_limit: Option<Duration>,
    ) -> Result<TrialReport, TrialError> {
        let trial = name::fresh(&task.name);
        let directory = self.directory.join(&trial);
        let files = TrialFiles::create(directory.clone()).map_err(TrialError::Io)?;
        let config = self.trial_config(task, agent, &trial, verifier_limit);
        files.write_whole("config.json", job::to_text(&config)?.as_bytes())?;
        let lock = job::trial_lock(&config, &task.name, &task.digests.content_hash)?;
        files.write_whole("lock.json", job::to_text(&lock)?.as_bytes())?;
        self.tell(Event::Started { task: task.name.clone(), agent, trial: trial.clone() });
        self.tally().running += 1;

        let (begun, started) = (Instant::now(), Timestamp::now());
        let (lived, image_digest) = self.live(task, agent, &trial, &files, verifier_limit).await;
        let (wall, ended_at) = (begun.elapsed(), Timestamp::now());

        let result = self.trial_result(task, agent, config, &lived, started, ended_at);
        if let Some(exception) = &result.exception_info {
            files.write_whole("exception.txt", exception.exception_traceback.as_bytes())?;
        }
        files.finish_log().map_err(TrialError::Io)?;
        files.write_whole("result.json", job::to_text(&result)?.as_bytes())?;

        self.count(task, agent, &trial, &lived.outcome)?;
        self.tell(Event::Finished {
            task: task.name.clone(),
            agent,
            trial: trial.clone(),
            directory: directory.clone(),
            outcome: lived.outcome.clone(),
            wall,
        });
        let Lived { outcome, tests, .. } = lived;
        Ok(TrialReport { trial, directory, outcome, tests, image_digest, wall, ended_at })
    }

    async fn live(
        &self,
        task: &TrialTask,
        agent: Agent,
        trial: &str,
        files: &TrialFiles,
        verifier_limit: Option<Duration>,
    ) -> (Lived, String) {
        let ended = |reason, detail: String| Lived {
            outcome: failed(reason, detail),
            rewards: None,
            tests: BTreeMap::new(),
            phases: Phases::default(),
        };
        if let Err(detail) = task.supported(agent) {
            return (ended(Reason::TaskInvalid, detail), String::new());
        }
        let root = match self.images.root(&task.environment()).await {
            Ok(root) => root,
            Err((reason, detail)) => return (ended(reason, detail), String::new()),
        };
        let digest = root.digest().to_owned();
        let scratch = match tempfile::Builder::new().prefix("sandbox-").tempdir_in(&self.scratch) {
            Ok(scratch) => scratch,
            Err(error) => return (ended(Reason::EnvironmentStartFailed, error.to_string()), digest),
        };
        let life = Life {
            task,
            agent,
            engine: self.engine.as_ref(),
            root,
            name: trial,
            scratch: scratch.path().to_owned(),
            files,
            verifier_limit,
        };
        (life.live().await, digest)
    }

    /// Writes the final counts.
    pub fn finish(&self) -> Result<(), TrialError> {
        self.write_result(true)
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, event: Event) {
        if let Some(events) = &self.events {
            // A reporter that has gone away is no reason to stop.
            let _ = events.send(event);
        }
    }

    fn count(
        &self,
        task: &TrialTask,
        agent: Agent,
        trial: &str,
        outcome: &Outcome,
    ) -> Result<(), TrialError> {
        let due = {
            let mut tally = self.tally();
            tally.running -= 1;
            tally.ended += 1;
            let eval = format!("{agent}__{}", task.source.as_deref().unwrap_or("adhoc"));
            match outcome {
                Outcome::Reward(reward) => {
                    tally.rewards.entry(eval).or_default().push((trial.to_owned(), *reward));
                }
                Outcome::Failed { reason, .. } => {
                    tally.errored += 1;
                    tally.cancelled += usize::from(*reason == Reason::Cancelled);
                    let exceptions = tally.exceptions.entry(eval).or_default();
                    exceptions.entry(rule(*reason).exception).or_default().push(trial.to_owned());
                }
            }
            let due = tally.written.is_none_or(|at| at.elapsed() >= REWRITE);
            if due {
                tally.written = Some(Instant::now());
            }
            due
        };
        if due { self.write_result(false) } else { Ok(()) }
    }

    fn write_result(&self, finished: bool) -> Result<(), TrialError> {
        let now = job::local(Timestamp::now(), &self.zone);
        let tally = self.tally();
        let total = self.spec.planned.max(tally.ended + tally.running);
        let result = JobResult {
            schema_version: 1,
            id: self.id.clone(),
            started_at: job::local(self.started, &self.zone),
            updated_at: now.clone(),
            finished_at: finished.then_some(now),
            n_total_trials: if finished { tally.ended } else { total },
            stats: tally.stats(if finished { 0 } else { total - tally.ended - tally.running }),
        };
        // Held until the file is written, so that an older count never replaces a newer one.
        let text = job::to_text(&result)?;
        artifact::write_atomic(&self.directory.join("result.json"), text.as_bytes())?;
        drop(tally);
        Ok(())
    }

    fn config_text(&self) -> Result<String, TrialError> {
        let config = JobConfig {
            schema_version: 1,
            job_name: self.spec.name.clone(),
            jobs_dir: self.spec.jobs_dir.display().to_string(),
            n_attempts: self.spec.attempts,
            install_only: false,
            skip_credential_checks: false,
            timeout_multiplier: 1.0,
            agent_timeout_multiplier: None,
            verifier_timeout_multiplier: None,
            agent_setup_timeout_multiplier: None,
            environment_build_timeout_multiplier: None,
            debug: false,
            n_concurrent_trials: self.spec.concurrency,
            quiet: false,
            retry: job::RetryConfig::default(),
            override_error_policy: Map::new(),
            environment: EnvironmentConfig::for_engine(self.engine.name()),
            verifier: job::VerifierConfig::default(),
            metrics: Vec::new(),
            agents: self.spec.agents.iter().map(|agent| agent_config(*agent)).collect(),
            user_agent: None,
            datasets: Vec::new(),
            tasks: Vec::new(),
            artifacts: Vec::new(),
            extra_instruction_paths: Vec::new(),
            extra_instructions: Vec::new(),
            source_jobs: Vec::new(),
        };
        Ok(job::to_text(&config)?)
    }

    fn trial_config(
        &self,
        task: &TrialTask,
        agent: Agent,
        trial: &str,
        verifier_limit: Option<Duration>,
    ) -> TrialConfig {
        TrialConfig {
            schema_version: 1,
            task: job::TaskConfig {
                path: task.directory.display().to_string(),
                source: task.source.clone(),
                ..job::TaskConfig::default()
            },
            trial_name: trial.to_owned(),
            trials_dir: self.directory.display().to_string(),
            install_only: false,
            timeout_multiplier: 1.0,
            agent_timeout_multiplier: None,
            verifier_timeout_multiplier: None,
            agent_setup_timeout_multiplier: None,
            environment_build_timeout_multiplier: None,
            agent: agent_config(agent),
            user_agent: None,
            environment: EnvironmentConfig::for_engine(self.engine.name()),
            verifier: job::VerifierConfig {
                override_timeout_sec: verifier_limit.map(|limit| limit.as_secs_f64()),
                ..job::VerifierConfig::default()
            },
            override_error_policy: Map::new(),
            artifacts: Vec::new(),
            extra_instruction_paths: Vec::new(),
            extra_instructions: Vec::new(),
            job_id: Some(self.id.clone()),
            source_trial: None,
        }
    }

    fn trial_result(
        &self,
        task: &TrialTask,
        agent: Agent,
        config: TrialConfig,
        lived: &Lived,
        started: Timestamp,
        ended: Timestamp,
    ) -> job::TrialResult {
        let exception_info = match &lived.outcome {
            Outcome::Reward(_) => None,
            Outcome::Failed { reason, detail, .. } => Some(job::ExceptionInfo {
                exception_type: rule(*reason).exception.into(),
                exception_message: detail.clone(),
                exception_traceback: format!("{}: {detail}\n", rule(*reason).exception),
                occurred_at: job::utc(ended),
                policy_override: None,
                policy: policy(*reason),
            }),
        };
        let phases = lived.phases.clone();
        job::TrialResult {
            schema_version: 1,
            id: uuid::Uuid::new_v4().to_string(),
            task_name: task.name.clone(),
            trial_name: config.trial_name.clone(),
            trial_uri: format!("file://{}", absolute(&self.directory.join(&config.trial_name)).display()),
            task_id: job::TaskPath { path: task.directory.display().to_string() },
            source: task.source.clone(),
            task_checksum: task.digests.task_checksum.hex(),
            agent_info: job::AgentInfo {
                name: agent.name().into(),
                version: "1.0.0".into(),
                model_info: None,
            },
            agent_result: phases.agent.is_some().then(job::AgentContext::default),
            reward_valid: exception_info.is_none() && lived.rewards.is_some(),
            verifier_result: lived.rewards.as_ref().map(job::VerifierResult::floats),
            verifier_environment_mode: Some("shared".into()),
            exception_info,
            started_at: Some(job::utc(started)),
            finished_at: Some(job::utc(ended)),
            environment_setup: phases.environment,
            agent_setup: phases.agent_setup,
            agent_execution: phases.agent,
            verifier: phases.verifier,
            step_results: None,
            config,
        }
    }
}

impl Tally {
    fn stats(&self, pending: usize) -> JobStats {
        let mut evals: BTreeMap<String, EvalStats> = BTreeMap::new();
        for (eval, rewards) in &self.rewards {
            let stats = evals.entry(eval.clone()).or_default();
            stats.n_trials = rewards.len();
            let sum: f64 = rewards.iter().map(|(_, reward)| reward).sum();
            stats.metrics = vec![BTreeMap::from([("mean".into(), sum / rewards.len() as f64)])];
            let by_value = stats.reward_stats.entry("reward".into()).or_default();
            for (trial, reward) in rewards {
                by_value.entry(job::python_float(*reward)).or_default().push(trial.clone());
            }
            for trials in by_value.values_mut() {
                trials.sort();
            }
        }
        for (eval, exceptions) in &self.exceptions {
            let stats = evals.entry(eval.clone()).or_default();
            for (exception, trials) in exceptions {
                let mut trials = trials.clone();
                trials.sort();
                stats.n_errors += trials.len();
                stats.exception_stats.insert((*exception).into(), trials);
            }
        }
        JobStats {
            n_completed_trials: self.ended - self.errored,
            n_errored_trials: self.errored,
            n_running_trials: self.running,
            n_pending_trials: pending,
            n_cancelled_trials: self.cancelled,
            evals,
            ..JobStats::default()
        }
    }
}

fn agent_config(agent: Agent) -> AgentConfig {
    AgentConfig { name: Some(agent.name().into()), ..AgentConfig::default() }
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
