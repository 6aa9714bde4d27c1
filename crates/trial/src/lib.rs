//! One trial's life, job directories, scheduling.
//!
//! Task directories and an engine come in; Harbor-compatible job directories and one [`TrialReport`] a trial go out. A trial
//! ends with a reward or with a typed reason why there is none, never with a silent zero; its sandbox is gone when it ends;
//! result files appear whole or not at all.

mod agent;
mod budget;
mod error;
mod event;
mod files;
mod images;
mod jobs;
mod life;
mod name;
mod outcome;
mod rewards;
mod schedule;
mod trial_task;

pub use crate::agent::{Agent, Model, Script};
pub use budget::{Budget, Budgets};
pub use error::TrialError;
pub use event::Event;
pub use images::{
    ClusterImages, DockerImages, EnvironmentSource, ImageOutcome, Images, ImagesConfig, LocalImages,
    Mirrored, NoRoot,
};
pub use jobs::{
    Job, JobIdentity, JobSpec, NameTaken, Plan, PlannedTrial, Ran, Rerun, Resources, TrialReport,
    distinct_names, job_id, job_settings, resumable,
};
pub use outcome::{failed, policy};
pub use schedule::{Admission, AdmissionLimits, Refused};
pub use trial_task::TrialTask;
