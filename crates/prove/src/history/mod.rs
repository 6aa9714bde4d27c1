//! What a built environment still knows beside the one commit that is checked out.
//!
//! A tar stream of a working directory comes in, under bounds; what must not be there goes out as [`Trace`]s, each with its
//! place. Everything is decided by ancestry and by the identity of objects, which is computed from their content: dates,
//! names and indexes are not believed. What could not be read is a trace as well, so that silence proves something.
//!
//! | file | what it does |
//! |---|---|
//! | `gather` | picks the repositories out of the stream |
//! | `names` | references, reflogs, heads of interrupted work, settings |
//! | `judge` | walks from the checked-out commit, and names the rest |
//!
//! Objects themselves are read by [`task::git`].

mod gather;
mod judge;
mod names;
#[cfg(test)]
mod tests;

pub use gather::{Gathered, gather};
pub use judge::{Allowed, Trace, judge};
