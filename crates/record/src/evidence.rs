//! Public evidence about candidates: who solved them, and how often.

use serde::{Deserialize, Serialize};

/// One published agent run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trajectory {
    /// The task it was run on, as given; it need not be a known task.
    pub instance_id: String,
    /// The model's name as published; some rows have none.
    #[serde(default)]
    pub model: Option<String>,
    /// Whether the run solved the task.
    pub resolved: bool,
    /// Identity of the run; the same run may be published in several encodings.
    pub traj_id: String,
}

/// The mean reward that rollouts reached on one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RewardMean {
    /// Task id or commit hash, as given.
    pub instance_id_or_commit_hash: String,
    /// Mean reward in `[0, 1]`.
    pub reward_mean: f64,
}

/// What is known about the image of one task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageState {
    /// The task, as given.
    pub task_id: String,
    /// State of its image.
    pub status: ImageStatus,
}

/// State of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum ImageStatus {
    /// It is there.
    Completed,
    /// It was left out on purpose.
    Skipped,
    /// Nothing is known yet.
    #[default]
    Pending,
}

impl ImageStatus {
    /// The word in rows and documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Skipped => "skipped",
            Self::Pending => "pending",
        }
    }
}
