//! One trial's life, job directories, scheduling.
//!
//! Task directories and an engine come in; Harbor-compatible job directories and one [`TrialReport`] a trial go out. A trial
//! ends with a reward or with a typed reason why there is none, never with a silent zero; its sandbox is gone when it ends;
//! result files appear whole or not at all.

mod agent;
mod bases;
mod environment;
mod error;
mod event;
mod files;
mod job;
mod life;
mod name;
mod outcome;
mod rewards;
mod trial_task;

pub use self::job::{Job, JobSpec, TrialReport};
pub use ::job::{ReasonRule, rule};
pub use agent::Agent;
pub use environment::{EnvironmentSource, ImageOutcome, Images, ImagesConfig, LocalImages};
pub use error::TrialError;
pub use event::Event;
pub use outcome::{failed, policy};
pub use trial_task::TrialTask;
