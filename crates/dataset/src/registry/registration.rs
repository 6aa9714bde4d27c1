//! What a registry knows about a set beside the set itself.

use artifact::Document;
use ident::Digest;
use serde::{Deserialize, Serialize};

/// `registration.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Registration {
    /// `seatrial.registration/1`.
    pub schema: String,
    /// The set's name.
    pub name: String,
    /// The set's version.
    pub version: String,
    /// How many tasks it has.
    pub tasks: u64,
    /// The semantic digest of its manifest.
    pub semantic_digest: Digest,
    /// Digest of `SHA256SUMS`, which names the digest of every other file.
    pub sums_digest: Digest,
    /// The package's name, or the repository and commit that it came from.
    pub origin: String,
    /// SHA-256 of the package, where it came as one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package_digest: Option<Digest>,
}

impl Document for Registration {
    const SCHEMA: &'static str = "seatrial.registration/1";
    const STAGE: &'static str = "register";
}
