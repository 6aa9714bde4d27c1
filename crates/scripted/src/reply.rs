//! Answers: from a turn of the script to everything that the wire shows of it.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::request::{Request, call_text};
use crate::tokens::TokenText;
use crate::{Engine, Turn, Usage, tokens};

/// When all answers were given: a script has no clock.
const CREATED: u64 = 1_700_000_000;

/// An answer before it is put on the wire.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub model: String,
    pub id: String,
    pub prompt: Vec<u32>,
    pub text: String,
    pub reasoning: Option<String>,
    pub calls: Vec<Call>,
    /// What the model wrote, its end mark included where it was not cut.
    pub tokens: Vec<TokenText>,
    pub finish: String,
    pub usage: Option<Value>,
}

#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub id: String,
    pub name: String,
    pub arguments: String,
}

impl Call {
    pub(crate) fn json(&self) -> Value {
        json!({"id": self.id, "type": "function",
            "function": {"name": self.name, "arguments": self.arguments}})
    }
}

impl Reply {
    /// Plays a turn as the answer to a request whose prompt is known.
    pub(crate) fn new(turn: &Turn, request: &Request, prompt: Vec<u32>, digest: &str) -> Self {
        let mut text = turn.text.clone();
        let mut calls = Vec::new();
        let tool = request.tool();
        let mut call = |arguments: String| {
            let (number, name) = (calls.len(), tool.unwrap_or("bash").to_owned());
            calls.push(Call { id: format!("call_{}_{number}", &digest[..8]), name, arguments });
        };
        for command in &turn.commands {
            if tool.is_some() {
                let argument = request.argument().unwrap_or("command");
                call(json!({ argument: command }).to_string());
            } else {
                let gap = if text.is_empty() { "" } else { "\n\n" };
                let _ = write!(text, "{gap}```bash\n{command}\n```");
            }
        }
        if let Some(arguments) = &turn.arguments {
            call(arguments.clone());
        }
        let written: String =
            calls.iter().fold(text.clone(), |all, call| all + &call_text(&call.name, &call.arguments));
        let mut written = tokens(&written);
        let most = request.max_tokens.and_then(|most| usize::try_from(most).ok());
        let mut finish = if calls.is_empty() { "stop" } else { "tool_calls" };
        if let Some(most) = most.filter(|most| *most < written.len()) {
            written.truncate(most);
            // What is cut is cut as text: no call is whole then.
            text = written.iter().map(|token| token.text.as_str()).collect();
            calls.clear();
            finish = "length";
        } else {
            written.push(TokenText::end());
        }
        let (sent, said) = (prompt.len() as u64, written.len() as u64);
        let usage = match turn.usage {
            Usage::Missing => None,
            Usage::Right => Some((sent, said)),
            Usage::Wrong { prompt, completion } => Some((prompt, completion)),
        };
        let usage = usage.map(|(prompt, completion)| {
            json!({"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion,
                "prompt_tokens_details": {"cached_tokens": 0}})
        });
        Self {
            model: request.model.clone(),
            id: format!("chatcmpl-{}", &digest[..24]),
            prompt,
            text,
            reasoning: turn.reasoning.clone(),
            calls,
            tokens: written,
            finish: turn.finish.clone().unwrap_or_else(|| finish.to_owned()),
            usage,
        }
    }

    /// The whole answer as one document.
    pub(crate) fn whole(&self, engine: Engine, request: &Request) -> Value {
        let mut message = Map::new();
        message.insert("role".into(), "assistant".into());
        let nothing = self.text.is_empty() && !self.calls.is_empty();
        message.insert("content".into(), if nothing { Value::Null } else { self.text.clone().into() });
        if let Some(reasoning) = &self.reasoning {
            message.insert("reasoning_content".into(), reasoning.clone().into());
        }
        if !self.calls.is_empty() {
            message.insert("tool_calls".into(), self.calls.iter().map(Call::json).collect());
        }
        let mut choice = json!({"index": 0, "message": message, "finish_reason": self.finish,
            "logprobs": request.logprobs.then(|| logprobs(&self.tokens))});
        let mut whole = self.head("chat.completion");
        match engine {
            Engine::Vllm if request.return_token_ids => {
                choice["token_ids"] = ids(&self.tokens);
                whole["prompt_token_ids"] = json!(self.prompt);
            }
            Engine::Sglang => {
                if request.return_prompt_token_ids {
                    choice["prompt_token_ids"] = json!(self.prompt);
                }
                if request.return_meta_info {
                    let mut meta =
                        json!({"prompt_tokens": self.prompt.len(), "completion_tokens": self.tokens.len()});
                    if request.logprobs {
                        let triple = |token: &TokenText| json!([token.logprob(), token.id, token.text]);
                        meta["output_token_logprobs"] = self.tokens.iter().map(triple).collect();
                    }
                    choice["meta_info"] = meta;
                }
            }
            _ => {}
        }
        whole["choices"] = json!([choice]);
        if let Some(usage) = &self.usage {
            whole["usage"] = usage.clone();
        }
        whole
    }

    /// What every document of the answer begins with.
    pub(crate) fn head(&self, object: &str) -> Value {
        json!({"id": self.id, "object": object, "created": CREATED, "model": self.model})
    }
}

/// The numbers of tokens.
pub(crate) fn ids(tokens: &[TokenText]) -> Value {
    tokens.iter().map(|token| token.id).collect()
}

/// The log probabilities of tokens.
pub(crate) fn logprobs(tokens: &[TokenText]) -> Value {
    let one = |token: &TokenText| json!({"token": token.text, "logprob": token.logprob(), "bytes": token.text.as_bytes(), "top_logprobs": []});
    json!({"content": tokens.iter().map(one).collect::<Vec<_>>()})
}
