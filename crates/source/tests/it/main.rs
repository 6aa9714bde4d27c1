//! The crate as its callers use it: files on disk, a package index on this machine, the lock between them.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a failed step fails its test, and skipped tests say so"
)]

mod collections;
mod index;
mod load;
mod pull;
mod real_index;
mod server;
