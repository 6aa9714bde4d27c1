//! Why a job could not be claimed or read.

use std::io;
use std::path::PathBuf;

/// Why a job could not be claimed or read.
///
/// What is wrong inside of a readable directory is no error: it is part of what was read.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// Somebody else runs the job.
    #[error("{} is being run by another process; wait until it ends", directory.display())]
    Claimed {
        /// The job's directory.
        directory: PathBuf,
    },
    /// Something else stands where a directory should be.
    #[error("{} is not a directory", path.display())]
    NotADirectory {
        /// The path.
        path: PathBuf,
    },
    /// The directory of one trial was named where a job is wanted.
    #[error("{} is the directory of one trial; name the job above it", path.display())]
    IsATrial {
        /// The path.
        path: PathBuf,
    },
    /// A directory of jobs was named where one job is wanted.
    #[error("{} is a directory of jobs; name one of them", path.display())]
    HoldsJobs {
        /// The path.
        path: PathBuf,
    },
    /// The directory of a job was named where a trial is wanted.
    #[error("{} is the directory of a job; name one of the trials in it", path.display())]
    IsAJob {
        /// The path.
        path: PathBuf,
    },
}
