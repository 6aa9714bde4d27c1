//! What a job's own result says about its trials, held against the trials.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;

use super::field::{Field, Object};
use super::job_documents::{Eval, Lists, Stats};
use super::oddity::{Odd, What};
use super::outcome::REWARD;
use super::tally::Tally;
use super::terminal_bench::{Run, RunResults};
use super::view::{TrialState, TrialView};

/// Two means that differ by less were computed in another order.
const MEAN_TOLERANCE: f64 = 1e-9;

/// A trial that the job's result lists and that has no directory.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct LostTrial {
    /// Its name.
    pub name: String,
    /// Its rewards by the job's result.
    pub rewards: BTreeMap<String, f64>,
    /// What went wrong in it by the job's result.
    pub exception: Option<String>,
}

/// What a job's result says.
#[derive(Debug, Default)]
pub(super) struct Claims {
    counts: Vec<(&'static str, u64, Count)>,
    trials: BTreeMap<String, LostTrial>,
    evals: Vec<EvalClaim>,
    /// Whether there is a result that could list trials.
    is_there: bool,
}

/// What a number of a result counts.
#[derive(Debug, Clone, Copy)]
enum Count {
    Ended,
    WithException,
    Cancelled,
    Solved,
    Unsolved,
}

#[derive(Debug, Default)]
struct EvalClaim {
    name: String,
    trials: BTreeSet<String>,
    means: Vec<f64>,
}

impl Claims {
    /// Takes the claims out of a result of Harbor's.
    pub(super) fn from_stats(stats: Stats, odd: &mut Odd) -> Self {
        let mut claims = Self { is_there: true, ..Self::default() };
        let numbers = [
            ("stats.n_completed_trials", stats.n_completed_trials, Count::Ended),
            ("stats.n_trials", stats.n_trials, Count::Ended),
            ("stats.n_errored_trials", stats.n_errored_trials, Count::WithException),
            ("stats.n_errors", stats.n_errors, Count::WithException),
            ("stats.n_cancelled_trials", stats.n_cancelled_trials, Count::Cancelled),
        ];
        for (key, field, count) in numbers {
            if let Some(number) = field.take(key, odd) {
                claims.counts.push((key, number, count));
            }
        }
        for (name, eval) in stats.evals.take("stats.evals", odd).unwrap_or_default() {
            let key = format!("stats.evals.{name}");
            if let Some(Object(eval)) = eval.take(&key, odd) {
                claims.eval(name, &key, eval, odd);
            }
        }
        claims
    }

    fn eval(&mut self, name: String, key: &str, eval: Eval, odd: &mut Odd) {
        let mut claim = EvalClaim { name, ..EvalClaim::default() };
        for (reward, values) in
            eval.reward_stats.take(&format!("{key}.reward_stats"), odd).unwrap_or_default()
        {
            let key = format!("{key}.reward_stats.{reward}");
            for (value, trials) in names(values, &key, odd) {
                let Ok(number) = value.parse::<f64>() else {
                    odd.add(What::WrongType {
                        key: format!("{key}.{value}"),
                        found: "a text",
                        wanted: "a number",
                    });
                    continue;
                };
                for trial in trials {
                    claim.trials.insert(trial.clone());
                    if self.trial(&trial).rewards.insert(reward.clone(), number).is_some() {
                        odd.add(What::ListedTwice { trial, key: key.clone() });
                    }
                }
            }
        }
        let key_of_exceptions = format!("{key}.exception_stats");
        for (exception, trials) in names(eval.exception_stats, &key_of_exceptions, odd) {
            for trial in trials {
                claim.trials.insert(trial.clone());
                if self.trial(&trial).exception.replace(exception.clone()).is_some() {
                    odd.add(What::ListedTwice { trial, key: key_of_exceptions.clone() });
                }
            }
        }
        for metric in eval.metrics.take(&format!("{key}.metrics"), odd).into_iter().flatten() {
            let metric = metric.take(&format!("{key}.metrics"), odd).unwrap_or_default();
            // With several rewards there is a number for each.
            let mean = metric.into_iter().find(|(name, _)| name == "mean" || name == REWARD);
            claim
                .means
                .extend(mean.and_then(|(name, mean)| mean.take(&format!("{key}.metrics.{name}"), odd)));
        }
        self.evals.push(claim);
    }

    /// Takes the claims out of the results of a run of Terminal-Bench.
    pub(super) fn from_run(results: RunResults, odd: &mut Odd) -> Self {
        let mut claims = Self { is_there: true, ..Self::default() };
        for (index, trial) in results.results.take("results", odd).into_iter().flatten().enumerate() {
            let key = format!("results[{index}]");
            let Some(Object(trial)) = trial.take(&key, odd) else { continue };
            // What is odd about a trial is said where the trial itself is read.
            let (said, _) = trial.said(&Run::default(), &mut Odd::default());
            let Some(name) = said.name else { continue };
            let exception =
                said.state.as_ref().and_then(TrialState::failure).map(|failure| failure.exception.clone());
            let claim = LostTrial { name: name.clone(), rewards: said.rewards, exception };
            if claims.trials.insert(name.clone(), claim).is_some() {
                odd.add(What::ListedTwice { trial: name, key: "results".to_owned() });
            }
        }
        for (key, field, count) in [
            ("n_resolved", results.n_resolved, Count::Solved),
            ("n_unresolved", results.n_unresolved, Count::Unsolved),
        ] {
            if let Some(number) = field.take(key, odd) {
                claims.counts.push((key, number, count));
            }
        }
        claims
    }

    fn trial(&mut self, name: &str) -> &mut LostTrial {
        let empty = || LostTrial { name: name.to_owned(), ..LostTrial::default() };
        self.trials.entry(name.to_owned()).or_insert_with(empty)
    }

    /// How many trials are listed.
    pub(super) fn len(&self) -> usize {
        self.trials.len()
    }

    /// Holds the claims against the trials of a job, and returns the trials that have no directory. While a job does not
    /// stand still its result is behind its trials.
    pub(super) fn check(self, trials: &[TrialView], stands_still: bool, odd: &mut Odd) -> Vec<LostTrial> {
        let by_name: HashMap<&str, &TrialView> =
            trials.iter().map(|trial| (trial.name.as_str(), trial)).collect();
        for (name, claim) in &self.trials {
            if let Some(trial) = by_name.get(name.as_str()) {
                compare(claim, trial, odd);
            }
        }
        let is_listed = |trial: &&TrialView| self.trials.contains_key(&trial.name);
        let unlisted = trials.iter().filter(|trial| trial.state.has_ended() && !is_listed(trial));
        // A trial without reward and without exception stands in no list.
        let unlisted = unlisted.filter(|trial| trial.state != TrialState::Ungraded);
        if stands_still && self.is_there {
            for trial in unlisted {
                odd.add(What::Unlisted { trial: trial.name.clone() });
            }
        }
        let is_lost = |name: &String| !by_name.contains_key(name.as_str());
        let complete = !self.trials.keys().any(is_lost);
        if stands_still && complete {
            self.check_counts(trials, odd);
            self.check_means(&by_name, odd);
        }
        let lost: Vec<_> = self.trials.into_values().filter(|claim| is_lost(&claim.name)).collect();
        if let Some(first) = lost.first() {
            odd.add(What::Lost { count: lost.len(), first: first.name.clone() });
        }
        lost
    }

    fn check_counts(&self, trials: &[TrialView], odd: &mut Odd) {
        let count = |of: &dyn Fn(&TrialView) -> bool| trials.iter().filter(|trial| of(trial)).count();
        for &(key, claimed, what) in &self.counts {
            let counted = match what {
                Count::Ended => count(&|trial| trial.state.has_ended()),
                Count::WithException => count(&|trial| trial.state.failure().is_some()),
                Count::Cancelled => count(&|trial| {
                    trial.state.failure().is_some_and(|failure| failure.exception == "CancelledError")
                }),
                Count::Solved => count(&|trial| trial.state.reward().is_some_and(|reward| reward >= 1.0)),
                // Terminal-Bench counts what has no answer as unsolved.
                Count::Unsolved => count(&|trial| {
                    trial.state.has_ended() && trial.state.reward().is_none_or(|reward| reward < 1.0)
                }),
            };
            if claimed != counted as u64 {
                let (claimed, counted) = (claimed.to_string(), counted.to_string());
                odd.add(What::CountDiffers { key: key.to_owned(), claimed, counted });
            }
        }
    }

    /// Harbor 0.26 leaves trials without a reward that counts out of the mean; before, they were 0.
    fn check_means(&self, by_name: &HashMap<&str, &TrialView>, odd: &mut Odd) {
        for eval in &self.evals {
            let trials = eval.trials.iter().filter_map(|name| by_name.get(name.as_str()).copied());
            let tally: Tally = trials.collect();
            let near = |claimed: f64| {
                let means = [tally.graded(), tally.errors_as_zero()];
                // No trial with a reward is a mean of 0 to Harbor.
                (tally.rewarded == 0 && claimed == 0.0)
                    || means.into_iter().flatten().any(|mean| (mean.mean - claimed).abs() < MEAN_TOLERANCE)
            };
            for &claimed in eval.means.iter().filter(|claimed| !near(**claimed)) {
                let counted = tally.graded().map_or_else(|| "none".to_owned(), |mean| mean.mean.to_string());
                let key = format!("stats.evals.{}.metrics.mean", eval.name);
                odd.add(What::CountDiffers { key, claimed: claimed.to_string(), counted });
            }
        }
    }
}

/// Holds what a result says of one trial against the trial.
fn compare(claim: &LostTrial, trial: &TrialView, odd: &mut Odd) {
    let name = || claim.name.clone();
    if !trial.state.has_ended() {
        odd.add(What::CountedUnended { trial: name() });
        return;
    }
    let none = || "none".to_owned();
    let keys: BTreeSet<_> = claim.rewards.keys().chain(trial.rewards.keys()).collect();
    for key in keys {
        let (claimed, found) = (claim.rewards.get(key), trial.rewards.get(key));
        // A reward that does not count need not be listed.
        if claimed == found || (claimed.is_none() && trial.state.reward().is_none()) {
            continue;
        }
        let show = |value: Option<&f64>| value.map_or_else(none, f64::to_string);
        odd.add(What::RewardDiffers {
            trial: name(),
            key: key.clone(),
            claimed: show(claimed),
            found: show(found),
        });
    }
    let found = trial.state.failure().map(|failure| &failure.exception);
    if claim.exception.as_ref() != found {
        let show = |value: Option<&String>| value.map_or_else(|| "no exception".to_owned(), Clone::clone);
        let (claimed, found) = (show(claim.exception.as_ref()), show(found));
        odd.add(What::ExceptionDiffers { trial: name(), claimed, found });
    }
}

fn names(lists: Field<Lists>, key: &str, odd: &mut Odd) -> Vec<(String, Vec<String>)> {
    let lists = lists.take(key, odd).unwrap_or_default();
    lists
        .into_iter()
        .map(|(value, trials)| {
            let key = format!("{key}.{value}");
            let trials = trials.take(&key, odd).unwrap_or_default();
            let trials = trials.into_iter().filter_map(|trial| trial.take(&key, odd)).collect();
            (value, trials)
        })
        .collect()
}
