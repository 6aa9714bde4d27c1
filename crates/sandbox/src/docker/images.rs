//! Images that the daemon holds or pulls.

use bollard::models::ImageInspect;
use bollard::query_parameters::CreateImageOptionsBuilder;
use futures_util::TryStreamExt;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

use crate::docker::connect::{Refusal, SHORT, answer};
use crate::docker::engine::{Docker, NOT_FOUND};
use crate::{EngineImage, SandboxError};

/// How long the daemon may say nothing while it pulls or saves.
const SILENCE: std::time::Duration = std::time::Duration::from_secs(300);

impl Docker {
    /// The image of this name or id, when the daemon holds it.
    pub async fn find(&self, reference: &str) -> Result<Option<EngineImage>, SandboxError> {
        match answer(SHORT, self.client.inspect_image(reference)).await {
            Ok(found) => Ok(Some(by_id(reference, found)?)),
            Err(Refusal::Status(NOT_FOUND, _)) => Ok(None),
            Err(refusal) => Err(refusal.doing(&format!("looking for image {reference}"))),
        }
    }

    /// Writes an image as the daemon saves it: a tar archive with `manifest.json`, its configuration and its layers. Returns how many
    /// bytes were written.
    pub async fn save(
        &self,
        image: &EngineImage,
        into: &mut (impl AsyncWrite + Unpin),
    ) -> Result<u64, SandboxError> {
        let doing = format!("saving image {}", image.reference);
        let written = |source| SandboxError::Io { doing: doing.clone(), source };
        let mut archive = self.client.export_image(&image.reference);
        let mut bytes = 0;
        loop {
            let piece = tokio::time::timeout(SILENCE, archive.try_next()).await;
            let piece = piece
                .map_err(|_| SandboxError::Lost(format!("the daemon says nothing any more ({doing})")))?;
            match piece.map_err(|error| Refusal::from(error).doing(&doing))? {
                None => break,
                Some(piece) => {
                    into.write_all(&piece).await.map_err(written)?;
                    bytes += piece.len() as u64;
                }
            }
        }
        into.flush().await.map_err(written)?;
        Ok(bytes)
    }

    /// The image of this reference, which says its digest (`name@sha256:...`) or is an id. When the daemon holds it,
    /// nothing is asked of a registry.
    pub async fn pull(&self, reference: &str) -> Result<EngineImage, SandboxError> {
        if let Some(found) = self.find(reference).await? {
            return Ok(found);
        }
        let doing = format!("pulling image {reference}");
        let options = CreateImageOptionsBuilder::new().from_image(reference).build();
        let mut progress = self.client.create_image(Some(options), None, None);
        loop {
            let step = tokio::time::timeout(SILENCE, progress.try_next()).await;
            let step =
                step.map_err(|_| SandboxError::Lost(format!("the daemon says nothing any more ({doing})")))?;
            match step.map_err(|error| Refusal::from(error).doing(&doing))? {
                None => break,
                Some(step) => {
                    if let Some(detail) = step.error_detail {
                        let reason = detail.message.unwrap_or_else(|| "the daemon does not say why".into());
                        return Err(Refusal::Status(500, reason).doing(&doing));
                    }
                }
            }
        }
        let missing =
            || Refusal::Status(NOT_FOUND, "the daemon does not hold it after all".into()).doing(&doing);
        self.find(reference).await?.ok_or_else(missing)
    }
}

/// An image by its id, which is the digest of its configuration and thereby of its content.
pub(super) fn by_id(reference: &str, found: ImageInspect) -> Result<EngineImage, SandboxError> {
    let id = found.id.filter(|id| !id.is_empty());
    let id = id.ok_or_else(|| SandboxError::Lost(format!("the daemon names no id for image {reference}")))?;
    // Podman writes the digits alone.
    let digest = if id.starts_with("sha256:") { id } else { format!("sha256:{id}") };
    Ok(EngineImage { reference: digest.clone(), digest })
}
