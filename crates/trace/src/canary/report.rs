//! What a canary says about its model.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{CanaryDocument, CanaryTrial};
use crate::stats::{Interval, bootstrap, wilson};

/// Rounds of resampling.
const ROUNDS: usize = 10_000;
/// A reward that solves a task.
pub(super) const SOLVED: f64 = 1.0;

/// What a canary says about its model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CanaryReport {
    /// Tasks.
    pub tasks: u64,
    /// Planned trials.
    pub planned: u64,
    /// Trials with a reward of 1.
    pub solved: u64,
    /// Trials with a reward that counts.
    pub rewarded: u64,
    /// Trials that ended without one.
    pub errored: u64,
    /// Trials that have not ended; they are in no mean.
    pub pending: u64,
    /// The headline: the mean reward of all ended trials, an errored one counting 0.
    pub mean_with_errored_as_0: Option<f64>,
    /// The mean of rewarded trials alone, which flatters a model whose trials break.
    pub mean_of_rewarded: Option<CanaryMean>,
    /// The 95 % interval of the headline: Wilson's for one trial a task and rewards of 0 and 1, else by resampling tasks.
    pub interval: Option<Interval>,
    /// What went wrong, by name, in ascending order.
    pub exceptions: Vec<CanaryException>,
    /// The tasks in the order in which they were drawn.
    pub by_task: Vec<CanaryRow>,
    /// The repositories in ascending order; tasks of unknown ones are under an empty name.
    pub by_repository: Vec<CanaryRow>,
}

/// A mean, and over how many trials.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CanaryMean {
    /// The mean.
    pub mean: f64,
    /// Trials.
    pub over: u64,
}

/// What went wrong, and how often.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CanaryException {
    /// Its name.
    pub exception: String,
    /// Trials.
    pub trials: u64,
    /// Those of them that have a reward all the same.
    pub rewarded: u64,
}

/// The trials of one task or repository.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CanaryRow {
    /// The task's id, or the repository's name.
    pub name: String,
    /// Tasks.
    pub tasks: u64,
    /// Trials that have ended.
    pub trials: u64,
    /// Those with a reward of 1.
    pub solved: u64,
    /// Those without a reward.
    pub errored: u64,
    /// The mean reward, an errored trial counting 0.
    pub mean: Option<f64>,
    /// What went wrong, by name.
    pub exceptions: Vec<String>,
}

/// A trial's part in the headline.
pub(super) fn value(trial: &CanaryTrial) -> f64 {
    trial.reward.unwrap_or(0.0)
}

fn is_solved(trial: &CanaryTrial) -> bool {
    trial.reward.is_some_and(|reward| reward >= SOLVED)
}

/// The trials of every task, in the order of tasks.
pub(super) fn by_task(document: &CanaryDocument) -> Vec<(&str, Vec<&CanaryTrial>)> {
    let mut of: BTreeMap<&str, Vec<&CanaryTrial>> = BTreeMap::new();
    for trial in &document.trials {
        of.entry(&trial.task).or_default().push(trial);
    }
    document
        .tasks
        .iter()
        .map(|task| (task.id.as_str(), of.remove(task.id.as_str()).unwrap_or_default()))
        .collect()
}

/// Works a canary out.
pub fn report(document: &CanaryDocument) -> CanaryReport {
    let groups = by_task(document);
    let ended: Vec<&CanaryTrial> = groups.iter().flat_map(|(_, trials)| trials.iter().copied()).collect();
    let count = |of: &dyn Fn(&CanaryTrial) -> bool| ended.iter().filter(|trial| of(trial)).count() as u64;
    let rewards: Vec<f64> = ended.iter().filter_map(|trial| trial.reward).collect();
    let planned = document.tasks.len() as u64 * u64::from(document.repeats);
    let rewarded = rewards.len() as u64;
    let clusters: Vec<(f64, u64)> = groups
        .iter()
        .filter(|(_, trials)| !trials.is_empty())
        .map(|(_, trials)| (trials.iter().map(|trial| value(trial)).sum(), trials.len() as u64))
        .collect();
    let solved = count(&is_solved);
    let single = document.repeats == 1 && ended.iter().all(|trial| [0.0, SOLVED].contains(&value(trial)));
    let repository = |task: &str| {
        let task = document.tasks.iter().find(|known| known.id == task);
        task.and_then(|task| task.repository.clone()).unwrap_or_default()
    };
    let mut repositories: BTreeMap<String, (u64, Vec<&CanaryTrial>)> = BTreeMap::new();
    for (task, trials) in &groups {
        let (tasks, all) = repositories.entry(repository(task)).or_default();
        *tasks += 1;
        all.extend(trials);
    }
    CanaryReport {
        tasks: document.tasks.len() as u64,
        planned,
        solved,
        rewarded,
        errored: ended.len() as u64 - rewarded,
        pending: planned.saturating_sub(ended.len() as u64),
        mean_with_errored_as_0: mean(&ended),
        mean_of_rewarded: (rewarded > 0)
            .then(|| CanaryMean { mean: rewards.iter().sum::<f64>() / rewarded as f64, over: rewarded }),
        interval: if single { wilson(solved, ended.len() as u64) } else { bootstrap(&clusters, ROUNDS) },
        exceptions: exceptions(&ended),
        by_task: groups.iter().map(|(task, trials)| row((*task).to_owned(), 1, trials)).collect(),
        by_repository: repositories
            .into_iter()
            .map(|(name, (tasks, trials))| row(name, tasks, &trials))
            .collect(),
    }
}

fn mean(trials: &[&CanaryTrial]) -> Option<f64> {
    let sum: f64 = trials.iter().map(|trial| value(trial)).sum();
    (!trials.is_empty()).then(|| sum / trials.len() as f64)
}

fn row(name: String, tasks: u64, trials: &[&CanaryTrial]) -> CanaryRow {
    CanaryRow {
        name,
        tasks,
        trials: trials.len() as u64,
        solved: trials.iter().filter(|trial| is_solved(trial)).count() as u64,
        errored: trials.iter().filter(|trial| trial.reward.is_none()).count() as u64,
        mean: mean(trials),
        exceptions: exceptions(trials).into_iter().map(|exception| exception.exception).collect(),
    }
}

fn exceptions(trials: &[&CanaryTrial]) -> Vec<CanaryException> {
    let mut found: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for trial in trials {
        if let Some(exception) = &trial.exception {
            let (trials, rewarded) = found.entry(exception).or_default();
            *trials += 1;
            *rewarded += u64::from(trial.reward.is_some());
        }
    }
    found
        .into_iter()
        .map(|(exception, (trials, rewarded))| CanaryException {
            exception: exception.to_owned(),
            trials,
            rewarded,
        })
        .collect()
}

#[cfg(test)]
pub(super) mod tests {
    use ident::Digest;

    use super::super::CanaryTask;
    use super::*;
    use crate::stats::Method;

    /// A canary with one attempt at each task: a reward, or the name of an exception.
    pub(crate) fn canary(outcomes: &[Result<f64, &str>]) -> CanaryDocument {
        let id = |index: usize| format!("task-{index:02}");
        CanaryDocument {
            schema: "seatrial.canary/1".into(),
            job: "j".into(),
            model: "m".into(),
            tasks_from: "set".into(),
            settings: BTreeMap::new(),
            repeats: 1,
            tasks: (0..outcomes.len())
                .map(|index| CanaryTask {
                    id: id(index),
                    repository: Some(format!("owner/{}", index % 3)),
                    tree_digest: Digest::of(id(index)),
                })
                .collect(),
            trials: outcomes
                .iter()
                .enumerate()
                .map(|(index, outcome)| CanaryTrial {
                    task: id(index),
                    attempt: 0,
                    trial: format!("{}__x", id(index)),
                    reward: outcome.ok(),
                    exception: outcome.err().map(str::to_owned),
                    wall_ms: 1,
                })
                .collect(),
        }
    }

    /// So many solved, failed and broken ones.
    pub(crate) fn thirty(solved: usize, broken: usize) -> CanaryDocument {
        let outcomes: Vec<_> = (0..30)
            .map(|index| match index {
                index if index < solved => Ok(1.0),
                index if index >= 30 - broken => Err("AgentTimeoutError"),
                _ => Ok(0.0),
            })
            .collect();
        canary(&outcomes)
    }

    #[test]
    fn twelve_of_thirty_is_two_fifths_and_the_interval_is_wide() {
        let report = report(&thirty(12, 0));
        assert_eq!((report.solved, report.rewarded, report.errored, report.pending), (12, 30, 0, 0));
        assert!(report.exceptions.is_empty());
        assert!((report.mean_with_errored_as_0.unwrap() - 0.4).abs() < 1e-12);
        let interval = report.interval.unwrap();
        assert_eq!(interval.method, Method::Wilson);
        assert_eq!(
            (format!("{:.2}", interval.low), format!("{:.2}", interval.high)),
            ("0.25".into(), "0.58".into())
        );
    }

    #[test]
    fn errors_are_counted_apart_and_the_headline_has_them_as_0() {
        let report = report(&thirty(12, 3));
        assert_eq!(format!("{:.3}", report.mean_with_errored_as_0.unwrap()), "0.400");
        let rewarded = report.mean_of_rewarded.unwrap();
        assert_eq!((format!("{:.3}", rewarded.mean), rewarded.over), ("0.444".into(), 27));
        let timeout = CanaryException { exception: "AgentTimeoutError".into(), trials: 3, rewarded: 0 };
        assert_eq!((report.errored, report.exceptions), (3, vec![timeout]));
        let rows: u64 = report.by_repository.iter().map(|row| row.solved).sum();
        assert_eq!((report.by_repository.len(), rows), (3, 12));
    }

    #[test]
    fn repeats_depend_on_each_other_and_pending_ones_are_in_no_mean() {
        let mut document = canary(&[Ok(1.0), Ok(0.0), Ok(1.0), Ok(0.0)]);
        document.repeats = 2;
        let more: Vec<_> =
            document.trials.iter().map(|trial| CanaryTrial { attempt: 1, ..trial.clone() }).collect();
        document.trials.extend(more.into_iter().take(3));
        let report = report(&document);
        assert_eq!((report.planned, report.pending, report.solved), (8, 1, 4));
        assert_eq!(report.mean_with_errored_as_0, Some(4.0 / 7.0));
        assert_eq!(report.interval.unwrap().method, Method::BootstrapOverTasks);
        document.trials.clear();
        assert_eq!(super::report(&document).mean_with_errored_as_0, None);
    }
}
