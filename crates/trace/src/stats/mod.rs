//! What a set of trials amounts to: counts, means, groups, pass@k, distributions. Pure, but for the gathering of facts.

mod compare;
mod distribution;
mod estimate;
mod facts;
mod gather;
mod group;
mod report;
mod stage;
mod tally;

pub(crate) use compare::sign_test;
pub use compare::{Change, Comparison, TaskPair, Unpaired, compare};
pub use distribution::Distribution;
pub use estimate::{Interval, Method, PassAt};
pub(crate) use estimate::{bootstrap, wilson};
pub use facts::{Outcome, TrialFacts, repository};
pub use gather::{Gathered, gather};
pub(crate) use group::advantage;
pub use group::{Group, Groups, Spread, groups};
pub use report::{Breakdown, ExceptionCount, Stats, Subset, stats};
pub use stage::Stage;
#[cfg(test)]
pub(crate) use tally::tests::fact;
pub use tally::{MeanOver, TrialTally};
