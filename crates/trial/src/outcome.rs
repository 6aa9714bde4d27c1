//! From a reason to an outcome with everything that follows from it.

use job::ExceptionPolicy;
use record::{Outcome, Reason};

/// The policy flags that Harbor derives from the reason's exception, and writes beside it.
pub fn policy(reason: Reason) -> ExceptionPolicy {
    job::policy_of(job::rule(reason).exception)
}

/// A failed outcome with its class and retry flag filled in.
pub fn failed(reason: Reason, detail: impl Into<String>) -> Outcome {
    let job::ReasonRule { class, retryable, .. } = job::rule(reason);
    Outcome::Failed { reason, class, retryable, detail: detail.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_rule_and_the_flags_of_its_exception() {
        for reason in Reason::ALL {
            let flags = policy(reason);
            let exception = job::rule(reason).exception;
            assert_eq!(flags, job::policy_of(exception), "{reason:?}");
            // Nothing is graded after a sandbox that never worked, and what Harbor would never try again is not retried.
            if matches!(reason, Reason::AgentError | Reason::AgentTimeout | Reason::ContextOverflow) {
                assert!(flags.should_grade && flags.has_valid_reward, "{reason:?}");
            }
            if matches!(reason, Reason::OutOfMemory | Reason::EngineLost | Reason::HealthcheckFailed) {
                assert!(!flags.should_grade && !flags.has_valid_reward, "{reason:?}");
            }
            let Outcome::Failed { class, retryable, .. } = failed(reason, "") else { panic!("a failure") };
            assert_eq!((class, retryable), (job::rule(reason).class, job::rule(reason).retryable));
        }
    }
}
