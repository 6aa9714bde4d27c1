//! Harbor task directories: read, write, digest; SWE-smith instances to tasks.
//!
//! Directories and archives come in from anywhere and are treated as hostile: every read is bounded, no link is
//! followed out, nothing panics. Out go typed configurations ([`TaskDir`], [`config`]), digests that agree with Harbor's
//! byte for byte ([`digest_task`]), source trees ([`tree`]) with patches applied strictly ([`patch`]), and new task
//! directories ([`materialize`]) whose workspace is a repository of one commit ([`commit`]). Repositories of others are read
//! object by object ([`git`]).
//!
//! Same input, same bytes, on every machine: everything written is sorted, and no time, owner, umask or locale enters.

pub mod commit;
pub mod config;
mod digest;
mod dir;
mod error;
pub mod git;
mod glob;
mod harborignore;
mod import;
pub mod materialize;
pub mod patch;
mod printable;
mod snapshot;
pub mod tree;
mod write_task;

pub use digest::{
    FileDigests, TaskDigests, digest_task, digest_task_and_files, is_extraneous, is_litter, tree_digest_of,
};
pub use dir::{Inspection, MissingPart, TaskDir, inspect_listed, inspect_task};
pub use error::TaskError;
pub use harborignore::not_uploaded;
pub use import::{ImportedTask, import_task};
pub use printable::printable;
pub use snapshot::Listed;
pub use write_task::write_task;
