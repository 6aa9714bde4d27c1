//! Trials by what came out, and their means.

use std::collections::BTreeMap;

use serde::Serialize;

use super::estimate::{bootstrap, wilson};
use super::{Interval, Outcome, TrialFacts};

/// Rounds of resampling for an interval.
const ROUNDS: usize = 1000;

/// Trials by what came out. Rewarded, errored, ungraded and incomplete ones are all of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TrialTally {
    /// All trials.
    pub trials: u64,
    /// With a reward that counts.
    pub rewarded: u64,
    /// With a failure and without a reward that counts.
    pub errored: u64,
    /// With neither.
    pub ungraded: u64,
    /// Without a result.
    pub incomplete: u64,
    /// Where something went wrong, whether a reward counts or not.
    pub with_exception: u64,
    /// Rewarded ones that reach the threshold.
    pub solved: u64,
    /// The mean reward over rewarded trials. A mean is `None` without trials, and where the rewards are too large for a sum.
    pub graded: Option<MeanOver>,
    /// The mean reward with errored trials as 0: what Harbor before 0.26 showed.
    pub errors_as_zero: Option<MeanOver>,
    /// The mean reward over rewarded trials that hit no limit of context, output or time.
    pub unlimited: Option<MeanOver>,
}

/// A mean and what it is over.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MeanOver {
    /// The mean.
    pub mean: f64,
    /// The trials it is over.
    pub over: u64,
    /// Its 95 % interval.
    pub interval: Option<Interval>,
}

impl TrialTally {
    /// Counts trials. A trial whose reward is at least `threshold` is solved.
    pub fn of<'t>(trials: impl IntoIterator<Item = &'t TrialFacts>, threshold: f64) -> Self {
        let mut tally = Self::default();
        let (mut graded, mut zeroed, mut unlimited) =
            (Rewards::default(), Rewards::default(), Rewards::default());
        for trial in trials {
            tally.trials += 1;
            tally.with_exception += u64::from(trial.outcome.exception().is_some());
            let task = trial.task.as_deref().unwrap_or_default();
            match &trial.outcome {
                Outcome::Rewarded { reward, .. } => {
                    tally.rewarded += 1;
                    tally.solved += u64::from(*reward >= threshold);
                    graded.add(task, *reward);
                    zeroed.add(task, *reward);
                    if !trial.truncated
                        && !trial.outcome.exception().is_some_and(|name| name.contains("Timeout"))
                    {
                        unlimited.add(task, *reward);
                    }
                }
                Outcome::Errored { .. } => {
                    tally.errored += 1;
                    zeroed.add(task, 0.0);
                }
                Outcome::Ungraded => tally.ungraded += 1,
                Outcome::Incomplete => tally.incomplete += 1,
            }
        }
        tally.graded = graded.mean();
        tally.errors_as_zero = zeroed.mean();
        tally.unlimited = unlimited.mean();
        tally
    }
}

/// Rewards by task.
#[derive(Default)]
struct Rewards<'t> {
    tasks: BTreeMap<&'t str, (f64, u64)>,
    ones: u64,
    others: bool,
}

impl<'t> Rewards<'t> {
    fn add(&mut self, task: &'t str, reward: f64) {
        let (sum, number) = self.tasks.entry(task).or_default();
        *sum += reward;
        *number += 1;
        if (reward - 1.0).abs() < f64::EPSILON {
            self.ones += 1;
        } else if reward != 0.0 {
            self.others = true;
        }
    }

    /// Trials of one task depend on each other, so that Wilson's interval holds for one trial a task only.
    fn mean(&self) -> Option<MeanOver> {
        let over: u64 = self.tasks.values().map(|(_, number)| number).sum();
        if over == 0 {
            return None;
        }
        let sum: f64 = self.tasks.values().map(|(sum, _)| sum).sum();
        let single = self.tasks.len() as u64 == over || self.tasks.len() == 1;
        let interval = if single && !self.others {
            wilson(self.ones, over)
        } else {
            bootstrap(&self.tasks.values().copied().collect::<Vec<_>>(), ROUNDS)
        };
        // Rewards that are too large for a sum have no mean that can be told.
        let mean = Some(sum / over as f64).filter(|mean| mean.is_finite())?;
        Some(MeanOver { mean, over, interval })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::trajectory::StepUsage;

    /// A trial with a reward, or with an exception.
    pub(crate) fn fact(task: &str, trial: &str, result: Result<f64, &str>) -> TrialFacts {
        let outcome = match result {
            Ok(reward) => Outcome::Rewarded { reward, exception: None },
            Err("") => Outcome::Ungraded,
            Err(exception) => Outcome::Errored { exception: exception.into(), uncounted: None },
        };
        TrialFacts {
            run_id: "run".into(),
            trial: trial.into(),
            task: Some(task.into()),
            agent: None,
            model: Some("m".into()),
            outcome,
            stage: None,
            turns: None,
            usage: StepUsage::default(),
            wall_ms: None,
            truncated: false,
            format: None,
        }
    }

    #[test]
    fn errors_are_apart_from_failures() {
        let mut trials: Vec<_> =
            (0..27).map(|n| fact(&n.to_string(), "", Ok(f64::from(u8::from(n < 12))))).collect();
        trials.extend((27..30).map(|n| fact(&n.to_string(), "", Err("AgentTimeoutError"))));
        let tally = TrialTally::of(&trials, 1.0);
        assert_eq!((tally.rewarded, tally.errored, tally.solved), (27, 3, 12));
        let (graded, zeroed) = (tally.graded.unwrap(), tally.errors_as_zero.unwrap());
        assert_eq!(((graded.mean * 1000.0).round(), graded.over), (444.0, 27));
        assert_eq!((zeroed.mean, zeroed.over), (0.4, 30));
        assert_eq!(TrialTally::of(&[], 1.0).graded, None);
    }
}
