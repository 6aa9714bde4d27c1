//! From a reason to an outcome with everything that follows from it.

use job::ExceptionPolicy;
use record::{FailureClass, Outcome, Reason};

use crate::life::Phase;

/// The policy flags that Harbor derives from the reason's exception, and writes beside it.
pub fn policy(reason: Reason) -> ExceptionPolicy {
    job::policy_of(job::rule(reason).exception)
}

/// A failed outcome with its class and retry flag filled in.
pub fn failed(reason: Reason, detail: impl Into<String>) -> Outcome {
    let job::ReasonRule { class, retryable, .. } = job::rule(reason);
    Outcome::Failed { reason, class, retryable, detail: detail.into() }
}

/// The outcome of a failure in `phase`. Where a reason says nothing about whose fault it is, the phase does: the agent's own
/// work is the agent's, what the task brings along is the task's, the rest the machine's.
pub(crate) fn failed_in(phase: Option<Phase>, reason: Reason, detail: impl Into<String>) -> Outcome {
    let detail = detail.into();
    let class = match (reason, phase) {
        (Reason::TrialTimeout | Reason::StorageLimit, Some(Phase::Agent)) => FailureClass::Agent,
        (Reason::TrialTimeout, Some(Phase::Healthcheck | Phase::Verifier)) => FailureClass::Task,
        _ => return failed(reason, detail),
    };
    Outcome::Failed { reason, class, retryable: false, detail }
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

    #[test]
    fn a_trial_that_takes_too_long_is_the_fault_of_the_phase_that_took_it() {
        let class = |phase| match failed_in(phase, Reason::TrialTimeout, "") {
            Outcome::Failed { class, retryable, .. } => (class, retryable),
            Outcome::Reward(_) => panic!("a failure"),
        };
        assert_eq!(class(Some(Phase::Agent)), (FailureClass::Agent, false));
        assert_eq!(class(Some(Phase::Verifier)), (FailureClass::Task, false));
        assert_eq!(class(Some(Phase::Start)), (FailureClass::Infrastructure, true));
        assert_eq!(class(None), (FailureClass::Infrastructure, true));
    }
}
