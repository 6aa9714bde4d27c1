//! Why there is no selection.

use ident::TaskId;
use record::Shortage;

use crate::resolve::SplitSizes;

/// Why there is no selection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// A task stands twice in the plan and its reserves, or in a pool that the plan does not have.
    #[error("{document} contradicts itself about task `{task_id}`: {detail}; run `seatrial {stage}` again")]
    Contradiction {
        /// The document.
        document: &'static str,
        /// The task.
        task_id: TaskId,
        /// What is wrong.
        detail: &'static str,
        /// The command that writes the document.
        stage: &'static str,
    },
    /// A pool cannot reach its target.
    #[error("the accepted tasks do not fill the pools: {}; allow a shortfall or prove more tasks", shown(.0))]
    PoolShortage(Vec<Shortage>),
    /// No isolated assignment gives the wanted split sizes.
    #[error(
        "no assignment of whole repositories gives {wanted}; the nearest that is possible is {nearest}, off by {deviation}"
    )]
    Splits {
        /// The wanted sizes.
        wanted: SplitSizes,
        /// The sizes of the assignment that would be taken.
        nearest: SplitSizes,
        /// Sum of the absolute differences.
        deviation: u64,
    },
    /// All wanted sizes are zero.
    #[error("no split wants any task; give `split` at least one size above 0")]
    NoSplits,
}

fn shown(shortages: &[Shortage]) -> String {
    let line = |short: &Shortage| format!("{} has {} of {}", short.what, short.have, short.wanted);
    shortages.iter().map(line).collect::<Vec<_>>().join(", ")
}
