//! What follows from a failure, by the name of its exception.
//!
//! Harbor keeps three flags for every exception name that it knows. The table here is its whole table; a name that is not in it
//! has all three flags set.

use serde::{Deserialize, Serialize};

/// What follows from a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ExceptionPolicy {
    /// Another try may help.
    pub should_retry: bool,
    /// The verifier runs all the same.
    pub should_grade: bool,
    /// A reward that was given all the same counts.
    pub has_valid_reward: bool,
}

/// A change of single flags of one exception's policy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PolicyOverride {
    /// Replaces [`ExceptionPolicy::should_retry`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub should_retry: Option<bool>,
    /// Replaces [`ExceptionPolicy::should_grade`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub should_grade: Option<bool>,
    /// Replaces [`ExceptionPolicy::has_valid_reward`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub has_valid_reward: Option<bool>,
}

impl ExceptionPolicy {
    /// Returns the policy with the flags that `change` names replaced.
    #[must_use]
    pub fn with(self, change: PolicyOverride) -> Self {
        Self {
            should_retry: change.should_retry.unwrap_or(self.should_retry),
            should_grade: change.should_grade.unwrap_or(self.should_grade),
            has_valid_reward: change.has_valid_reward.unwrap_or(self.has_valid_reward),
        }
    }
}

/// One line of the table: the flags, and the names that have them.
struct Row {
    policy: ExceptionPolicy,
    names: &'static [&'static str],
}

const fn row(retry: bool, grade: bool, valid: bool, names: &'static [&'static str]) -> Row {
    let policy = ExceptionPolicy { should_retry: retry, should_grade: grade, has_valid_reward: valid };
    Row { policy, names }
}

/// Every name that Harbor 0.26 knows.
const TABLE: [Row; 5] = [
    row(
        true,
        false,
        false,
        &[
            "AddTestsDirError",
            "AgentSetupTimeoutError",
            "DownloadVerifierDirError",
            "EnvironmentStartTimeoutError",
            "GKEExecStreamClosedError",
            "GKEPodNotFoundError",
            "HealthcheckError",
            "MemoryLimitExceededError",
            "RuntimeRequestError",
            "SSHAccessError",
            "SandboxBuildFailedError",
            "SandboxLikelyOutOfMemoryError",
        ],
    ),
    row(
        true,
        true,
        false,
        &[
            "APIConnectionError",
            "APIError",
            "ApiConnectionClosedError",
            "ApiConnectionError",
            "ApiError",
            "ApiInternalServerError",
            "ApiOverloadedError",
            "ApiRateLimitError",
            "ApiResponseStalledError",
            "ApiUsageLimitError",
            "InternalServerError",
            "NetworkConnectionError",
            "RateLimitError",
            "ServiceUnavailableError",
            "Timeout",
            "UnknownApiError",
        ],
    ),
    row(
        false,
        true,
        false,
        &[
            "APIResponseValidationError",
            "BadRequestError",
            "BudgetExceededError",
            "RewardFileEmptyError",
            "RewardFileNotFoundError",
            "UnprocessableEntityError",
            "UnsupportedModelParametersError",
            "UnsupportedParamsError",
            "VerifierOutputParseError",
            "VerifierTimeoutError",
        ],
    ),
    row(
        false,
        false,
        false,
        &[
            "AgentAuthenticationError",
            "ApiProviderResourceNotFoundError",
            "AuthenticationError",
            "CancelledError",
            "DspyImportError",
            "MissingExtraError",
            "ModelNotFoundError",
            "NotFoundError",
            "PermissionDeniedError",
            "RegradeError",
            "ServiceOperationsUnsupportedError",
            "VercelScopeError",
        ],
    ),
    row(
        false,
        true,
        true,
        &[
            "AgentSafetyRefusalError",
            "AgentTimeoutError",
            "ContentPolicyViolationError",
            "ContextLengthExceededError",
            "ContextWindowExceededError",
            "NonZeroAgentExitCodeError",
            "OutputLengthExceededError",
            "OutputTokenExceededError",
        ],
    ),
];

/// The policy of an exception, by its class name without module. Unknown names may be retried, graded, and keep their
/// reward.
pub fn policy_of(exception: &str) -> ExceptionPolicy {
    let known = TABLE.iter().find(|row| row.names.binary_search(&exception).is_ok());
    known.map_or(ExceptionPolicy { should_retry: true, should_grade: true, has_valid_reward: true }, |row| {
        row.policy
    })
}

/// Every exception that is never retried unless a job says otherwise, sorted by bytes.
pub fn never_retried() -> Vec<String> {
    let rows = TABLE.iter().filter(|row| !row.policy.should_retry);
    let mut names: Vec<_> = rows.flat_map(|row| row.names).map(|&name| name.to_owned()).collect();
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(exception: &str) -> [bool; 3] {
        let policy = policy_of(exception);
        [policy.should_retry, policy.should_grade, policy.has_valid_reward]
    }

    #[test]
    fn one_name_of_every_row() {
        assert_eq!(flags("HealthcheckError"), [true, false, false]);
        assert_eq!(flags("ApiRateLimitError"), [true, true, false]);
        assert_eq!(flags("VerifierTimeoutError"), [false, true, false]);
        assert_eq!(flags("CancelledError"), [false, false, false]);
        assert_eq!(flags("AgentTimeoutError"), [false, true, true]);
        for unknown in ["RuntimeError", "", "agenttimeouterror", "harbor.AgentTimeoutError"] {
            assert_eq!(flags(unknown), [true, true, true], "{unknown}");
        }
    }

    #[test]
    fn every_row_can_be_searched_and_no_name_stands_twice() {
        let mut all: Vec<_> = TABLE.iter().flat_map(|row| row.names).collect();
        for row in &TABLE {
            assert!(row.names.is_sorted(), "{:?}", row.names);
            assert!(row.names.iter().all(|name| policy_of(name) == row.policy));
        }
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!((count, all.len()), (58, 58));
    }

    #[test]
    fn what_is_never_retried_is_sorted_by_bytes() {
        let names = never_retried();
        assert_eq!(names.len(), 30);
        assert!(names.is_sorted());
        assert_eq!(
            (names[0].as_str(), names[29].as_str()),
            ("APIResponseValidationError", "VerifierTimeoutError")
        );
    }

    #[test]
    fn an_override_replaces_the_flags_that_it_names() {
        let change = PolicyOverride { should_retry: Some(true), ..PolicyOverride::default() };
        let changed = policy_of("AgentTimeoutError").with(change);
        assert!(changed.should_retry && changed.should_grade && changed.has_valid_reward);
        assert_eq!(serde_json::to_string(&change).unwrap(), "{\"should_retry\":true}");
    }
}
