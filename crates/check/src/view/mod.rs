//! A task directory as the rules see it: read once, under bounds, links looked at and not followed.

mod archive;
mod buffer;
mod model;
mod read;

pub use model::{Archive, ConfigState, Entry, FileEntry, Member, MemberKind, TaskView};
