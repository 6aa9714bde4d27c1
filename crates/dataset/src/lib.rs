//! Chooses the final set, splits it, freezes it and packs it for trainers.
//!
//! Stage documents and task directories come in; a selection, a frozen directory and exports go out. No repository
//! stands in two splits, however it is spelled. A frozen directory names the digest of everything in it, is written
//! whole or not at all, and is never overwritten with other content; the same inputs give the same bytes on every
//! machine. Choosing and splitting are pure, only freeze, verify and export touch files.

mod attest;
mod card;
mod copy;
mod error;
mod export;
mod freeze;
mod images;
mod isolation;
mod kinship;
mod manifest;
mod package;
mod place;
mod plain;
mod registry;
mod report;
pub mod resolve;
mod sums;
mod verify;

pub use attest::{
    Making, NAMESPACE, Signer, attest, attestation_path, report_path, signature_path, verify_attestation,
};
pub use error::DatasetError;
pub use export::{ExportFormat, ExportInput, Exported, ParseFormatError, export};
pub use freeze::{FreezeInput, Frozen, freeze};
pub use images::{FrozenImage, ImageForm, ImageGap, RegistryImages, frozen_images};
pub use isolation::{Leak, Placed, leaks};
pub use manifest::{Counts, FrozenTask, Manifest, ProofDemand, ProofSummary, Provenance};
pub use plain::{plain_files, restore};
pub use registry::{Attested, RegisterError, Registered, Registration, Registry, RegistryFault};
pub use report::{Story, report};
pub use verify::{Problem, Verification, verify};
