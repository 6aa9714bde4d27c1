//! Trials on disk: where they lie, what their documents say, and what their agents did.

mod document;
mod find;
mod harbor_stats;
mod head;
mod sources;

pub(crate) use document::{Fault, load, load_text, text};
pub(crate) use find::{Found, Place, Root, find, find_agents};
pub(crate) use harbor_stats::JobStats;
pub(crate) use head::{Head, LONE, run_above};
pub(crate) use sources::{Source, lone, sources, steps_of, verifier_output};
