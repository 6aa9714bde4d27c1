//! Trajectories: ATIF 1.8, written while the agent works.
//!
//! After each step the file is a whole document again: what closes the document is written behind the new step in one go. A
//! run that is killed keeps every step that was written before. Even where the kill cuts a write, the lines before it are whole,
//! and a reader gets everything from them: each step is a line, and what was heard in reply to it is another one.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::shell::{Heard, Totals};
use crate::{Answer, Message, Role};

/// The version of the format.
const SCHEMA: &str = "ATIF-v1.8";

/// What a trajectory says about the whole run.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    /// Identity of the run.
    pub session: &'a str,
    /// The agent's name.
    pub agent: &'a str,
    /// Its version.
    pub version: &'a str,
    /// The model, as it was asked for.
    pub model: &'a str,
    /// The tools that the model was offered.
    pub tools: &'a [Value],
}

/// An answer of the model as a step.
#[derive(Debug, Clone, Copy)]
pub struct AgentStep<'a> {
    /// The answer.
    pub answer: &'a Answer,
    /// When it came.
    pub at: Timestamp,
    /// What the model used so far, this answer included.
    pub totals: &'a Totals,
}

/// A trajectory that is being written.
#[derive(Debug)]
pub struct Trajectory {
    file: File,
    /// Where the line of the last step ends; its closing brace comes on the next one.
    end: u64,
    length: u64,
    steps: u64,
    totals: Totals,
}

#[derive(Serialize)]
#[expect(clippy::struct_field_names, reason = "the names are the format's")]
struct Step<'a> {
    step_id: u64,
    timestamp: String,
    source: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    model_name: Option<&'a str>,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics: Option<Metrics<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    llm_call_count: Option<u32>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    extra: Map<String, Value>,
}

#[derive(Serialize)]
struct Metrics<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cached_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_usd: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_token_ids: Option<&'a [u32]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completion_token_ids: Option<&'a [u32]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logprobs: Option<&'a [f64]>,
}

impl Trajectory {
    /// Begins a trajectory in an empty file with the messages that stand before the first answer, of which there must be one.
    pub fn create(file: File, head: Head<'_>, messages: &[Message], at: Timestamp) -> io::Result<Self> {
        let mut agent = json!({"name": head.agent, "version": head.version, "model_name": head.model});
        if !head.tools.is_empty() {
            agent["tool_definitions"] = json!(head.tools);
        }
        let mut text = format!(
            "{{\"schema_version\":\"{SCHEMA}\",\"session_id\":{},\"agent\":{agent},\"steps\":[\n",
            json!(head.session)
        );
        let mut steps = 0;
        for message in messages {
            if steps > 0 {
                text.push_str("},\n");
            }
            steps += 1;
            let source = if message.role == Role::System { "system" } else { "user" };
            text.push_str(&open(&Step {
                step_id: steps,
                timestamp: at.to_string(),
                source,
                model_name: None,
                message: &message.content,
                reasoning_content: None,
                tool_calls: Vec::new(),
                metrics: None,
                llm_call_count: None,
                extra: Map::new(),
            })?);
        }
        let mut trajectory = Self { file, end: 0, length: 0, steps, totals: Totals::default() };
        trajectory.append(&text)?;
        Ok(trajectory)
    }

    /// Adds an answer.
    pub fn answered(&mut self, step: AgentStep<'_>) -> io::Result<()> {
        let AgentStep { answer, at, totals } = step;
        self.steps += 1;
        self.totals = totals.clone();
        let (usage, tokens) = (answer.usage, answer.tokens.as_ref());
        let mut extra = Map::new();
        if let Some(finish) = &answer.finish {
            extra.insert("finish_reason".into(), finish.clone().into());
        }
        extra.insert("tries".into(), answer.tries.into());
        extra.insert("wall_ms".into(), answer.wall_ms.into());
        if let Some(why) = &answer.no_tokens {
            extra.insert("no_tokens".into(), why.clone().into());
        }
        let text = open(&Step {
            step_id: self.steps,
            timestamp: at.to_string(),
            source: "agent",
            model_name: answer.model.as_deref(),
            message: &answer.text,
            reasoning_content: answer.reasoning.as_deref(),
            tool_calls: calls(answer),
            metrics: Some(Metrics {
                prompt_tokens: usage.map(|usage| usage.prompt),
                completion_tokens: usage.map(|usage| usage.completion),
                cached_tokens: usage.and_then(|usage| usage.cached),
                cost_usd: answer.cost_usd,
                prompt_token_ids: tokens.map(|tokens| tokens.prompt.as_slice()),
                completion_token_ids: tokens.map(|tokens| tokens.completion.as_slice()),
                logprobs: tokens.map(|tokens| tokens.logprobs.as_slice()),
            }),
            llm_call_count: Some(1),
            extra,
        })?;
        self.append(&format!("}},\n{text}"))
    }

    /// Adds to the last answer what the surroundings said in reply.
    pub fn heard(&mut self, heard: &[Heard]) -> io::Result<()> {
        if heard.is_empty() {
            return Ok(());
        }
        let results: Vec<_> = heard
            .iter()
            .map(|heard| match &heard.call {
                Some(call) => json!({"source_call_id": call, "content": heard.text}),
                None => json!({"content": heard.text}),
            })
            .collect();
        self.append(&format!(",\"observation\":{}\n", json!({ "results": results })))
    }

    /// Writes text behind the last step, and behind it what closes the document.
    fn append(&mut self, text: &str) -> io::Result<()> {
        let mut totals = Map::new();
        let mut add = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                totals.insert(name.to_owned(), value);
            }
        };
        add("total_prompt_tokens", self.totals.prompt.map(Value::from));
        add("total_completion_tokens", self.totals.completion.map(Value::from));
        add("total_cached_tokens", self.totals.cached.map(Value::from));
        add("total_cost_usd", self.totals.cost_usd.map(Value::from));
        add("total_steps", Some(self.steps.into()));
        let whole = format!("{text}}}],\"final_metrics\":{}}}\n", Value::Object(totals));
        self.file.seek(SeekFrom::Start(self.end))?;
        self.file.write_all(whole.as_bytes())?;
        let length = self.end + whole.len() as u64;
        if length < self.length {
            self.file.set_len(length)?;
        }
        self.length = length;
        self.end += text.len() as u64;
        Ok(())
    }
}

/// The line of a step, without its closing brace.
fn open(step: &Step<'_>) -> io::Result<String> {
    let mut text = serde_json::to_string(step)?;
    text.pop();
    text.push('\n');
    Ok(text)
}

/// The calls of an answer. Arguments that are no table are kept as text, since the format has none but tables.
fn calls(answer: &Answer) -> Vec<Value> {
    let call = |call: &crate::ToolCall| {
        let arguments: Value = serde_json::from_str(&call.arguments)
            .ok()
            .filter(Value::is_object)
            .unwrap_or_else(|| json!({ "unreadable": call.arguments }));
        json!({"tool_call_id": call.id, "function_name": call.name, "arguments": arguments})
    };
    answer.calls.iter().map(call).collect()
}
