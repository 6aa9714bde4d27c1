//! Model endpoints and the agents that work with them.
//!
//! A task's text, an endpoint and a way to run commands come in; the model's answers, what the commands gave, and an ending go
//! out, written down as a trajectory while they happen. What to do next is decided by [`shell::Conversation`], a function from
//! what was said to what is to be done: it knows no clock, no network and no sandbox. An endpoint's key comes from the
//! environment and goes nowhere but into the header of its requests. What a server does not say stays unknown.

pub mod endpoint;
pub mod installed;
mod message;
pub mod shell;
mod trajectory;

pub use message::{Answer, Message, Role, TokenRecord, ToolCall, Usage};
pub use trajectory::{AgentStep, Head, Trajectory};
