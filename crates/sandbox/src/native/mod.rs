//! The embedded engine: Linux namespaces, overlays and control groups, without a daemon.
//!
//! A program that embeds it offers a hidden entry: when its first argument is [`INIT_ARGUMENT`] it calls
//! [`init_main`] before anything else. [`Native`] re-executes the program through that entry once per sandbox.
//! What a sandbox stops and what it does not is written down in `docs/design/0002-native-sandbox.md`.

mod cgroup;
mod engine;
mod exec;
mod init;
mod launch;
mod probe;
mod running;
mod scratch;
mod stack;
mod step;
mod storage;
mod sys;
mod wire;

pub use crate::removal::settle;
pub use cgroup::Enforceable;
pub use engine::{Native, NativeConfig};
pub use init::init_main;
pub use launch::INIT_ARGUMENT;
pub use probe::{Probe, probe};
pub use scratch::remove_tree;
pub use step::StepRunner;

/// Removes the control groups that killed programs of this kind left behind, and nothing else; returns them in order.
/// Whoever sets the engine up does the same.
pub fn sweep_groups() -> Vec<std::path::PathBuf> {
    cgroup::Hierarchy::discover().sweep()
}
