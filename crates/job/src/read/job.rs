//! Reading a whole job.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::claims::LostTrial;
use super::head::Opened;
use super::oddity::{Odd, What};
use super::tally::Tally;
use super::trial::{TrialEntry, Trials};
use super::view::{Generation, TrialView, lossy};
use super::{Moment, Oddity};
use crate::JobError;

/// A job and everything in it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobView {
    /// What its own documents say, without its trials.
    #[serde(flatten)]
    pub head: JobHead,
    /// Planned trials of which there is no trace.
    pub pending: Option<usize>,
    /// The trials by what came out, and the means.
    #[serde(flatten)]
    pub tally: Tally,
    /// The same for every agent and model, sorted.
    pub agents: Vec<AgentTally>,
    /// The same for every task, sorted.
    pub tasks: Vec<TaskTally>,
    /// The trials, in the order of their directories' names.
    pub trials: Vec<TrialView>,
    /// Trials that the job's result lists and that have no directory. They are in no count but this.
    pub lost: Vec<LostTrial>,
    /// What is odd about its files, those of its trials included; paths are relative to its directory.
    pub oddities: Vec<Oddity>,
}

/// What a job's own documents say.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobHead {
    /// The job's name: that of its configuration, else that of its directory.
    pub name: String,
    /// Its directory. Where it is written as text, what is not UTF-8 is replaced.
    #[serde(serialize_with = "lossy")]
    pub directory: PathBuf,
    /// What wrote it.
    pub generation: Generation,
    /// Identity of the job, as written.
    pub id: Option<String>,
    /// Whether it is at work.
    pub state: JobState,
    /// When it began. Harbor writes the times of jobs in local time without a zone.
    pub started_at: Option<Moment>,
    /// When its result was last written.
    pub updated_at: Option<Moment>,
    /// When it ended.
    pub finished_at: Option<Moment>,
    /// How often every agent tries every task.
    pub attempts: Option<u64>,
    /// How many trials are planned. Rewarded, errored, ungraded, incomplete, running, lost and pending ones are all of
    /// them, unless the job says less than there are, which is an oddity.
    pub planned: Option<usize>,
    /// The agents that are configured, with their models.
    pub configured: Vec<AgentName>,
}

/// An agent and its model.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct AgentName {
    /// The agent.
    pub agent: Option<String>,
    /// The model.
    pub model: Option<String>,
}

/// Whether a job is at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// Its claim is held.
    Running,
    /// Its result says when it ended.
    Finished,
    /// It did not end, and its claim is not held any more.
    Interrupted,
    /// It did not end, and nobody ever claimed it, as with Harbor's own jobs: whether it is at work cannot be told.
    Unfinished,
}

impl JobState {
    /// The name of the state as it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Finished => "finished",
            Self::Interrupted => "interrupted",
            Self::Unfinished => "unfinished",
        }
    }
}

/// What came out for one agent with one model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AgentTally {
    /// The agent.
    #[serde(flatten)]
    pub name: AgentName,
    /// The trials.
    #[serde(flatten)]
    pub tally: Tally,
}

/// What came out for one task.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TaskTally {
    /// The task.
    pub task: Option<String>,
    /// The trials.
    #[serde(flatten)]
    pub tally: Tally,
}

/// Opens the trials of the job in `directory` to be read one after the other, in the order of their directories' names.
///
/// Copies of a trial are not told apart here; [`read_job`] does that.
pub fn trials(directory: &Path) -> Result<Trials, JobError> {
    Ok(Opened::new(directory)?.trials)
}

/// Reads the job in `directory` with all its trials.
///
/// Only a directory that cannot be opened, or that is a trial's or holds jobs, is an error; everything else is in the view.
pub fn read_job(directory: &Path) -> Result<JobView, JobError> {
    let Opened { head, claims, trials, mut oddities, result_file } = Opened::new(directory)?;
    let trials = gather(trials, directory, &mut oddities);
    let holds_jobs = || oddities.iter().any(|oddity| oddity.what == What::NestedJob);
    if head.generation == Generation::Unknown && trials.is_empty() && holds_jobs() {
        return Err(JobError::HoldsJobs { path: directory.to_owned() });
    }
    let mut odd = Odd::default();
    // A job that was stopped in the middle wrote its result some trials ago; that is no oddity.
    let stands_still = head.state == JobState::Finished;
    let lost = claims.check(&trials, stands_still, &mut odd);
    let tally: Tally = trials.iter().collect();
    let found = tally.seen() + lost.len();
    let pending = head.planned.map(|planned| planned.saturating_sub(found));
    if let Some(planned) = head.planned.filter(|planned| *planned < found) {
        odd.add(What::MoreThanPlanned { planned, found });
    }
    if let Some(absent @ 1..) = pending.filter(|_| head.state == JobState::Finished) {
        odd.add(What::Absent(absent));
    }
    oddities.extend(odd.at(result_file));
    let (agents, tasks) = groups(&trials);
    Ok(JobView { head, pending, tally, agents, tasks, trials, lost, oddities })
}

/// Reads all trials. Copies and tries that were given up are left out, the former with a report.
fn gather(trials: Trials, job: &Path, oddities: &mut Vec<Oddity>) -> Vec<TrialView> {
    let mut seen: Vec<TrialView> = Vec::with_capacity(trials.size_hint().0);
    let mut by_name: HashMap<String, usize> = HashMap::with_capacity(seen.capacity());
    let mut given_up: HashSet<PathBuf> = HashSet::new();
    for entry in trials {
        let mut trial = match entry {
            TrialEntry::Trial(trial) => *trial,
            TrialEntry::Odd(oddity) => {
                oddities.push(oddity);
                continue;
            }
        };
        let path = shown(&trial, job);
        oddities.extend(trial.oddities.iter().map(|Oddity { path: file, what }| {
            let path = if file.is_empty() { path.clone() } else { format!("{path}/{file}") };
            Oddity { path, what: what.clone() }
        }));
        given_up.extend(trial.retries.iter().map(|earlier| job.join(&earlier.trial)));
        match by_name.get(&trial.name) {
            None => {
                by_name.insert(trial.name.clone(), seen.len());
                seen.push(trial);
            }
            Some(&index) => {
                // The directory that has the trial's name counts, else the first.
                if trial.directory.file_name() == Some(trial.name.as_ref()) {
                    std::mem::swap(&mut seen[index], &mut trial);
                }
                let of = shown(&seen[index], job);
                let equal = is_equal(&seen[index], &trial);
                let what = if equal { What::EqualCopy { of } } else { What::DifferentCopy { of } };
                oddities.push(Oddity { path: shown(&trial, job), what });
            }
        }
    }
    if !given_up.is_empty() {
        seen.retain(|trial| !given_up.contains(&trial.directory));
    }
    seen
}

/// The path of a trial below its job.
fn shown(trial: &TrialView, job: &Path) -> String {
    trial.directory.strip_prefix(job).unwrap_or(&trial.directory).to_string_lossy().into_owned()
}

/// Whether two directories say the same about a trial.
fn is_equal(a: &TrialView, b: &TrialView) -> bool {
    let said =
        |trial: &TrialView| TrialView { directory: PathBuf::new(), oddities: Vec::new(), ..trial.clone() };
    said(a) == said(b)
}

fn groups(trials: &[TrialView]) -> (Vec<AgentTally>, Vec<TaskTally>) {
    let mut agents: BTreeMap<AgentName, Tally> = BTreeMap::new();
    let mut tasks: BTreeMap<Option<&str>, Tally> = BTreeMap::new();
    for trial in trials {
        let name = AgentName { agent: trial.agent.clone(), model: trial.model.clone() };
        agents.entry(name).or_default().add(trial);
        tasks.entry(trial.task.as_deref()).or_default().add(trial);
    }
    let agents = agents.into_iter().map(|(name, tally)| AgentTally { name, tally }).collect();
    let tasks =
        tasks.into_iter().map(|(task, tally)| TaskTally { task: task.map(str::to_owned), tally }).collect();
    (agents, tasks)
}

impl JobView {
    /// Trials without any result: incomplete, running, lost and pending ones.
    pub fn open(&self) -> usize {
        self.tally.incomplete + self.tally.running + self.lost.len() + self.pending.unwrap_or(0)
    }
}
