//! What a trial's state is, from its rewards and what went wrong.

use std::collections::BTreeMap;

use super::oddity::{Odd, What};
use super::view::{Failure, TrialState};

/// The reward that counts has this name.
pub(super) const REWARD: &str = "reward";

/// Decides by Harbor's rule: a reward counts unless something went wrong whose policy says that rewards are void then.
///
/// `claimed` is what the document says about that itself.
pub(super) fn decide(
    rewards: &BTreeMap<String, f64>,
    failures: Vec<Failure>,
    claimed: Option<bool>,
    odd: &mut Odd,
) -> TrialState {
    let valid = failures.iter().all(|failure| failure.policy.has_valid_reward);
    if let Some(claimed) = claimed
        && claimed != (valid && !rewards.is_empty())
    {
        odd.add(What::ValidityDiffers { claimed });
    }
    let reward = rewards.get(REWARD).copied();
    if reward.is_none() && !rewards.is_empty() {
        odd.add(What::NoRewardKey(rewards.keys().cloned().collect()));
    }
    // What voids the reward says more than what does not.
    let worst = failures.iter().position(|failure| !failure.policy.has_valid_reward).unwrap_or(0);
    let failure = failures.into_iter().nth(worst);
    match (reward, failure) {
        (Some(reward), failure) if valid => TrialState::Rewarded { reward, failure },
        (_, Some(failure)) => TrialState::Errored { failure },
        (_, None) => TrialState::Ungraded,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{policy_of, reason_of};

    fn failure(exception: &str) -> Failure {
        Failure {
            exception: exception.into(),
            message: String::new(),
            reason: reason_of(exception),
            class: None,
            policy: policy_of(exception),
            retryable: policy_of(exception).should_retry,
            step: None,
        }
    }

    fn state(rewards: &[(&str, f64)], failures: &[&str]) -> TrialState {
        let rewards = rewards.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        decide(&rewards, failures.iter().map(|name| failure(name)).collect(), None, &mut Odd::default())
    }

    #[test]
    fn an_exception_does_not_always_void_a_reward() {
        let one: &[(&str, f64)] = &[("reward", 1.0)];
        assert!(matches!(state(one, &[]), TrialState::Rewarded { failure: None, .. }));
        assert!(matches!(state(one, &["AgentTimeoutError"]), TrialState::Rewarded { failure: Some(_), .. }));
        assert!(matches!(state(one, &["VerifierTimeoutError"]), TrialState::Errored { .. }));
        assert!(matches!(state(&[], &["AgentTimeoutError"]), TrialState::Errored { .. }));
        assert_eq!(state(&[], &[]), TrialState::Ungraded);
        assert_eq!(state(&[("speed", 1.0)], &[]), TrialState::Ungraded);
        let both = state(one, &["AgentTimeoutError", "ApiError"]);
        assert_eq!(both.failure().map(|failure| failure.exception.as_str()), Some("ApiError"));
        assert_eq!(both.reward(), None);
    }

    #[test]
    fn what_does_not_follow_is_reported() {
        let said = |rewards: &[(&str, f64)], claimed| {
            let rewards = rewards.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
            let mut odd = Odd::default();
            decide(&rewards, vec![failure("ApiError")], claimed, &mut odd);
            odd.at("").map(|oddity| oddity.what.kind()).collect::<Vec<_>>()
        };
        assert_eq!(said(&[("reward", 1.0)], Some(true)), ["validity_differs"]);
        assert_eq!(said(&[("speed", 1.0)], Some(false)), ["no_reward_key"]);
        assert!(said(&[("reward", 1.0)], Some(false)).is_empty());
        assert!(said(&[], None).is_empty());
    }
}
