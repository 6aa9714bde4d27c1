//! Harbor task directories: read, write, digest; SWE-smith instances to tasks.
mod config;
mod digest;
mod error;
mod harborignore;
mod printable;
mod snapshot;

pub use config::ConfigError;
pub use digest::{TaskDigests, digest_task, is_extraneous, is_litter, tree_digest_of};
pub use error::TaskError;
pub use printable::printable;
