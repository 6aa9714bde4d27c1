//! A model server that answers from a script, for tests and demonstrations only.
//!
//! A [`Script`] comes in; an HTTP server on loopback goes out, which speaks the chat completions of OpenAI-compatible servers:
//! whole or streamed, with tool calls, log probabilities and token numbers; and the messages and responses that vLLM and SGLang serve
//! beside them, for programs that speak nothing else. What it answers follows from the request and from
//! how often that very request has come in the same session, so that the order in which clients are served changes nothing.
//! Faults happen where the script says so, and a conversation that outgrows the context is refused in the words of a real server.

mod fault;
mod messages;
mod reply;
mod request;
mod responses;
mod script;
mod server;
mod stream;
mod tokens;

pub use fault::{Fault, RetryAfter};
pub use script::{Engine, Scene, Script, ScriptError, Turn, Usage};
pub use server::{Recorded, Server};
pub use tokens::{TokenText, tokens};
