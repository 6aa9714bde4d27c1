//! In which part of a trial something went wrong.

use job::{Phase, TrialView};
use serde::Serialize;

/// A part of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Building and starting the environment.
    Start,
    /// Setting the agent up.
    Setup,
    /// The agent at work.
    Agent,
    /// Verifying.
    Verifier,
}

impl Stage {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Setup => "setup",
            Self::Agent => "agent",
            Self::Verifier => "verifier",
        }
    }

    /// The stage that an exception's name tells by itself.
    pub fn of_name(exception: &str) -> Option<Self> {
        Some(match exception {
            "EnvironmentStartTimeoutError" | "SandboxBuildFailedError" | "HealthcheckError" => Self::Start,
            "AgentSetupTimeoutError" => Self::Setup,
            "AgentTimeoutError"
            | "NonZeroAgentExitCodeError"
            | "ContextLengthExceededError"
            | "ContextWindowExceededError"
            | "OutputLengthExceededError"
            | "OutputTokenExceededError"
            | "AgentSafetyRefusalError"
            | "ContentPolicyViolationError"
            | "AgentAuthenticationError"
            | "agent_timeout"
            | "unknown_agent_error" => Self::Agent,
            "VerifierTimeoutError"
            | "VerifierOutputParseError"
            | "RewardFileNotFoundError"
            | "RewardFileEmptyError"
            | "AddTestsDirError"
            | "DownloadVerifierDirError"
            | "test_timeout"
            | "parse_error" => Self::Verifier,
            name if name.starts_with("Api") => Self::Agent,
            _ => return None,
        })
    }

    /// The stage that a trial was in last, when the name does not tell.
    pub fn of_trial(exception: &str, trial: &TrialView) -> Option<Self> {
        Self::of_name(exception).or_else(|| {
            let begun = trial.phases.iter().filter(|phase| phase.started_at.is_some());
            begun.max_by_key(|phase| phase.started_at).map(|phase| match phase.phase {
                Phase::Build | Phase::Start | Phase::Healthcheck => Self::Start,
                Phase::Setup => Self::Setup,
                Phase::Agent => Self::Agent,
                Phase::Collect | Phase::Verifier | Phase::Destroy => Self::Verifier,
            })
        })
    }
}
