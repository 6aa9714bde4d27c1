//! Engines that run commands in isolation behind one trait.

pub mod engine;
mod error;
#[cfg(target_os = "linux")]
pub mod native;

pub use engine::{
    Capture, Engine, ExecOutcome, ExecSpec, ExitStatus, Limits, Network, Output, Sandbox, SandboxSpec, Usage,
};
pub use error::SandboxError;
