//! The agent `shell`: one shell command a turn, until the model submits.
//!
//! It runs outside of the sandbox and acts through commands, so that an image needs nothing but a shell.

mod conversation;
mod prompts;
mod protocol;
mod work;

pub use conversation::{Command, Conversation, End, Heard, Limits, Next, Rules};
pub use prompts::{PromptError, Prompts};
pub use protocol::Protocol;
pub use work::{Broken, Commands, Session, Totals, Worked, work};

/// The agent's name in results.
pub const NAME: &str = "shell";
/// The command that ends the work.
pub const SUBMIT: &str = "submit";
