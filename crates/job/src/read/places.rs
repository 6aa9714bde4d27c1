//! Which directories below a job's are its trials.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use super::Oddity;
use super::document::{Directory, Entries};
use super::oddity::What;
use super::terminal_bench::RESULTS;
use super::trial::is_marked;

/// What only a job writes into its directory, or writes there too.
const JOB_FILES: [&str; 4] = ["config.json", "result.json", "lock.json", "job.log"];

/// A directory of a trial below that of its job: one name, or two in a run of Terminal-Bench.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) above: Option<OsString>,
    pub(super) name: OsString,
}

/// Finds the directories of the trials: every directory that is not hidden, or in a run of Terminal-Bench every directory in
/// one. Links are reported and not followed.
pub(super) fn places(directory: &Directory, is_run: bool, oddities: &mut Vec<Oddity>) -> Vec<Place> {
    let listed = list(directory, "", oddities);
    if !is_run && !looks_like_a_run(directory, &listed.directories) {
        return listed.directories.into_iter().map(|name| Place { above: None, name }).collect();
    }
    let mut places = Vec::new();
    for task in listed.directories {
        let shown = task.to_string_lossy().into_owned();
        match directory.child(&task) {
            Ok(below) => places.extend(
                list(&below, &shown, oddities)
                    .directories
                    .into_iter()
                    .map(|name| Place { above: Some(task.clone()), name }),
            ),
            Err(error) => {
                oddities.push(Oddity { path: shown, what: What::Unreadable(error.to_string()) });
            }
        }
    }
    places
}

/// The entries of a directory without the hidden ones.
fn list(directory: &Directory, shown: &str, oddities: &mut Vec<Oddity>) -> Entries {
    let mut entries = match directory.entries() {
        Ok(entries) => entries,
        Err(error) => {
            oddities.push(Oddity { path: shown.to_owned(), what: What::Unreadable(error.to_string()) });
            Entries::default()
        }
    };
    entries.directories.retain(|name| !name.as_bytes().starts_with(b"."));
    for other in &entries.others {
        let name = other.to_string_lossy();
        let path = if shown.is_empty() { name.into_owned() } else { format!("{shown}/{name}") };
        oddities.push(Oddity { path, what: What::NotPlain });
    }
    entries
}

/// A run of Terminal-Bench that lost its own documents: directories of nothing but directories with results.
fn looks_like_a_run(directory: &Directory, tasks: &[OsString]) -> bool {
    if JOB_FILES.iter().any(|file| directory.has(file)) {
        return false;
    }
    let mut found = false;
    for task in tasks {
        let Ok(task) = directory.child(task) else { continue };
        if is_marked(&task) {
            return false;
        }
        let trials = task.entries().map(|entries| entries.directories).unwrap_or_default();
        found |= trials.iter().any(|trial| task.child(trial).is_ok_and(|trial| trial.has(RESULTS)));
    }
    found
}
