//! Process 1 of a container: runs what the engine asks for, and ends with its connection.
//!
//! The engine puts this program into a container before it starts and holds both ends of its standard streams. It
//! is linked statically, so it needs nothing from the image, and removes its own file first thing. Like the native
//! engine's init it forks a helper a request; a command's helper is a subreaper, so that the whole tree of a command
//! can be ended and nothing else.
//!
//! It goes before everything else in the container, so that it can end what commands start however much that is, and
//! keeps the capability for that, which commands do not have. The kernel therefore refuses commands, root's included,
//! to trace it, to write to its memory and to open its program, so that what a command does to the container's files
//! never changes what the next request does.

#![allow(dead_code, reason = "what is shared with the engine is included whole")]

#[path = "../src/shared/account.rs"]
mod account;
#[path = "../src/shared/capture.rs"]
mod capture;
mod command;
mod counters;
mod door;
mod pack;
#[path = "../src/shared/process.rs"]
mod process;
mod serve;
mod surroundings;
mod sys;
mod unpack;
#[path = "../src/shared/wire.rs"]
mod wire;

/// A captured stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Output {
    pub(crate) bytes: Vec<u8>,
    pub(crate) total: u64,
}

#[cfg(test)]
impl Output {
    fn truncated(&self) -> bool {
        self.total > self.bytes.len() as u64
    }
}

fn main() {
    std::process::exit(i32::from(serve::run().is_err()));
}
