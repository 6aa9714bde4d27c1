//! Everything that is computed of a set of trials.

use std::collections::BTreeMap;

use serde::Serialize;

use super::estimate::pass_at;
use super::group::groups;
use super::{Distribution, Group, Groups, PassAt, Stage, TrialFacts, TrialTally};
use job::python_float;

/// What a set of trials amounts to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stats {
    /// The reward from which on a task counts as solved.
    pub threshold: f64,
    /// All trials.
    pub all: TrialTally,
    /// What went wrong, the most frequent first.
    pub exceptions: Vec<ExceptionCount>,
    /// pass@k and pass^k, over the graded trials of a task.
    pub pass_at: Vec<PassAt>,
    /// Trials that pass@k leaves out because their reward does not count or there is none.
    pub pass_at_dropped: u64,
    /// Groups by how far their rewards lie apart.
    pub groups: Groups,
    /// Turns of the agent.
    pub turns: Option<Distribution>,
    /// Turns of trials with a reward above 0, and of the others.
    pub turns_by_success: [Option<Distribution>; 2],
    /// Tokens in prompts, over all turns of a trial.
    pub prompt_tokens: Option<Distribution>,
    /// Tokens that the model wrote.
    pub completion_tokens: Option<Distribution>,
    /// Cost in dollars.
    pub cost_usd: Option<Distribution>,
    /// Wall time in milliseconds.
    pub wall_ms: Option<Distribution>,
    /// Trials whose context or answer was full.
    pub truncation: Subset,
    /// Trials with a trajectory in which the agent has no turn, as where everything broke before the first call of the model.
    pub without_turn: Subset,
    /// Trajectories by version of their format.
    pub formats: BTreeMap<String, u64>,
    /// Every task.
    pub tasks: Vec<Breakdown>,
    /// Every repository that the names of tasks tell.
    pub repositories: Vec<Breakdown>,
    /// Every model.
    pub models: Vec<Breakdown>,
    /// Every run.
    pub runs: Vec<Breakdown>,
    /// Every group.
    pub group_list: Vec<Group>,
}

/// How often something went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExceptionCount {
    /// Its name.
    pub exception: String,
    /// The stage in which it happened.
    pub stage: Option<Stage>,
    /// The trials.
    pub trials: u64,
    /// Those of them whose reward counts all the same.
    pub rewarded: u64,
    /// The rewards that are written beside it, counted or not, as text.
    pub rewards: BTreeMap<String, u64>,
}

/// Trials that have something in common.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Subset {
    /// The trials.
    pub trials: u64,
    /// Those of them with a reward that counts.
    pub rewarded: u64,
    /// Those of them that are solved.
    pub solved: u64,
    /// Their mean reward.
    pub mean: Option<f64>,
}

/// The trials of one task, repository, model or run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Breakdown {
    /// Its name; `None` for trials that do not say it.
    pub name: Option<String>,
    /// The trials.
    #[serde(flatten)]
    pub tally: TrialTally,
    /// pass@k over its tasks.
    pub pass_at: Vec<PassAt>,
}

/// Computes everything. A reward of at least `threshold` solves a task.
pub fn stats(trials: &[TrialFacts], threshold: f64) -> Stats {
    let group_list = groups(trials, threshold);
    let spread = |of: &dyn Fn(&TrialFacts) -> Option<f64>| Distribution::of(trials.iter().filter_map(of));
    let number = |value: Option<u64>| value.map(|value| value as f64);
    let turns_of = |success: bool| {
        let wanted =
            |trial: &&TrialFacts| trial.outcome.reward().is_some_and(|reward| (reward > 0.0) == success);
        Distribution::of(trials.iter().filter(wanted).filter_map(|trial| number(trial.turns)))
    };
    let subset = |of: fn(&&TrialFacts) -> bool| {
        let tally = TrialTally::of(trials.iter().filter(of), threshold);
        Subset {
            trials: tally.trials,
            rewarded: tally.rewarded,
            solved: tally.solved,
            mean: tally.graded.map(|graded| graded.mean),
        }
    };
    let mut formats = BTreeMap::new();
    for format in trials.iter().filter_map(|trial| trial.format.as_deref()) {
        *formats.entry(format.to_owned()).or_default() += 1;
    }
    let by = |key: &dyn Fn(&TrialFacts) -> Option<String>| breakdowns(trials, threshold, key);
    Stats {
        threshold,
        all: TrialTally::of(trials, threshold),
        exceptions: exceptions(trials),
        pass_at: pass(trials, threshold),
        pass_at_dropped: trials.iter().filter(|trial| trial.outcome.reward().is_none()).count() as u64,
        groups: Groups::of(&group_list),
        turns: spread(&|trial| number(trial.turns)),
        turns_by_success: [turns_of(true), turns_of(false)],
        prompt_tokens: spread(&|trial| number(trial.usage.prompt)),
        completion_tokens: spread(&|trial| number(trial.usage.completion)),
        cost_usd: spread(&|trial| trial.usage.cost_usd),
        wall_ms: spread(&|trial| number(trial.wall_ms)),
        truncation: subset(|trial| trial.truncated),
        without_turn: subset(|trial| trial.turns == Some(0)),
        formats,
        tasks: by(&|trial| trial.task.as_deref().map(str::to_owned)),
        repositories: by(&TrialFacts::repository),
        models: by(&|trial| trial.model.as_deref().map(str::to_owned)),
        runs: by(&|trial| Some(trial.run_id.to_string())),
        group_list,
    }
}

fn exceptions(trials: &[TrialFacts]) -> Vec<ExceptionCount> {
    let mut counts: BTreeMap<(&str, Option<Stage>), ExceptionCount> = BTreeMap::new();
    for trial in trials {
        let Some(exception) = trial.outcome.exception() else { continue };
        let count = counts.entry((exception, trial.stage)).or_insert_with(|| ExceptionCount {
            exception: exception.to_string(),
            stage: trial.stage,
            trials: 0,
            rewarded: 0,
            rewards: BTreeMap::new(),
        });
        count.trials += 1;
        count.rewarded += u64::from(trial.outcome.reward().is_some());
        if let Some(reward) = trial.outcome.written() {
            *count.rewards.entry(python_float(reward)).or_default() += 1;
        }
    }
    let mut counts: Vec<_> = counts.into_values().collect();
    counts.sort_by(|a, b| b.trials.cmp(&a.trials).then_with(|| a.exception.cmp(&b.exception)));
    counts
}

/// pass@k over the tasks: trials of a task by different agents, models and runs are not the same thing, and are kept apart.
fn pass(trials: &[TrialFacts], threshold: f64) -> Vec<PassAt> {
    let mut tasks: BTreeMap<_, (u64, u64)> = BTreeMap::new();
    for trial in trials {
        if let Some(reward) = trial.outcome.reward() {
            let key = (
                trial.run_id.as_ref(),
                trial.agent.as_deref(),
                trial.model.as_deref(),
                trial.task.as_deref(),
            );
            let (graded, solved) = tasks.entry(key).or_default();
            *graded += 1;
            *solved += u64::from(reward >= threshold);
        }
    }
    pass_at(&tasks.into_values().collect::<Vec<_>>())
}

fn breakdowns(
    trials: &[TrialFacts],
    threshold: f64,
    key: &dyn Fn(&TrialFacts) -> Option<String>,
) -> Vec<Breakdown> {
    let mut by: BTreeMap<Option<String>, Vec<TrialFacts>> = BTreeMap::new();
    for trial in trials {
        by.entry(key(trial)).or_default().push(trial.clone());
    }
    by.into_iter()
        .map(|(name, trials)| Breakdown {
            name,
            tally: TrialTally::of(&trials, threshold),
            pass_at: pass(&trials, threshold),
        })
        .collect()
}
