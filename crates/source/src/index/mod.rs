//! Source distributions from a Python package index, pinned by SHA-256.

mod client;
mod error;
mod fetch;
mod location;
mod names;
mod page;

pub use client::{ClientSettings, Retry};
pub use error::IndexError;
pub use fetch::{DistributionSpec, FetchOrigin, FetchedDistribution, Index, IndexSettings};
pub(crate) use location::redacted;
pub use location::{Environment, IndexLocation, IndexOrigin, LocationError, locate_index};
pub use names::{SdistName, normalize_package};
