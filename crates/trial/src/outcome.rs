//! What follows from each reason for a missing reward.

use job::ExceptionPolicy;
use record::{FailureClass, Outcome, Reason};

/// The written rule for one reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReasonRule {
    /// Whose fault it is.
    pub class: FailureClass,
    /// Whether another try may help.
    pub retryable: bool,
    /// The exception name that Harbor's readers know.
    pub exception: &'static str,
}

/// The rule for `reason`.
pub fn rule(reason: Reason) -> ReasonRule {
    use FailureClass::{Agent, Infrastructure, Task};
    let (class, retryable, exception) = match reason {
        Reason::TaskInvalid => (Task, false, "ValueError"),
        Reason::EnvironmentBuildFailed => (Task, false, "SandboxBuildFailedError"),
        Reason::EnvironmentStartFailed => (Infrastructure, true, "EnvironmentStartTimeoutError"),
        Reason::HealthcheckFailed => (Task, true, "HealthcheckError"),
        Reason::AgentSetupFailed => (Infrastructure, true, "AgentSetupTimeoutError"),
        Reason::AgentError => (Agent, false, "NonZeroAgentExitCodeError"),
        Reason::AgentTimeout => (Agent, false, "AgentTimeoutError"),
        Reason::VerifierTimeout => (Task, false, "VerifierTimeoutError"),
        Reason::VerifierSetupFailed => (Infrastructure, true, "AddTestsDirError"),
        Reason::RewardMissing => (Task, false, "RewardFileNotFoundError"),
        Reason::RewardEmpty => (Task, false, "RewardFileEmptyError"),
        Reason::RewardUnparsable
        | Reason::RewardNonFinite
        | Reason::RewardConflict
        | Reason::RewardUnsafe => (Task, false, "VerifierOutputParseError"),
        Reason::OutOfMemory => (Infrastructure, true, "MemoryLimitExceededError"),
        Reason::DiskFull => (Infrastructure, true, "RuntimeError"),
        Reason::Cancelled => (Infrastructure, true, "CancelledError"),
        Reason::EngineLost => (Infrastructure, true, "RuntimeRequestError"),
    };
    ReasonRule { class, retryable, exception }
}

/// The policy flags that Harbor derives from an exception's name, and writes beside it.
pub fn policy(reason: Reason) -> ExceptionPolicy {
    let (should_retry, should_grade, has_valid_reward) = match rule(reason).exception {
        "EnvironmentStartTimeoutError"
        | "SandboxBuildFailedError"
        | "AgentSetupTimeoutError"
        | "HealthcheckError"
        | "MemoryLimitExceededError"
        | "RuntimeRequestError"
        | "AddTestsDirError" => (true, false, false),
        "VerifierTimeoutError"
        | "RewardFileNotFoundError"
        | "RewardFileEmptyError"
        | "VerifierOutputParseError" => (false, true, false),
        "CancelledError" => (false, false, false),
        "NonZeroAgentExitCodeError" | "AgentTimeoutError" => (false, true, true),
        // What Harbor does not know by name.
        _ => (true, true, true),
    };
    ExceptionPolicy { should_retry, should_grade, has_valid_reward }
}

/// A failed outcome with its class and retry flag filled in.
pub fn failed(reason: Reason, detail: impl Into<String>) -> Outcome {
    let ReasonRule { class, retryable, .. } = rule(reason);
    Outcome::Failed { reason, class, retryable, detail: detail.into() }
}
