//! The crate as its callers use it: files on disk, a package index on this machine, the lock between them.

#![expect(clippy::unwrap_used, reason = "a failed step fails its test")]

mod collections;
mod hub;
mod index;
mod load;
mod parquet;
mod pull;
mod push;
mod real_index;
mod remote;
mod server;
mod wire;
