//! Images made on this machine, for the native engine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use image::pack::BaseImage;
use image::{
    Builder, Collected, Credentials, ImageError, ImageRef, ImageSources, LayerStore, Layout, Registry,
    RegistryOptions, Resolve, RootImage, RunStep,
};
use record::Reason;
use sandbox::Root;
use tokio::runtime::Handle;

use crate::TrialError;
use crate::images::bases::{Bases, Resolver};
use crate::images::once::Once;
use crate::images::{EnvironmentSource, Images, NoRoot, key_of};

/// Where unpacked layers lie, in the directory of derived files.
const LAYERS: &str = "layers";
/// Where downloads lie.
const DOWNLOADS: &str = "downloads";

/// A root file system on this machine, or why there is none.
pub type ImageOutcome = Result<RootImage, NoRoot>;

/// Where images come from.
#[derive(Debug, Clone)]
pub struct ImagesConfig {
    /// Layers and downloads are kept below this directory.
    pub state: PathBuf,
    /// Directories that are invisible even where the host's own system is the image.
    pub private: Vec<PathBuf>,
    /// An OCI image layout directory that is looked into before any registry.
    pub layout: Option<PathBuf>,
    /// Build contexts with a Dockerfile, each under the NAME of the image `seatrial.local/NAME` that it gives.
    pub bases: BTreeMap<String, PathBuf>,
    /// A Docker configuration file with registry credentials.
    pub credentials: Option<PathBuf>,
}

/// Images made on this machine: `docker_image` where a task names one, else its Dockerfile, with layers cached by content.
pub struct LocalImages {
    shared: Arc<Shared>,
    made: Once<RootImage>,
}

struct Shared {
    store: LayerStore,
    bases: Bases,
    sources: ImageSources,
    run: Box<dyn RunStep + Send + Sync>,
}

impl LocalImages {
    /// Opens the store and the sources; `run` executes `RUN` lines and `runtime` carries downloads.
    pub fn open(
        config: &ImagesConfig,
        run: Box<dyn RunStep + Send + Sync>,
        runtime: Handle,
    ) -> Result<Self, TrialError> {
        let store = LayerStore::open(config.state.join(LAYERS))?;
        let mut options = RegistryOptions::new(config.state.join(DOWNLOADS));
        if let Some(credentials) = &config.credentials {
            options.credentials = Credentials::load(credentials)?;
        }
        let mut sources = ImageSources::new(store.clone())
            .with_host(config.private.clone())
            .with_registry(Registry::new(options)?, runtime);
        if let Some(layout) = &config.layout {
            sources = sources.with_layout(Layout::open(layout)?);
        }
        let shared = Shared { store, bases: Bases::new(&config.bases), sources, run };
        Ok(Self { shared: Arc::new(shared), made: Once::default() })
    }
}

impl LocalImages {
    /// The image that a reference names.
    pub async fn resolve(&self, reference: &ImageRef) -> ImageOutcome {
        let (shared, reference) = (Arc::clone(&self.shared), reference.clone());
        blocking(move || shared.resolver().resolve(&reference).map_err(|error| failure(&error))).await
    }

    /// The image that a reference names with the documents that describe it; none of an image that is made on this machine.
    pub async fn describe(&self, reference: &ImageRef) -> Result<Option<BaseImage>, NoRoot> {
        let (shared, reference) = (Arc::clone(&self.shared), reference.clone());
        blocking(move || shared.sources.base(&reference).map_err(|error| failure(&error))).await
    }

    /// The image of a registry with whose layers an image of this project's own begins, with the documents that describe it: of those
    /// that its Dockerfile names the one with the most layers. None of an image that begins with no other.
    pub async fn below(&self, own: &ImageRef, image: &RootImage) -> Result<Option<BaseImage>, NoRoot> {
        let ImageRef::Local(name) = own else { return Ok(None) };
        let mut below: Option<BaseImage> = None;
        for remote in self.shared.bases.named(name) {
            let Some(found) = self.describe(&ImageRef::Remote(remote)).await? else { continue };
            let layers = |base: &BaseImage| base.image().layers.len();
            if image.layers.starts_with(&found.image().layers)
                && layers(&found) > below.as_ref().map_or(0, layers)
            {
                below = Some(found);
            }
        }
        Ok(below)
    }

    /// Removes layers that none of these environments consists of, and layers that were downloaded, below the directory of derived
    /// files. Nobody may use images there meanwhile.
    pub fn collect(state: &Path, environments: &[EnvironmentSource]) -> Result<Collected, TrialError> {
        let (layers, downloads) = (state.join(LAYERS), state.join(DOWNLOADS));
        if !layers.is_dir() {
            return Ok(Collected::default());
        }
        // An environment without an image has no layers.
        let names = environments.iter().filter_map(|source| key_of(source).ok()).collect();
        let mut collected = LayerStore::open(layers)?.collect_unused(&names)?;
        let (removed, bytes) = image::registry::remove_layers(&downloads)?;
        collected.layers += removed;
        collected.bytes += bytes;
        Ok(collected)
    }

    /// The inventory of the host's own system, as canonical JSON, if any image so far was made from it.
    pub fn host_inventory(&self) -> Option<Vec<u8>> {
        self.shared.sources.prepared_host().map(|host| host.inventory.canonical())
    }
}

impl LocalImages {
    /// The image of an environment, built or fetched when it is not there yet.
    pub async fn image(&self, source: &EnvironmentSource) -> ImageOutcome {
        let key = key_of(source)?;
        let build = async {
            let (shared, source, name) = (Arc::clone(&self.shared), source.clone(), key.clone());
            blocking(move || {
                let image = shared.root(&source.context, source.docker_image.as_deref())?;
                shared.store.remember(&name, &image).map_err(|error| failure(&error))?;
                Ok(image)
            })
            .await
        };
        self.made.get_or_make(key.clone(), build).await
    }
}

#[async_trait]
impl Images for LocalImages {
    async fn root(&self, source: &EnvironmentSource) -> Result<Root, NoRoot> {
        self.image(source).await.map(Root::Layers)
    }
}

impl Shared {
    fn resolver(&self) -> Resolver<'_> {
        Resolver { bases: &self.bases, store: &self.store, sources: &self.sources, run: self.run.as_ref() }
    }

    fn root(&self, environment: &Path, docker_image: Option<&str>) -> ImageOutcome {
        if let Some(name) = docker_image {
            let reference: ImageRef = name
                .parse()
                .map_err(|error| (Reason::TaskInvalid, format!("environment.docker_image: {error}")))?;
            return self.resolver().resolve(&reference).map_err(|error| failure(&error));
        }
        Builder::new(&self.store, self.run.as_ref(), &self.resolver())
            .build(environment, &environment.join("Dockerfile"))
            .map_err(|error| failure(&error))
    }
}

/// Builds and downloads block; they run on threads of their own.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, NoRoot> + Send + 'static,
) -> Result<T, NoRoot> {
    let built = tokio::task::spawn_blocking(work).await;
    built.unwrap_or_else(|error| Err((Reason::EngineLost, format!("the build was interrupted: {error}"))))
}

/// A Dockerfile that cannot be built is the task's fault; a disk, a registry or an engine that fails is not.
fn failure(error: &ImageError) -> (Reason, String) {
    let reason = match error {
        full if full.is_disk_full() => Reason::DiskFull,
        ImageError::Dockerfile { .. } | ImageError::Run { .. } | ImageError::Reference(_) => {
            Reason::EnvironmentBuildFailed
        }
        _ => Reason::EnvironmentStartFailed,
    };
    (reason, error.to_string())
}
