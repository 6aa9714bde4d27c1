//! What an image is built on, as a registry or a layout describes it.

use ident::Digest;
use serde_json::Value;

use crate::blobs::{Blobs as _, FetchedImage, LayoutBlobs};
use crate::manifest::{self, Descriptor, Document, MAX_CONFIG, MAX_MANIFEST, broken};
use crate::{ImageError, RemoteRef, RootImage};

/// An image with the documents that describe it.
#[derive(Debug, Clone)]
pub struct BaseImage {
    pub(super) image: RootImage,
    /// Digest of the manifest, `sha256:...`.
    pub(super) digest: String,
    pub(super) layers: Vec<Descriptor>,
    pub(super) config: Value,
    /// What of it lies in a registry.
    pub(super) published: Option<Published>,
    /// Where the rest lies.
    pub(super) blobs: LayoutBlobs,
}

/// An image in a registry with whose layers another begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Published {
    pub(super) reference: RemoteRef,
    /// Digest of its manifest, `sha256:...`.
    pub(super) digest: String,
    /// How many layers it has.
    pub(super) layers: usize,
}

impl BaseImage {
    /// Reads the documents of an image that was just fetched, from the registry of a reference or from a layout.
    pub(crate) fn fetched(
        fetched: FetchedImage,
        blobs: LayoutBlobs,
        registry: Option<&RemoteRef>,
    ) -> Result<Self, ImageError> {
        let mut base = Self::read(fetched.image, fetched.manifest, blobs)?;
        base.published = registry.map(|reference| Published {
            reference: reference.clone(),
            digest: base.digest.clone(),
            layers: base.layers.len(),
        });
        Ok(base)
    }

    /// Reads the documents of an image with this manifest.
    pub(super) fn read(image: RootImage, manifest: Digest, blobs: LayoutBlobs) -> Result<Self, ImageError> {
        let digest = manifest.prefixed();
        let place = format!("manifest {digest}");
        let bytes = blobs.read_whole(manifest, MAX_MANIFEST)?;
        let Document::Manifest(found) = manifest::read(&place, &bytes)? else {
            return Err(broken(&place, "is an index, where a manifest was chosen"));
        };
        let config = blobs.read(&found.config, MAX_CONFIG)?;
        let config = serde_json::from_slice(&config)
            .map_err(|e| broken(&place, format!("has no configuration: {e}")))?;
        Ok(Self { image, digest, layers: found.layers, config, published: None, blobs })
    }

    /// The same image as a copy of another: its layers are then said to come from there.
    #[must_use]
    pub fn as_copy_of(mut self, original: &RemoteRef) -> Self {
        if let Some(published) = &mut self.published {
            published.reference = original.clone();
        }
        self
    }

    /// The layers and how commands start in them.
    pub fn image(&self) -> &RootImage {
        &self.image
    }
}
