//! Pinned public data turned into typed records.
//!
//! Source specifications come in; typed rows, what was noticed while reading them, and the lock come out. Nothing is
//! dropped in silence: a row is a record, or a fault that names file, line and byte; a blank line, an unread column
//! or a mended character is counted in the report. Digests are taken from the very bytes that were read. What the
//! lock names is verified before anyone sees it, on disk and from a package index alike.

mod error;
mod file;
mod gather;
mod git_tasks;
mod hub_tasks;
mod index;
mod load;
mod lock;
mod manifest;
mod pull;
mod read;
mod remote;
mod rows;
mod spec;
mod transport;

pub use error::SourceError;
pub use index::{
    ClientSettings, DistributionSpec, Environment, FetchOrigin, FetchedDistribution, Index, IndexError,
    IndexLocation, IndexOrigin, IndexSettings, LocationError, Retry, SdistName, locate_index,
    normalize_package,
};
pub use load::{Keep, LoadReport, Loaded, Reading, Records, load};
pub use lock::{Drift, DriftCause, LockChange, LockedDistribution, LockedFile, LockedSource, SeatrialLock};
pub use pull::{Network, PullMode, PullRequest, Pulled, pull};
pub use read::{Faults, Place, RowFault, RowProblem, Spot};
pub use remote::{
    Host, Push, Pushed, Remote, RemoteError, RemoteSettings, RepoTree, RetryRules, Secret, Transfers,
};
pub use rows::{InstanceKey, TaskDirectory};
pub use spec::{RepoSpec, SourcePlace, SourceSpec, SpecError};
