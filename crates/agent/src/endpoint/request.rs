//! The body of a request.

use serde::Serialize;
use serde_json::Value;

use super::{Settings, TokenFormat};
use crate::Message;

/// The body of a request for a chat completion. Keys that the server need not know are left out.
#[derive(Debug, Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: &'a [Message],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    tools: &'a [Value],
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    #[serde(skip_serializing_if = "is_false")]
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "is_false")]
    logprobs: bool,
    #[serde(skip_serializing_if = "is_false")]
    return_token_ids: bool,
    #[serde(skip_serializing_if = "is_false")]
    return_prompt_token_ids: bool,
    #[serde(skip_serializing_if = "is_false")]
    return_meta_info: bool,
}

#[derive(Debug, Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// Whether an answer is asked for in pieces.
pub(super) fn is_streamed(settings: &Settings) -> bool {
    settings.stream && settings.tokens != Some(TokenFormat::Sglang)
}

/// The bytes of a request.
pub(super) fn body(settings: &Settings, messages: &[Message], tools: &[Value], seed: Option<u64>) -> Vec<u8> {
    let (sampling, stream) = (settings.sampling, is_streamed(settings));
    let sglang = settings.tokens == Some(TokenFormat::Sglang);
    let body = Body {
        model: &settings.model,
        messages,
        tools,
        temperature: sampling.temperature,
        top_p: sampling.top_p,
        max_tokens: sampling.max_tokens,
        seed,
        stream,
        stream_options: stream.then_some(StreamOptions { include_usage: true }),
        logprobs: settings.tokens.is_some(),
        return_token_ids: settings.tokens == Some(TokenFormat::Vllm),
        return_prompt_token_ids: sglang,
        return_meta_info: sglang,
    };
    serde_json::to_vec(&body).expect("it holds texts and numbers and no map with other keys")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Role, ToolCall};

    #[test]
    fn a_request_holds_what_was_set_and_nothing_else() {
        let settings = Settings::new("http://x/v1", "m");
        let mut said = Message::text(Role::Assistant, "");
        said.tool_calls = vec![ToolCall { id: "c".into(), name: "bash".into(), arguments: "{}".into() }];
        let messages = [Message::text(Role::User, "hi"), said, Message::result("c", "ok")];
        let text = String::from_utf8(body(&settings, &messages, &[], None)).unwrap();
        assert_eq!(
            text,
            r#"{"model":"m","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"","tool_calls":[{"id":"c","type":"function","function":{"name":"bash","arguments":"{}"}}]},{"role":"tool","content":"ok","tool_call_id":"c"}]}"#
        );
    }

    #[test]
    fn tokens_are_asked_for_in_the_servers_way() {
        let mut settings = Settings { stream: true, ..Settings::new("http://x/v1", "m") };
        let keys = |settings: &Settings| {
            let value: Value = serde_json::from_slice(&body(settings, &[], &[], Some(3))).unwrap();
            value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(keys(&settings), "model messages seed stream stream_options");
        settings.tokens = Some(TokenFormat::Vllm);
        assert_eq!(keys(&settings), "model messages seed stream stream_options logprobs return_token_ids");
        settings.tokens = Some(TokenFormat::Sglang);
        assert_eq!(keys(&settings), "model messages seed logprobs return_prompt_token_ids return_meta_info");
    }
}
