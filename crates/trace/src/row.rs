//! Rows of a trace set.

use std::sync::Arc;

/// A text that many rows share.
pub type Text = Arc<str>;

/// Who a message of a row comes from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Everything that the model is given: the task, and what its commands printed.
    User,
    /// The model.
    Assistant,
    /// Anything else that a set holds, such as `system` or `tool`.
    Other(Text),
}

impl Role {
    /// The role by its name.
    pub fn named(name: &str) -> Self {
        match name {
            "user" => Self::User,
            "assistant" => Self::Assistant,
            other => Self::Other(other.into()),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Other(name) => name,
        }
    }
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Who it comes from.
    pub role: Role,
    /// What it says.
    pub content: Text,
}

/// One row: a trial's conversation up to a turn, and what is known of the trial.
///
/// What is not known is `None`; a writer decides how that is written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Row {
    /// The conversation.
    pub conversations: Vec<Message>,
    /// Name of the agent.
    pub agent: Option<Text>,
    /// Name of the model.
    pub model: Option<Text>,
    /// Provider of the model.
    pub model_provider: Option<Text>,
    /// When the trial began, as its documents say it.
    pub date: Option<Text>,
    /// Name of the task.
    pub task: Option<Text>,
    /// `episode-N`: the row ends with turn N.
    pub episode: Option<Text>,
    /// Identity of the job.
    pub run_id: Option<Text>,
    /// Name of the trial.
    pub trial_name: Option<Text>,
    /// The reward as text, or the name of what went wrong.
    pub result: Option<Text>,
    /// What the verifier printed.
    pub verifier_output: Option<Text>,
    /// `main`, or which helper the conversation belongs to.
    pub trace_source: Option<Text>,
    /// What the agent was asked to do.
    pub instruction: Option<Text>,
    /// The tools that the model was offered, as JSON.
    pub tool_definitions: Option<Text>,
    /// The reward that counts, as text, also where `result` names what went wrong beside it. Jobs say it; no column holds it.
    pub reward: Option<Text>,
}

/// The source of rows that are no helper's.
pub const MAIN: &str = "main";

/// Where a row stands among others.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowKey {
    /// Identity of the job.
    pub run_id: Text,
    /// Name of the trial.
    pub trial_name: Text,
    /// Which conversation of the trial.
    pub trace_source: Text,
    /// Which turn; a row whose episode is no number comes last.
    pub episode: u64,
}

impl std::fmt::Display for RowKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "run {}, trial {}, {}", self.run_id, self.trial_name, self.trace_source)?;
        if self.episode == u64::MAX { Ok(()) } else { write!(f, ", episode {}", self.episode) }
    }
}

impl Row {
    /// Where the row stands among others. A set without sources has main rows only.
    pub fn key(&self) -> RowKey {
        let text = |text: &Option<Text>, or: &str| text.clone().unwrap_or_else(|| or.into());
        RowKey {
            run_id: text(&self.run_id, ""),
            trial_name: text(&self.trial_name, ""),
            trace_source: text(&self.trace_source, MAIN),
            episode: self.episode.as_deref().map_or(u64::MAX, episode_number),
        }
    }

    /// The bytes of all its texts.
    pub fn text_bytes(&self) -> usize {
        let scalars = [
            &self.agent,
            &self.model,
            &self.model_provider,
            &self.date,
            &self.task,
            &self.episode,
            &self.run_id,
            &self.trial_name,
            &self.result,
            &self.verifier_output,
            &self.trace_source,
            &self.instruction,
            &self.tool_definitions,
        ];
        let scalars: usize = scalars.into_iter().flatten().map(|text| text.len()).sum();
        scalars + self.conversations.iter().map(|message| message.content.len() + 9).sum::<usize>()
    }

    /// The reward that counts: that of the job's documents, else that of the `result`.
    pub fn reward(&self) -> Option<f64> {
        match (self.reward.as_deref().map(str::parse), Verdict::of(self.result.as_ref())) {
            (Some(Ok(reward)), _) | (_, Verdict::Reward(reward)) => Some(reward),
            _ => None,
        }
    }

    /// Whether it is the trial's own conversation and no helper's.
    pub fn is_main(&self) -> bool {
        self.trace_source.as_deref().is_none_or(|source| source == MAIN)
    }
}

/// The number of `episode-N`.
pub(crate) fn episode_number(text: &str) -> u64 {
    text.strip_prefix("episode-").unwrap_or(text).parse().unwrap_or(u64::MAX)
}

/// What a row's `result` says: the field's sets write a reward or the name of what went wrong, never both.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// A finite number.
    Reward(f64),
    /// Anything else that is written.
    Exception(Text),
    /// Nothing.
    Unknown,
}

impl Verdict {
    /// Reads a `result`.
    pub fn of(result: Option<&Text>) -> Self {
        let Some(text) = result else { return Self::Unknown };
        match text.trim().parse::<f64>() {
            Ok(reward) if reward.is_finite() => Self::Reward(reward),
            // Python writes these for numbers that are none.
            Ok(_) => Self::Unknown,
            Err(_) if text.trim().is_empty() => Self::Unknown,
            Err(_) => Self::Exception(text.clone()),
        }
    }

    /// Whether the reward is above zero; an exception is no success.
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Reward(reward) if *reward > 0.0)
    }
}
