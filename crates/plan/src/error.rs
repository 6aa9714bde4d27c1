//! Why there is no plan.

use std::collections::BTreeMap;
use std::fmt;

use ident::TaskIdError;
use record::{ImageStatus, Trajectory};
use serde::Serialize;

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// The recipe or the rows contradict themselves or the rules.
    #[error(transparent)]
    Input(#[from] InputErrors),
    /// A pool could not be filled.
    #[error(transparent)]
    Shortage(#[from] ShortageReport),
}

/// Every fault of the input that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct InputErrors(pub Vec<InputError>);

impl std::error::Error for InputErrors {}

impl fmt::Display for InputErrors {
    /// One fault a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.0.iter().enumerate() {
            write!(f, "{}{error}", if i == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

/// One fault of the input.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum InputError {
    /// An instance with an id that cannot name a directory.
    #[error(transparent)]
    TaskId(#[from] TaskIdError),
    /// Rows of one id with different content.
    #[error("instance `{id}` has {rows} rows that differ; keep one of them")]
    InstanceConflict {
        /// The id.
        id: String,
        /// How many rows.
        rows: u64,
    },
    /// Two ids that some systems would take for one.
    #[error(
        "ids `{first}` ({first_place}) and `{second}` ({second_place}) differ only in case or outer white space; \
         correct one of them"
    )]
    NearIds {
        /// One id.
        first: String,
        /// Where it stands: `instances`, or the name of a set.
        first_place: String,
        /// The other id.
        second: String,
        /// Where that one stands.
        second_place: String,
    },
    /// A member of a pool without a repository, so that no cap could count it.
    #[error("instance `{id}` names no repository, and neither does its row (`{repo}`)")]
    NoRepository {
        /// The id.
        id: String,
        /// The row's repository.
        repo: String,
    },
    /// Two rows of one run that disagree.
    #[error("trajectory `{}` has rows that disagree: {} and {}", first.traj_id, Run(first), Run(second))]
    TrajectoryConflict {
        /// One row.
        first: Box<Trajectory>,
        /// The other.
        second: Box<Trajectory>,
    },
    /// Model names that no prefix fits.
    #[error(
        "no prefix of [evidence.models] fits these models: {}; map them to a family or to \"ignore\"",
        Listed::counted(rows)
    )]
    UnmappedModels {
        /// The names and how many rows each has; `<null>` stands for solved runs that name no model.
        rows: BTreeMap<String, u64>,
    },
    /// A mean that is none.
    #[error("the reward mean of `{key}` is {value}, which is not between 0 and 1")]
    RewardRange {
        /// The row's key.
        key: String,
        /// The value.
        value: f64,
    },
    /// Two means for one key.
    #[error("`{key}` has two reward means: {first} and {second}")]
    RewardConflict {
        /// The row's key.
        key: String,
        /// One value.
        first: f64,
        /// The other.
        second: f64,
    },
    /// Two image states for one task.
    #[error("the image of `{id}` has two states: {} and {}; leave one of the rows out", first.name(), second.name())]
    ImageConflict {
        /// The task as given.
        id: String,
        /// One state.
        first: ImageStatus,
        /// The other.
        second: ImageStatus,
    },
    /// A set that no expression could mention.
    #[error(
        "set name `{0}` cannot stand in an expression: use letters, digits, `_` and `.`, and begin with a letter"
    )]
    SetName(String),
    /// An expression mentions a set that is not there.
    #[error("pool `{stage}`: `{field}` mentions the set `{name}`, which is not defined; known are {known}", known = Listed::plain(known))]
    UnknownSet {
        /// The pool.
        stage: String,
        /// `members`, `retain` or `force`.
        field: &'static str,
        /// The missing set.
        name: String,
        /// The sets that there are.
        known: Vec<String>,
    },
    /// Two pools of one name.
    #[error("two pools are called `{0}`; give each its own name")]
    RepeatedStage(String),
    /// Two pools share members.
    #[error(
        "pools `{first}` and `{second}` share members: {}; take them out of one of the two",
        Listed::plain(ids)
    )]
    Overlap {
        /// The pool that comes first in the recipe.
        first: String,
        /// The later one.
        second: String,
        /// The shared ids.
        ids: Vec<String>,
    },
    /// Forced ids outside their pool.
    #[error("pool `{stage}` must take ids that are not among its members: {}", Listed::plain(ids))]
    ForcedOutside {
        /// The pool.
        stage: String,
        /// The ids.
        ids: Vec<String>,
    },
    /// Forced ids that are no instances.
    #[error("pool `{stage}` must take ids that are not instances: {}", Listed::plain(ids))]
    ForcedUnknown {
        /// The pool.
        stage: String,
        /// The ids.
        ids: Vec<String>,
    },
    /// More forced ids than places.
    #[error("pool `{stage}` must take {forced} tasks but its target is {target}")]
    TooManyForced {
        /// The pool.
        stage: String,
        /// How many ids are forced.
        forced: u64,
        /// How many places there are.
        target: u64,
    },
    /// Canary ids that no pool takes for certain.
    #[error(
        "no pool forces these ids of the canary set: {}; add them to `force` of their pool",
        Listed::plain(ids)
    )]
    CanaryNotForced {
        /// The ids.
        ids: Vec<String>,
    },
}

/// What every pool has and wants when at least one is short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ShortageReport {
    /// The pools in the recipe's order.
    pub pools: Vec<PoolShortage>,
}

/// One pool of a [`ShortageReport`]. `members` is the sum of `not_instances`, `no_evidence`, `no_image`, `over_cap`,
/// `left` and `have`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PoolShortage {
    /// The pool's name.
    pub stage: String,
    /// How many tasks could be selected.
    pub have: u64,
    /// How many are wanted.
    pub want: u64,
    /// Ids in the membership set.
    pub members: u64,
    /// Members that are not instances.
    pub not_instances: u64,
    /// Members that had to be taken, part of `have`.
    pub forced: u64,
    /// Members without a tier.
    pub no_evidence: u64,
    /// Members with a tier whose image is not there, where the pool asks for one.
    pub no_image: u64,
    /// Members that the cap kept out.
    pub over_cap: u64,
    /// Members that were not needed.
    pub left: u64,
}

impl std::error::Error for ShortageReport {}

impl fmt::Display for ShortageReport {
    /// One pool a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the pools cannot be filled:")?;
        for pool in &self.pools {
            write!(
                f,
                "\npool `{}` has {} of {} ({} members; {} not instances, {} without evidence, {} without image, {} over the cap)",
                pool.stage,
                pool.have,
                pool.want,
                pool.members,
                pool.not_instances,
                pool.no_evidence,
                pool.no_image,
                pool.over_cap
            )?;
        }
        Ok(())
    }
}

/// Shows a row of a run.
struct Run<'a>(&'a Trajectory);

impl fmt::Display for Run<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Trajectory { instance_id, model, resolved, .. } = self.0;
        let model = model.as_deref().unwrap_or("<null>");
        write!(f, "(instance `{instance_id}`, model `{model}`, resolved {resolved})")
    }
}

/// Shows how many entries a list has and the first few of them.
pub(crate) struct Listed(String);

impl Listed {
    const SHOWN: usize = 8;

    pub(crate) fn plain(ids: &[String]) -> Self {
        Self::new(ids.len(), ids.iter().map(|id| format!("`{id}`")))
    }

    pub(crate) fn counted(rows: &BTreeMap<String, u64>) -> Self {
        let entry = |(id, count): (&String, &u64)| {
            format!("`{id}` ({count} {})", if *count == 1 { "row" } else { "rows" })
        };
        Self::new(rows.len(), rows.iter().map(entry))
    }

    fn new(len: usize, entries: impl Iterator<Item = String>) -> Self {
        let mut text = entries.take(Self::SHOWN).collect::<Vec<_>>().join(", ");
        if len > Self::SHOWN {
            text = format!("{text} and {} more", len - Self::SHOWN);
        }
        Self(text)
    }
}

impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
