//! Who runs a job: a lock on a file in its directory, which the system releases when the process dies.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use crate::JobError;

/// The file in a job's directory that is locked while the job runs.
pub const CLAIM_FILE: &str = ".lock";

/// Asking whether a job runs takes the lock for a moment, so a claim is tried a few times.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(5);

/// The right to run a job; it ends when the value is dropped or the process dies, however it dies.
#[derive(Debug)]
pub struct JobClaim {
    _file: File,
}

/// Claims the job in `directory`, which must exist.
///
/// Fails with [`JobError::Claimed`] while another process or another claim of this process holds it.
pub fn claim(directory: &Path) -> Result<JobClaim, JobError> {
    let path = directory.join(CLAIM_FILE);
    let io = |source| JobError::Io { path: path.clone(), source };
    let mut options = artifact::no_follow();
    let file = options.create(true).truncate(false).write(true).mode(0o644).open(&path).map_err(io)?;
    for again in (0..TRIES).rev() {
        match file.try_lock() {
            Ok(()) => return Ok(JobClaim { _file: file }),
            Err(TryLockError::WouldBlock) if again > 0 => std::thread::sleep(PAUSE),
            Err(TryLockError::WouldBlock) => break,
            Err(TryLockError::Error(source)) => return Err(io(source)),
        }
    }
    Err(JobError::Claimed { directory: directory.to_owned() })
}

/// Says whether somebody runs the job in `directory`; `None` when nobody ever claimed it, as with Harbor's own jobs.
pub fn is_running(directory: &Path) -> Result<Option<bool>, JobError> {
    let path = directory.join(CLAIM_FILE);
    let io = |source| JobError::Io { path: path.clone(), source };
    let file = match artifact::no_follow().read(true).open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(io(source)),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(Some(false)),
        Err(TryLockError::WouldBlock) => Ok(Some(true)),
        Err(TryLockError::Error(source)) => Err(io(source)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_seen_until_it_ends() {
        let directory = tempfile::tempdir().unwrap();
        let job = directory.path();
        assert_eq!(is_running(job).unwrap(), None);
        let held = claim(job).unwrap();
        assert_eq!(is_running(job).unwrap(), Some(true));
        let refused = claim(job).unwrap_err();
        assert!(matches!(refused, JobError::Claimed { .. }), "{refused}");
        drop(held);
        assert_eq!(is_running(job).unwrap(), Some(false));
        claim(job).unwrap();
    }

    #[test]
    fn asking_never_stops_a_claim() {
        let directory = tempfile::tempdir().unwrap();
        let job = directory.path().to_owned();
        drop(claim(&job).unwrap());
        let asked = job.clone();
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let stopped = stop.clone();
        let asking = std::thread::spawn(move || {
            while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
                is_running(&asked).unwrap();
            }
        });
        for _ in 0..200 {
            claim(&job).unwrap();
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        asking.join().unwrap();
    }

    #[test]
    fn a_link_in_place_of_the_file_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let elsewhere = directory.path().join("elsewhere");
        std::os::unix::fs::symlink(&elsewhere, directory.path().join(CLAIM_FILE)).unwrap();
        assert!(claim(directory.path()).is_err());
        assert!(is_running(directory.path()).is_err());
        assert!(!elsewhere.exists());
    }
}
