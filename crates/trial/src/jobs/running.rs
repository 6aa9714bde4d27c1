//! A job that is running: trials in, reports out, and a directory that always tells how far it is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use job::{EarlierTry, JobConfig, JobResult, Rewards, TrialRecord};
use record::{Outcome, Reason};
use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;

use crate::files::TrialFiles;
use crate::images::Images;
use crate::jobs::tally::{Ended, Tally};
use crate::jobs::{JobDirectory, JobIdentity, Plan, PlannedTrial, documents};
use crate::life::Life;
use crate::schedule::{Admission, Admitted, Refused};
use crate::trial_task::bytes;
use crate::{Agent, Budgets, Event, Model, TrialError, TrialTask, name};

/// How often the job's `result.json` is rewritten at most while trials end.
const REWRITE: Duration = Duration::from_secs(1);
/// Writing it takes longer the more trials there are; no more than one part in so many of the time goes there.
const REWRITE_SHARE: u32 = 20;
/// The longest wait before another try.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

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
    /// How many trials are planned; more may come.
    pub planned: usize,
    /// How often a trial that failed for a passing reason is tried again.
    pub max_retries: u32,
    /// What the run lays over the limits of tasks.
    pub budgets: Budgets,
    /// Whether tasks get the network that they ask for.
    pub network_allowed: bool,
    /// The model, for agents that ask one.
    pub model: Option<Arc<Model>>,
}

/// What trials are run with; jobs may share it.
#[derive(Clone)]
pub struct Resources {
    /// The engine.
    pub engine: Arc<dyn sandbox::Engine>,
    /// Root file systems for that engine.
    pub images: Arc<dyn Images>,
    /// Where sandboxes keep their writable layers; it must exist.
    pub scratch: PathBuf,
    /// How much runs at a time.
    pub admission: Arc<Admission>,
    /// Once cancelled, no further trial begins; those that run go on to their end.
    pub stop: CancellationToken,
    /// Who listens.
    pub events: Option<UnboundedSender<Event>>,
}

/// Which ended trials are run again when a job is resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rerun {
    /// None: what has ended has ended.
    #[default]
    Nothing,
    /// Those that failed for a passing reason.
    Passing,
    /// All that have no reward. An agent that ran into its limit and was graded has one.
    Errored,
}

impl Rerun {
    fn wants(self, record: &TrialRecord) -> bool {
        if valid_reward(record).is_some() {
            return false;
        }
        match (self, &record.outcome) {
            (_, Outcome::Reward(_)) | (Self::Nothing, _) => false,
            (Self::Passing, Outcome::Failed { retryable, .. }) => *retryable,
            (Self::Errored, Outcome::Failed { .. }) => true,
        }
    }
}

/// A job that is running.
pub struct Job {
    spec: JobSpec,
    directory: JobDirectory,
    config: JobConfig,
    zone: TimeZone,
    resources: Resources,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    tally: Tally,
    /// Trials begun outside a plan, by task and agent.
    attempts: BTreeMap<(String, Agent), u32>,
    begun: bool,
    finished: bool,
    written: Option<Instant>,
    /// How long it took to write the result the last time.
    writing: Duration,
}

/// One ended trial.
#[derive(Debug, Clone)]
pub struct TrialReport {
    /// The trial's name.
    pub trial: String,
    /// Task name.
    pub task: String,
    /// Agent.
    pub agent: String,
    /// Which attempt of the agent at the task, from 0.
    pub attempt: u32,
    /// Its directory.
    pub directory: PathBuf,
    /// What came out. The outcome of an agent that failed and was graded all the same is its failure.
    pub outcome: Outcome,
    /// The reward that counts, whether or not a failure stands beside it.
    pub reward: Option<f64>,
    /// Status of the required tests, where the verifier reported them.
    pub tests: BTreeMap<String, String>,
    /// Identity of the root file system; empty when there was none.
    pub image_digest: String,
    /// Wall-clock time of the whole trial.
    pub wall: Duration,
    /// When it ended, RFC 3339 in UTC.
    pub ended_at: String,
    /// Whether it had ended before this process began.
    pub earlier: bool,
}

/// What became of a plan.
#[derive(Debug, Default)]
pub struct Ran {
    /// The trials that have ended, in the plan's order.
    pub reports: Vec<TrialReport>,
    /// Trials that were not begun.
    pub left: usize,
}

impl Job {
    /// Creates the job's directory, or goes on with the one that is there when it is the same job.
    pub fn open(
        spec: JobSpec,
        identity: &JobIdentity,
        tasks: &[Arc<TrialTask>],
        resources: Resources,
    ) -> Result<Self, TrialError> {
        let directory = JobDirectory::open(&spec.jobs_dir.join(&spec.name), identity)?;
        let slots = resources.admission.slots();
        let tasks = tasks.iter().map(AsRef::as_ref);
        let config = documents::job_config(&spec, resources.engine.name(), slots, tasks);
        Ok(Self { directory, zone: TimeZone::system(), config, resources, state: Mutex::default(), spec })
    }

    /// Writes the job's documents, once, before its first trial begins. Until then a finished job that is opened again stays
    /// untouched.
    fn begin(&self) -> Result<(), TrialError> {
        if std::mem::replace(&mut self.state().begun, true) {
            return Ok(());
        }
        self.directory.sweep()?;
        self.directory.log(&format!(
            "job {} begins, {} at once",
            self.id(),
            self.resources.admission.slots()
        ));
        artifact::write_atomic(&self.path().join("config.json"), job::to_text(&self.config)?.as_bytes())?;
        self.write_result()
    }

    /// The job's directory.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The job's identifier, which everything that an engine creates for it is labelled with.
    pub fn id(&self) -> &str {
        &self.directory.record.id
    }

    /// Runs what is left of a plan: trials that ended before are taken as they are, those that were cut off begin anew.
    ///
    /// One failing trial never ends the others. When the job's own files cannot be written, no further trial begins, the
    /// running ones end, and then the error is returned.
    pub async fn run_plan(&self, plan: &Plan, rerun: Rerun) -> Result<Ran, TrialError> {
        let (mut reports, left) = self.take_over(plan, rerun)?;
        if left.is_empty() && self.directory.is_finished() {
            return Ok(Ran { reports: reports.into_iter().map(|(_, report)| report).collect(), left: 0 });
        }
        self.begin()?;
        let lock = self.lock(plan)?;
        artifact::write_atomic(&self.path().join("lock.json"), lock.as_bytes())?;
        if !reports.is_empty() {
            let rewarded = reports.iter().filter(|(_, report)| report.reward.is_some()).count();
            self.tell(Event::TakenOver { rewarded, errored: reports.len() - rewarded });
            self.directory.log(&format!(
                "{} trials had ended before, {} are left",
                reports.len(),
                left.len()
            ));
        }
        let mut failed = None;
        let mut not_begun = 0;
        let run = |(position, trial): (usize, _)| async move { (position, self.run_trial(trial).await) };
        // As many at a time as there are slots: a trial that waits costs nothing, not even its own state.
        let mut ended =
            futures_util::stream::iter(left).map(run).buffer_unordered(self.resources.admission.slots());
        while let Some((position, result)) = ended.next().await {
            match result {
                Ok(report) => reports.push((position, report)),
                Err(TrialError::Refused(Refused::Stopped)) => not_begun += 1,
                Err(error) => {
                    not_begun += 1;
                    self.resources.stop.cancel();
                    failed.get_or_insert(error);
                }
            }
        }
        drop(ended);
        if let Some(error) = failed {
            self.directory.log(&format!("stopped: {error}"));
            return Err(error);
        }
        reports.sort_by_key(|(position, _)| *position);
        Ok(Ran { reports: reports.into_iter().map(|(_, report)| report).collect(), left: not_begun })
    }

    /// Runs one trial outside a plan, under a fresh name.
    pub async fn run(&self, task: &Arc<TrialTask>, agent: Agent) -> Result<TrialReport, TrialError> {
        self.begin()?;
        let attempt = {
            let mut state = self.state();
            let next = state.attempts.entry((task.name.clone(), agent)).or_default();
            *next += 1;
            *next - 1
        };
        let trial = PlannedTrial { name: name::fresh(&task.name), task: Arc::clone(task), agent, attempt };
        self.run_trial(&trial).await
    }

    /// Writes the final counts, when anything was run.
    pub fn finish(&self) -> Result<(), TrialError> {
        if !self.state().begun {
            return Ok(());
        }
        self.state().finished = true;
        self.directory.log("job ends");
        self.write_result()
    }
}

impl Job {
    /// The text of the job's `lock.json`: the lock of every planned trial.
    fn lock(&self, plan: &Plan) -> Result<String, TrialError> {
        let engine = self.resources.engine.name();
        let locks = plan.trials().iter().map(|trial| {
            let config = documents::trial_config(trial, &self.spec, self.path(), self.id(), engine);
            job::trial_lock(&config, &trial.task.name, &trial.task.digests.content_hash)
        });
        let retry = documents::retry_config(&self.spec);
        let slots = self.resources.admission.slots();
        Ok(job::job_lock_text(self.directory.record.started_at, slots, &retry, locks)?)
    }

    /// Sorts a plan into what has ended before and what is to be run, with positions, and counts the former.
    #[expect(clippy::type_complexity, reason = "two lists with positions")]
    fn take_over<'a>(
        &self,
        plan: &'a Plan,
        rerun: Rerun,
    ) -> Result<(Vec<(usize, TrialReport)>, Vec<(usize, &'a PlannedTrial)>), TrialError> {
        let (mut reports, mut left) = (Vec::new(), Vec::new());
        for (position, trial) in plan.trials().iter().enumerate() {
            match self.directory.ended(trial)? {
                Some(record) if rerun.wants(&record) => {
                    let place = self.directory.set_aside(&trial.name)?;
                    self.directory.log(&format!("{} is run again; before: {}", trial.name, place.display()));
                    left.push((position, trial));
                }
                Some(record) => {
                    let report = self.report(&record, true);
                    self.state().tally.add(ended(trial, &record));
                    reports.push((position, report));
                }
                None => {
                    self.directory.clear(&trial.name)?;
                    left.push((position, trial));
                }
            }
        }
        Ok((reports, left))
    }

    /// Runs a trial until it ended with a reward or for a lasting reason, or has no try left.
    async fn run_trial(&self, trial: &PlannedTrial) -> Result<TrialReport, TrialError> {
        let (admission, stop) = (&self.resources.admission, &self.resources.stop);
        let memory = trial.task.config.environment.memory_mb.map(bytes);
        let admitted = admission.admit(memory, stop).await?;
        let mut retries = Vec::new();
        loop {
            let record = self.try_once(trial, &retries, &admitted).await?;
            let again = (retries.len() as u32) < self.spec.max_retries && !stop.is_cancelled();
            let (reason, detail) = match &record.outcome {
                Outcome::Failed { reason, detail, retryable: true, .. } if again => (reason, detail),
                _ => return self.ended(trial, &record),
            };
            let place = self.directory.set_aside(&trial.name)?;
            self.directory.log(&format!("{} is tried again after {reason}: {detail}", trial.name));
            let wait = wait_before(retries.len() as u32 + 1);
            retries.push(EarlierTry {
                trial: place.display().to_string(),
                reason: *reason,
                detail: detail.clone(),
            });
            self.state().tally.retries += 1;
            self.tell(Event::Retried {
                task: record.task.clone(),
                agent: trial.agent,
                trial: trial.name.clone(),
                outcome: record.outcome.clone(),
            });
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = stop.cancelled() => {}
            }
        }
    }

    /// Counts and tells a trial that has ended for good.
    fn ended(&self, trial: &PlannedTrial, record: &TrialRecord) -> Result<TrialReport, TrialError> {
        let report = self.report(record, false);
        let due = {
            let mut state = self.state();
            state.tally.add(ended(trial, record));
            let pause = REWRITE.max(state.writing * REWRITE_SHARE);
            let due = state.written.is_none_or(|at| at.elapsed() >= pause);
            if due {
                state.written = Some(Instant::now());
            }
            due
        };
        if due {
            self.write_result()?;
        }
        self.directory.log(&format!("{} ended: {}", trial.name, summary(&record.outcome)));
        self.tell(Event::Finished {
            task: report.task.clone(),
            agent: trial.agent,
            trial: report.trial.clone(),
            directory: report.directory.clone(),
            outcome: report.outcome.clone(),
            reward: report.reward,
            flags: record.flags.iter().map(|flag| (flag.reason, flag.detail.clone())).collect(),
            wall: report.wall,
        });
        Ok(report)
    }

    /// One try, from the creation of its directory to its result.
    async fn try_once(
        &self,
        trial: &PlannedTrial,
        retries: &[EarlierTry],
        _admitted: &Admitted<'_>,
    ) -> Result<TrialRecord, TrialError> {
        let files = TrialFiles::create(self.path().join(&trial.name))?;
        let engine = self.resources.engine.name();
        let config = documents::trial_config(trial, &self.spec, self.path(), self.id(), engine);
        files.write("config.json", job::to_text(&config)?.as_bytes())?;
        let lock = job::trial_lock(&config, &trial.task.name, &trial.task.digests.content_hash)?;
        files.write("lock.json", job::to_text(&lock)?.as_bytes())?;
        self.tell(Event::Started {
            task: trial.task.name.clone(),
            agent: trial.agent,
            trial: trial.name.clone(),
        });
        self.state().tally.running += 1;
        let running = Running(self);

        let (begun, started) = (Instant::now(), Timestamp::now());
        let scratch = tempfile::Builder::new().prefix("sandbox-").tempdir_in(&self.resources.scratch)?;
        let life = Life {
            task: &trial.task,
            agent: trial.agent,
            model: documents::agent_model(trial.agent, &self.spec),
            attempt: trial.attempt,
            engine: self.resources.engine.as_ref(),
            images: self.resources.images.as_ref(),
            admission: &self.resources.admission,
            job: self.id(),
            name: &trial.name,
            scratch: scratch.path().to_owned(),
            files: &files,
            budgets: self.spec.budgets,
            network_allowed: self.spec.network_allowed,
        };
        let lived = life.live().await;
        let (wall, ended_at) = (begun.elapsed(), Timestamp::now());
        drop(running);

        let record = documents::trial_record(trial, engine, &lived, retries, wall, ended_at);
        let result =
            documents::trial_result(trial, self.path(), config, life.model, &lived, started, ended_at);
        if let Some(exception) = &result.exception_info {
            files.write("exception.txt", exception.exception_traceback.as_bytes())?;
        }
        files.finish_log()?;
        artifact::store(&self.path().join(&trial.name).join(job::TRIAL_RECORD), &record)?;
        // Last: a trial has ended when its result is there.
        files.write_whole("result.json", job::to_text(&result)?.as_bytes())?;
        Ok(record)
    }

    fn report(&self, record: &TrialRecord, earlier: bool) -> TrialReport {
        TrialReport {
            trial: record.trial.clone(),
            task: record.task.clone(),
            agent: record.agent.clone(),
            attempt: record.attempt,
            directory: self.path().join(&record.trial),
            outcome: record.outcome.clone(),
            reward: valid_reward(record),
            tests: record.tests.clone(),
            image_digest: record.image_digest.clone().unwrap_or_default(),
            wall: Duration::from_millis(record.wall_ms),
            ended_at: record.ended_at.clone(),
            earlier,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, event: Event) {
        if let Some(events) = &self.resources.events {
            // A reporter that has gone away is no reason to stop.
            let _ = events.send(event);
        }
    }

    fn write_result(&self) -> Result<(), TrialError> {
        let (began, now) = (Instant::now(), job::local(Timestamp::now(), &self.zone));
        let mut state = self.state();
        let begun = state.tally.ended() + state.tally.running;
        let total = if state.finished { begun } else { self.spec.planned.max(begun) };
        let result = JobResult {
            schema_version: 1,
            id: self.id().to_owned(),
            started_at: job::local(self.directory.record.started_at, &self.zone),
            updated_at: now.clone(),
            finished_at: state.finished.then_some(now),
            n_total_trials: total,
            stats: state.tally.stats(total),
        };
        // The state is held until the file is written, so that an older count never replaces a newer one.
        let text = job::to_text(&result)?;
        artifact::write_atomic(&self.path().join("result.json"), text.as_bytes())?;
        state.writing = began.elapsed();
        Ok(())
    }
}

/// A trial that is counted as running.
struct Running<'a>(&'a Job);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.state().tally.running -= 1;
    }
}

impl Drop for Job {
    /// Leaves true counts behind when a job is stopped in the middle.
    fn drop(&mut self) {
        let stopped = {
            let state = self.state();
            state.begun && !state.finished
        };
        if stopped {
            self.directory.log("job stopped before its end");
            if let Err(error) = self.write_result() {
                tracing::warn!(%error, "the job's result cannot be written");
            }
        }
    }
}

/// What an ended trial adds to the count.
fn ended(trial: &PlannedTrial, record: &TrialRecord) -> Ended {
    let exception = record.exception.map(|reason| job::rule(reason).exception);
    let float = |(name, number): (&String, &serde_json::Number)| Some((name.clone(), number.as_f64()?));
    Ended {
        eval: eval(trial, record),
        task: record.task.clone(),
        trial: record.trial.clone(),
        rewards: record.rewards.as_ref().map(|rewards| rewards.iter().filter_map(float).collect::<Rewards>()),
        exception,
        cancelled: record.exception == Some(Reason::Cancelled),
        work: record.model.clone(),
    }
}

/// Agent, model and source of the task, as Harbor joins them.
fn eval(trial: &PlannedTrial, record: &TrialRecord) -> String {
    let source = trial.task.source.as_deref().unwrap_or("adhoc");
    match &record.model {
        Some(model) => format!("{}__{}__{source}", trial.agent, model.name),
        None => format!("{}__{source}", trial.agent),
    }
}

/// The reward, unless what went wrong beside it makes it worthless by Harbor's policy.
fn valid_reward(record: &TrialRecord) -> Option<f64> {
    let valid = record.exception.is_none_or(|reason| crate::policy(reason).has_valid_reward);
    record.rewards.as_ref().filter(|_| valid)?.get("reward")?.as_f64()
}

fn summary(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Reward(reward) => format!("reward {reward}"),
        Outcome::Failed { reason, detail, .. } => format!("{reason}: {detail}"),
    }
}

/// One second, then twice as long each time, with up to a quarter taken off so that many do not come back at once.
fn wait_before(retry: u32) -> Duration {
    use rand::RngExt as _;
    let whole = Duration::from_secs(1 << (retry - 1).min(6)).min(LONGEST_WAIT);
    whole.mul_f64(rand::rng().random_range(0.75..=1.0))
}
