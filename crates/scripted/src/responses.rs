//! OpenAI's responses, as vLLM and SGLang serve them beside chat completions.

use serde_json::{Value, json};

use crate::reply::Reply;

/// A request as one for a chat completion. What cannot be one is left out.
pub(crate) fn as_chat(request: &Value) -> Value {
    let mut messages: Vec<Value> = Vec::new();
    if let Some(text) = request["instructions"].as_str() {
        messages.push(json!({"role": "system", "content": text}));
    }
    if let Some(text) = request["input"].as_str() {
        messages.push(json!({"role": "user", "content": text}));
    }
    for item in list(&request["input"]) {
        let kind = item["type"].as_str().unwrap_or("message");
        let from_model = item["role"] == "assistant" || kind == "function_call";
        // Everything that the model gave in one answer stands in one message.
        if from_model && messages.last().is_none_or(|last| last["role"] != "assistant") {
            messages.push(json!({"role": "assistant", "content": "", "tool_calls": []}));
        }
        match (kind, messages.last_mut()) {
            ("function_call", Some(last)) => {
                let call = json!({"id": item["call_id"], "type": "function",
                    "function": {"name": item["name"], "arguments": item["arguments"]}});
                last["tool_calls"].as_array_mut().expect("it was made with one").push(call);
            }
            ("message", Some(last)) if from_model => {
                last["content"] = json!(
                    last["content"].as_str().unwrap_or_default().to_owned() + &text_of(&item["content"])
                );
            }
            ("message", _) => {
                messages.push(json!({"role": item["role"], "content": text_of(&item["content"])}));
            }
            ("function_call_output", _) => {
                let seen = text_of(&item["output"]);
                messages.push(json!({"role": "tool", "tool_call_id": item["call_id"], "content": seen}));
            }
            _ => {}
        }
    }
    let tools: Vec<Value> = list(&request["tools"])
        .iter()
        .filter(|tool| tool["type"] == "function")
        .map(|tool| json!({"type": "function", "function": {"name": tool["name"], "parameters": tool["parameters"]}}))
        .collect();
    json!({"model": request["model"], "messages": messages, "tools": tools, "stream": request["stream"] == true,
        "max_tokens": request["max_output_tokens"]})
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The text of a content, which is one or a list of parts.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        _ => list(content).iter().filter_map(|part| part["text"].as_str()).collect(),
    }
}

/// The whole answer as one document.
pub(crate) fn whole(reply: &Reply) -> Value {
    let mut output = Vec::new();
    if !reply.text.is_empty() || reply.calls.is_empty() {
        let part = json!({"type": "output_text", "text": reply.text, "annotations": []});
        output.push(json!({"type": "message", "id": format!("msg_{}", reply.id), "role": "assistant",
            "status": "completed", "content": [part]}));
    }
    output.extend(reply.calls.iter().map(|call| {
        json!({"type": "function_call", "id": format!("fc_{}", call.id), "call_id": call.id, "name": call.name,
            "arguments": call.arguments, "status": "completed"})
    }));
    let is_cut = reply.finish == "length";
    let mut whole = begun(reply);
    whole["status"] = json!(if is_cut { "incomplete" } else { "completed" });
    if is_cut {
        whole["incomplete_details"] = json!({"reason": "max_output_tokens"});
    }
    whole["output"] = json!(output);
    if let Some(usage) = &reply.usage {
        whole["usage"] = json!({"input_tokens": usage["prompt_tokens"], "output_tokens": usage["completion_tokens"],
            "total_tokens": usage["total_tokens"], "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0}});
    }
    whole
}

fn begun(reply: &Reply) -> Value {
    let head = reply.head("response");
    json!({"id": head["id"], "object": "response", "created_at": head["created"], "model": reply.model,
        "status": "in_progress", "output": []})
}

/// The events of an answer in pieces, each with its name as `type`.
pub(crate) fn events(reply: &Reply) -> Vec<Value> {
    let whole = whole(reply);
    let mut events = vec![json!({"type": "response.created", "response": begun(reply)})];
    for (index, item) in list(&whole["output"]).iter().enumerate() {
        for kind in ["response.output_item.added", "response.output_item.done"] {
            events.push(json!({"type": kind, "output_index": index, "item": item}));
        }
    }
    let end = if whole["status"] == "completed" { "response.completed" } else { "response.incomplete" };
    events.push(json!({"type": end, "response": whole}));
    for (number, event) in events.iter_mut().enumerate() {
        event["sequence_number"] = json!(number);
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Turn;
    use crate::request::Request;

    #[test]
    fn items_come_in_and_go_out() {
        let asked = json!({"model": "m", "instructions": "s", "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Fix it"}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
            {"type": "function_call", "call_id": "c1", "name": "exec", "arguments": "{\"cmd\":\"ls\"}"},
            {"type": "function_call_output", "call_id": "c1", "output": "a"},
        ], "tools": [{"type": "web_search"}, {"type": "function", "name": "exec", "parameters": {"properties": {"cmd": {}}}}]});
        let chat = as_chat(&asked);
        let told: Vec<_> =
            chat["messages"].as_array().unwrap().iter().map(|message| &message["role"]).collect();
        assert_eq!(told, ["system", "user", "assistant", "tool"], "one answer is one message");
        let request: Request = serde_json::from_value(chat).unwrap();
        assert_eq!((request.turn(), request.tool(), request.argument()), (1, Some("exec"), Some("cmd")));

        let turn: Turn = serde_json::from_str(r#"{"text": "Again.", "commands": ["ls"]}"#).unwrap();
        let reply = Reply::new(&turn, &request, request.prompt(), &"0".repeat(64));
        let whole = whole(&reply);
        assert_eq!(
            (&whole["status"], &whole["output"][1]["arguments"]),
            (&json!("completed"), &json!("{\"cmd\":\"ls\"}"))
        );
        let events = events(&reply);
        assert_eq!(
            (events.len(), &events[5]["type"], &events[5]["sequence_number"]),
            (6, &json!("response.completed"), &json!(5))
        );
    }
}
