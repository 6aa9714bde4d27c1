//! Engines that run commands in isolation behind one trait.

pub mod engine;
mod error;

pub use engine::{
    Capture, Engine, ExecOutcome, ExecSpec, ExitStatus, Limits, Network, Output, Sandbox, SandboxSpec, Usage,
};
pub use error::SandboxError;
