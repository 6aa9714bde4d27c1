//! File trees held in memory: read from archives and directories, changed, written as reproducible archives.

mod archive;
mod directory;
mod model;
mod path;
mod write;

pub use archive::TreeLimits;
pub use model::{Entry, Tree, TreeError};
pub use path::PathFault;
pub(crate) use path::check_path;
pub(crate) use write::{ArchiveBytes, Member, MemberKind};
