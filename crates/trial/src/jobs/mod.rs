//! Jobs: what they are to run, their directory, their running count, and how they go on after a stop.

mod directory;
mod documents;
mod identity;
mod plan;
mod running;
mod tally;

pub(crate) use directory::JobDirectory;
pub use directory::{job_id, job_settings, resumable};
pub(crate) use documents::{agent_context, exception_info};
pub use identity::JobIdentity;
pub use plan::{NameTaken, Plan, PlannedTrial, distinct_names};
pub use running::{Job, JobSpec, Ran, Rerun, Resources, TrialReport};
