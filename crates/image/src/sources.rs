//! Finds images by reference in everything that a project has: the machine itself, layouts, registries.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::OnceLock;

use tokio::runtime::Handle;

use crate::blobs::{FetchedImage, LayoutBlobs};
use crate::dockerfile::Resolve;
use crate::host::{self, HostImage};
use crate::layout::Layout;
use crate::pack::BaseImage;
use crate::registry::Registry;
use crate::store::LayerStore;
use crate::unpack::UnpackLimits;
use crate::{ImageError, ImageRef, RemoteRef, RootImage};

/// Most substitutions in a row.
const MAX_SUBSTITUTIONS: usize = 8;

/// Resolves references: substitutions first, then the host's system, then layouts by name, then the registry.
pub struct ImageSources {
    store: LayerStore,
    private: Option<Vec<PathBuf>>,
    host: OnceLock<HostImage>,
    substitutions: BTreeMap<ImageRef, ImageRef>,
    layouts: Vec<Layout>,
    registry: Option<(Registry, Handle)>,
    limits: UnpackLimits,
}

impl ImageSources {
    /// Nothing but `scratch` is found yet. Layers go to `store`.
    pub fn new(store: LayerStore) -> Self {
        Self {
            store,
            private: None,
            host: OnceLock::new(),
            substitutions: BTreeMap::new(),
            layouts: Vec::new(),
            registry: None,
            limits: UnpackLimits::default(),
        }
    }

    /// Offers the machine's own system as `seatrial.local/host`, without the `private` directories.
    #[must_use]
    pub fn with_host(mut self, private: Vec<PathBuf>) -> Self {
        self.private = Some(private);
        self
    }

    /// Uses `instead` wherever `reference` is asked for: a mirror, a pinned digest, the host's system.
    #[must_use]
    pub fn with_substitution(mut self, reference: ImageRef, instead: ImageRef) -> Self {
        self.substitutions.insert(reference, instead);
        self
    }

    /// Offers the images of a layout under the names in its index, full or short.
    #[must_use]
    pub fn with_layout(mut self, layout: Layout) -> Self {
        self.layouts.push(layout);
        self
    }

    /// Pulls what nothing else offers. Resolving then blocks on `runtime`, so it must not happen on one of its
    /// worker threads: use `spawn_blocking`.
    #[must_use]
    pub fn with_registry(mut self, registry: Registry, runtime: Handle) -> Self {
        self.registry = Some((registry, runtime));
        self
    }

    /// The machine's own system, prepared once.
    pub fn host(&self) -> Result<&HostImage, ImageError> {
        let Some(private) = &self.private else {
            return Err(ImageError::Host("this project does not offer it".to_owned()));
        };
        if let Some(found) = self.host.get() {
            return Ok(found);
        }
        let prepared = host::prepare(&self.store, private)?;
        Ok(self.host.get_or_init(|| prepared))
    }

    /// The machine's own system, if anything has been resolved to it so far.
    pub fn prepared_host(&self) -> Option<&HostImage> {
        self.host.get()
    }

    fn substituted(&self, reference: &ImageRef) -> Result<ImageRef, ImageError> {
        let mut current = reference;
        for _ in 0..MAX_SUBSTITUTIONS {
            match self.substitutions.get(current) {
                Some(next) => current = next,
                None => return Ok(current.clone()),
            }
        }
        Err(ImageError::NotFound {
            reference: reference.to_string(),
            reason: format!(
                "more than {MAX_SUBSTITUTIONS} substitutions follow each other, perhaps in a circle"
            ),
        })
    }
}

impl ImageSources {
    /// The image that a reference names, with the documents that describe it; none where there are none: of images that exist on
    /// this machine only.
    pub fn base(&self, reference: &ImageRef) -> Result<Option<BaseImage>, ImageError> {
        let reference = self.substituted(reference)?;
        let ImageRef::Remote(remote) = &reference else { return Ok(None) };
        match self.fetch(&reference, remote)? {
            (fetched, Some(layout)) => BaseImage::fetched(fetched, layout.blobs().clone(), None).map(Some),
            (fetched, None) => {
                let (registry, _) = self.registry.as_ref().expect("it was just pulled from there");
                let blobs = LayoutBlobs::Directory(registry.cache().clone());
                BaseImage::fetched(fetched, blobs, Some(remote)).map(Some)
            }
        }
    }

    /// An image of a layout, or of a registry.
    fn fetch(
        &self,
        reference: &ImageRef,
        remote: &RemoteRef,
    ) -> Result<(FetchedImage, Option<&Layout>), ImageError> {
        for layout in &self.layouts {
            if let Some(name) = layout.name_of(reference) {
                return Ok((layout.load(Some(&name), &self.store, &self.limits)?, Some(layout)));
            }
        }
        let Some((registry, runtime)) = &self.registry else {
            return Err(ImageError::NotFound {
                reference: reference.to_string(),
                reason: "no layout has it, and no registry may be asked".to_owned(),
            });
        };
        Ok((runtime.block_on(registry.pull(remote, &self.store))?, None))
    }
}

impl Resolve for ImageSources {
    fn resolve(&self, reference: &ImageRef) -> Result<RootImage, ImageError> {
        let reference = self.substituted(reference)?;
        match &reference {
            ImageRef::Scratch => Ok(RootImage::empty()),
            ImageRef::Host => Ok(self.host()?.image.clone()),
            ImageRef::Local(_) => Err(ImageError::NotFound {
                reference: reference.to_string(),
                reason: "it is built by the project that names it, and none here does".to_owned(),
            }),
            ImageRef::Remote(remote) => Ok(self.fetch(&reference, remote)?.0.image),
        }
    }
}
