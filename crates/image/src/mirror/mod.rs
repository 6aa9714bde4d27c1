//! Brings the images of a plan to a registry, once each, and sees whether they are there.
//!
//! What comes in is a plan and the sources that it names; what goes out is a registry that has what the plan says, and a report. Nothing
//! is sent before live tags were asked for again and every shard stays within its limit. Every blob crosses the network once, however
//! many images, shards and jobs share it, and is then mounted from shard to shard. Manifests are written byte for byte, children
//! before parents, the tag last, so that an image that can be seen is complete. Killed at any point, the same command goes on.

mod fetch;
mod graph;
mod journal;
mod progress;
mod report;
mod run;
mod schedule;
mod source;
mod transfer;
mod verified;
mod verify;

pub use progress::Progress;
pub use report::{MirrorError, MirrorOutcome, MirrorReport, MirroredImage};
pub use run::{MirrorOptions, mirror};
pub use source::IN_LAYOUT;
pub use verify::{VerifiedImage, VerifyOptions, VerifyReport, verify};
