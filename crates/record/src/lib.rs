//! Plain types that the stages hand to each other, and their serialisation.
//!
//! No behaviour lives here: a type moves into this crate when two rooms that do not know each other exchange it.

mod cluster;
mod document;
mod evidence;
mod images;
mod instance;
mod observation;
mod plan;
mod selection;
mod similar;
mod source;
mod task;
mod verdict;

pub use cluster::{Capability, ClusterConfig, Toleration};
pub use evidence::{ImageState, ImageStatus, RewardMean, Trajectory};
pub use images::{
    BuiltImage, ImageBuilds, ImageKind, ImageSource, ImageSourceError, Overflow, PlacedImage, Placement,
    RewriteDocument, ShardConfig, UnbuiltImage,
};
pub use instance::{Instance, Profile};
pub use observation::{CheatName, FailureClass, KindError, Limits, Observation, Outcome, Reason, TrialKind};
pub use plan::{PlanDocument, PlannedTask, PoolSummary, SourceInput, SweMaster};
pub use selection::{SelectedTask, Selection, Shortage, Split};
pub use similar::{SimilarBy, SimilarTasks};
pub use source::{SourceKind, SourceRole};
pub use task::{MaterializeDocument, MaterializedTask, QuarantineDocument, QuarantinedTask, RefusedTask};
pub use verdict::{
    CheckDocument, CheckedTask, Finding, FlakyTest, ProofDocument, ProvedTask, Severity, Status,
};
