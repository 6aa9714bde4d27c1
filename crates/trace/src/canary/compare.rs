//! Two canaries, task by task.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::CanaryDocument;
use super::report::{by_task, value};
use crate::stats::{Interval, bootstrap, sign_test};

/// Rounds of resampling.
const ROUNDS: usize = 10_000;
/// A difference that chance alone makes less often than this is taken for one.
const LEVEL: f64 = 0.05;

/// Two canaries on the tasks that both have, unchanged. An errored trial counts 0.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CanaryComparison {
    /// Name of the earlier job.
    pub earlier: String,
    /// The model of the earlier one.
    pub earlier_model: String,
    /// Tasks that both have, with the same content, and have ended in both.
    pub common: u64,
    /// Tasks that only one has, or that have changed in between, or have not ended.
    pub left_out: u64,
    /// What else differs, by name: before, after. The model is no part of it.
    pub differences: Vec<(String, String, String)>,
    /// The mean of the earlier one on common tasks.
    pub before: f64,
    /// The mean of this one.
    pub after: f64,
    /// The second less the first.
    pub difference: f64,
    /// Its 95 % interval, by resampling tasks; none with fewer than two tasks.
    pub interval: Option<Interval>,
    /// Tasks on which this one is better.
    pub better: Vec<String>,
    /// Tasks on which it is worse.
    pub worse: Vec<String>,
    /// How likely so unequal numbers of better and worse tasks are when both are as good: the exact test of McNemar.
    pub p_value: f64,
    /// What that means.
    pub verdict: CanaryVerdict,
    /// With as many worse tasks, so many better ones would have been needed to tell the two apart; none where there are not that
    /// many tasks.
    pub better_needed: Option<u64>,
}

/// Whether two canaries can be told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CanaryVerdict {
    /// The later one is better.
    Better,
    /// It is worse.
    Worse,
    /// Chance alone makes a difference like this too often.
    CannotBeToldApart,
}

/// Why there is nothing to compare.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotComparable {
    /// No task is in both.
    #[error("the two canaries have no task in common that ended in both and has not changed in between")]
    NothingInCommon,
}

/// Compares a canary with an earlier one.
pub fn compare_canaries(
    earlier: &CanaryDocument,
    later: &CanaryDocument,
) -> Result<CanaryComparison, NotComparable> {
    let before: BTreeMap<_, _> = means(earlier);
    let pairs: Vec<(&str, f64, f64)> = means(later)
        .into_iter()
        .filter_map(|((task, digest), after)| Some((task, *before.get(&(task, digest))?, after)))
        .collect();
    if pairs.is_empty() {
        return Err(NotComparable::NothingInCommon);
    }
    let number = pairs.len() as f64;
    let names = |of: fn(f64, f64) -> bool| -> Vec<String> {
        pairs.iter().filter(|(_, a, b)| of(*a, *b)).map(|(task, ..)| (*task).to_owned()).collect()
    };
    let (better, worse) = (names(|a, b| b > a), names(|a, b| b < a));
    let (wins, losses) = (better.len() as u64, worse.len() as u64);
    let p_value = sign_test(wins, losses);
    let verdict = match (p_value < LEVEL, wins > losses) {
        (false, _) => CanaryVerdict::CannotBeToldApart,
        (true, true) => CanaryVerdict::Better,
        (true, false) => CanaryVerdict::Worse,
    };
    let all: BTreeSet<&str> = earlier.tasks.iter().chain(&later.tasks).map(|task| task.id.as_str()).collect();
    let changes: Vec<(f64, u64)> = pairs.iter().map(|(_, a, b)| (b - a, 1)).collect();
    let (before, after) = (
        pairs.iter().map(|pair| pair.1).sum::<f64>() / number,
        pairs.iter().map(|pair| pair.2).sum::<f64>() / number,
    );
    Ok(CanaryComparison {
        earlier: earlier.job.clone(),
        earlier_model: earlier.model.clone(),
        common: pairs.len() as u64,
        left_out: (all.len() - pairs.len()) as u64,
        differences: differences(earlier, later),
        before,
        after,
        difference: after - before,
        interval: bootstrap(&changes, ROUNDS),
        better,
        worse,
        p_value,
        verdict,
        better_needed: (losses..=pairs.len() as u64 - losses).find(|wins| sign_test(*wins, losses) < LEVEL),
    })
}

/// The mean of every task that has ended, by id and content.
fn means(document: &CanaryDocument) -> BTreeMap<(&str, String), f64> {
    let digests: BTreeMap<_, _> =
        document.tasks.iter().map(|task| (task.id.as_str(), task.tree_digest.hex())).collect();
    by_task(document)
        .into_iter()
        .filter(|(_, trials)| !trials.is_empty())
        .map(|(task, trials)| {
            let sum: f64 = trials.iter().map(|trial| value(trial)).sum();
            ((task, digests[task].clone()), sum / trials.len() as f64)
        })
        .collect()
}

fn differences(earlier: &CanaryDocument, later: &CanaryDocument) -> Vec<(String, String, String)> {
    let mut names: BTreeSet<&String> = earlier.settings.keys().chain(later.settings.keys()).collect();
    let model = "model".to_owned();
    names.remove(&model);
    let setting = |document: &CanaryDocument, name: &String| {
        document.settings.get(name).map_or("-", String::as_str).to_owned()
    };
    let mut found: Vec<_> = names
        .into_iter()
        .map(|name| (name.clone(), setting(earlier, name), setting(later, name)))
        .filter(|(_, before, after)| before != after)
        .collect();
    if earlier.repeats != later.repeats {
        found.push(("repeats".into(), earlier.repeats.to_string(), later.repeats.to_string()));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::{canary, thirty};
    use super::*;

    #[test]
    fn fifteen_of_thirty_cannot_be_told_from_twelve() {
        let comparison = compare_canaries(&thirty(12, 0), &thirty(15, 0)).unwrap();
        assert_eq!((comparison.common, comparison.left_out), (30, 0));
        assert_eq!((comparison.better.len(), comparison.worse.len()), (3, 0));
        assert!((comparison.p_value - 0.25).abs() < 1e-12, "2 of the 8 outcomes of three fair coins");
        assert_eq!(comparison.verdict, CanaryVerdict::CannotBeToldApart);
        assert_eq!(comparison.better_needed, Some(6), "2 of 64 are below 0.05, 2 of 32 are not");
        assert!((comparison.difference - 0.1).abs() < 1e-12);
    }

    #[test]
    fn a_clear_difference_is_said_in_both_directions() {
        let (few, many) = (thirty(10, 0), thirty(16, 0));
        assert_eq!(compare_canaries(&few, &many).unwrap().verdict, CanaryVerdict::Better);
        let worse = compare_canaries(&many, &few).unwrap();
        assert_eq!((worse.verdict, worse.worse.len()), (CanaryVerdict::Worse, 6));
        assert!((worse.p_value - 0.031_25).abs() < 1e-12);
    }

    #[test]
    fn changed_tasks_and_settings_are_told() {
        let earlier = canary(&[Ok(1.0), Ok(0.0), Err("ApiError")]);
        let mut later = canary(&[Ok(1.0), Ok(1.0), Ok(1.0)]);
        later.tasks[0].tree_digest = ident::Digest::of("another");
        later.settings = BTreeMap::from([("context".into(), "1".into()), ("model".into(), "n".into())]);
        let comparison = compare_canaries(&earlier, &later).unwrap();
        assert_eq!((comparison.common, comparison.left_out), (2, 1));
        assert_eq!(comparison.better, ["task-01", "task-02"]);
        assert_eq!(comparison.differences, [("context".into(), "-".into(), "1".into())]);
        assert_eq!(comparison.better_needed, None, "two tasks are too few");
        let other = canary(&[]);
        assert_eq!(compare_canaries(&other, &later), Err(NotComparable::NothingInCommon));
    }
}
