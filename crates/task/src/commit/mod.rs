//! A git repository of exactly one commit, written without git.
//!
//! A tree comes in, the files of its `.git` go out. There is nothing in them but the one commit, its trees and its
//! blobs: no second ref, no reflog, no remote, no hook, no loose or unreachable object. Same tree, same bytes.

mod index;
mod object;
mod pack;
mod repository;

pub use repository::{CommitError, Repository};
