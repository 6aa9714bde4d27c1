//! The parts of a trajectory.

/// One document of a trajectory.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trajectory {
    /// The version of the format, as written, such as `ATIF-v1.6`.
    pub version: Option<String>,
    /// Identity of the document (since v1.7).
    pub id: Option<String>,
    /// Name of the agent.
    pub agent: Option<String>,
    /// Version of the agent.
    pub agent_version: Option<String>,
    /// Name of the model.
    pub model: Option<String>,
    /// The tools that the model was offered.
    pub tools: Option<ToolDefinitions>,
    /// The steps.
    pub steps: Vec<Step>,
    /// Name of the file that goes on from here.
    pub continued: Option<String>,
    /// Sums over the whole run, as written.
    pub totals: Totals,
    /// Trajectories of helpers that are part of the document (since v1.7).
    pub subagents: Vec<Trajectory>,
    /// Images and sounds; they have no place in a row of text.
    pub media: u64,
}

/// The tools that a model was offered, as JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolDefinitions {
    /// On one line.
    pub compact: String,
    /// Two blanks a level, as prompts show them.
    pub indented: String,
}

/// Who a step comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    /// The harness, before or between the turns.
    System,
    /// Whoever gave the task.
    User,
    /// The agent.
    Agent,
}

/// One step.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Who it comes from.
    pub source: Speaker,
    /// What was said.
    pub message: Content,
    /// What was thought before.
    pub reasoning: Option<String>,
    /// The tools that were called.
    pub calls: Vec<ToolCall>,
    /// What came back.
    pub results: Vec<Observed>,
    /// Whether it repeats a step of an earlier document and is no training data.
    pub copied: bool,
    /// When it was, as written.
    pub timestamp: Option<String>,
    /// What the model used for it.
    pub usage: StepUsage,
    /// Why the model stopped, as written.
    pub finish_reason: Option<String>,
    /// Tokens by number, where they were recorded.
    pub tokens: Option<Box<TokenRecord>>,
}

/// A text, or the parts of one.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// There is nothing, or null.
    Nothing,
    /// A text.
    Text(String),
    /// Parts.
    Parts(Vec<Part>),
}

/// A part of a content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// A text.
    Text(String),
    /// An image or a sound.
    Media,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// Its identity.
    pub id: Option<String>,
    /// Name of the tool.
    pub name: String,
    /// The arguments as JSON on one line; mostly an object.
    pub arguments: String,
}

/// What came back from a call, or from the surroundings.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    /// The call it belongs to.
    pub call: Option<String>,
    /// What was seen; `None` where there is no such key at all.
    pub content: Option<Content>,
    /// The files that hold what helpers did, as they are named there.
    pub helpers: Vec<String>,
}

/// What a model used for a step. What was not written is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct StepUsage {
    /// Tokens in the prompt, those from a cache included.
    pub prompt: Option<u64>,
    /// Tokens that the model wrote.
    pub completion: Option<u64>,
    /// Tokens of the prompt that came from a cache.
    pub cached: Option<u64>,
    /// Cost in dollars.
    pub cost_usd: Option<f64>,
}

/// Sums over a run.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Totals {
    /// What the model used.
    pub usage: StepUsage,
    /// The number of steps.
    pub steps: Option<u64>,
}

/// The tokens of one turn.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TokenRecord {
    /// The prompt.
    pub prompt: Option<Vec<u32>>,
    /// What the model wrote.
    pub completion: Option<Vec<u32>>,
    /// Log probabilities of what the model wrote.
    pub logprobs: Option<Vec<f32>>,
}

impl Content {
    /// Whether there is no text in it.
    pub fn is_blank(&self) -> bool {
        match self {
            Self::Nothing => true,
            Self::Text(text) => text.is_empty(),
            Self::Parts(parts) => {
                parts.iter().all(|part| matches!(part, Part::Text(text) if text.is_empty()))
            }
        }
    }

    /// The texts of all parts, a line break between two.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        match self {
            Self::Nothing => "".into(),
            Self::Text(text) => text.into(),
            Self::Parts(parts) => {
                let texts: Vec<_> = parts.iter().filter_map(Part::text).collect();
                texts.join("\n").into()
            }
        }
    }
}

impl Part {
    /// The text, unless it is an image or a sound.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Media => None,
        }
    }
}

impl Step {
    /// A step of which nothing but its text is known.
    pub(crate) fn new(source: Speaker, message: Content) -> Self {
        Self {
            source,
            message,
            reasoning: None,
            calls: Vec::new(),
            results: Vec::new(),
            copied: false,
            timestamp: None,
            usage: StepUsage::default(),
            finish_reason: None,
            tokens: None,
        }
    }

    /// Whether the agent decided here: what it says can be learnt from.
    pub fn is_turn(&self) -> bool {
        self.source == Speaker::Agent && !self.copied
    }
}

impl Trajectory {
    /// The number of the agent's own turns.
    pub fn turns(&self) -> usize {
        self.steps.iter().filter(|step| step.is_turn()).count()
    }
}
