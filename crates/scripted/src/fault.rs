//! Faults: what goes wrong, and the words that servers have for it.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::Engine;

/// One thing that goes wrong with one answer.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// The answer comes late.
    Slow {
        /// Milliseconds.
        ms: u64,
    },
    /// The connection breaks in the middle of the answer.
    Cut,
    /// The answer begins and never goes on.
    Stall,
    /// The answer is no JSON.
    Garbage,
    /// The conversation does not fit into the context.
    Overflow,
    /// An error status.
    Status {
        /// The status.
        status: u16,
        /// How the client is told when to come back.
        #[serde(default)]
        retry_after: Option<RetryAfter>,
        /// The message; otherwise one that fits the status.
        #[serde(default)]
        message: Option<String>,
    },
}

/// The two forms of `Retry-After`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryAfter {
    /// Seconds from now.
    Seconds(u64),
    /// A date that many seconds from now.
    Date(u64),
}

/// Status and body of an error in a server's form.
pub(crate) fn error(engine: Engine, status: u16, message: &str, code: Option<&str>) -> Value {
    let kind = match status {
        400 | 422 => "BadRequestError",
        401 => "AuthenticationError",
        404 => "NotFoundError",
        429 => "RateLimitError",
        _ => "InternalServerError",
    };
    match engine {
        Engine::Vllm => json!({"error": {"message": message, "type": kind, "param": null, "code": status}}),
        Engine::Sglang => {
            json!({"object": "error", "message": message, "type": kind, "param": null, "code": status})
        }
        Engine::Openai => {
            let kind = if status == 400 { "invalid_request_error" } else { "server_error" };
            json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
        }
        Engine::LlamaCpp => json!({"error": {"code": status, "message": message, "type": "server_error"}}),
        Engine::Tgi => json!({"error": message, "error_type": "validation"}),
    }
}

/// How a server refuses a conversation of `prompt` tokens, of which `answer` more may be wanted, where `context` fit.
pub(crate) fn overflow(engine: Engine, prompt: u64, answer: Option<u64>, context: u64) -> (u16, Value) {
    let (status, message) = match engine {
        Engine::Vllm => {
            let fits = format!("This model's maximum context length is {context} tokens");
            let message = match answer {
                Some(answer) if prompt < context => format!(
                    "'max_tokens' or 'max_completion_tokens' is too large: {answer}. {fits} and your request has {prompt} input \
                     tokens ({answer} > {context} - {prompt})."
                ),
                _ => format!(
                    "{fits}. However, your request has {prompt} input tokens. Please reduce the length of the input messages."
                ),
            };
            (400, message)
        }
        Engine::Sglang => {
            let message = format!(
                "The input ({prompt} tokens) is longer than the model's context length ({context} tokens)."
            );
            (400, message)
        }
        Engine::Openai => {
            let message = format!(
                "This model's maximum context length is {context} tokens. However, your messages resulted in {prompt} tokens. \
                 Please reduce the length of the messages."
            );
            (400, message)
        }
        Engine::LlamaCpp => {
            let message = format!(
                "request ({prompt} tokens) exceeds the available context size ({context} tokens), try increasing it"
            );
            let body = json!({"error": {"code": 400, "message": message, "type": "exceed_context_size_error",
                "n_prompt_tokens": prompt, "n_ctx": context}});
            return (400, body);
        }
        Engine::Tgi => {
            let message = format!(
                "Input validation error: `inputs` must have less than {context} tokens. Given: {prompt}"
            );
            (422, message)
        }
    };
    (status, error(engine, status, &message, Some("context_length_exceeded")))
}
