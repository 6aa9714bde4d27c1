//! Stage documents on disk: canonical, named, written whole or not at all.
//!
//! Values come in, files come out, and back. A file written here is either complete under its final name or not
//! there; a file read here is bounded, is not a link, and says which schema it follows and which inputs it was made
//! from, so that a stage can refuse stale ones.

mod document;
mod file;
mod unfinished;

pub use document::{Document, Inputs, load, load_optional, store};
pub use file::{ArtifactError, is_disk_full, no_follow, open_file, read_bounded, write_atomic};
pub use unfinished::{Unfinished, abandon, is_unfinished, sweep, unfinished};
