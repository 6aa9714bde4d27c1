//! The crate against real task directories, patches and git itself.

mod corpus;
mod digests;
