//! The ledger on disk: what it keeps, what it refuses, and two processes at once.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a failed step fails its test, and skipped tests say so"
)]

mod files;
mod history;
mod keeping;
mod processes;
mod sample;
