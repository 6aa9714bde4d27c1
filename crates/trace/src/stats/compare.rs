//! Two sets of trials, on the tasks that both have.

use std::collections::BTreeMap;

use serde::Serialize;

use super::estimate::bootstrap;
use super::{Interval, TrialFacts, repository};

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
    /// All other tasks.
    pub unpaired: Vec<Unpaired>,
    /// The common tasks by repository.
    pub repositories: Vec<Change>,
    /// The trials of common tasks by model.
    pub models: Vec<Change>,
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

/// A task without rewards that count in one of the two, or in both.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unpaired {
    /// The task.
    pub task: String,
    /// Its trials in the first, and how many of them have a reward that counts.
    pub first: (u64, u64),
    /// The same in the second.
    pub second: (u64, u64),
}

/// What changed on the common tasks of one repository, or in the trials of one model on common tasks. A side without such trials
/// has no mean, as where the model is what differs between the two.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// The repository or model; `None` where trials do not say it.
    pub name: Option<String>,
    /// Tasks with such trials in the first, and in the second.
    pub tasks: [u64; 2],
    /// The mean over tasks of the first.
    pub first: Option<f64>,
    /// The mean over tasks of the second.
    pub second: Option<f64>,
    /// The mean difference over the tasks that have such trials in both.
    pub difference: Option<f64>,
    /// Its 95 % interval, by resampling pairs.
    pub interval: Option<Interval>,
    /// Tasks on which the second is better.
    pub better: u64,
    /// Tasks on which it is worse.
    pub worse: u64,
}

/// The tasks of one side, each with its mean reward and over how many trials.
type Means<'a> = BTreeMap<&'a str, (f64, u64)>;

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
    let all = change(None, &common(&one, &two), &common(&two, &one));
    let dropped =
        |trials: &[TrialFacts]| trials.iter().filter(|trial| trial.outcome.reward().is_none()).count() as u64;
    let common = tasks.len() as u64;
    Comparison {
        common,
        only_first: one.len() as u64 - common,
        only_second: two.len() as u64 - common,
        dropped: [dropped(first), dropped(second)],
        first: all.first,
        second: all.second,
        difference: all.difference,
        interval: all.interval,
        better: all.better,
        worse: all.worse,
        p_value: (all.better + all.worse > 0).then(|| sign_test(all.better, all.worse)),
        tasks,
        unpaired: unpaired(first, second, &one, &two),
        repositories: repositories(&one, &two),
        models: models(first, second, &one, &two),
    }
}

fn means<'a>(trials: impl IntoIterator<Item = &'a TrialFacts>) -> Means<'a> {
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

/// The tasks of `these` that `those` have too.
fn common<'a>(these: &Means<'a>, those: &Means<'_>) -> Means<'a> {
    these.iter().filter(|(task, _)| those.contains_key(*task)).map(|(task, mean)| (*task, *mean)).collect()
}

/// What changed between the tasks of both sides.
fn change(name: Option<String>, one: &Means<'_>, two: &Means<'_>) -> Change {
    let mean = |means: &mut dyn Iterator<Item = f64>| {
        let (sum, number) = means.fold((0.0, 0_u64), |(sum, number), mean| (sum + mean, number + 1));
        Some(sum / number as f64).filter(|mean| mean.is_finite())
    };
    let pairs: Vec<_> =
        one.iter().filter_map(|(task, first)| two.get(task).map(|second| (second.0 - first.0, 1))).collect();
    let count = |of: fn(f64) -> bool| pairs.iter().filter(|(difference, _)| of(*difference)).count() as u64;
    Change {
        name,
        tasks: [one.len() as u64, two.len() as u64],
        first: mean(&mut one.values().map(|(mean, _)| *mean)),
        second: mean(&mut two.values().map(|(mean, _)| *mean)),
        difference: mean(&mut pairs.iter().map(|(difference, _)| *difference)),
        interval: bootstrap(&pairs, ROUNDS),
        better: count(|difference| difference > 0.0),
        worse: count(|difference| difference < 0.0),
    }
}

fn unpaired(first: &[TrialFacts], second: &[TrialFacts], one: &Means<'_>, two: &Means<'_>) -> Vec<Unpaired> {
    let mut trials: BTreeMap<&str, [u64; 2]> = BTreeMap::new();
    for (side, facts) in [first, second].into_iter().enumerate() {
        for task in facts.iter().filter_map(|trial| trial.task.as_deref()) {
            trials.entry(task).or_default()[side] += 1;
        }
    }
    let graded = |means: &Means<'_>, task: &str| means.get(task).map_or(0, |(_, graded)| *graded);
    trials
        .into_iter()
        .map(|(task, [first, second])| Unpaired {
            task: task.to_owned(),
            first: (first, graded(one, task)),
            second: (second, graded(two, task)),
        })
        .filter(|task| task.first.1 == 0 || task.second.1 == 0)
        .collect()
}

fn repositories(one: &Means<'_>, two: &Means<'_>) -> Vec<Change> {
    let mut sides: BTreeMap<Option<String>, [Means<'_>; 2]> = BTreeMap::new();
    for (side, means) in [common(one, two), common(two, one)].into_iter().enumerate() {
        for (task, mean) in means {
            sides.entry(repository(task)).or_default()[side].insert(task, mean);
        }
    }
    sides.into_iter().map(|(name, [one, two])| change(name, &one, &two)).collect()
}

fn models(first: &[TrialFacts], second: &[TrialFacts], one: &Means<'_>, two: &Means<'_>) -> Vec<Change> {
    let mut sides: BTreeMap<Option<&str>, [Vec<&TrialFacts>; 2]> = BTreeMap::new();
    for (side, facts) in [first, second].into_iter().enumerate() {
        let is_common = |task: &str| one.contains_key(task) && two.contains_key(task);
        for trial in facts.iter().filter(|trial| trial.task.as_deref().is_some_and(is_common)) {
            sides.entry(trial.model.as_deref()).or_default()[side].push(trial);
        }
    }
    sides
        .into_iter()
        .map(|(name, [first, second])| change(name.map(str::to_owned), &means(first), &means(second)))
        .collect()
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
        let unpaired = |task: &str, first, second| Unpaired { task: task.into(), first, second };
        assert_eq!(comparison.unpaired, [unpaired("c", (1, 1), (0, 0)), unpaired("d", (0, 0), (1, 0))]);
        let big = |sign: f64| [fact("a", "1", Ok(sign * 1e308)), fact("a", "2", Ok(sign * 1e308))];
        let comparison = compare(&big(-1.0), &big(1.0));
        assert_eq!((comparison.common, comparison.better, comparison.difference), (1, 1, None));
        assert_eq!(comparison.tasks[0].second, (1e308, 2));
    }

    #[test]
    fn repositories_and_models_have_their_own_differences() {
        let with = |model: &str, fact: TrialFacts| TrialFacts { model: Some(model.into()), ..fact };
        let first = [
            with("m", fact("o__r-1", "1", Ok(0.0))),
            with("m", fact("o__r-2", "1", Ok(0.5))),
            with("old", fact("o__r-2", "2", Ok(1.0))),
            with("m", fact("plain", "1", Ok(1.0))),
            with("m", fact("o__r-9", "1", Ok(1.0))),
        ];
        let second = [
            with("m", fact("o__r-1", "1", Ok(1.0))),
            with("new", fact("o__r-2", "1", Ok(1.0))),
            with("m", fact("plain", "1", Ok(0.0))),
        ];
        let comparison = compare(&first, &second);
        let of = |changes: &[Change]| -> Vec<_> {
            changes
                .iter()
                .map(|change| {
                    (change.name.clone(), change.tasks, change.difference, change.better, change.worse)
                })
                .collect()
        };
        let name = |name: &str| Some(name.to_owned());
        assert_eq!(
            of(&comparison.repositories),
            [(None, [1, 1], Some(-1.0), 0, 1), (name("o/r"), [2, 2], Some(0.625), 2, 0)]
        );
        assert_eq!(
            of(&comparison.models),
            [
                (name("m"), [3, 2], Some(0.0), 1, 1),
                (name("new"), [0, 1], None, 0, 0),
                (name("old"), [1, 0], None, 0, 0)
            ]
        );
        assert_eq!((comparison.models[0].first, comparison.models[1].second), (Some(0.5), Some(1.0)));
        assert_eq!(comparison.unpaired.len(), 1, "a task of one side is in no change");
    }

    #[test]
    fn the_sign_test_is_exact() {
        assert!((sign_test(8, 2) - 0.109_375).abs() < 1e-12);
        assert!((sign_test(5, 5) - 1.0).abs() < 1e-12);
    }
}
