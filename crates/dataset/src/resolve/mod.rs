//! The final set and its splits, by the rules of version `resolve/1`.

mod candidates;
mod choice;
mod error;
mod explain;
mod outcome;
mod replaced;
mod splits;

pub use candidates::{Candidate, Candidates, Exclusion, Verdicts, candidates};
pub use choice::choose;
pub use error::ResolveError;
pub use explain::{Explanation, Fate, Step, explain};
pub use outcome::{PoolTarget, RULES, ResolveRules, Resolved, resolve};
pub use replaced::{Loss, Replacement, replacements};
pub use splits::{Assignment, SplitSizes, assign};
