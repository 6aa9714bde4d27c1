//! The final set and its splits, by the rules of version `resolve/1`.

mod candidates;
mod choice;
mod error;
mod outcome;
mod splits;

pub use candidates::{Candidate, Exclusion, Verdicts, candidates};
pub use choice::choose;
pub use error::ResolveError;
pub use outcome::{PoolTarget, RULES, ResolveRules, Resolved, resolve};
pub use splits::{Assignment, SplitSizes, assign};
