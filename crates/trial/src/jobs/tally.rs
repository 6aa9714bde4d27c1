//! The running count of a job, and the statistics that Harbor keeps of it.

use std::collections::BTreeMap;

use job::{EvalStats, JobStats, ModelWork, Rewards, python_float};

/// What one ended trial adds to the count.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ended {
    /// Agent, model and source of the task, as Harbor joins them.
    pub(crate) eval: String,
    pub(crate) task: String,
    pub(crate) trial: String,
    /// Rewards that count.
    pub(crate) rewards: Option<Rewards>,
    /// Harbor's name of what went wrong; a reward may stand beside it.
    pub(crate) exception: Option<&'static str>,
    pub(crate) cancelled: bool,
    /// What was done with a model.
    pub(crate) work: Option<ModelWork>,
}

/// How far a job is.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) running: usize,
    pub(crate) retries: usize,
    ended: Vec<Ended>,
}

impl Tally {
    pub(crate) fn add(&mut self, ended: Ended) {
        self.ended.push(ended);
    }

    pub(crate) fn ended(&self) -> usize {
        self.ended.len()
    }

    /// Harbor's statistics; `total` is how many trials there are to be.
    pub(crate) fn stats(&self, total: usize) -> JobStats {
        let mut evals: BTreeMap<&str, Vec<&Ended>> = BTreeMap::new();
        for ended in &self.ended {
            evals.entry(&ended.eval).or_default().push(ended);
        }
        // Sums over the trials that say; nothing where none does.
        let tokens = |of: fn(&ModelWork) -> Option<u64>| {
            self.ended.iter().filter_map(|ended| of(ended.work.as_ref()?)).reduce(|a, b| a + b)
        };
        let cost = self.ended.iter().filter_map(|ended| ended.work.as_ref()?.cost_usd).reduce(|a, b| a + b);
        let errored = self.ended.iter().filter(|ended| ended.exception.is_some()).count();
        JobStats {
            n_completed_trials: self.ended.len(),
            n_errored_trials: errored,
            n_running_trials: self.running,
            n_pending_trials: total.saturating_sub(self.ended.len() + self.running),
            n_cancelled_trials: self.ended.iter().filter(|ended| ended.cancelled).count(),
            n_retries: self.retries,
            evals: evals.into_iter().map(|(name, ended)| (name.to_owned(), eval_stats(&ended))).collect(),
            n_input_tokens: tokens(|work| work.input_tokens),
            n_cache_tokens: tokens(|work| work.cache_tokens),
            n_output_tokens: tokens(|work| work.output_tokens),
            cost_usd: cost,
        }
    }
}

fn eval_stats(ended: &[&Ended]) -> EvalStats {
    let graded: Vec<(&Ended, &Rewards)> =
        ended.iter().filter_map(|ended| Some((*ended, ended.rewards.as_ref()?))).collect();
    let mut stats = EvalStats {
        n_trials: graded.len(),
        metrics: means(&graded).into_iter().collect(),
        pass_at_k: pass_at_k(&graded),
        ..EvalStats::default()
    };
    for (ended, rewards) in &graded {
        for (key, value) in *rewards {
            let by_value = stats.reward_stats.entry(key.clone()).or_default();
            by_value.entry(python_float(*value)).or_default().push(ended.trial.clone());
        }
    }
    for ended in ended {
        if let Some(exception) = ended.exception {
            stats.n_errors += 1;
            stats.exception_stats.entry(exception.into()).or_default().push(ended.trial.clone());
        }
    }
    let lists = stats.reward_stats.values_mut().flat_map(BTreeMap::values_mut);
    lists.chain(stats.exception_stats.values_mut()).for_each(|trials| trials.sort());
    stats
}

/// `mean` where there is one reward, else one mean a reward; a reward that a trial does not name counts 0 there, as in Harbor.
fn means(graded: &[(&Ended, &Rewards)]) -> Option<BTreeMap<String, f64>> {
    let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
    for (key, value) in graded.iter().flat_map(|(_, rewards)| *rewards) {
        *sums.entry(key).or_default() += value;
    }
    let alone = sums.len() == 1;
    let mean = |(key, sum): (&str, f64)| {
        let name = if alone { "mean" } else { key };
        (name.to_owned(), sum / graded.len() as f64)
    };
    (!sums.is_empty()).then(|| sums.into_iter().map(mean).collect())
}

/// The unbiased estimate `1 - C(n-c, k) / C(n, k)` averaged over tasks, for k = 2, 4, 8, … and 5, 10, 15, … up to the smallest
/// number of trials of a task; only where every trial has one reward, which is 0 or 1.
fn pass_at_k(graded: &[(&Ended, &Rewards)]) -> BTreeMap<String, f64> {
    let mut tasks: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
    let mut keys: Vec<&String> = graded.iter().flat_map(|(_, rewards)| rewards.keys()).collect();
    keys.sort();
    keys.dedup();
    let &[key] = keys.as_slice() else { return BTreeMap::new() };
    for (ended, rewards) in graded {
        let passed = match rewards.get(key) {
            Some(0.0) => 0,
            Some(1.0) => 1,
            _ => return BTreeMap::new(),
        };
        let (trials, passes) = tasks.entry(&ended.task).or_default();
        *trials += 1;
        *passes += passed;
    }
    let most = tasks.values().map(|(trials, _)| *trials).min().unwrap_or(0);
    let mut ks: Vec<u32> = std::iter::successors(Some(2_u32), |k| k.checked_mul(2))
        .take_while(|k| *k <= most)
        .chain((5..=most).step_by(5))
        .collect();
    ks.sort_unstable();
    ks.dedup();
    let estimate = |k: u32| {
        let sum: f64 = tasks.values().map(|(trials, passes)| passes_within(*trials, *passes, k)).sum();
        (k.to_string(), sum / tasks.len() as f64)
    };
    ks.into_iter().map(estimate).collect()
}

/// How likely it is that k of `trials` drawn without replacement hold one of the `passes`.
fn passes_within(trials: u32, passes: u32, k: u32) -> f64 {
    if trials - passes < k {
        return 1.0;
    }
    let none: f64 = (trials - passes + 1..=trials).map(|n| 1.0 - f64::from(k) / f64::from(n)).product();
    1.0 - none
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(task: &str, trial: &str, reward: Option<f64>, exception: Option<&'static str>) -> Ended {
        Ended {
            eval: "oracle__set".into(),
            task: task.into(),
            trial: trial.into(),
            rewards: reward.map(|reward| Rewards::from([("reward".into(), reward)])),
            exception,
            cancelled: false,
            work: None,
        }
    }

    #[test]
    fn errors_are_beside_the_mean_and_counted() {
        let mut tally = Tally::default();
        tally.add(ended("a", "a__2", Some(1.0), None));
        tally.add(ended("a", "a__1", Some(1.0), Some("AgentTimeoutError")));
        tally.add(ended("b", "b__1", None, Some("RewardFileNotFoundError")));
        let stats = tally.stats(5);
        assert_eq!((stats.n_completed_trials, stats.n_errored_trials, stats.n_pending_trials), (3, 2, 2));
        let eval = &stats.evals["oracle__set"];
        assert_eq!((eval.n_trials, eval.n_errors), (2, 2));
        assert_eq!(eval.metrics, [BTreeMap::from([("mean".to_owned(), 1.0)])]);
        assert_eq!(eval.reward_stats["reward"]["1.0"], ["a__1", "a__2"]);
        assert_eq!(eval.exception_stats["AgentTimeoutError"], ["a__1"]);
    }

    #[test]
    fn nothing_graded_has_no_mean() {
        let mut tally = Tally::default();
        tally.add(ended("b", "b__1", None, Some("RewardFileNotFoundError")));
        assert!(tally.stats(1).evals["oracle__set"].metrics.is_empty());
    }

    #[test]
    fn several_rewards_have_a_mean_each() {
        let mut tally = Tally::default();
        let mut both = ended("a", "a__1", Some(1.0), None);
        both.rewards.as_mut().unwrap().insert("style".into(), 0.5);
        tally.add(both);
        tally.add(ended("b", "b__1", Some(0.0), None));
        let means = &tally.stats(2).evals["oracle__set"].metrics[0];
        assert_eq!(*means, BTreeMap::from([("reward".into(), 0.5), ("style".into(), 0.25)]));
    }

    #[test]
    fn pass_at_k_is_the_unbiased_estimate() {
        let mut tally = Tally::default();
        for (trial, reward) in [1.0, 0.0, 0.0, 0.0].into_iter().enumerate() {
            tally.add(ended("a", &format!("a__{trial}"), Some(reward), None));
            tally.add(ended("b", &format!("b__{trial}"), Some(1.0), None));
        }
        let pass = tally.stats(8).evals["oracle__set"].pass_at_k.clone();
        // One of four: 2 drawn miss it with probability 1/2, 4 drawn cannot.
        assert_eq!(pass, BTreeMap::from([("2".into(), 0.75), ("4".into(), 1.0)]));
        assert!((passes_within(10, 3, 5) - (1.0 - 21.0 / 252.0)).abs() < 1e-12);
    }
}
