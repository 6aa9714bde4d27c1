//! A running sandbox, seen from the engine.

use std::sync::Arc;

use async_trait::async_trait;
use image::ImageConfig;

use crate::docker::connect::Refusal;
use crate::docker::engine::remove;
use crate::docker::storage::WritableLayer;
use crate::door::Doors;
use crate::guest::Link;
use crate::removal;
use crate::storage::StorageWatch;
use crate::{Archive, ExecOutcome, ExecSpec, Sandbox, SandboxError, SandboxSpec, Usage};

/// A container of ours. Dropping it removes it.
#[derive(Debug)]
pub(super) struct Container {
    client: bollard::Docker,
    id: String,
    removed: bool,
}

impl Container {
    pub(super) fn new(client: bollard::Docker, id: String) -> Self {
        Self { client, id, removed: false }
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) async fn remove(&mut self) -> Result<(), Refusal> {
        remove(&self.client, &self.id).await?;
        self.removed = true;
        Ok(())
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        if self.removed {
            return;
        }
        let (client, id) = (self.client.clone(), std::mem::take(&mut self.id));
        removal::aside(async move || {
            if let Err(refusal) = remove(&client, &id).await {
                tracing::warn!(container = id, ?refusal, "a dropped sandbox could not be removed");
            }
        });
    }
}

/// One running sandbox of the Docker engine.
#[derive(Debug)]
pub(super) struct Running {
    spec: SandboxSpec,
    config: Arc<ImageConfig>,
    storage: Option<StorageWatch>,
    /// Closed before the connection is, which they use.
    _doors: Doors,
    link: Arc<Link>,
    container: Container,
}

impl Running {
    pub(super) async fn new(
        spec: SandboxSpec,
        config: Arc<ImageConfig>,
        link: Link,
        container: Container,
    ) -> Result<Self, SandboxError> {
        let link = Arc::new(link);
        let doors = link.open_doors(&spec.doors).await?;
        let storage = match spec.limits.storage {
            Some(limit) => {
                let (client, id) = (container.client.clone(), container.id.clone());
                let layer = WritableLayer::new(client, id, Arc::clone(&link)).await;
                let layer = layer.map_err(|refusal| refusal.doing("measuring a container"))?;
                Some(StorageWatch::start(limit, layer))
            }
            None => None,
        };
        Ok(Self { spec, config, storage, _doors: doors, link, container })
    }

    /// An error once the sandbox wrote more than it may.
    fn check_storage(&self) -> Result<(), SandboxError> {
        self.storage.as_ref().map_or(Ok(()), StorageWatch::check)
    }
}

#[async_trait]
impl Sandbox for Running {
    async fn exec(&self, command: &ExecSpec) -> Result<ExecOutcome, SandboxError> {
        self.check_storage()?;
        let outcome = self.link.exec(&self.config, &self.spec, command).await?;
        self.check_storage()?;
        Ok(outcome)
    }

    async fn upload(&self, archive: &Archive, directory: &str) -> Result<(), SandboxError> {
        self.check_storage()?;
        self.link.upload(archive, directory).await
    }

    async fn download(&self, path: &str, limit: u64) -> Result<Archive, SandboxError> {
        self.link.download(path, limit).await
    }

    async fn kill_all(&self) -> Result<(), SandboxError> {
        self.link.kill_all().await
    }

    async fn usage(&self) -> Result<Usage, SandboxError> {
        self.link.usage().await
    }

    async fn destroy(mut self: Box<Self>) -> Result<(), SandboxError> {
        self.storage = None;
        let doing = format!("removing sandbox {}", self.spec.name);
        self.container.remove().await.map_err(|refusal| refusal.doing(&doing))
    }
}
