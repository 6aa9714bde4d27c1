//! Groups of trials of one task, as policy gradients over groups need them.

use std::collections::BTreeMap;

use serde::Serialize;

use super::TrialFacts;

/// What is added to a standard deviation before it divides, as trainers do.
const EPSILON: f64 = 1e-6;

/// The trials of one task by one agent with one model in one run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Group {
    /// The run.
    pub run_id: String,
    /// The agent.
    pub agent: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// The task.
    pub task: Option<String>,
    /// All trials.
    pub trials: u64,
    /// Trials whose reward counts; only these make the numbers below.
    pub graded: u64,
    /// Graded trials that reach the threshold.
    pub solved: u64,
    /// The mean reward.
    pub mean: Option<f64>,
    /// The standard deviation of the sample (divided by n - 1); `None` with fewer than two graded trials.
    pub std: Option<f64>,
    /// How far the rewards lie apart.
    pub spread: Spread,
}

/// How far the rewards of a group lie apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Spread {
    /// Fewer than two graded trials: nothing can be said.
    TooFew,
    /// All rewards are 0.
    AllZero,
    /// All rewards are 1.
    AllOne,
    /// All rewards are the same other number.
    AllEqual,
    /// There are different rewards, from which can be learnt.
    Mixed,
}

impl Spread {
    /// Its name as it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TooFew => "too few",
            Self::AllZero => "all 0",
            Self::AllOne => "all 1",
            Self::AllEqual => "all equal",
            Self::Mixed => "mixed",
        }
    }
}

/// Groups by how far their rewards lie apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Groups {
    /// All groups.
    pub groups: u64,
    /// With fewer than two graded trials.
    pub too_few: u64,
    /// All rewards 0.
    pub all_zero: u64,
    /// All rewards 1.
    pub all_one: u64,
    /// All rewards the same other number.
    pub all_equal: u64,
    /// With different rewards.
    pub mixed: u64,
}

impl Groups {
    /// Counts groups.
    pub fn of(groups: &[Group]) -> Self {
        let count = |spread| groups.iter().filter(|group| group.spread == spread).count() as u64;
        Self {
            groups: groups.len() as u64,
            too_few: count(Spread::TooFew),
            all_zero: count(Spread::AllZero),
            all_one: count(Spread::AllOne),
            all_equal: count(Spread::AllEqual),
            mixed: count(Spread::Mixed),
        }
    }

    /// Groups from which nothing can be learnt, among those with two graded trials.
    pub const fn without_variance(&self) -> u64 {
        self.all_zero + self.all_one + self.all_equal
    }
}

/// Puts trials into groups, sorted by run, agent, model and task.
pub fn groups(trials: &[TrialFacts], threshold: f64) -> Vec<Group> {
    let mut by_key: BTreeMap<_, Vec<&TrialFacts>> = BTreeMap::new();
    for trial in trials {
        let key =
            (trial.run_id.as_ref(), trial.agent.as_deref(), trial.model.as_deref(), trial.task.as_deref());
        by_key.entry(key).or_default().push(trial);
    }
    by_key
        .into_iter()
        .map(|((run, agent, model, task), trials)| {
            let rewards: Vec<f64> = trials.iter().filter_map(|trial| trial.outcome.reward()).collect();
            let (mean, std) = mean_and_std(&rewards);
            Group {
                run_id: run.to_owned(),
                agent: agent.map(str::to_owned),
                model: model.map(str::to_owned),
                task: task.map(str::to_owned),
                trials: trials.len() as u64,
                graded: rewards.len() as u64,
                solved: rewards.iter().filter(|reward| **reward >= threshold).count() as u64,
                mean,
                std,
                spread: spread(&rewards),
            }
        })
        .collect()
}

/// The mean, and the standard deviation of the sample. Both are `None` where they are no finite numbers.
pub(crate) fn mean_and_std(rewards: &[f64]) -> (Option<f64>, Option<f64>) {
    if rewards.is_empty() {
        return (None, None);
    }
    let n = rewards.len() as f64;
    let mean = rewards.iter().sum::<f64>() / n;
    let squares: f64 = rewards.iter().map(|reward| (reward - mean).powi(2)).sum();
    let std = (rewards.len() > 1).then(|| (squares / (n - 1.0)).sqrt());
    let finite = |number: &f64| number.is_finite();
    (Some(mean).filter(finite), std.filter(finite))
}

/// The advantage of a reward in its group: the distance from the mean, in standard deviations where that is asked for. A group of
/// one has the mean 0 and the deviation 1, as trainers have it. `None` where it is no finite number.
pub(crate) fn advantage(reward: f64, rewards: &[f64], by_std: bool) -> Option<f64> {
    if rewards.len() < 2 {
        return Some(reward);
    }
    let (mean, std) = mean_and_std(rewards);
    let distance = reward - mean?;
    let advantage = if by_std { distance / (std? + EPSILON) } else { distance };
    Some(advantage).filter(|advantage| advantage.is_finite())
}

fn spread(rewards: &[f64]) -> Spread {
    match rewards {
        [] | [_] => Spread::TooFew,
        [first, rest @ ..] if rest.iter().all(|reward| (reward - first).abs() <= 0.0) => {
            // Written rewards are compared, not computed ones.
            if first.abs() <= 0.0 {
                Spread::AllZero
            } else if (first - 1.0).abs() <= 0.0 {
                Spread::AllOne
            } else {
                Spread::AllEqual
            }
        }
        _ => Spread::Mixed,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tally::tests::fact;
    use super::*;

    #[test]
    fn groups_without_variance_are_told_apart() {
        let mut trials = vec![fact("lone", "0", Ok(1.0)), fact("lone", "1", Err("RuntimeError"))];
        for (task, rewards) in
            [("hard", [0.0, 0.0]), ("easy", [1.0, 1.0]), ("good", [0.0, 1.0]), ("half", [0.5, 0.5])]
        {
            trials.extend(
                rewards.iter().enumerate().map(|(n, reward)| fact(task, &n.to_string(), Ok(*reward))),
            );
        }
        let groups = groups(&trials, 1.0);
        let counted = Groups::of(&groups);
        assert_eq!(
            counted,
            Groups { groups: 5, too_few: 1, all_zero: 1, all_one: 1, all_equal: 1, mixed: 1 }
        );
        let lone = groups.iter().find(|group| group.task.as_deref() == Some("lone")).unwrap();
        assert_eq!((lone.trials, lone.graded, lone.std), (2, 1, None));
        let good = groups.iter().find(|group| group.task.as_deref() == Some("good")).unwrap();
        assert!((good.std.unwrap() - 0.5_f64.sqrt()).abs() < 1e-12, "the deviation of a sample");
        assert!((advantage(1.0, &[0.0, 1.0], true).unwrap() - 0.707_105_8).abs() < 1e-6);
        assert_eq!(advantage(1.0, &[0.0, 1.0], false), Some(0.5));
        assert_eq!(advantage(1.0, &[1.0], true), Some(1.0));
        assert_eq!(advantage(1.0, &[1.0], false), Some(1.0));
    }

    #[test]
    fn rewards_beyond_numbers_have_no_mean_and_no_advantage() {
        let rewards = [1e308, 1e308, -1e308];
        assert_eq!(mean_and_std(&rewards[..2]), (None, None));
        assert_eq!(advantage(1e308, &rewards, true), None);
        assert_eq!(advantage(1e308, &rewards, false), None);
        let trials: Vec<_> =
            rewards.iter().enumerate().map(|(n, reward)| fact("big", &n.to_string(), Ok(*reward))).collect();
        let group = groups(&trials[..2], 1.0).remove(0);
        assert_eq!((group.mean, group.std, group.solved), (None, None, 2));
    }

    #[test]
    fn agents_are_not_compared_with_each_other() {
        let mut trials = vec![fact("a", "0", Ok(0.0)), fact("a", "1", Ok(1.0))];
        trials[1].agent = Some("oracle".into());
        let spreads: Vec<_> = groups(&trials, 1.0).iter().map(|group| group.spread).collect();
        assert_eq!(spreads, [Spread::TooFew, Spread::TooFew]);
    }
}
