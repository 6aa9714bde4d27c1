//! The documents of jobs and trials on disk: written as Harbor 0.26 writes them, read whoever wrote them.
//!
//! Values come in and files' texts go out; directories come in and views go out. What is written has Harbor's field order,
//! nulls and number forms, so that its readers and people's scripts find what they know; engines that Harbor does not have are
//! named through `import_path`, as it does for foreign ones; secrets never get in. What is read may be anything: every
//! oddity is reported with its place, no link is followed, reading is bounded, and what is not known is not made up.
//!
//! Beside Harbor's documents there are Seatrial's own record of a trial, [`TrialRecord`], and the claim by which a job that
//! is being run is told from one that was broken off.

mod claim;
mod config;
mod error;
mod lock;
mod manifest;
mod policy;
mod read;
mod reason;
mod result;
mod secret;
mod text;
mod time;
mod trial_record;

pub use claim::{CLAIM_FILE, JobClaim, claim, is_running};
pub use config::{
    AgentConfig, EnvironmentConfig, JobConfig, RetryConfig, TaskConfig, TrialConfig, VerifierConfig,
};
pub use error::JobError;
pub use lock::{job_lock_text, trial_lock};
pub use manifest::{ArtifactEntry, ArtifactKind, ArtifactStatus, manifest_text};
pub use policy::{ExceptionPolicy, PolicyOverride, never_retried, policy_of};
pub use read::{
    AgentName, AgentTally, Directory, Entries, Failure, Generation, Incomplete, JobHead, JobState, JobView,
    Listing, LostTrial, Mean, Moment, Oddity, PhaseView, StepView, Tally, TaskTally, TimeError, Tokens,
    TrialEntry, TrialState, TrialView, Trials, What, is_job, is_marked, list_jobs, read_job, read_trial,
    trials,
};
pub use reason::{ReasonRule, reason_of, rule};
pub use result::{
    AgentContext, AgentInfo, EvalStats, ExceptionInfo, JobResult, JobStats, ModelInfo, ModelUsage, Rewards,
    Span, StepResult, TaskPath, TrialResult, VerifierResult, python_float,
};
pub use secret::MaskedEnv;
pub use text::to_text;
pub use time::{local, utc};
pub use trial_record::{
    EarlierTry, Flag, ModelWork, Phase, PhaseOutcome, PhaseRecord, TRIAL_RECORD, TrialRecord, Usage,
};
