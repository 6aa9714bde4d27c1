//! What follows from each reason for a missing reward.

use job::{ExceptionPolicy, ReasonRule, rule};
use record::{Outcome, Reason};

/// The policy flags that Harbor derives from an exception's name, and writes beside it.
pub fn policy(reason: Reason) -> ExceptionPolicy {
    job::policy_of(rule(reason).exception)
}

/// A failed outcome with its class and retry flag filled in.
pub fn failed(reason: Reason, detail: impl Into<String>) -> Outcome {
    let ReasonRule { class, retryable, .. } = rule(reason);
    Outcome::Failed { reason, class, retryable, detail: detail.into() }
}
