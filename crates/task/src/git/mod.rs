//! Objects of git, read without git.
//!
//! Bytes of loose objects and of packs come in from anywhere, under a [`Budget`] of what may be inflated; out go the objects with
//! their names and what they lead to ([`Objects`]), or the commits of a pack alone ([`commits`]). Names are computed from contents,
//! and what could not be read is an error and never an absence.
//!
//! | file | what it does |
//! |---|---|
//! | `object` | object names, loose objects, what objects lead to, the budget |
//! | `pack` | objects of packs, differences resolved; commits of packs |
//! | `delta` | applies a difference |

mod delta;
mod object;
mod pack;

pub use object::{Budget, Kind, Links, ObjectId, Objects, Unread};
pub use pack::{Commits, commits};
