//! Images that the nodes of a cluster pull.

use std::collections::BTreeMap;
use std::path::PathBuf;

use async_trait::async_trait;
use image::ImageRef;
use record::Reason;
use sandbox::{EngineImage, Root};

use crate::images::{EnvironmentSource, Images, NoRoot};

/// Where images were mirrored to, each as `repository@sha256:...`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mirrored {
    /// Images of tasks, by the directory of the build context.
    pub tasks: BTreeMap<PathBuf, String>,
    /// Base images, by their whole names.
    pub bases: BTreeMap<String, String>,
}

/// Images in registries, by digest: what is named as `docker_image` or its copy, or where a task's own image was mirrored to. Nothing
/// is pulled or built on this machine.
#[derive(Debug, Default)]
pub struct ClusterImages {
    mirrored: Mirrored,
}

impl ClusterImages {
    /// Takes where images were mirrored to.
    pub fn new(mirrored: Mirrored) -> Self {
        Self { mirrored }
    }
}

#[async_trait]
impl Images for ClusterImages {
    async fn root(&self, source: &EnvironmentSource) -> Result<Root, NoRoot> {
        let invalid = |what: String| (Reason::TaskInvalid, what);
        let parsed = |name: &str| {
            name.parse::<ImageRef>().map_err(|error| invalid(format!("environment.docker_image: {error}")))
        };
        let place = match &source.docker_image {
            Some(named) => self.mirrored.bases.get(&parsed(named)?.to_string()).unwrap_or(named),
            None => self.mirrored.tasks.get(&source.context).ok_or_else(|| {
                invalid(format!(
                    "{}: nodes of a cluster build nothing; run `seatrial images build` and `seatrial images mirror`, or name an \
                     image by digest as environment.docker_image",
                    source.context.display()
                ))
            })?,
        };
        let reference = parsed(place)?;
        let digest = match &reference {
            ImageRef::Remote(remote) => remote.digest(),
            ImageRef::Scratch | ImageRef::Host | ImageRef::Local(_) => None,
        };
        let digest = digest.ok_or_else(|| {
            invalid(format!(
                "environment.docker_image: `{place}` has no digest; nodes pull by digest only: `repository@sha256:...`"
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
        let [task, base] = ["task", "base"].map(|name| format!("mirror.invalid/s/{name}@{DIGEST}"));
        let placed = ClusterImages::new(Mirrored {
            tasks: [("tasks/a/environment".into(), task.clone())].into(),
            bases: [("docker.io/library/base:1".into(), base.clone())].into(),
        });
        assert_eq!(root(&placed, None).await.unwrap().reference, task);
        assert_eq!(
            root(&placed, Some(&named)).await.unwrap().reference,
            named,
            "another image than the task's own"
        );
        assert_eq!(root(&placed, Some("base:1")).await.unwrap().reference, base);
    }
}
