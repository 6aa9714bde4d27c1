//! The crate against real task directories, patches and git itself.
#![expect(clippy::unwrap_used, reason = "tests may stop at once, and say what they skip")]

mod configs;
mod digests;
mod patches;
mod repositories;
mod tasks;
