//! How long the parts of a trial may take.
//!
//! A limit follows Harbor's rule: `min(override or the task's value, max or no bound) x (own multiplier or the general one)`.
//! An override of 0 is no override. Nothing here looks at a clock.

use std::time::Duration;

/// Limits and multipliers that a run lays over what its tasks say.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budgets {
    /// Multiplies every limit whose part has no multiplier of its own.
    pub timeout_multiplier: f64,
    /// Image and sandbox together; the task says `environment.build_timeout_sec`.
    pub build: Budget,
    /// The sandbox alone; tasks say nothing about it.
    pub start: Budget,
    /// Making the agent ready, and a step's own setup.
    pub setup: Budget,
    /// The agent; the task says `agent.timeout_sec`, or nothing for no limit.
    pub agent: Budget,
    /// The verifier's script; the task says `verifier.timeout_sec`.
    pub verifier: Budget,
    /// The whole trial in seconds, from the image to the last file; no multiplier applies.
    pub trial_sec: Option<f64>,
}

/// What a run lays over one limit.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Budget {
    /// Replaces the task's value, in seconds.
    pub override_sec: Option<f64>,
    /// The most that a task gets, in seconds.
    pub max_sec: Option<f64>,
    /// Replaces the general multiplier.
    pub multiplier: Option<f64>,
}

impl Default for Budgets {
    fn default() -> Self {
        Self {
            timeout_multiplier: 1.0,
            build: Budget::default(),
            start: Budget::default(),
            setup: Budget::default(),
            agent: Budget::default(),
            verifier: Budget::default(),
            trial_sec: None,
        }
    }
}

impl Budgets {
    /// The limit of one part, given what the task says; `None` is no limit.
    pub fn limit(&self, part: &Budget, task_sec: Option<f64>) -> Option<Duration> {
        let stated = part.override_sec.filter(|seconds| *seconds != 0.0).or(task_sec);
        let seconds = match (stated, part.max_sec) {
            (Some(stated), Some(max)) => stated.min(max),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => return None,
        };
        // What no duration can hold is no limit.
        Duration::try_from_secs_f64(seconds * part.multiplier.unwrap_or(self.timeout_multiplier)).ok()
    }

    /// The limit of the whole trial.
    pub fn trial(&self) -> Option<Duration> {
        self.trial_sec.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
    }
}

/// The limit that comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    /// What is left; `None` is no limit.
    pub(crate) left: Option<Duration>,
    /// Whether it is the whole trial's limit, and not the part's own.
    pub(crate) whole: bool,
}

impl Cut {
    /// The earlier of a part's own limit and what the whole trial has left.
    pub(crate) fn of(own: Option<Duration>, trial: Option<Duration>) -> Self {
        match (own, trial) {
            (Some(own), Some(trial)) if own <= trial => Self { left: Some(own), whole: false },
            (_, Some(trial)) => Self { left: Some(trial), whole: true },
            (own, None) => Self { left: own, whole: false },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Option<Duration> = Some(Duration::from_secs(1));
    const TWO: Option<Duration> = Some(Duration::from_secs(2));

    #[test]
    fn limits_follow_the_rule() {
        let budgets = Budgets { timeout_multiplier: 2.0, ..Budgets::default() };
        let part = |override_sec, max_sec, multiplier| Budget { override_sec, max_sec, multiplier };
        let limit = |part: Budget, task| budgets.limit(&part, task);
        assert_eq!(limit(Budget::default(), None), None);
        assert_eq!(limit(Budget::default(), Some(10.0)), Some(Duration::from_secs(20)));
        assert_eq!(limit(part(Some(3.0), None, None), Some(10.0)), Some(Duration::from_secs(6)));
        assert_eq!(
            limit(part(Some(0.0), None, None), Some(10.0)),
            Some(Duration::from_secs(20)),
            "0 is no override"
        );
        assert_eq!(limit(part(Some(30.0), Some(5.0), None), Some(10.0)), Some(Duration::from_secs(10)));
        assert_eq!(limit(part(None, Some(5.0), None), None), Some(Duration::from_secs(10)));
        assert_eq!(limit(part(None, None, Some(3.0)), Some(10.0)), Some(Duration::from_secs(30)));
        for odd in [f64::INFINITY, f64::NAN, -1.0] {
            assert_eq!(limit(Budget::default(), Some(odd)), None, "{odd}");
        }
    }

    #[test]
    fn the_earlier_limit_counts_and_is_known() {
        let cut = |own, trial| {
            let cut = Cut::of(own, trial);
            (cut.left, cut.whole)
        };
        assert_eq!(cut(None, None), (None, false));
        assert_eq!(cut(ONE, None), (ONE, false));
        assert_eq!(cut(None, ONE), (ONE, true));
        assert_eq!(cut(ONE, TWO), (ONE, false));
        assert_eq!(cut(TWO, ONE), (ONE, true));
        assert_eq!(cut(ONE, ONE), (ONE, false));
        assert_eq!(
            Budgets { trial_sec: Some(1.5), ..Budgets::default() }.trial(),
            Some(Duration::from_millis(1500))
        );
        assert_eq!(Budgets::default().trial(), None);
    }
}
