//! Two sets of trials, on the tasks that both have.

use std::collections::BTreeMap;

use serde::Serialize;

use super::estimate::bootstrap;
use super::{Interval, TrialFacts};

/// Rounds of resampling.
const ROUNDS: usize = 10_000;

/// Two sets of trials on the tasks that both have. The means are over tasks, each of which counts once.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Tasks with graded trials in both.
    pub common: u64,
    /// Tasks with graded trials in the first only.
    pub only_first: u64,
    /// Tasks with graded trials in the second only.
    pub only_second: u64,
    /// Trials of the first that have no reward that counts, and of the second.
    pub dropped: [u64; 2],
    /// The mean of the first on common tasks; like all of these `None` where it is no finite number.
    pub first: Option<f64>,
    /// The mean of the second.
    pub second: Option<f64>,
    /// The second's mean less the first's.
    pub difference: Option<f64>,
    /// Its 95 % interval, by resampling pairs.
    pub interval: Option<Interval>,
    /// Tasks on which the second is better.
    pub better: u64,
    /// Tasks on which it is worse.
    pub worse: u64,
    /// How likely so unequal numbers of better and worse tasks are when both are as good: the exact test of McNemar.
    pub p_value: Option<f64>,
    /// The common tasks.
    pub tasks: Vec<TaskPair>,
}

/// One task of both.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TaskPair {
    /// The task.
    pub task: String,
    /// The mean reward in the first, and over how many trials.
    pub first: (f64, u64),
    /// The mean reward in the second, and over how many trials.
    pub second: (f64, u64),
}

/// Compares two sets of trials.
pub fn compare(first: &[TrialFacts], second: &[TrialFacts]) -> Comparison {
    let (one, two) = (means(first), means(second));
    let tasks: Vec<_> = one
        .iter()
        .filter_map(|(task, first)| {
            let second = two.get(task)?;
            Some(TaskPair { task: (*task).to_owned(), first: *first, second: *second })
        })
        .collect();
    let mean = |of: fn(&TaskPair) -> f64| {
        let mean = (!tasks.is_empty()).then(|| tasks.iter().map(of).sum::<f64>() / tasks.len() as f64);
        mean.filter(|mean| mean.is_finite())
    };
    let differences: Vec<_> = tasks.iter().map(|pair| (pair.second.0 - pair.first.0, 1)).collect();
    let count =
        |of: fn(f64) -> bool| differences.iter().filter(|(difference, _)| of(*difference)).count() as u64;
    let (better, worse) = (count(|difference| difference > 0.0), count(|difference| difference < 0.0));
    let dropped =
        |trials: &[TrialFacts]| trials.iter().filter(|trial| trial.outcome.reward().is_none()).count() as u64;
    Comparison {
        common: tasks.len() as u64,
        only_first: (one.len() - tasks.len()) as u64,
        only_second: (two.len() - tasks.len()) as u64,
        dropped: [dropped(first), dropped(second)],
        first: mean(|pair| pair.first.0),
        second: mean(|pair| pair.second.0),
        difference: mean(|pair| pair.second.0 - pair.first.0),
        interval: bootstrap(&differences, ROUNDS),
        better,
        worse,
        p_value: (better + worse > 0).then(|| sign_test(better, worse)),
        tasks,
    }
}

fn means(trials: &[TrialFacts]) -> BTreeMap<&str, (f64, u64)> {
    let mut rewards: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for trial in trials {
        if let (Some(task), Some(reward)) = (trial.task.as_deref(), trial.outcome.reward()) {
            rewards.entry(task).or_default().push(reward);
        }
    }
    let mean = |rewards: &[f64]| {
        let number = rewards.len() as f64;
        let mean = rewards.iter().sum::<f64>() / number;
        // The parts of a sum that is too large are small enough.
        if mean.is_finite() { mean } else { rewards.iter().map(|reward| reward / number).sum() }
    };
    rewards.into_iter().map(|(task, rewards)| (task, (mean(&rewards), rewards.len() as u64))).collect()
}

/// Two-sided binomial test of a fair coin.
pub(crate) fn sign_test(a: u64, b: u64) -> f64 {
    let (n, few) = (a + b, a.min(b));
    let mut term = -(n as f64) * std::f64::consts::LN_2;
    let mut sum = term.exp();
    for index in 0..few {
        term += ((n - index) as f64 / (index + 1) as f64).ln();
        sum += term.exp();
    }
    (2.0 * sum).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::super::tally::tests::fact;
    use super::*;

    #[test]
    fn common_tasks_are_paired() {
        let first = [
            fact("a", "1", Ok(0.0)),
            fact("b", "1", Ok(0.0)),
            fact("b", "2", Ok(1.0)),
            fact("c", "1", Ok(1.0)),
        ];
        let second = [fact("a", "1", Ok(1.0)), fact("b", "1", Ok(0.0)), fact("d", "1", Err("RuntimeError"))];
        let comparison = compare(&first, &second);
        assert_eq!((comparison.common, comparison.only_first, comparison.only_second), (2, 1, 0));
        assert_eq!((comparison.better, comparison.worse, comparison.dropped), (1, 1, [0, 1]));
        assert_eq!(comparison.difference, Some(0.25));
        let big = |sign: f64| [fact("a", "1", Ok(sign * 1e308)), fact("a", "2", Ok(sign * 1e308))];
        let comparison = compare(&big(-1.0), &big(1.0));
        assert_eq!((comparison.common, comparison.better, comparison.difference), (1, 1, None));
        assert_eq!(comparison.tasks[0].second, (1e308, 2));
        assert!((sign_test(8, 2) - 0.109_375).abs() < 1e-12);
        assert!((sign_test(5, 5) - 1.0).abs() < 1e-12);
    }
}
