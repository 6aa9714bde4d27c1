//! OCI images as stacks of layers: references, stores, registries, the Dockerfile builder.
//!
//! What comes in is the name of an image or a Dockerfile; what goes out is a [`RootImage`]: read-only directories in
//! overlay form, how commands start in them, and one digest over both. Three things hold throughout. A stored layer
//! is complete or absent, and never changes. Writing happens only below a fresh layer directory, without following a
//! link, whatever an archive or a lower layer holds. What is not supported is refused by name and line, never
//! ignored where that would change a result.

mod archive;
mod blobs;
mod chain;
mod digest;
mod error;
mod layer_path;
mod manifest;
mod overlay;
mod sources;
mod stack;
mod tar_file;
mod uses;
mod writer;

pub mod dockerfile;
pub mod host;
pub mod layout;
pub mod mirror;
pub mod pack;
pub mod reference;
pub mod registry;
pub mod rootfs;
pub mod shards;
pub mod store;
pub mod unpack;

pub use blobs::FetchedImage;
pub use dockerfile::{Builder, Resolve};
pub use error::ImageError;
pub use host::{HostImage, HostInventory};
pub use layout::Layout;
pub use reference::{HOST_REFERENCE, ImageRef, ReferenceError, RemoteRef};
pub use registry::{Credentials, LiveUnknown, Registry, RegistryOptions};
pub use rootfs::{HostRoot, ImageConfig, Layer, RootImage, RunCommand, RunFailure, RunStep};
pub use sources::ImageSources;
pub use store::{Collected, LayerInfo, LayerKey, LayerStore, StoredLayer};
pub use unpack::{UnpackLimits, Unpacked, unpack_layer};
