//! The half of the engine that runs inside: process 1 of every sandbox.
//!
//! It has one thread, trusts the engine behind its control socket and nothing that happens in the sandbox. Its
//! privileges are those of a user namespace of its own; commands get fewer.

mod command;
mod entry;
mod privileges;
mod rootfs;
mod serve;
mod syscalls;
mod transfer;
mod user;

pub use entry::init_main;
