//! What an image is built on, as a registry or a layout describes it.

use serde_json::Value;

use crate::blobs::{BlobDirectory, FetchedImage};
use crate::manifest::{self, Descriptor, Document, MAX_CONFIG, MAX_MANIFEST, broken};
use crate::{ImageError, RemoteRef, RootImage};

/// An image with the documents that describe it.
#[derive(Debug, Clone)]
pub struct BaseImage {
    pub(super) image: RootImage,
    /// Digest and origin of the manifest, `sha256:...`.
    pub(super) digest: String,
    pub(super) layers: Vec<Descriptor>,
    pub(super) config: Value,
    pub(super) place: BasePlace,
}

/// Where the blobs of a base are.
#[derive(Debug, Clone)]
pub(super) enum BasePlace {
    /// In a registry.
    Registry(RemoteRef),
    /// In a directory of blobs.
    Blobs(BlobDirectory),
}

impl BaseImage {
    /// Reads the documents of an image that was just fetched.
    pub(crate) fn read(
        fetched: FetchedImage,
        blobs: &BlobDirectory,
        registry: Option<&RemoteRef>,
    ) -> Result<Self, ImageError> {
        let digest = fetched.manifest.prefixed();
        let place = format!("manifest {digest}");
        let bytes = blobs.read_whole(fetched.manifest, MAX_MANIFEST)?;
        let Document::Manifest(found) = manifest::read(&place, &bytes)? else {
            return Err(broken(&place, "is an index, where a manifest was chosen"));
        };
        let config = blobs.read(&found.config, MAX_CONFIG)?;
        let config = serde_json::from_slice(&config)
            .map_err(|e| broken(&place, format!("has no configuration: {e}")))?;
        let place = match registry {
            Some(reference) => BasePlace::Registry(reference.clone()),
            None => BasePlace::Blobs(blobs.clone()),
        };
        Ok(Self { image: fetched.image, digest, layers: found.layers, config, place })
    }

    /// The same image as a copy of another: its layers are then said to come from there.
    #[must_use]
    pub fn as_copy_of(mut self, original: &RemoteRef) -> Self {
        if let BasePlace::Registry(reference) = &mut self.place {
            *reference = original.clone();
        }
        self
    }

    /// The layers and how commands start in them.
    pub fn image(&self) -> &RootImage {
        &self.image
    }
}
