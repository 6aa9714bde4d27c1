//! Messages of a conversation with a model, and the model's answers with what they cost.

use serde::{Deserialize, Serialize};

/// Who a message comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The harness, before everything else.
    System,
    /// Whoever gave the task, and the surroundings.
    User,
    /// The model.
    Assistant,
    /// What came back from a tool call.
    Tool,
}

/// One message, as chat completions spell it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Message {
    /// Who it comes from.
    pub role: Role,
    /// Its text.
    pub content: String,
    /// The tools that the model calls in it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// The call that it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
}

impl Message {
    /// A message of nothing but text.
    pub fn text(role: Role, content: impl Into<String>) -> Self {
        Self { role, content: content.into(), tool_calls: Vec::new(), tool_call_id: None }
    }

    /// What came back from the call `id`.
    pub fn result(id: impl Into<String>, content: impl Into<String>) -> Self {
        Self { tool_call_id: Some(id.into()), ..Self::text(Role::Tool, content) }
    }
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// Its identity.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// The arguments as the model wrote them, which need not be JSON.
    pub arguments: String,
}

impl Serialize for ToolCall {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Function<'a> {
            name: &'a str,
            arguments: &'a str,
        }
        #[derive(Serialize)]
        struct Call<'a> {
            id: &'a str,
            r#type: &'static str,
            function: Function<'a>,
        }
        let function = Function { name: &self.name, arguments: &self.arguments };
        Call { id: &self.id, r#type: "function", function }.serialize(serializer)
    }
}

/// An answer of the model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    /// Its text.
    pub text: String,
    /// What the model thought before, where the server tells it apart.
    pub reasoning: Option<String>,
    /// The tools that it calls.
    pub calls: Vec<ToolCall>,
    /// Why it ends, as the server says: `stop`, `length`, `tool_calls`, `content_filter`.
    pub finish: Option<String>,
    /// What it used, where the server says.
    pub usage: Option<Usage>,
    /// Cost in dollars: the server's own word, or the tokens at the prices that were given.
    pub cost_usd: Option<f64>,
    /// Its tokens, where they were asked for and fit together.
    pub tokens: Option<TokenRecord>,
    /// Why there is no record of tokens although they were asked for.
    pub no_tokens: Option<String>,
    /// The model as the server calls it.
    pub model: Option<String>,
    /// How often the server was asked until it answered.
    pub tries: u32,
    /// Milliseconds from the first try to the end of the answer.
    pub wall_ms: u64,
}

impl Answer {
    /// As a message of the conversation that goes on from it.
    pub fn message(&self) -> Message {
        Message {
            role: Role::Assistant,
            content: self.text.clone(),
            tool_calls: self.calls.clone(),
            tool_call_id: None,
        }
    }
}

/// Tokens that an answer used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// In the prompt, those from a cache included.
    pub prompt: u64,
    /// Written by the model.
    pub completion: u64,
    /// Of the prompt's, those from a cache; unknown where the server does not say.
    pub cached: Option<u64>,
}

/// The tokens of one turn, by number.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TokenRecord {
    /// The whole prompt.
    pub prompt: Vec<u32>,
    /// What the model wrote.
    pub completion: Vec<u32>,
    /// Log probabilities of what it wrote, one for each token.
    pub logprobs: Vec<f64>,
}
