//! Images that the nodes of a cluster pull.

use std::collections::BTreeMap;
use std::path::PathBuf;

use async_trait::async_trait;
use image::ImageRef;
use record::Reason;
use sandbox::{EngineImage, Root};

use crate::images::{EnvironmentSource, Images, NoRoot};

/// Images in registries, by digest: what a task names as `docker_image`, or where its own image was mirrored to. Nothing is
/// pulled or built on this machine.
#[derive(Debug, Default)]
pub struct ClusterImages {
    mirrored: BTreeMap<PathBuf, String>,
}

impl ClusterImages {
    /// Takes where images of tasks were mirrored to: `repository@sha256:...` by the directory of the build context.
    pub fn new(mirrored: BTreeMap<PathBuf, String>) -> Self {
        Self { mirrored }
    }
}

#[async_trait]
impl Images for ClusterImages {
    async fn root(&self, source: &EnvironmentSource) -> Result<Root, NoRoot> {
        let invalid = |what: String| (Reason::TaskInvalid, what);
        let name = match (self.mirrored.get(&source.context), &source.docker_image) {
            (Some(mirrored), _) => mirrored,
            (None, Some(named)) => named,
            (None, None) => {
                return Err(invalid(format!(
                    "{}: nodes of a cluster build nothing; run `seatrial images build` and `seatrial images mirror`, or name an \
                     image by digest as environment.docker_image",
                    source.context.display()
                )));
            }
        };
        let reference = name.parse::<ImageRef>();
        let reference = reference.map_err(|error| invalid(format!("environment.docker_image: {error}")))?;
        let digest = match &reference {
            ImageRef::Remote(remote) => remote.digest(),
            ImageRef::Scratch | ImageRef::Host | ImageRef::Local(_) => None,
        };
        let digest = digest.ok_or_else(|| {
            invalid(format!(
                "environment.docker_image: `{name}` has no digest; nodes pull by digest only: `repository@sha256:...`"
            ))
        })?;
        let digest = digest.to_owned();
        Ok(Root::Image(EngineImage { reference: reference.to_string(), digest }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    async fn root(images: &ClusterImages, docker_image: Option<&str>) -> Result<EngineImage, String> {
        let source = EnvironmentSource {
            docker_image: docker_image.map(str::to_owned),
            context: "tasks/a/environment".into(),
        };
        match images.root(&source).await {
            Ok(Root::Image(image)) => Ok(image),
            Ok(Root::Layers(_)) => panic!("layers are on this machine"),
            Err((reason, text)) => {
                assert_eq!(reason, Reason::TaskInvalid);
                Err(text)
            }
        }
    }

    #[tokio::test]
    async fn images_are_named_by_digest_or_refused() {
        let none = ClusterImages::default();
        let named = format!("registry.invalid/tasks/a@{DIGEST}");
        let image = root(&none, Some(&named)).await.unwrap();
        assert_eq!((image.reference.as_str(), image.digest.as_str()), (named.as_str(), DIGEST));
        assert!(root(&none, Some("registry.invalid/tasks/a:1")).await.unwrap_err().contains("digest"));
        assert!(root(&none, Some("seatrial.local/host")).await.unwrap_err().contains("digest"));
        assert!(root(&none, None).await.unwrap_err().contains("images mirror"));
        let mirrored = format!("mirror.invalid/s/tasks@{DIGEST}");
        let placed = ClusterImages::new([("tasks/a/environment".into(), mirrored.clone())].into());
        assert_eq!(root(&placed, None).await.unwrap().reference, mirrored);
        assert_eq!(root(&placed, Some(&named)).await.unwrap().reference, mirrored, "the mirror goes first");
    }
}
