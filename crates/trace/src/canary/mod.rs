//! Canaries: a few tasks, always the same, on which a model is measured again and again. Pure.
//!
//! A [`CanaryDocument`] holds what was run and what came out, and nothing that follows from it. [`report`] and
//! [`compare_canaries`] say what follows.

mod compare;
mod document;
mod report;
mod sample;

pub use compare::{CanaryComparison, CanaryVerdict, NotComparable, compare_canaries};
pub use document::{CanaryDocument, CanaryTask, CanaryTrial};
pub use report::{CanaryException, CanaryMean, CanaryReport, CanaryRow, report};
pub use sample::sample;
