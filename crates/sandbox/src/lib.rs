//! Engines that run commands in isolation behind one trait.
//!
//! In come a root image, limits and commands; out come outcomes, files and usage. A command's failure is an outcome,
//! the engine's failure is an error. When a sandbox is destroyed or dropped, or the program dies, nothing of it runs
//! on; a command never outlives its deadline; output, archives and files are read up to a bound; and what cannot be
//! held on this machine is said, not left out.

mod archive;
pub mod docker;
mod door;
pub mod engine;
mod error;
mod guest;
pub mod kubernetes;
mod naming;
#[cfg(target_os = "linux")]
pub mod native;
mod owner;
mod removal;
mod resolve;
mod shared;
mod storage;

pub use archive::{Archive, ArchiveReader, ArchiveWriter, append_entry};
pub use engine::{
    Capture, Door, Engine, EngineImage, ExecOutcome, ExecSpec, ExitStatus, HostService, Limits, Network,
    Output, Root, Sandbox, SandboxSpec, Usage,
};
pub use error::SandboxError;
