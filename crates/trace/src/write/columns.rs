//! The columns of a set.

use crate::row::{Row, Text};

/// One column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Column {
    /// The messages: a list of `content` and `role`.
    Conversations,
    /// Name of the agent.
    Agent,
    /// Name of the model.
    Model,
    /// Provider of the model.
    ModelProvider,
    /// When the trial began.
    Date,
    /// Name of the task.
    Task,
    /// Which turn.
    Episode,
    /// Identity of the job.
    RunId,
    /// Name of the trial.
    TrialName,
    /// The reward, or what went wrong.
    Result,
    /// What the verifier printed.
    VerifierOutput,
    /// Which conversation of the trial.
    TraceSource,
    /// What the agent was asked to do.
    Instruction,
    /// The tools that the model was offered, as JSON.
    ToolDefinitions,
    /// The messages once more: a list of `from` and `value`.
    Sharegpt,
}

impl Column {
    /// Its name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Conversations => "conversations",
            Self::Agent => "agent",
            Self::Model => "model",
            Self::ModelProvider => "model_provider",
            Self::Date => "date",
            Self::Task => "task",
            Self::Episode => "episode",
            Self::RunId => "run_id",
            Self::TrialName => "trial_name",
            Self::Result => "result",
            Self::VerifierOutput => "verifier_output",
            Self::TraceSource => "trace_source",
            Self::Instruction => "instruction",
            Self::ToolDefinitions => "tool_definitions",
            Self::Sharegpt => "conversations_sharegpt",
        }
    }

    /// The text that a row has in it; `None` for the lists of messages too.
    pub fn text(self, row: &Row) -> Option<&Text> {
        match self {
            Self::Conversations | Self::Sharegpt => None,
            Self::Agent => row.agent.as_ref(),
            Self::Model => row.model.as_ref(),
            Self::ModelProvider => row.model_provider.as_ref(),
            Self::Date => row.date.as_ref(),
            Self::Task => row.task.as_ref(),
            Self::Episode => row.episode.as_ref(),
            Self::RunId => row.run_id.as_ref(),
            Self::TrialName => row.trial_name.as_ref(),
            Self::Result => row.result.as_ref(),
            Self::VerifierOutput => row.verifier_output.as_ref(),
            Self::TraceSource => row.trace_source.as_ref(),
            Self::Instruction => row.instruction.as_ref(),
            Self::ToolDefinitions => row.tool_definitions.as_ref(),
        }
    }

    /// Puts a text into a row; the lists of messages take none.
    pub(crate) fn put(self, row: &mut Row, text: Option<Text>) {
        let cell = match self {
            Self::Conversations | Self::Sharegpt => return,
            Self::Agent => &mut row.agent,
            Self::Model => &mut row.model,
            Self::ModelProvider => &mut row.model_provider,
            Self::Date => &mut row.date,
            Self::Task => &mut row.task,
            Self::Episode => &mut row.episode,
            Self::RunId => &mut row.run_id,
            Self::TrialName => &mut row.trial_name,
            Self::Result => &mut row.result,
            Self::VerifierOutput => &mut row.verifier_output,
            Self::TraceSource => &mut row.trace_source,
            Self::Instruction => &mut row.instruction,
            Self::ToolDefinitions => &mut row.tool_definitions,
        };
        *cell = text;
    }

    /// The column of texts with this name.
    pub(crate) fn of_texts(name: &str) -> Option<Self> {
        FIELD[1..]
            .iter()
            .chain(&[Self::Instruction, Self::ToolDefinitions])
            .copied()
            .find(|column| column.name() == name)
    }
}

/// The columns that every set of the field has, in its order.
const FIELD: [Column; 12] = [
    Column::Conversations,
    Column::Agent,
    Column::Model,
    Column::ModelProvider,
    Column::Date,
    Column::Task,
    Column::Episode,
    Column::RunId,
    Column::TrialName,
    Column::Result,
    Column::VerifierOutput,
    Column::TraceSource,
];

/// The columns of one set, in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns {
    columns: Vec<Column>,
    /// Harbor's rows hold the tools as values, and name the role of a message first.
    harbor: bool,
}

impl Columns {
    /// The twelve columns of the field, and behind them those that are asked for.
    pub fn field(instruction: bool, tools: bool, sharegpt: bool) -> Self {
        let mut columns = FIELD.to_vec();
        let more = [
            (instruction, Column::Instruction),
            (tools, Column::ToolDefinitions),
            (sharegpt, Column::Sharegpt),
        ];
        columns.extend(more.into_iter().filter(|(wanted, _)| *wanted).map(|(_, column)| column));
        Self { columns, harbor: false }
    }

    /// The columns of Harbor 0.26, which depend on the rows: those that are always there, and of the others those that `has`
    /// tells.
    pub fn harbor(has: impl Fn(Column) -> bool) -> Self {
        let mut columns = FIELD[..9].to_vec();
        let more = [
            Column::ToolDefinitions,
            Column::Result,
            Column::Instruction,
            Column::VerifierOutput,
            Column::Sharegpt,
            Column::TraceSource,
        ];
        columns.extend(more.into_iter().filter(|column| *column == Column::Result || has(*column)));
        Self { columns, harbor: true }
    }

    /// The columns in their order.
    pub fn iter(&self) -> impl Iterator<Item = Column> + '_ {
        self.columns.iter().copied()
    }

    pub(crate) const fn is_harbor(&self) -> bool {
        self.harbor
    }
}

/// The name that a role has in ShareGPT's form.
pub(crate) fn sharegpt_name(role: &str) -> &str {
    match role {
        "user" => "human",
        "assistant" => "gpt",
        other => other,
    }
}
