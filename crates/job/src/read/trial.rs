//! Reading one trial's directory, and all of a job's one after the other.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use record::Outcome;

use super::Oddity;
use super::document::{Directory, Document};
use super::field::Time;
use super::harbor::{ConfigDocument, ResultDocument, Said};
use super::oddity::{Odd, What};
use super::outcome::REWARD;
use super::places::Place;
use super::terminal_bench::{METADATA, Metadata, RESULTS, Run, TrialResults};
use super::view::{Generation, Incomplete, PhaseView, TrialState, TrialView};
use crate::{JobError, TRIAL_RECORD, TrialRecord, is_running, rule};

/// Whatever of this a directory holds, a trial was there.
const MARKS: [&str; 10] = [
    "config.json",
    "result.json",
    RESULTS,
    TRIAL_RECORD,
    "lock.json",
    "trial.log",
    "agent",
    "verifier",
    "artifacts",
    "steps",
];

/// Where a reward may lie that no result counts.
const REWARD_FILES: [&str; 4] = ["reward.json", "reward.txt", "verifier/reward.json", "verifier/reward.txt"];

/// Reads the trial in `directory`.
///
/// Only a directory that cannot be opened, or that is a job's, is an error; everything else is in the view.
pub fn read_trial(directory: &Path) -> Result<TrialView, JobError> {
    let opened = open(directory)?;
    let above = directory.join("..");
    let mut odd = Odd::default();
    // A run of Terminal-Bench has its trials two levels down.
    let run = Directory::open(&above.join("..")).ok().and_then(|run| {
        match run.document::<Metadata>(METADATA, &mut Vec::new(), &mut odd) {
            Document::Whole(metadata) => Some(metadata.run()),
            _ => None,
        }
    });
    let running = is_running(&above).ok().flatten().unwrap_or(false);
    let mut reader = Reader { buffer: Vec::new(), running, run: run.unwrap_or_default() };
    let name = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    let name = name.file_name().unwrap_or_default();
    reader
        .trial(&opened, name, directory.to_owned())
        .ok_or_else(|| JobError::IsAJob { path: directory.to_owned() })
}

/// Opens a directory that the user named.
pub(super) fn open(path: &Path) -> Result<Directory, JobError> {
    Directory::open(path).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotADirectory => JobError::NotADirectory { path: path.to_owned() },
        _ => JobError::Io { path: path.to_owned(), source },
    })
}

/// Whether a directory holds anything that a trial writes.
pub fn is_marked(directory: &Directory) -> bool {
    MARKS.iter().any(|mark| directory.has(mark))
}

/// What all trials of a job have in common.
#[derive(Debug)]
pub(super) struct Reader {
    /// Working space for documents.
    pub(super) buffer: Vec<u8>,
    /// Whether the job is being run.
    pub(super) running: bool,
    /// What a run of Terminal-Bench says about its trials.
    pub(super) run: Run,
}

impl Reader {
    /// Reads a trial; `None` for the directory of a job.
    pub(super) fn trial(&mut self, directory: &Directory, name: &OsStr, path: PathBuf) -> Option<TrialView> {
        let name = name.to_string_lossy().into_owned();
        let mut trial = empty(name.clone(), path);
        let mut odd = Odd::default();
        let mut file = "result.json";
        let said = match self.document::<ResultDocument>(directory, file, &mut odd) {
            Document::Whole(result) if result.n_total_trials.is_there() || result.results.is_there() => {
                return None;
            }
            Document::Whole(result) => Some(result.said(&mut odd)),
            Document::Refused(what) => {
                trial.state = TrialState::Incomplete { cause: Incomplete::from_fault(&what) };
                None
            }
            Document::Missing => {
                file = RESULTS;
                match self.document::<TrialResults>(directory, file, &mut odd) {
                    Document::Whole(results) if results.results.is_there() => return None,
                    Document::Whole(results) => {
                        let (said, tests) = results.said(&self.run, &mut odd);
                        trial.tests = tests;
                        Some(said)
                    }
                    Document::Refused(what) => {
                        trial.state = TrialState::Incomplete { cause: Incomplete::from_fault(&what) };
                        None
                    }
                    Document::Missing => {
                        if self.running {
                            trial.state = TrialState::Running;
                        }
                        None
                    }
                }
            }
        };
        let ended = said.is_some();
        let said = said.unwrap_or_else(|| self.unended(directory, &mut trial));
        if let Some(other) = said.name.as_ref().filter(|other| **other != name) {
            odd.add(What::OtherName(other.clone()));
        }
        trial.take(said);
        trial.oddities.extend(odd.at(file));
        self.record(directory, ended, &mut trial);
        if trial.wall_ms.is_none()
            && let (Some(start), Some(end)) = (trial.started_at, trial.finished_at)
        {
            trial.wall_ms = end.milliseconds_since(start);
        }
        Some(trial)
    }

    /// What the configuration says of a trial without a result, and what lies around without one.
    fn unended(&mut self, directory: &Directory, trial: &mut TrialView) -> Said {
        let mut add = |path: &str, what| trial.oddities.push(Oddity { path: path.to_owned(), what });
        if trial.state != TrialState::Running {
            if !is_marked(directory) {
                add("", What::NothingOfATrial);
            }
            for name in REWARD_FILES.into_iter().filter(|name| directory.has(name)) {
                add(name, What::StrayReward);
            }
        }
        let mut odd = Odd::default();
        let said = match self.document::<ConfigDocument>(directory, "config.json", &mut odd) {
            Document::Whole(config) => config.said("", &mut odd),
            _ => Said::default(),
        };
        trial.oddities.extend(odd.at("config.json"));
        said
    }

    /// Adds what Seatrial's own record says, where it agrees with the result.
    fn record(&mut self, directory: &Directory, ended: bool, trial: &mut TrialView) {
        let mut odd = Odd::default();
        if let Document::Whole(record) = self.document::<TrialRecord>(directory, TRIAL_RECORD, &mut odd) {
            if !ended {
                if trial.state != TrialState::Running {
                    odd.add(What::RecordWithoutResult);
                }
            } else if let Some(what) = difference(trial, &record) {
                odd.add(what);
            } else {
                trial.adopt(record, &mut odd);
            }
        }
        trial.oddities.extend(odd.at(TRIAL_RECORD));
    }

    fn document<T: serde::de::DeserializeOwned>(
        &mut self,
        directory: &Directory,
        name: &str,
        odd: &mut Odd,
    ) -> Document<T> {
        directory.document(name, &mut self.buffer, odd)
    }
}

/// What a record says that the result contradicts.
fn difference(trial: &TrialView, record: &TrialRecord) -> Option<What> {
    use artifact::Document as _;
    if record.schema != TrialRecord::SCHEMA {
        return Some(What::OtherSchema(record.schema.clone()));
    }
    let differs = |key, record: String, result: String| Some(What::RecordDiffers { key, record, result });
    if record.trial != trial.name {
        return differs("trial", record.trial.clone(), trial.name.clone());
    }
    // A reward may stand beside a failure, in both documents or in none.
    let named = record.rewards.as_ref().and_then(|rewards| rewards.get(REWARD)?.as_f64());
    let (reward, reason) = match &record.outcome {
        Outcome::Reward(reward) => (Some(*reward), record.exception),
        Outcome::Failed { reason, .. } => (named, Some(*reason)),
    };
    let said = (reward, reason.map(|reason| rule(reason).exception.to_owned()));
    let failure = trial.state.failure().map(|failure| failure.exception.clone());
    let result = (trial.rewards.get(REWARD).copied(), failure);
    if said == result {
        return None;
    }
    let show = |(reward, exception): (Option<f64>, Option<String>)| {
        let parts = [reward.map(|reward| format!("reward {reward}")), exception];
        parts
            .into_iter()
            .flatten()
            .reduce(|a, b| format!("{a} and {b}"))
            .unwrap_or_else(|| "nothing".to_owned())
    };
    differs("outcome", show(said), show(result))
}

fn empty(name: String, directory: PathBuf) -> TrialView {
    TrialView {
        name,
        directory,
        generation: Generation::Unknown,
        id: None,
        task: None,
        source: None,
        task_checksum: None,
        agent: None,
        agent_version: None,
        model: None,
        provider: None,
        attempt: None,
        engine: None,
        image_digest: None,
        state: TrialState::Incomplete { cause: Incomplete::NoResult },
        rewards: std::collections::BTreeMap::new(),
        flags: Vec::new(),
        tests: std::collections::BTreeMap::new(),
        started_at: None,
        finished_at: None,
        wall_ms: None,
        phases: Vec::new(),
        steps: Vec::new(),
        tokens: super::Tokens::default(),
        usage: crate::Usage::default(),
        retries: Vec::new(),
        oddities: Vec::new(),
    }
}

impl TrialView {
    fn take(&mut self, said: Said) {
        if let Some(name) = said.name {
            self.name = name;
        }
        if let Some(generation) = said.generation {
            self.generation = generation;
        }
        if let Some(state) = said.state {
            self.state = state;
        }
        self.id = said.id;
        self.task = said.task;
        self.source = said.source;
        self.task_checksum = said.task_checksum;
        self.agent = said.agent;
        self.agent_version = said.agent_version;
        self.model = said.model;
        self.provider = said.provider;
        self.engine = said.engine;
        self.rewards = said.rewards;
        self.started_at = said.started_at;
        self.finished_at = said.finished_at;
        self.phases = said.phases;
        self.steps = said.steps;
        self.tokens = said.tokens;
    }

    /// Takes over what a record knows better than the result.
    fn adopt(&mut self, record: TrialRecord, odd: &mut Odd) {
        let failure = match &mut self.state {
            TrialState::Errored { failure } | TrialState::Rewarded { failure: Some(failure), .. } => {
                Some(failure)
            }
            _ => None,
        };
        match (failure, record.outcome, record.exception) {
            (Some(failure), Outcome::Failed { reason, class, retryable, detail }, _) => {
                failure.reason = Some(reason);
                failure.class = Some(class);
                failure.retryable = retryable;
                failure.message = detail;
            }
            (Some(failure), Outcome::Reward(_), Some(reason)) => {
                failure.reason = Some(reason);
                failure.class = Some(rule(reason).class);
                failure.retryable = rule(reason).retryable;
            }
            _ => {}
        }
        self.task = Some(record.task);
        self.attempt = Some(record.attempt);
        self.engine = Some(record.engine);
        self.image_digest = record.image_digest;
        self.flags = record.flags;
        self.tests = record.tests;
        self.usage = record.usage;
        self.wall_ms = Some(record.wall_ms);
        self.retries = record.retries;
        let mut moment = |key: String, text: &str| Time::of(text).moment(&key, odd);
        self.phases = record
            .phases
            .into_iter()
            .enumerate()
            .map(|(index, phase)| PhaseView {
                phase: phase.phase,
                started_at: moment(format!("phases[{index}].started_at"), &phase.started_at),
                finished_at: phase
                    .finished_at
                    .and_then(|text| moment(format!("phases[{index}].finished_at"), &text)),
                outcome: Some(phase.outcome),
                step: phase.step,
            })
            .collect();
    }
}

/// The trials of a job, one after the other in the order of their directories' names.
///
/// No more than one of them is in memory.
#[derive(Debug)]
pub struct Trials {
    path: PathBuf,
    directory: Directory,
    places: std::vec::IntoIter<Place>,
    reader: Reader,
}

/// What came of reading one directory of a job.
#[derive(Debug)]
pub enum TrialEntry {
    /// A trial.
    Trial(Box<TrialView>),
    /// Something else, or a trial that cannot be opened.
    Odd(Oddity),
}

impl Trials {
    pub(super) fn new(path: PathBuf, directory: Directory, places: Vec<Place>, reader: Reader) -> Self {
        Self { path, directory, places: places.into_iter(), reader }
    }

    fn read(&mut self, place: &Place) -> TrialEntry {
        let mut relative = PathBuf::new();
        relative.extend(&place.above);
        relative.push(&place.name);
        let shown = relative.to_string_lossy().into_owned();
        let odd = |what| TrialEntry::Odd(Oddity { path: shown.clone(), what });
        let opened = match &place.above {
            Some(above) => self.directory.child(above).and_then(|above| above.child(&place.name)),
            None => self.directory.child(&place.name),
        };
        let directory = match opened {
            Ok(directory) => directory,
            Err(error) => return odd(What::Unreadable(error.to_string())),
        };
        match self.reader.trial(&directory, &place.name, self.path.join(&relative)) {
            Some(trial) => TrialEntry::Trial(Box::new(trial)),
            None => odd(What::NestedJob),
        }
    }
}

impl Iterator for Trials {
    type Item = TrialEntry;

    fn next(&mut self) -> Option<TrialEntry> {
        let place = self.places.next()?;
        Some(self.read(&place))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.places.size_hint()
    }
}
