//! Images of tasks: built once, however many trials want them.

use async_trait::async_trait;
use image::RootImage;
use record::Reason;

use crate::TrialTask;

/// Gives the root file system that a task's environment starts from.
#[async_trait]
pub trait Images: Send + Sync {
    /// The root file system, built or fetched when it is not there yet; calls for one image run one at a time.
    async fn root(&self, task: &TrialTask) -> Result<RootImage, (Reason, String)>;
}
