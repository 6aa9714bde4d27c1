//! A job's directory: claimed by one process, found again after a stop, with a log that only grows.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use artifact::Document;
use fs_err as fs;
use jiff::Timestamp;
use job::{JobClaim, TrialRecord};
use serde::{Deserialize, Serialize};

use crate::TrialError;
use crate::jobs::{JobIdentity, PlannedTrial};

/// Name of the job's own record.
const RECORD: &str = "seatrial.json";
/// Where earlier tries of a trial are kept.
const EARLIER: &str = ".earlier";
/// No record of a trial comes near this size.
const RECORD_LIMIT: u64 = 64 << 20;

/// What a job is, kept in its directory.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct JobRecord {
    schema: String,
    pub(crate) id: String,
    /// RFC 3339.
    pub(crate) started_at: Timestamp,
    pub(crate) identity: JobIdentity,
}

impl Document for JobRecord {
    const SCHEMA: &'static str = "seatrial.job/1";
    const STAGE: &'static str = "run";
}

/// A job's directory, claimed by this process until the value is dropped or the process ends, however it ends.
#[derive(Debug)]
pub(crate) struct JobDirectory {
    path: PathBuf,
    pub(crate) record: JobRecord,
    log: Mutex<File>,
    _claim: JobClaim,
}

impl JobDirectory {
    /// Opens the directory of a job, or creates it. A directory that holds something else, or another job, is refused.
    pub(crate) fn open(path: &Path, identity: &JobIdentity) -> Result<Self, TrialError> {
        fs::create_dir_all(path)?;
        let claim = job::claim(path)?;
        let record = match artifact::load_optional::<JobRecord>(&path.join(RECORD))? {
            Some((record, _)) => {
                let differences = identity.differences(&record.identity);
                if !differences.is_empty() {
                    return Err(TrialError::OtherJob { directory: path.to_owned(), differences });
                }
                record
            }
            None => Self::record(path, identity)?,
        };
        let log = open_log(&path.join("job.log"))?;
        Ok(Self { path: path.to_owned(), record, log: Mutex::new(log), _claim: claim })
    }

    /// Writes the record of a new job: what is written first, so that nothing of a job is ever without it.
    fn record(path: &Path, identity: &JobIdentity) -> Result<JobRecord, TrialError> {
        let foreign = fs::read_dir(path)?.filter_map(Result::ok).find(|entry| {
            let name = entry.file_name();
            !(name == job::CLAIM_FILE || artifact::is_unfinished(&name))
        });
        if let Some(entry) = foreign {
            return Err(TrialError::NotOurs { directory: path.to_owned(), found: entry.file_name().into() });
        }
        let record = JobRecord {
            schema: JobRecord::SCHEMA.into(),
            id: uuid::Uuid::new_v4().to_string(),
            started_at: Timestamp::now(),
            identity: identity.clone(),
        };
        artifact::store(&path.join(RECORD), &record)?;
        Ok(record)
    }

    /// The directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The record of a planned trial that has ended; none where it was never begun or was cut off.
    pub(crate) fn ended(&self, trial: &PlannedTrial) -> Result<Option<TrialRecord>, TrialError> {
        let directory = self.path.join(&trial.name);
        // A link in its place leads to something that no trial of this job wrote.
        match fs::symlink_metadata(&directory) {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        // The result is written last. Whatever stands there without it, or empty, was cut off.
        match fs::symlink_metadata(directory.join("result.json")) {
            Ok(metadata) if metadata.is_file() && metadata.len() > 0 => {}
            Ok(_) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        let record = directory.join(job::TRIAL_RECORD);
        let Ok(bytes) = artifact::read_bounded(&record, RECORD_LIMIT) else { return Ok(None) };
        let record: Option<TrialRecord> = serde_json::from_slice(&bytes).ok();
        Ok(record.filter(|record| {
            record.trial == trial.name
                && record.agent == trial.agent.name()
                && record.tree_digest == trial.task.digests.tree_digest
        }))
    }

    /// Makes room for a trial that was cut off. What a model had done in it stays known.
    pub(crate) fn clear(&self, trial: &str) -> io::Result<()> {
        if left_work(&self.path.join(trial)) {
            return self.set_aside(trial).map(|_| ());
        }
        match fs::remove_dir_all(self.path.join(trial)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Moves an ended trial out of the way, so that it can be tried again and what happened stays known. Returns the new place,
    /// relative to the job. Its agent's files get another name, by which no reader takes it for a trial of the job.
    pub(crate) fn set_aside(&self, trial: &str) -> io::Result<PathBuf> {
        fs::create_dir_all(self.path.join(EARLIER))?;
        for number in 1_u32.. {
            let place = Path::new(EARLIER).join(format!("{trial}.{number}"));
            let target = self.path.join(&place);
            if target.symlink_metadata().is_ok() {
                continue;
            }
            fs::rename(self.path.join(trial), &target)?;
            match fs::rename(target.join("agent"), target.join("agent-files")) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => return Ok(place),
            }
        }
        unreachable!("one of all numbers is free")
    }

    /// Whether the job has ended.
    pub(crate) fn is_finished(&self) -> bool {
        is_finished(&self.path)
    }

    /// Adds a line to `job.log`. A log that cannot be written is no reason to stop.
    pub(crate) fn log(&self, line: &str) {
        let line = format!("{} {line}\n", job::utc(Timestamp::now()));
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = log.write_all(line.as_bytes()) {
            tracing::warn!(%error, "job.log cannot be written");
        }
    }

    /// Removes temporary files that a killed process was just writing.
    pub(crate) fn sweep(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            if artifact::is_unfinished(&entry.file_name()) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }
}

/// Whether an agent that asks a model had begun in a trial's directory. No link is followed.
fn left_work(trial: &Path) -> bool {
    let is_there = |path: &Path| path.symlink_metadata().is_ok_and(|metadata| !metadata.is_symlink());
    let agent = trial.join("agent");
    is_there(trial)
        && is_there(&agent)
        && ["trajectory.json", "spec.json"].iter().any(|file| is_there(&agent.join(file)))
}

/// Opens a log that grows. No link is followed, and a pipe under the name does not block.
fn open_log(path: &Path) -> io::Result<File> {
    let opened = artifact::no_follow().create(true).append(true).open(path);
    opened.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

/// The identifier of the job in a directory; none where there is no job of ours.
pub fn job_id(directory: &Path) -> Result<Option<String>, TrialError> {
    Ok(artifact::load_optional::<JobRecord>(&directory.join(RECORD))?.map(|(record, _)| record.id))
}

/// What was set for the job in a directory beside tasks, agents and engine, by name; none where there is no job of ours.
pub fn job_settings(directory: &Path) -> Result<Option<BTreeMap<String, String>>, TrialError> {
    let record = artifact::load_optional::<JobRecord>(&directory.join(RECORD))?;
    Ok(record.map(|(record, _)| record.identity.settings))
}

/// The job below `jobs_dir` that has this identity, belongs to no living process and is not finished, unless finished ones are
/// wanted too: the last one by name.
pub fn resumable(jobs_dir: &Path, identity: &JobIdentity, finished_too: bool) -> Option<String> {
    let mut names: Vec<_> =
        std::fs::read_dir(jobs_dir).ok()?.filter_map(|entry| Some(entry.ok()?.file_name())).collect();
    names.sort();
    names.into_iter().rev().find_map(|name| {
        let path = jobs_dir.join(&name);
        let (record, _) = artifact::load_optional::<JobRecord>(&path.join(RECORD)).ok()??;
        let open = record.identity == *identity
            && (finished_too || !is_finished(&path))
            && !job::is_running(&path).is_ok_and(|running| running == Some(true));
        if open { name.into_string().ok() } else { None }
    })
}

/// Whether a job's result says when it ended.
fn is_finished(job: &Path) -> bool {
    #[derive(Deserialize)]
    struct Head {
        finished_at: Option<String>,
    }
    artifact::read_bounded(&job.join("result.json"), RECORD_LIMIT)
        .ok()
        .and_then(|bytes| serde_json::from_slice::<Head>(&bytes).ok())
        .is_some_and(|head| head.finished_at.is_some())
}
