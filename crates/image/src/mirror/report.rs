//! What a mirror did, and why it did not.

use record::ImageKind;
use serde::Serialize;

use crate::shards::{Drift, Item, OverLimit, RecheckError};
use crate::{ImageError, LiveUnknown};

/// What became of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MirrorReport {
    /// Every item of the plan, in its order.
    pub images: Vec<MirroredImage>,
    /// Blobs that were sent.
    pub sent: u64,
    /// Bytes of those.
    pub sent_bytes: u64,
    /// Blobs that were put from one repository into another without being sent.
    pub mounted: u64,
    /// Blobs that were there.
    pub found: u64,
}

/// What became of one image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MirroredImage {
    /// What it is for.
    pub kind: ImageKind,
    /// Its key.
    pub key: String,
    /// The repository, with registry and namespace.
    pub repository: String,
    /// The tag.
    pub tag: String,
    /// Digest of its manifest.
    pub digest: String,
    /// What became of it.
    #[serde(flatten)]
    pub outcome: MirrorOutcome,
}

/// What became of one image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum MirrorOutcome {
    /// It was there.
    Present,
    /// It is there now.
    Copied,
    /// It is not there yet: a registry wants a pause.
    Deferred {
        /// What the registry said.
        reason: String,
    },
    /// It is not there.
    Failed {
        /// Why.
        reason: String,
    },
}

impl MirroredImage {
    pub(super) fn new(item: &Item, outcome: MirrorOutcome) -> Self {
        Self {
            kind: item.kind,
            key: item.key.clone(),
            repository: item.repository.clone(),
            tag: item.tag.clone(),
            digest: item.digest.clone(),
            outcome,
        }
    }
}

/// Why nothing was carried out, or not to the end. Before the first three of these nothing was sent.
#[derive(Debug, thiserror::Error)]
pub enum MirrorError {
    /// The live tags are not known.
    #[error(transparent)]
    Unknown(#[from] LiveUnknown),
    /// The plan is of no use.
    #[error(transparent)]
    Plan(#[from] RecheckError),
    /// Shards would pass their limit.
    #[error("{} would pass the limit of {limit} tags", shards(.over))]
    Gate {
        /// The limit.
        limit: u64,
        /// The shards, the worst first.
        over: Vec<OverLimit>,
    },
    /// Tags name other images.
    #[error("tags name other images: {}", .0.join(", "))]
    Conflicts(Vec<String>),
    /// The registry is not what it was when the plan was made.
    #[error("{} changed since the plan was made", if .0.len() == 1 { "1 image has".into() } else { format!("{} images have", .0.len()) })]
    Drift(Vec<Drift>),
    /// Another command writes to the same namespace.
    #[error("another seatrial is mirroring to {0}")]
    Locked(String),
    /// Files of this machine.
    #[error(transparent)]
    Image(#[from] ImageError),
}

fn shards(over: &[OverLimit]) -> String {
    let text = |shard: &OverLimit| {
        let OverLimit { shard, projected, over, first } = shard;
        format!("{shard} with {projected} tags, {over} too many, among them {}", first.join(", "))
    };
    over.iter().take(5).map(text).collect::<Vec<_>>().join("; ")
}
