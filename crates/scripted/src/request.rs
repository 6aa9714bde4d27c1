//! What is read of a request.

use serde::Deserialize;
use serde_json::Value;

use crate::tokens;

/// A request for a chat completion. What a script has no use for is left out.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Request {
    pub model: String,
    pub messages: Vec<Message>,
    #[serde(default)]
    pub tools: Vec<Value>,
    #[serde(default)]
    pub stream: bool,
    #[serde(default)]
    pub stream_options: Option<StreamOptions>,
    #[serde(default)]
    pub logprobs: bool,
    #[serde(default)]
    pub return_token_ids: bool,
    #[serde(default)]
    pub return_prompt_token_ids: bool,
    #[serde(default)]
    pub return_meta_info: bool,
    #[serde(default)]
    pub seed: Option<u64>,
    #[serde(default, alias = "max_completion_tokens")]
    pub max_tokens: Option<u64>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) struct StreamOptions {
    #[serde(default)]
    pub include_usage: bool,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Message {
    pub role: String,
    #[serde(default)]
    pub content: Option<Value>,
    #[serde(default)]
    pub tool_calls: Option<Vec<Value>>,
}

impl Request {
    /// How many turns the model has had.
    pub(crate) fn turn(&self) -> usize {
        self.messages.iter().filter(|message| message.role == "assistant").count()
    }

    /// Whether a text occurs in what the model is told.
    pub(crate) fn is_told(&self, text: &str) -> bool {
        self.messages
            .iter()
            .filter(|message| message.role != "assistant")
            .any(|message| message.text().contains(text))
    }

    /// The tokens of the conversation up to where the answer begins.
    pub(crate) fn prompt(&self) -> Vec<u32> {
        let mut prompt = Vec::new();
        if !self.tools.is_empty() {
            let tools = serde_json::to_string(&self.tools).unwrap_or_default();
            tokens::message("tools", &tools, &mut prompt);
        }
        for message in &self.messages {
            tokens::message(&message.role, &message.whole(), &mut prompt);
        }
        tokens::begin("assistant", &mut prompt);
        prompt
    }

    /// The tool that runs commands: the first with such an argument, else the first of all.
    fn command_tool(&self) -> Option<&Value> {
        let runs = |tool: &&Value| {
            COMMAND.iter().any(|name| properties(tool).is_some_and(|all| all.contains_key(*name)))
        };
        self.tools.iter().find(runs).or(self.tools.first())
    }

    /// The name of the tool that runs commands.
    pub(crate) fn tool(&self) -> Option<&str> {
        self.command_tool()?.get("function")?.get("name")?.as_str()
    }

    /// The name of its argument that is the command.
    pub(crate) fn argument(&self) -> Option<&str> {
        let all = properties(self.command_tool()?)?;
        let known = COMMAND.into_iter().find(|name| all.contains_key(*name));
        known.or_else(|| all.keys().next().map(String::as_str))
    }
}

/// What tools call the argument that is a command.
const COMMAND: [&str; 2] = ["command", "cmd"];

fn properties(tool: &Value) -> Option<&serde_json::Map<String, Value>> {
    tool.get("function")?.get("parameters")?.get("properties")?.as_object()
}

impl Message {
    fn text(&self) -> String {
        match &self.content {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Array(parts)) => {
                parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect()
            }
            _ => String::new(),
        }
    }

    /// The text with the calls behind it, as the answer was written that is now part of the conversation.
    fn whole(&self) -> String {
        let mut text = self.text();
        for call in self.tool_calls.iter().flatten() {
            let part = |name: &str| {
                call.get("function")
                    .and_then(|function| function.get(name))
                    .and_then(Value::as_str)
                    .unwrap_or("")
            };
            text.push_str(&call_text(part("name"), part("arguments")));
        }
        text
    }
}

/// How the model writes a call.
pub(crate) fn call_text(name: &str, arguments: &str) -> String {
    format!("<tool_call>{name} {arguments}</tool_call>")
}
