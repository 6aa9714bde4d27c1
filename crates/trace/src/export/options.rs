//! What is exported, and by whose rules.

use crate::row::{Text, Verdict};

/// Which turns of a trial become rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Episodes {
    /// The last one, with the whole conversation before it.
    #[default]
    Last,
    /// Every one, each with the conversation before it. The text grows with the square of the turns.
    All,
}

/// Which trials become rows, by their `result`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filter {
    /// Those with a reward above zero and nothing that went wrong.
    Success,
    /// All others: without a reward, too, and those where something went wrong.
    Failure,
    /// Those where something went wrong.
    Exception,
}

impl Filter {
    /// Whether a trial with this `result` stays.
    pub(crate) fn keeps(self, result: Option<&Text>) -> bool {
        let verdict = Verdict::of(result);
        match self {
            Self::Success => verdict.is_success(),
            Self::Failure => !verdict.is_success(),
            Self::Exception => matches!(verdict, Verdict::Exception(_)),
        }
    }
}

/// What is exported, and by whose rules.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExportOptions {
    /// Which turns.
    pub episodes: Episodes,
    /// Which trials; all without a filter.
    pub filter: Option<Filter>,
    /// Whether rows say what the agent was asked to do.
    pub instruction: bool,
    /// Whether rows hold what the verifier printed.
    pub verifier_output: bool,
    /// Whether rows hold the tools that the model was offered.
    pub tools: bool,
    /// Whether the conversations of helpers become rows.
    pub helpers: bool,
    /// Whether messages of the system keep that role, which rows of the field do not have.
    pub system_role: bool,
    /// Whether rows are those of Harbor 0.26, with whatever it loses and wherever it stops.
    pub harbor: bool,
}
