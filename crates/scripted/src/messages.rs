//! Anthropic's messages, as vLLM and SGLang serve them beside chat completions.

use serde_json::{Map, Value, json};

use crate::reply::Reply;

/// A request as one for a chat completion. What cannot be one is left out.
pub(crate) fn as_chat(request: &Value) -> Value {
    let mut messages = Vec::new();
    let system = text_of(&request["system"]);
    if !system.is_empty() {
        messages.push(json!({"role": "system", "content": system}));
    }
    for message in list(&request["messages"]) {
        if message["role"] == "assistant" {
            let calls: Vec<Value> = list(&message["content"])
                .iter()
                .filter(|block| block["type"] == "tool_use")
                .map(|block| {
                    json!({"id": block["id"], "type": "function",
                        "function": {"name": block["name"], "arguments": block["input"].to_string()}})
                })
                .collect();
            messages.push(
                json!({"role": "assistant", "content": text_of(&message["content"]), "tool_calls": calls}),
            );
            continue;
        }
        for block in list(&message["content"]).iter().filter(|block| block["type"] == "tool_result") {
            messages.push(json!({"role": "tool", "tool_call_id": block["tool_use_id"], "content": text_of(&block["content"])}));
        }
        let said = text_of(&message["content"]);
        if !said.is_empty() {
            messages.push(json!({"role": "user", "content": said}));
        }
    }
    let tool = |tool: &Value| json!({"type": "function", "function": {"name": tool["name"], "parameters": tool["input_schema"]}});
    let tools: Vec<Value> = list(&request["tools"]).iter().map(tool).collect();
    json!({"model": request["model"], "messages": messages, "tools": tools, "stream": request["stream"] == true,
        "max_tokens": request["max_tokens"]})
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The text of a content, which is one or a list of blocks.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            blocks.iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

/// The whole answer as one document.
pub(crate) fn whole(reply: &Reply) -> Value {
    let mut blocks = Vec::new();
    if !reply.text.is_empty() || reply.calls.is_empty() {
        blocks.push(json!({"type": "text", "text": reply.text}));
    }
    blocks.extend(reply.calls.iter().map(|call| {
        // The form has no place for arguments that are none.
        let input = serde_json::from_str(&call.arguments).unwrap_or(Value::Object(Map::new()));
        json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input})
    }));
    let stop = match reply.finish.as_str() {
        "tool_calls" => "tool_use",
        "length" => "max_tokens",
        _ => "end_turn",
    };
    let count = |key: &str| reply.usage.as_ref().map_or(json!(0), |usage| usage[key].clone());
    json!({"id": reply.id, "type": "message", "role": "assistant", "model": reply.model, "content": blocks,
        "stop_reason": stop, "stop_sequence": null,
        "usage": {"input_tokens": count("prompt_tokens"), "output_tokens": count("completion_tokens"),
            "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}})
}

/// The events of an answer in pieces, each with its name as `type`.
pub(crate) fn events(reply: &Reply) -> Vec<Value> {
    let whole = whole(reply);
    let mut begin = whole.clone();
    begin["content"] = json!([]);
    begin["stop_reason"] = Value::Null;
    begin["usage"]["output_tokens"] = json!(1);
    let mut events = vec![json!({"type": "message_start", "message": begin})];
    for (index, block) in list(&whole["content"]).iter().enumerate() {
        let mut empty = block.clone();
        let delta = if block["type"] == "text" {
            empty["text"] = json!("");
            json!({"type": "text_delta", "text": block["text"]})
        } else {
            empty["input"] = json!({});
            json!({"type": "input_json_delta", "partial_json": block["input"].to_string()})
        };
        events.push(json!({"type": "content_block_start", "index": index, "content_block": empty}));
        events.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    let usage = json!({"output_tokens": whole["usage"]["output_tokens"]});
    let delta = json!({"stop_reason": whole["stop_reason"], "stop_sequence": null});
    events.push(json!({"type": "message_delta", "delta": delta, "usage": usage}));
    events.push(json!({"type": "message_stop"}));
    events
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Turn;
    use crate::request::Request;

    #[test]
    fn a_conversation_comes_in_and_blocks_go_out() {
        let asked = json!({"model": "m", "system": [{"type": "text", "text": "s"}], "messages": [
            {"role": "user", "content": "Fix it"},
            {"role": "assistant", "content": [{"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "a"}, {"type": "text", "text": "Go on."}]},
        ], "tools": [{"name": "Read", "input_schema": {"properties": {"path": {}}}},
            {"name": "Bash", "input_schema": {"properties": {"command": {}}}}]});
        let chat = as_chat(&asked);
        let told: Vec<_> =
            chat["messages"].as_array().unwrap().iter().map(|message| &message["role"]).collect();
        assert_eq!(told, ["system", "user", "assistant", "tool", "user"]);
        let request: Request = serde_json::from_value(chat).unwrap();
        assert_eq!((request.turn(), request.tool()), (1, Some("Bash")));

        let turn: Turn = serde_json::from_str(r#"{"text": "Again.", "commands": ["ls"]}"#).unwrap();
        let reply = Reply::new(&turn, &request, request.prompt(), &"0".repeat(64));
        let whole = whole(&reply);
        assert_eq!(
            (&whole["stop_reason"], &whole["content"][1]["input"]),
            (&json!("tool_use"), &json!({"command": "ls"}))
        );
        let kinds: Vec<_> =
            events(&reply).iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect();
        let block = ["content_block_start", "content_block_delta", "content_block_stop"];
        let expected = [&["message_start"][..], &block, &block, &["message_delta", "message_stop"]].concat();
        assert_eq!(kinds, expected);
    }
}
