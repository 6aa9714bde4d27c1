//! Answers in pieces, as events of a stream.

use serde_json::{Value, json};

use crate::Engine;
use crate::reply::{Reply, ids, logprobs};
use crate::request::Request;

/// Tokens in one event.
const PIECE: usize = 8;

/// The events of an answer, without the `data: ` before and the lines behind.
pub(crate) fn events(reply: &Reply, engine: Engine, request: &Request) -> Vec<String> {
    let mut events = Vec::new();
    let wants_ids = request.return_token_ids && engine == Engine::Vllm;
    let chunk = |delta: Value, finish: Option<&str>| {
        let mut whole = reply.head("chat.completion.chunk");
        whole["choices"] = json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}]);
        whole
    };
    let mut first = chunk(json!({"role": "assistant", "content": ""}), None);
    if wants_ids {
        first["prompt_token_ids"] = json!(reply.prompt);
    }
    events.push(first);
    if let Some(reasoning) = &reply.reasoning {
        events.push(chunk(json!({"reasoning_content": reasoning}), None));
    }
    // The text of the pieces; what is written of calls, and the end mark, is no part of it.
    let mut left = reply.text.len();
    for piece in reply.tokens.chunks(PIECE) {
        let mut text: String = piece.iter().map(|token| token.text.as_str()).collect();
        text.truncate(floor_char_boundary(&text, left.min(text.len())));
        left -= text.len();
        let mut event = chunk(json!({"content": text}), None);
        if request.logprobs {
            event["choices"][0]["logprobs"] = logprobs(piece);
        }
        if wants_ids {
            event["choices"][0]["token_ids"] = ids(piece);
        }
        events.push(event);
    }
    for (index, call) in reply.calls.iter().enumerate() {
        let mut begin = call.json();
        begin["index"] = json!(index);
        begin["function"]["arguments"] = json!("");
        events.push(chunk(json!({"tool_calls": [begin]}), None));
        let middle = floor_char_boundary(&call.arguments, call.arguments.len() / 2);
        for part in [&call.arguments[..middle], &call.arguments[middle..]] {
            let delta = json!({"tool_calls": [{"index": index, "function": {"arguments": part}}]});
            events.push(chunk(delta, None));
        }
    }
    events.push(chunk(json!({}), Some(&reply.finish)));
    if let Some(usage) = &reply.usage
        && request.stream_options.is_some_and(|options| options.include_usage)
    {
        let mut last = reply.head("chat.completion.chunk");
        last["choices"] = json!([]);
        last["usage"] = usage.clone();
        events.push(last);
    }
    let mut texts: Vec<String> = events.iter().map(Value::to_string).collect();
    texts.push("[DONE]".into());
    texts
}

fn floor_char_boundary(text: &str, at: usize) -> usize {
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}
