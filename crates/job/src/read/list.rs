//! The jobs in a directory.

use std::path::{Path, PathBuf};

use super::Oddity;
use super::document::{Directory, Document};
use super::harbor::{ConfigDocument, ResultDocument};
use super::oddity::{Odd, What};
use super::terminal_bench::{METADATA, RESULTS};
use super::trial::open;
use crate::{CLAIM_FILE, JobError};

/// What only the directory of a job has.
const MARKS: [&str; 4] = [CLAIM_FILE, "job.log", METADATA, "tb.lock"];

/// Where a result lies, of a job or of a trial.
const RESULT_FILES: [&str; 2] = ["result.json", RESULTS];

/// So many directories are looked into for a trial.
const LOOKED_INTO: usize = 100;

/// The jobs of a directory.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Listing {
    /// The directories of jobs, in the order of their names.
    pub jobs: Vec<PathBuf>,
    /// Links, and directories that are no jobs.
    pub oddities: Vec<Oddity>,
}

/// Finds the jobs that lie side by side in `directory`. None of them is read.
pub fn list_jobs(directory: &Path) -> Result<Listing, JobError> {
    let opened = open(directory)?;
    let entries = opened.entries().map_err(|source| JobError::Io { path: directory.to_owned(), source })?;
    let mut listing = Listing::default();
    for name in entries.directories {
        let shown = name.to_string_lossy().into_owned();
        if shown.starts_with('.') {
            continue;
        }
        match opened.child(&name) {
            Ok(job) if holds_job(&job) => listing.jobs.push(directory.join(&name)),
            Ok(_) => listing.oddities.push(Oddity { path: shown, what: What::NotAJob }),
            Err(error) => {
                let what = What::Unreadable(error.to_string());
                listing.oddities.push(Oddity { path: shown, what });
            }
        }
    }
    for name in entries.others {
        let path = name.to_string_lossy().into_owned();
        listing.oddities.push(Oddity { path, what: What::NotPlain });
    }
    Ok(listing)
}

/// Whether a directory is a job's: its documents say so, or trials lie in it.
pub fn is_job(path: &Path) -> bool {
    open(path).is_ok_and(|directory| holds_job(&directory))
}

fn holds_job(directory: &Directory) -> bool {
    if MARKS.iter().any(|mark| directory.has(mark)) {
        return true;
    }
    match kind(directory) {
        Some(Kind::Job) => return true,
        Some(Kind::Trial) => return false,
        None => {}
    }
    let below = directory.entries().map(|entries| entries.directories).unwrap_or_default();
    below.iter().take(LOOKED_INTO).any(|name| {
        directory.child(name).is_ok_and(|child| {
            match kind(&child) {
                Some(kind) => kind == Kind::Trial,
                // Half a result is one too.
                None => RESULT_FILES.iter().any(|file| child.has(file)),
            }
        })
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Job,
    Trial,
}

/// What the documents in a directory say it is.
fn kind(directory: &Directory) -> Option<Kind> {
    let mut buffer = Vec::new();
    let mut odd = Odd::default();
    let config = directory.document::<ConfigDocument>("config.json", &mut buffer, &mut odd);
    if let Document::Whole(config) = config {
        if config.job_name.is_there() {
            return Some(Kind::Job);
        }
        if config.trial_name.is_there() {
            return Some(Kind::Trial);
        }
    }
    for file in RESULT_FILES {
        let result = directory.document::<ResultDocument>(file, &mut buffer, &mut odd);
        if let Document::Whole(result) = result {
            if result.n_total_trials.is_there() || result.results.is_there() {
                return Some(Kind::Job);
            }
            if result.trial_name.is_there() {
                return Some(Kind::Trial);
            }
        }
    }
    None
}
