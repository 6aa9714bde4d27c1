//! Why a job or a trial could not be carried out at all. What goes wrong inside a trial is an outcome, not an error.

use std::path::PathBuf;

/// Why a job or a trial could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The task directory cannot be used.
    #[error(transparent)]
    Task(#[from] task::TaskError),
    /// Files of the job could not be written or read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// A document of the job could not be written.
    #[error(transparent)]
    Artifact(#[from] artifact::ArtifactError),
    /// A document of the job has no JSON form.
    #[error("a result cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// Images or layers could not be prepared.
    #[error(transparent)]
    Image(#[from] image::ImageError),
    /// The job's directory belongs to somebody else.
    #[error(transparent)]
    Job(#[from] job::JobError),
    /// The directory holds another job.
    #[error("{} is another job: {}", directory.display(), differences.join("; "))]
    OtherJob {
        /// The directory.
        directory: PathBuf,
        /// How it differs.
        differences: Vec<String>,
    },
    /// The directory is none of ours.
    #[error("{} is not a job of Seatrial: there is {} in it", directory.display(), found.display())]
    NotOurs {
        /// The directory.
        directory: PathBuf,
        /// What was found.
        found: PathBuf,
    },
    /// The trial was not let in.
    #[error(transparent)]
    Refused(#[from] crate::Refused),
}
