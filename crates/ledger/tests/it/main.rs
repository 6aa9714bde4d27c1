//! The ledger on disk: what it keeps, what it refuses, and two processes at once.

#![expect(clippy::unwrap_used, reason = "a failed step fails its test")]

mod files;
mod history;
mod keeping;
mod placements;
mod processes;
mod sample;
