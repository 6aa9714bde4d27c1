//! Why a job or a trial could not be carried out at all. What goes wrong inside a trial is an outcome, not an error.

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
}
