//! Questions about a set of tasks: which of them are nearly the same, and which come from where agents are evaluated.
//!
//! A task is reduced to a [`TaskDigest`] while its view is at hand; the view can be dropped then. What is decided over
//! all digests depends on their order and on nothing else.

mod digest;
mod judge;
mod known;
mod prompt;
mod similar;

pub use digest::TaskDigest;
pub(crate) use judge::RULES;
pub use judge::{SetOptions, check_set};
