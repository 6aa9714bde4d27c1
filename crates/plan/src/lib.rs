//! Turns public evidence about candidates into primaries and reserves, by the rules of version `plan/1`.
//!
//! Rows of pinned sources and the recipe's pools come in as values; two documents, their statistics and notes about
//! everything that was set aside go out. Nothing here reads a clock, a file or the environment, and the order in
//! which rows arrive never matters: the same rows give the same bytes. A fault of the input and a shortage are told
//! apart, and neither leaves half a plan behind.

mod candidate;
mod diff;
mod error;
mod evidence;
mod explain;
mod input;
mod model;
mod note;
mod order;
mod outcome;
mod pool;
mod sets;
mod stats;

pub use candidate::Candidate;
pub use diff::{Change, InputChange, PlanDiff, TaskChange};
pub use error::{InputError, InputErrors, PlanError, PoolShortage, ShortageReport};
pub use evidence::Tier;
pub use explain::{Explanation, Outcome, Step, explain};
pub use input::{Cap, CapError, CrossSource, Percent, PlanInput, PoolRules, Reserve};
pub use model::{ModelFamily, ModelTable, ModelTableError};
pub use note::{EvidenceKind, Note};
pub use outcome::{CANARY_SET, PlanOutcome, RULES, plan};
pub use sets::{SetError, SetExpr};
pub use stats::{ModelCounts, PlanStats, StatsRow, TierCounts};
