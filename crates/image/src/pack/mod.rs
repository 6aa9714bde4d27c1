//! Images of tasks as others take them: an OCI layout with one thin layer for each.
//!
//! What comes in is a [`RootImage`](crate::RootImage) that was built here, and the [`BaseImage`] that it was built on; what goes
//! out is a manifest that repeats the base's layers by digest and adds one archive with everything that the build changed.
//! Packing the same layers gives the same bytes: names are sorted, times are bounded by one fixed date, and nothing is said about
//! where and when. The base's own blobs are not copied: whoever pushes the image takes them from where the base lies, which the
//! manifest names.
//!
//! Source: OCI image specification 1.1 (`layer.md`, `config.md`, `manifest.md`, `annotations.md`).

mod base;
mod config;
mod layer;
mod layout;
mod saved;

pub use base::BaseImage;
pub use layout::{LayoutWriter, Packed};

/// Manifests that are written have this type.
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// Layers that are compressed with zstd have this type.
const ZSTD_LAYER: &str = "application/vnd.oci.image.layer.v1.tar+zstd";
/// Annotation of a manifest: where the base comes from, with its tag.
pub(crate) const BASE_NAME: &str = "org.opencontainers.image.base.name";
/// Annotation of a manifest: digest of the base's manifest.
const BASE_DIGEST: &str = "org.opencontainers.image.base.digest";
/// Annotation of an entry of the index: the image's name.
const REF_NAME: &str = "org.opencontainers.image.ref.name";
/// Annotation of an entry of the index: what the image was packed from.
const ORIGIN: &str = "dev.seatrial.origin";
