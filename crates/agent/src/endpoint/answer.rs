//! Answers as servers write them, whole or in pieces, and what is made of them.

use serde::Deserialize;
use serde_json::Value;

use super::Settings;
use crate::{Answer, TokenRecord, ToolCall, Usage};

/// One document of an answer: all of it, or one event of a stream. Keys that are not needed may be anything.
#[derive(Debug, Deserialize)]
pub(super) struct Document {
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    choices: Vec<Choice>,
    #[serde(default)]
    usage: Option<Value>,
    #[serde(default)]
    prompt_token_ids: Option<Vec<u32>>,
    /// A refusal, which in a stream comes with a status of 200.
    #[serde(default)]
    pub(super) error: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct Choice {
    #[serde(default, alias = "delta")]
    message: Option<Said>,
    #[serde(default)]
    finish_reason: Option<String>,
    #[serde(default)]
    logprobs: Option<Logprobs>,
    #[serde(default)]
    token_ids: Option<Vec<u32>>,
    #[serde(default)]
    prompt_token_ids: Option<Vec<u32>>,
    #[serde(default)]
    meta_info: Option<MetaInfo>,
}

#[derive(Debug, Deserialize)]
struct Said {
    #[serde(default)]
    content: Option<String>,
    #[serde(default, alias = "reasoning")]
    reasoning_content: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<Call>>,
}

#[derive(Debug, Deserialize)]
struct Call {
    #[serde(default)]
    index: Option<usize>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    function: Option<Function>,
}

#[derive(Debug, Deserialize)]
struct Function {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    arguments: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct Logprobs {
    #[serde(default)]
    content: Option<Vec<Logprob>>,
}

#[derive(Debug, Deserialize)]
struct Logprob {
    logprob: f64,
}

/// SGLang's own account of an answer.
#[derive(Debug, Deserialize)]
struct MetaInfo {
    /// Log probability, number and text of each token.
    #[serde(default)]
    output_token_logprobs: Option<Vec<(f64, u32, Option<String>)>>,
}

/// An answer as far as it has come in.
#[derive(Debug, Default)]
pub(super) struct Draft {
    answer: Answer,
    prompt: Option<Vec<u32>>,
    completion: Option<Vec<u32>>,
    logprobs: Option<Vec<f64>>,
}

impl Draft {
    /// Adds a document. Only the first choice is looked at: no more than one is ever asked for.
    pub(super) fn add(&mut self, document: Document) {
        let answer = &mut self.answer;
        answer.model = document.model.or(answer.model.take());
        if let Some(usage) = document.usage.filter(|usage| !usage.is_null()) {
            let count = |place: &str| usage.pointer(place).and_then(Value::as_u64);
            if let (Some(prompt), Some(completion)) = (count("/prompt_tokens"), count("/completion_tokens")) {
                let cached = count("/prompt_tokens_details/cached_tokens");
                answer.usage = Some(Usage { prompt, completion, cached });
            }
            answer.cost_usd = usage.get("cost").and_then(Value::as_f64).or(answer.cost_usd);
        }
        self.prompt = document.prompt_token_ids.or(self.prompt.take());
        let Some(choice) = document.choices.into_iter().next() else { return };
        answer.finish = choice.finish_reason.or(answer.finish.take());
        if let Some(said) = choice.message {
            answer.text.push_str(said.content.as_deref().unwrap_or_default());
            if let Some(reasoning) = said.reasoning_content.filter(|reasoning| !reasoning.is_empty()) {
                answer.reasoning.get_or_insert_default().push_str(&reasoning);
            }
            for call in said.tool_calls.into_iter().flatten() {
                add_call(&mut answer.calls, call);
            }
        }
        self.prompt = choice.prompt_token_ids.or(self.prompt.take());
        if let Some(ids) = choice.token_ids {
            self.completion.get_or_insert_default().extend(ids);
        }
        if let Some(logprobs) = choice.logprobs.and_then(|logprobs| logprobs.content) {
            self.logprobs.get_or_insert_default().extend(logprobs.iter().map(|token| token.logprob));
        }
        if let Some(tokens) = choice.meta_info.and_then(|meta| meta.output_token_logprobs) {
            self.completion = Some(tokens.iter().map(|(_, id, _)| *id).collect());
            self.logprobs = Some(tokens.iter().map(|(logprob, _, _)| *logprob).collect());
        }
    }

    /// Whether the server has said why the answer ends.
    pub(super) fn is_ended(&self) -> bool {
        self.answer.finish.is_some()
    }

    /// The answer, with its cost, and with its tokens where all of them fit together.
    pub(super) fn finish(self, settings: &Settings) -> Answer {
        let Self { mut answer, prompt, completion, logprobs } = self;
        answer.cost_usd = answer.cost_usd.or_else(|| settings.prices.cost(answer.usage?));
        for (index, call) in answer.calls.iter_mut().enumerate().filter(|(_, call)| call.id.is_empty()) {
            call.id = format!("call_{index}");
        }
        if settings.tokens.is_some() {
            match record(prompt, completion, logprobs) {
                Ok(record) => answer.tokens = Some(record),
                Err(why) => answer.no_tokens = Some(why),
            }
        }
        answer
    }
}

/// Adds a call, or a piece of one that has come before.
fn add_call(calls: &mut Vec<ToolCall>, call: Call) {
    /// No answer calls more tools; what is behind is left out.
    const MOST_CALLS: usize = 256;
    let index = call.index.unwrap_or(calls.len());
    if index >= MOST_CALLS {
        return;
    }
    while calls.len() <= index {
        calls.push(ToolCall { id: String::new(), name: String::new(), arguments: String::new() });
    }
    let known = &mut calls[index];
    if let Some(id) = call.id {
        known.id = id;
    }
    let Some(function) = call.function else { return };
    known.name.push_str(function.name.as_deref().unwrap_or_default());
    match function.arguments {
        // Some servers write the arguments as an object.
        Some(Value::String(text)) => known.arguments.push_str(&text),
        Some(Value::Null) | None => {}
        Some(other) => known.arguments.push_str(&other.to_string()),
    }
}

fn record(
    prompt: Option<Vec<u32>>,
    completion: Option<Vec<u32>>,
    logprobs: Option<Vec<f64>>,
) -> Result<TokenRecord, String> {
    let (Some(prompt), Some(completion), Some(logprobs)) = (prompt, completion, logprobs) else {
        return Err("the server gave no numbers of tokens, or no log probabilities".into());
    };
    if completion.len() != logprobs.len() {
        let (tokens, logprobs) = (completion.len(), logprobs.len());
        return Err(format!("the server gave {tokens} tokens and {logprobs} log probabilities"));
    }
    if let Some(odd) = logprobs.iter().find(|logprob| !logprob.is_finite()) {
        return Err(format!("a log probability is {odd}"));
    }
    Ok(TokenRecord { prompt, completion, logprobs })
}

#[cfg(test)]
mod tests {
    use super::super::TokenFormat;
    use super::*;

    fn answer(text: &str, tokens: Option<TokenFormat>) -> Answer {
        let mut draft = Draft::default();
        draft.add(serde_json::from_str(text).unwrap());
        draft.finish(&Settings { tokens, ..Settings::new("http://x/v1", "m") })
    }

    #[test]
    fn unequal_tokens_and_log_probabilities_are_no_record() {
        let text = r#"{"choices":[{"message":{"content":"a"},"finish_reason":"stop","token_ids":[1,2],
            "logprobs":{"content":[{"logprob":-0.5}]}}],"prompt_token_ids":[7]}"#;
        let found = answer(text, Some(TokenFormat::Vllm));
        assert_eq!(found.tokens, None);
        assert!(found.no_tokens.unwrap().contains("2 tokens and 1 log probabilities"));
        assert_eq!(answer(text, None).no_tokens, None, "nobody asked");
    }

    #[test]
    fn odd_but_known_forms_are_read() {
        let text = r#"{"choices":[{"message":{"role":"assistant","content":null,"reasoning":"hm","tool_calls":[
            {"function":{"name":"bash","arguments":{"command":"ls"}}}]},"finish_reason":"tool_calls","logprobs":null}],
            "usage":{"prompt_tokens":3,"completion_tokens":4,"cost":0.5,"prompt_tokens_details":null}}"#;
        let found = answer(text, None);
        let call =
            ToolCall { id: "call_0".into(), name: "bash".into(), arguments: r#"{"command":"ls"}"#.into() };
        assert_eq!(
            (found.calls, found.reasoning.as_deref(), found.cost_usd),
            (vec![call], Some("hm"), Some(0.5))
        );
        assert_eq!(found.usage, Some(Usage { prompt: 3, completion: 4, cached: None }));
        let bare = answer(r#"{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}"#, None);
        assert_eq!((bare.usage, bare.cost_usd), (None, None), "unknown is not zero");
    }
}
