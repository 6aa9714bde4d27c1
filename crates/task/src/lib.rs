//! Harbor task directories: read, write, digest; SWE-smith instances to tasks.
pub mod commit;
pub mod config;
mod digest;
mod dir;
mod error;
mod harborignore;
pub mod patch;
mod printable;
mod snapshot;
pub mod tree;

pub use digest::{TaskDigests, digest_task, is_extraneous, is_litter, tree_digest_of};
pub use dir::{Inspection, MissingPart, TaskDir, inspect_task};
pub use error::TaskError;
pub use printable::printable;
