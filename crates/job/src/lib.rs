//! The documents of jobs and trials on disk: Harbor 0.26's, as written.
//!
//! Field order, nulls and number forms follow Harbor's own writer, so that its readers and people's scripts find what
//! they know. Engines that Harbor does not have are named through `import_path`, as Harbor does for foreign ones.

mod claim;
mod config;
mod error;
mod lock;
mod manifest;
mod policy;
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
pub use lock::{job_lock, trial_lock};
pub use manifest::{ArtifactEntry, ArtifactKind, ArtifactStatus, manifest_text};
pub use policy::{ExceptionPolicy, PolicyOverride, PolicyOverrides, never_retried, policy_of};
pub use reason::{ReasonRule, reason_of, rule};
pub use result::{
    AgentContext, AgentInfo, EvalStats, ExceptionInfo, JobResult, JobStats, Rewards, Span, StepResult,
    TaskPath, TrialResult, VerifierResult, python_float,
};
pub use secret::MaskedEnv;
pub use text::to_text;
pub use time::{local, utc};
pub use trial_record::{EarlierTry, Phase, PhaseOutcome, PhaseRecord, TRIAL_RECORD, TrialRecord, Usage};
