//! What was set aside on the way to a plan, so that nothing is dropped in silence.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::error::Listed;

/// Something a reader of the plan should know. Notes never stop a plan.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "note", rename_all = "snake_case")]
pub enum Note {
    /// Identical instance rows were collapsed.
    RepeatedInstances {
        /// Ids and how many rows each has.
        rows: BTreeMap<String, u64>,
    },
    /// A list names an id more than once.
    RepeatedIds {
        /// The list.
        set: String,
        /// Ids and how often each stands there.
        rows: BTreeMap<String, u64>,
    },
    /// Evidence about tasks that are not instances.
    UnknownEvidence {
        /// Which evidence.
        kind: EvidenceKind,
        /// Keys as given, and how many rows each has.
        rows: BTreeMap<String, u64>,
    },
    /// Runs of models that the recipe ignores.
    IgnoredModels {
        /// Model names as published, and how many rows each has.
        rows: BTreeMap<String, u64>,
    },
    /// Members of a pool that are not instances; they are not eligible.
    NotInstances {
        /// The pool.
        stage: String,
        /// The ids.
        ids: Vec<String>,
    },
    /// A pool has fewer reserves than it asked for.
    FewerReserves {
        /// The pool.
        stage: String,
        /// How many there are.
        have: u64,
        /// How many were wanted.
        want: u64,
    },
}

/// A kind of public evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EvidenceKind {
    /// Published agent runs.
    Trajectories,
    /// Mean rewards of rollouts.
    RewardMeans,
    /// States of images.
    ImageStates,
}

impl fmt::Display for EvidenceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Trajectories => "trajectories",
            Self::RewardMeans => "reward means",
            Self::ImageStates => "image states",
        })
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RepeatedInstances { rows } => {
                write!(f, "identical instance rows were collapsed: {}", Listed::counted(rows))
            }
            Self::RepeatedIds { set, rows } => {
                write!(f, "set `{set}` repeats ids: {}", Listed::counted(rows))
            }
            Self::UnknownEvidence { kind, rows } => {
                write!(f, "{kind} about tasks that are not instances: {}", Listed::counted(rows))
            }
            Self::IgnoredModels { rows } => {
                write!(f, "trajectories of ignored models: {}", Listed::counted(rows))
            }
            Self::NotInstances { stage, ids } => {
                write!(f, "pool `{stage}` has members that are not instances: {}", Listed::plain(ids))
            }
            Self::FewerReserves { stage, have, want } => {
                write!(f, "pool `{stage}` has {have} reserves of the {want} it asks for")
            }
        }
    }
}
