//! What is known of one trial.

use job::{TrialState, TrialView};

use super::Stage;
use crate::row::{Row, Text, Verdict};
use crate::trajectory::{StepUsage, Trajectory};
use crate::trial::Head;

/// Why a model stopped when its answer was cut.
const CUT: [&str; 3] = ["length", "max_tokens", "model_length"];

/// What goes wrong when a context or an answer is full.
const FULL: [&str; 4] = [
    "ContextLengthExceededError",
    "ContextWindowExceededError",
    "OutputLengthExceededError",
    "OutputTokenExceededError",
];

/// What is known of one trial. What was not written is `None`.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialFacts {
    /// Identity of the job.
    pub run_id: Text,
    /// Name of the trial.
    pub trial: Text,
    /// Name of the task.
    pub task: Option<Text>,
    /// Name of the agent.
    pub agent: Option<Text>,
    /// Name of the model.
    pub model: Option<Text>,
    /// What came out.
    pub outcome: Outcome,
    /// The stage in which something went wrong.
    pub stage: Option<Stage>,
    /// The agent's turns.
    pub turns: Option<u64>,
    /// What the model used over all turns.
    pub usage: StepUsage,
    /// Wall time in milliseconds.
    pub wall_ms: Option<u64>,
    /// Whether the context or an answer was full.
    pub truncated: bool,
    /// Version of the trajectory's format.
    pub format: Option<Text>,
}

/// What came out of a trial.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// A reward that counts, whatever went wrong beside it.
    Rewarded {
        /// The reward.
        reward: f64,
        /// What went wrong all the same.
        exception: Option<Text>,
    },
    /// Something went wrong and there is no reward that counts.
    Errored {
        /// What.
        exception: Text,
        /// A reward that does not count.
        uncounted: Option<f64>,
    },
    /// Neither a reward nor a failure.
    Ungraded,
    /// There is no result to read.
    Incomplete,
}

impl Outcome {
    /// The reward that counts.
    pub const fn reward(&self) -> Option<f64> {
        match self {
            Self::Rewarded { reward, .. } => Some(*reward),
            _ => None,
        }
    }

    /// What went wrong.
    pub const fn exception(&self) -> Option<&Text> {
        match self {
            Self::Rewarded { exception, .. } => exception.as_ref(),
            Self::Errored { exception, .. } => Some(exception),
            _ => None,
        }
    }

    /// The reward that is written, whether it counts or not.
    pub const fn written(&self) -> Option<f64> {
        match self {
            Self::Rewarded { reward, .. } => Some(*reward),
            Self::Errored { uncounted, .. } => *uncounted,
            _ => None,
        }
    }
}

impl TrialFacts {
    /// The facts of a trial on disk.
    pub(crate) fn of_trial(view: &TrialView, run_id: &str, chain: &[Trajectory]) -> Self {
        let text = |text: &Option<String>| text.as_deref().map(Text::from);
        let outcome = match &view.state {
            TrialState::Rewarded { reward, failure } => Outcome::Rewarded {
                reward: *reward,
                exception: failure.as_ref().map(|failure| failure.exception.as_str().into()),
            },
            TrialState::Errored { failure } => Outcome::Errored {
                exception: failure.exception.as_str().into(),
                uncounted: view.rewards.get("reward").copied(),
            },
            TrialState::Ungraded => Outcome::Ungraded,
            TrialState::Incomplete { .. } | TrialState::Running => Outcome::Incomplete,
        };
        let own = usage(chain);
        let first = chain.first();
        let cut = chain.iter().flat_map(|document| &document.steps).rev().find(|step| step.is_turn());
        let cut =
            cut.and_then(|step| step.finish_reason.as_deref()).is_some_and(|reason| CUT.contains(&reason));
        let exception = outcome.exception().cloned();
        Self {
            run_id: run_id.into(),
            trial: view.name.as_str().into(),
            task: text(&view.task),
            agent: text(&view.agent).or_else(|| first.and_then(|document| text(&document.agent))),
            model: text(&view.model).or_else(|| first.and_then(|document| text(&document.model))),
            stage: exception.as_ref().and_then(|name| Stage::of_trial(name, view)),
            truncated: cut || exception.is_some_and(|name| FULL.contains(&&*name)),
            outcome,
            turns: first.map(|_| chain.iter().map(|document| document.turns() as u64).sum()),
            usage: StepUsage {
                prompt: view.tokens.input.or(own.prompt),
                completion: view.tokens.output.or(own.completion),
                cached: view.tokens.cache.or(own.cached),
                cost_usd: view.tokens.cost_usd.or(own.cost_usd),
            },
            wall_ms: view.wall_ms,
            format: first.and_then(|document| text(&document.version)),
        }
    }

    /// The facts of a trajectory that no trial is around: what came out is not known.
    pub(crate) fn of_file(head: &Head, chain: &[Trajectory]) -> Self {
        let text = |text: &Option<String>| text.as_deref().map(Text::from);
        let first = chain.first();
        Self {
            run_id: head.run_id.as_deref().unwrap_or_default().into(),
            trial: head.trial_name.as_deref().unwrap_or_default().into(),
            task: text(&head.task),
            agent: first.and_then(|document| text(&document.agent)),
            model: first.and_then(|document| text(&document.model)),
            outcome: Outcome::Ungraded,
            stage: None,
            turns: Some(chain.iter().map(|document| document.turns() as u64).sum()),
            usage: usage(chain),
            wall_ms: None,
            truncated: false,
            format: first.and_then(|document| text(&document.version)),
        }
    }

    /// The facts that a row tells. A set writes what went wrong in place of the reward, so the reward is not known then.
    pub(crate) fn of_row(row: &Row) -> Self {
        let outcome = match Verdict::of(row.result.as_ref()) {
            Verdict::Reward(reward) => Outcome::Rewarded { reward, exception: None },
            Verdict::Exception(exception) => Outcome::Errored { exception, uncounted: None },
            Verdict::Unknown => Outcome::Ungraded,
        };
        let turns = row.conversations.iter().filter(|message| message.role.name() == "assistant").count();
        let exception = outcome.exception();
        Self {
            run_id: row.run_id.clone().unwrap_or_else(|| "".into()),
            trial: row.trial_name.clone().unwrap_or_else(|| "".into()),
            task: row.task.clone(),
            agent: row.agent.clone(),
            model: row.model.clone(),
            stage: exception.and_then(|name| Stage::of_name(name)),
            truncated: exception.is_some_and(|name| FULL.contains(&&**name)),
            outcome,
            turns: Some(turns as u64),
            usage: StepUsage::default(),
            wall_ms: None,
            format: None,
        }
    }

    /// The repository of the task, where its name tells: `owner__name.commit.kind`, or `owner__name-number`.
    pub fn repository(&self) -> Option<String> {
        repository(self.task.as_deref()?)
    }
}

/// The repository that a task's name tells: `owner__name.commit.kind`, or `owner__name-number`.
pub fn repository(task: &str) -> Option<String> {
    let name = task.rsplit('/').next()?;
    let by_id = ident::TaskId::new(name).ok().and_then(|id| ident::RepoKey::of_task(&id).ok());
    if let Some(key) = by_id {
        return Some(key.as_str().to_owned());
    }
    let (front, number) = name.rsplit_once('-')?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let (owner, repository) = front.split_once("__").filter(|_| is_number)?;
    ident::RepoKey::parse(&format!("{owner}/{repository}")).ok().map(|key| key.as_str().to_owned())
}

/// What a chain of documents says that the model used: the sums of the last one that has some, else those of the steps.
fn usage(chain: &[Trajectory]) -> StepUsage {
    let sum = |of: fn(&StepUsage) -> Option<u64>| {
        let steps = chain.iter().flat_map(|document| &document.steps).filter(|step| !step.copied);
        steps.filter_map(|step| of(&step.usage)).reduce(u64::saturating_add)
    };
    let total = |of: fn(&StepUsage) -> Option<u64>| {
        chain.iter().rev().find_map(|document| of(&document.totals.usage))
    };
    let cost = chain.iter().rev().find_map(|document| document.totals.usage.cost_usd).or_else(|| {
        chain
            .iter()
            .flat_map(|document| &document.steps)
            .filter_map(|step| step.usage.cost_usd)
            .reduce(|a, b| a + b)
    });
    let both = |of: fn(&StepUsage) -> Option<u64>| total(of).or_else(|| sum(of));
    StepUsage {
        prompt: both(|usage| usage.prompt),
        completion: both(|usage| usage.completion),
        cached: both(|usage| usage.cached),
        cost_usd: cost,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repositories_are_told_by_names() {
        let told = |task: &str| repository(task);
        assert_eq!(told("swesmith/getmoto__moto.694ce1f4.pr_5841").as_deref(), Some("getmoto/moto"));
        assert_eq!(told("django__django-11099").as_deref(), Some("django/django"));
        assert_eq!(told("hello-world"), None);
        assert_eq!(told("tiny__a"), None);
    }
}
