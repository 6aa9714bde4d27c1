//! Which image goes to which repository of a registry, decided before the first byte moves.
//!
//! Registries limit how many tags a repository may have. A set of images is therefore spread over numbered repositories, the
//! shards. What comes in is what is wanted, what is there, and where earlier plans put what; what goes out is a [`ShardPlan`]:
//! one action for each image, the number of tags that every shard will have, and whether all of them stay within the limit.
//! Everything here is pure, and the same input gives the same bytes in whatever order it comes. An image that has a place keeps
//! it: adding images never moves one.

mod assign;
mod config;
mod desired;
mod diff;
mod names;
mod plan;
mod recheck;
mod snapshot;

pub use config::{ConfigError, Shards};
pub use desired::{Desired, DesiredError, Wanted};
pub use diff::{PlanDiff, diff};
pub use plan::{
    Action, Duplicate, Gate, Item, Missing, OverLimit, PlanError, PlanRequest, Reason, Shard, ShardPlan, plan,
};
pub use recheck::{Drift, Recheck, RecheckError, recheck};
pub use snapshot::Snapshot;
