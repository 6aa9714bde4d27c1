//! A job's own documents, and its trials made ready to be read.

use std::path::{Path, PathBuf};

use super::claims::Claims;
use super::document::{Directory, Document};
use super::field::{Length, Object};
use super::harbor::generation;
use super::job::{AgentName, JobHead, JobState};
use super::job_documents::{JobConfigDocument, JobLockDocument, JobResultDocument};
use super::oddity::{Odd, What};
use super::places::places;
use super::terminal_bench::{METADATA, Metadata, RESULTS, Run, RunResults};
use super::trial::{Reader, Trials, open};
use super::view::Generation;
use super::{Moment, Oddity};
use crate::{CLAIM_FILE, JobError, is_running};

/// Seatrial's record of a job, and its schema.
const JOB_RECORD: &str = "seatrial.json";
const JOB_SCHEMA: &str = "seatrial.job/1";

/// A job that is opened: everything but its trials has been read.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) head: JobHead,
    pub(super) claims: Claims,
    pub(super) trials: Trials,
    pub(super) oddities: Vec<Oddity>,
    /// The file that makes the claims.
    pub(super) result_file: &'static str,
}

/// Reads the documents of one job.
struct Documents<'a> {
    path: &'a Path,
    directory: &'a Directory,
    buffer: Vec<u8>,
    oddities: Vec<Oddity>,
    head: JobHead,
    claims: Claims,
    run: Run,
    is_run: bool,
}

impl Opened {
    pub(super) fn new(path: &Path) -> Result<Self, JobError> {
        let directory = open(path)?;
        let mut documents = Documents {
            path,
            directory: &directory,
            buffer: Vec::new(),
            oddities: Vec::new(),
            head: empty(path),
            claims: Claims::default(),
            run: Run::default(),
            is_run: directory.has(METADATA) || directory.has(RESULTS),
        };
        let result_file = if documents.is_run { RESULTS } else { "result.json" };
        if documents.is_run {
            documents.run();
        } else {
            documents.config()?;
            documents.result()?;
            documents.lock();
            documents.record();
        }
        let running = documents.state();
        let Documents { buffer, mut oddities, head, claims, run, is_run, .. } = documents;
        let places = places(&directory, is_run, &mut oddities);
        // A link is noticed when it is to be read, and when the directory is listed.
        let mut known = Vec::with_capacity(oddities.len());
        for oddity in oddities {
            if !known.contains(&oddity) {
                known.push(oddity);
            }
        }
        let oddities = known;
        let reader = Reader { buffer, running, run };
        let trials = Trials::new(path.to_owned(), directory, places, reader);
        Ok(Self { head, claims, trials, oddities, result_file })
    }
}

impl Documents<'_> {
    fn document<T: serde::de::DeserializeOwned>(&mut self, name: &str, odd: &mut Odd) -> Option<T> {
        match self.directory.document(name, &mut self.buffer, odd) {
            Document::Whole(document) => Some(document),
            Document::Missing | Document::Refused(_) => None,
        }
    }

    fn config(&mut self) -> Result<(), JobError> {
        let mut odd = Odd::default();
        if let Some(config) = self.document::<JobConfigDocument>("config.json", &mut odd) {
            if config.trial_name.is_there() && !config.job_name.is_there() {
                return Err(JobError::IsATrial { path: self.path.to_owned() });
            }
            if let Some(name) = config.job_name.take("job_name", &mut odd) {
                self.head.name = name;
            }
            self.head.attempts = config.n_attempts.take("n_attempts", &mut odd);
            for (index, agent) in config.agents.take("agents", &mut odd).into_iter().flatten().enumerate() {
                let key = format!("agents[{index}]");
                if let Some(Object(agent)) = agent.take(&key, &mut odd) {
                    let (agent, model) = agent.names(&key, &mut odd);
                    self.head.configured.push(AgentName { agent, model });
                }
            }
        }
        self.oddities.extend(odd.at("config.json"));
        Ok(())
    }

    fn result(&mut self) -> Result<(), JobError> {
        let mut odd = Odd::default();
        if let Some(result) = self.document::<JobResultDocument>("result.json", &mut odd) {
            if result.trial_name.is_there() && !result.n_total_trials.is_there() {
                return Err(JobError::IsATrial { path: self.path.to_owned() });
            }
            self.head.generation = generation(result.schema_version, &mut odd);
            self.head.id = result.id.take("id", &mut odd);
            self.head.started_at = result.started_at.moment("started_at", &mut odd);
            self.head.updated_at = result.updated_at.moment("updated_at", &mut odd);
            self.head.finished_at = result.finished_at.moment("finished_at", &mut odd);
            self.head.planned = result.n_total_trials.take("n_total_trials", &mut odd).map(bounded);
            if let Some(Object(stats)) = result.stats.take("stats", &mut odd) {
                self.claims = Claims::from_stats(stats, &mut odd);
            }
            match result.trial_results.take("trial_results", &mut odd) {
                Some(Length(length)) if length > 0 => odd.add(What::InlineResults(length)),
                _ => {}
            }
        }
        self.oddities.extend(odd.at("result.json"));
        Ok(())
    }

    /// The lock of a large job is large, and is looked at only for what the result does not say.
    fn lock(&mut self) {
        if self.head.planned.is_some() {
            return;
        }
        let mut odd = Odd::default();
        if let Some(lock) = self.document::<JobLockDocument>("lock.json", &mut odd) {
            self.head.planned = lock.trials.take("trials", &mut odd).map(|Length(length)| length);
        }
        self.oddities.extend(odd.at("lock.json"));
    }

    /// Seatrial's own record, without which a job cannot go on. Nothing in it is shown.
    fn record(&mut self) {
        let mut odd = Odd::default();
        let record = self.document::<serde_json::Map<String, serde_json::Value>>(JOB_RECORD, &mut odd);
        if let Some(record) = record
            && let schema = record.get("schema").and_then(serde_json::Value::as_str).unwrap_or_default()
            && schema != JOB_SCHEMA
        {
            odd.add(What::OtherSchema(schema.to_owned()));
        }
        self.oddities.extend(odd.at(JOB_RECORD));
    }

    /// The documents of a run of Terminal-Bench.
    fn run(&mut self) {
        self.head.generation = Generation::TerminalBench;
        let mut odd = Odd::default();
        let mut planned = None;
        if let Some(metadata) = self.document::<Metadata>(METADATA, &mut odd) {
            self.run = metadata.run();
            if let Some(name) = metadata.run_id.take("run_id", &mut odd) {
                self.head.name = name;
            }
            self.head.id = metadata.uuid.take("uuid", &mut odd);
            self.head.started_at = metadata.start_time.moment("start_time", &mut odd);
            self.head.finished_at = metadata.end_time.moment("end_time", &mut odd);
            self.head.attempts = metadata.n_attempts.take("n_attempts", &mut odd);
            let size = metadata.dataset_size.take("dataset_size", &mut odd);
            planned =
                size.zip(self.head.attempts).map(|(size, attempts)| bounded(size.saturating_mul(attempts)));
            let agent = metadata.agent_name.take("agent_name", &mut odd);
            let model = metadata.model_name.take("model_name", &mut odd);
            self.head.configured.push(AgentName { agent, model });
        }
        self.oddities.extend(odd.at(METADATA));
        let mut odd = Odd::default();
        if let Some(results) = self.document::<RunResults>(RESULTS, &mut odd) {
            self.claims = Claims::from_run(results, &mut odd);
            planned = planned.or(Some(self.claims.len()));
        }
        self.oddities.extend(odd.at(RESULTS));
        self.head.planned = planned;
    }

    /// Works out whether the job is at work; says so.
    fn state(&mut self) -> bool {
        let running = match is_running(self.path) {
            Ok(running) => running,
            Err(error) => {
                let what = What::Unreadable(error.to_string());
                self.oddities.push(Oddity { path: CLAIM_FILE.to_owned(), what });
                None
            }
        };
        self.head.state = match (running, self.head.finished_at) {
            (Some(true), _) => JobState::Running,
            (_, Some(_)) => JobState::Finished,
            (Some(false), None) => JobState::Interrupted,
            (None, None) => JobState::Unfinished,
        };
        running == Some(true)
    }
}

fn bounded(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn empty(path: &Path) -> JobHead {
    let name = path
        .file_name()
        .map(PathBuf::from)
        .or_else(|| path.canonicalize().ok()?.file_name().map(PathBuf::from));
    JobHead {
        name: name.unwrap_or_default().to_string_lossy().into_owned(),
        directory: path.to_owned(),
        generation: Generation::Unknown,
        id: None,
        state: JobState::Unfinished,
        started_at: None::<Moment>,
        updated_at: None,
        finished_at: None,
        attempts: None,
        planned: None,
        configured: Vec::new(),
    }
}
