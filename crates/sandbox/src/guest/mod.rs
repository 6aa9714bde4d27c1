//! The engine's side of the guest, the program that is process 1 of a container.
//!
//! What an engine has to bring is one stream of bytes in each direction, to and from the guest's standard input and
//! output, and a way to put the program into the container before it starts. All requests of a sandbox share the two
//! streams. Nothing depends on closing half a connection or on files that both sides see.

mod door;
mod exec;
mod files;
mod link;

pub(crate) use door::OWN_PROCESSES;
pub(crate) use link::Link;

use crate::SandboxError;

/// The guest as a statically linked program; empty when it could not be linked.
const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/guest"));

/// The guest as a program, for an engine that cannot do without; an error where it could not be linked.
pub(crate) fn program(engine: &'static str) -> Result<&'static [u8], SandboxError> {
    if PROGRAM.is_empty() {
        let reason = "this program was built without the part that runs in containers: install the static C library \
                      (libc6-dev on Debian) and build again";
        return Err(SandboxError::Unavailable { engine, reason: reason.into() });
    }
    Ok(PROGRAM)
}

/// Where the guest lies in a container, for the moment before it starts.
pub(crate) const PLACE: &str = ".seatrial-guest";
