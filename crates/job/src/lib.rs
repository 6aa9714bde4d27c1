//! The documents of jobs and trials on disk: Harbor 0.26's, as written.
//!
//! Field order, nulls and number forms follow Harbor's own writer, so that its readers and people's scripts find what
//! they know. Engines that Harbor does not have are named through `import_path`, as Harbor does for foreign ones.

mod config;
mod lock;
mod policy;
mod reason;
mod result;
mod text;
mod time;

pub use config::{
    AgentConfig, EnvironmentConfig, JobConfig, RetryConfig, TaskConfig, TrialConfig, VerifierConfig,
};
pub use lock::trial_lock;
pub use policy::{ExceptionPolicy, PolicyOverride, PolicyOverrides, never_retried, policy_of};
pub use reason::{ReasonRule, reason_of, rule};
pub use result::{
    AgentContext, AgentInfo, EvalStats, ExceptionInfo, JobResult, JobStats, Rewards, Span, StepResult,
    TaskPath, TrialResult, VerifierResult, python_float,
};
pub use text::to_text;
pub use time::{local, utc};
