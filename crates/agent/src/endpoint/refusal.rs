//! What a server means when it refuses.

use serde_json::Value;

/// What a refusal means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The conversation does not fit into the model's context.
    Overflow,
    /// The credentials were not accepted.
    Auth,
    /// There is no such model.
    NoModel,
    /// The server declines for what was said.
    Declined,
    /// Another try may help.
    Passing,
    /// The request will never be accepted.
    Lasting,
}

/// Words by which servers say that a conversation is too long. All are in lower case, and enough by themselves in a refusal.
///
/// In order: OpenAI and Azure, by code; vLLM, OpenAI and OpenRouter; vLLM; SGLang; SGLang; llama.cpp, by type and by words; TGI,
/// for prompts and for prompts with answers; Anthropic; Mistral; LM Studio.
const OVERFLOW: [&str; 12] = [
    "context_length_exceeded",
    "maximum context length",
    "maximum model length",
    "longer than the model's context length",
    "exceeds the model's context length",
    "exceed_context_size_error",
    "exceeds the available context size",
    "`inputs` must have less than",
    "`inputs` tokens + `max_new_tokens` must be",
    "prompt is too long",
    "too large for model with",
    "greater than the context length",
];

/// Whether a refusal says that the conversation is too long.
pub fn is_overflow(status: u16, body: &str) -> bool {
    let body = body.to_lowercase();
    // A server that is too busy speaks of tokens too.
    matches!(status, 400 | 413 | 422 | 500) && OVERFLOW.iter().any(|words| body.contains(words))
}

/// What a refusal means, from its status and its body.
pub(super) fn meaning(status: u16, body: &str) -> Meaning {
    if is_overflow(status, body) {
        return Meaning::Overflow;
    }
    let lower = body.to_lowercase();
    match status {
        401 | 403 => Meaning::Auth,
        404 => Meaning::NoModel,
        // Spent money comes back by nobody's waiting.
        429 if lower.contains("insufficient_quota") => Meaning::Lasting,
        400 if lower.contains("content_filter") || lower.contains("content_policy") => Meaning::Declined,
        status if super::retry::is_passing(status) => Meaning::Passing,
        _ => Meaning::Lasting,
    }
}

/// The message in the body of a refusal, whatever form the server gives it; at most 400 characters.
pub(super) fn message(body: &str) -> String {
    let document: Option<Value> = serde_json::from_str(body).ok();
    let places = ["/error/message", "/message", "/error", "/detail"];
    let found = document
        .as_ref()
        .and_then(|document| places.iter().find_map(|place| document.pointer(place).and_then(Value::as_str)));
    found.unwrap_or(body).trim().chars().take(400).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overflow_is_recognised_in_the_words_of_the_common_servers() {
        let words = [
            (
                400,
                r#"{"error":{"message":"This model's maximum context length is 8192 tokens. However, your request has 9000 input tokens.","code":400}}"#,
            ),
            (
                400,
                r#"{"object":"error","message":"The input (9000 tokens) is longer than the model's context length (8192 tokens)."}"#,
            ),
            (
                400,
                r#"{"object":"error","message":"Requested token count exceeds the model's maximum context length of 8192 tokens."}"#,
            ),
            (
                400,
                r#"{"error":{"message":"Your input exceeds the limit.","code":"context_length_exceeded"}}"#,
            ),
            (
                400,
                r#"{"error":{"code":400,"message":"request (9412 tokens) exceeds the available context size (8192 tokens), try increasing it","type":"exceed_context_size_error"}}"#,
            ),
            (
                500,
                r#"{"error":{"message":"the request exceeds the available context size, try increasing it"}}"#,
            ),
            (
                422,
                r#"{"error":"Input validation error: `inputs` must have less than 4095 tokens. Given: 5000","error_type":"validation"}"#,
            ),
            (
                422,
                r#"{"error":"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` tokens and 500 `max_new_tokens`"}"#,
            ),
            (400, r#"{"error":{"message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#),
        ];
        for (status, body) in words {
            assert_eq!(meaning(status, body), Meaning::Overflow, "{body}");
        }
        let busy =
            r#"{"error":{"message":"Rate limit: 30000 tokens per min, maximum context length applies"}}"#;
        assert_eq!(meaning(429, busy), Meaning::Passing);
        assert_eq!(meaning(400, r#"{"error":{"message":"temperature must be positive"}}"#), Meaning::Lasting);
    }

    #[test]
    fn refusals_are_told_apart() {
        assert_eq!(meaning(401, ""), Meaning::Auth);
        assert_eq!(meaning(404, ""), Meaning::NoModel);
        assert_eq!(meaning(529, ""), Meaning::Passing);
        assert_eq!(meaning(429, r#"{"error":{"code":"insufficient_quota"}}"#), Meaning::Lasting);
        assert_eq!(meaning(400, r#"{"error":{"code":"content_filter"}}"#), Meaning::Declined);
    }

    #[test]
    fn messages_are_found_in_every_form() {
        for body in [
            r#"{"error":{"message":"no"}}"#,
            r#"{"message":"no"}"#,
            r#"{"error":"no"}"#,
            r#"{"detail":"no"}"#,
            " no\n",
        ] {
            assert_eq!(message(body), "no", "{body}");
        }
        assert_eq!(message(&"x".repeat(1000)).len(), 400);
    }
}
