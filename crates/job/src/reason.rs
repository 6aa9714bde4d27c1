//! Seatrial's closed list of reasons, and the exception names that stand for them in Harbor's documents.

use record::{FailureClass, Reason};

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
        Reason::TaskInvalid | Reason::HistoryLeak => (Task, false, "ValueError"),
        Reason::EnvironmentBuildFailed => (Task, false, "SandboxBuildFailedError"),
        Reason::EnvironmentStartFailed => (Infrastructure, true, "EnvironmentStartTimeoutError"),
        Reason::HealthcheckFailed => (Task, true, "HealthcheckError"),
        Reason::AgentSetupFailed => (Infrastructure, true, "AgentSetupTimeoutError"),
        Reason::AgentError => (Agent, false, "NonZeroAgentExitCodeError"),
        Reason::AgentTimeout => (Agent, false, "AgentTimeoutError"),
        Reason::ContextOverflow => (Agent, false, "ContextLengthExceededError"),
        Reason::OutputOverflow => (Agent, false, "OutputLengthExceededError"),
        Reason::AgentRefused => (Agent, false, "AgentSafetyRefusalError"),
        Reason::AgentAuthFailed => (Infrastructure, false, "AgentAuthenticationError"),
        Reason::ModelNotFound => (Infrastructure, false, "ModelNotFoundError"),
        Reason::ApiFailed => (Infrastructure, true, "ApiError"),
        Reason::VerifierTimeout => (Task, false, "VerifierTimeoutError"),
        Reason::VerifierSetupFailed => (Infrastructure, true, "AddTestsDirError"),
        Reason::RewardMissing | Reason::ToolNotFound => (Task, false, "RewardFileNotFoundError"),
        Reason::RewardEmpty => (Task, false, "RewardFileEmptyError"),
        Reason::RewardUnparsable
        | Reason::RewardNonFinite
        | Reason::RewardConflict
        | Reason::RewardOutOfRange
        | Reason::RewardUnsafe => (Task, false, "VerifierOutputParseError"),
        Reason::OutOfMemory => (Infrastructure, true, "MemoryLimitExceededError"),
        Reason::StorageLimit => (Task, false, "StorageLimitExceededError"),
        Reason::DiskFull => (Infrastructure, true, "RuntimeError"),
        // The class that fits is that of the phase in which the time ran out; this one fits most of them.
        Reason::TrialTimeout => (Infrastructure, true, "TrialTimeoutError"),
        Reason::Cancelled => (Infrastructure, true, "CancelledError"),
        Reason::EngineLost => (Infrastructure, true, "RuntimeRequestError"),
    };
    ReasonRule { class, retryable, exception }
}

/// The reason that an exception name stands for, where there is one and no more than one.
///
/// `ValueError`, `RuntimeError` and whatever else Harbor does not know by name say nothing about the reason.
pub fn reason_of(exception: &str) -> Option<Reason> {
    Some(match exception {
        "SandboxBuildFailedError" => Reason::EnvironmentBuildFailed,
        "EnvironmentStartTimeoutError" => Reason::EnvironmentStartFailed,
        "HealthcheckError" => Reason::HealthcheckFailed,
        "AgentSetupTimeoutError" => Reason::AgentSetupFailed,
        "NonZeroAgentExitCodeError" => Reason::AgentError,
        "AgentTimeoutError" => Reason::AgentTimeout,
        "ContextLengthExceededError" | "ContextWindowExceededError" => Reason::ContextOverflow,
        "OutputLengthExceededError" | "OutputTokenExceededError" => Reason::OutputOverflow,
        "AgentSafetyRefusalError" | "ContentPolicyViolationError" => Reason::AgentRefused,
        "AgentAuthenticationError" | "AuthenticationError" => Reason::AgentAuthFailed,
        "ModelNotFoundError" => Reason::ModelNotFound,
        "ApiError"
        | "ApiRateLimitError"
        | "ApiInternalServerError"
        | "ApiOverloadedError"
        | "ApiConnectionClosedError"
        | "ApiResponseStalledError"
        | "UnknownApiError"
        | "NetworkConnectionError"
        | "ApiConnectionError"
        | "ApiUsageLimitError"
        | "RateLimitError"
        | "InternalServerError"
        | "ServiceUnavailableError"
        | "APIConnectionError"
        | "APIError" => Reason::ApiFailed,
        "StorageLimitExceededError" => Reason::StorageLimit,
        "TrialTimeoutError" => Reason::TrialTimeout,
        "VerifierTimeoutError" => Reason::VerifierTimeout,
        "AddTestsDirError" => Reason::VerifierSetupFailed,
        "RewardFileNotFoundError" => Reason::RewardMissing,
        "RewardFileEmptyError" => Reason::RewardEmpty,
        "VerifierOutputParseError" => Reason::RewardUnparsable,
        "MemoryLimitExceededError" | "SandboxLikelyOutOfMemoryError" => Reason::OutOfMemory,
        "CancelledError" => Reason::Cancelled,
        "RuntimeRequestError" | "GKEExecStreamClosedError" | "GKEPodNotFoundError" => Reason::EngineLost,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_gives_a_reason_is_that_reasons_own() {
        for reason in Reason::ALL {
            let own = rule(reason);
            if let Some(read) = reason_of(own.exception) {
                assert_eq!(rule(read), own, "{reason:?} comes back as {read:?}");
            }
        }
    }

    #[test]
    fn general_names_say_nothing() {
        for exception in ["ValueError", "RuntimeError", "", "Timeout", "JSONDecodeError"] {
            assert_eq!(reason_of(exception), None, "{exception}");
        }
    }
}
