//! What a container has written to its root file system, as the daemon counts it.
//!
//! Daemons offer a hard limit on few file systems only, so the daemon is asked again and again.

use std::sync::Arc;

use bollard::query_parameters::InspectContainerOptionsBuilder;

use crate::docker::connect::{LONG, Refusal, answer};
use crate::guest::Link;
use crate::storage::Measured;

/// A container's writable layer.
pub(super) struct WritableLayer {
    client: bollard::Docker,
    id: String,
    link: Arc<Link>,
    /// What the daemon counts before any command has run, which is not the sandbox's.
    before: u64,
}

impl WritableLayer {
    /// The layer of a container in which no command has run yet.
    pub(super) async fn new(client: bollard::Docker, id: String, link: Arc<Link>) -> Result<Self, Refusal> {
        let before = bytes(&client, &id).await?;
        Ok(Self { client, id, link, before })
    }
}

impl Measured for WritableLayer {
    async fn written(&self) -> Option<u64> {
        // A daemon that does not answer now may do so later; one that is gone takes the sandbox along.
        Some(bytes(&self.client, &self.id).await.ok()?.saturating_sub(self.before))
    }

    async fn kill_all(&self) {
        let _ = self.link.kill_all().await;
    }
}

async fn bytes(client: &bollard::Docker, id: &str) -> Result<u64, Refusal> {
    let options = InspectContainerOptionsBuilder::new().size(true).build();
    let inspected = answer(LONG, client.inspect_container(id, Some(options))).await?;
    Ok(inspected.size_rw.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(0))
}
