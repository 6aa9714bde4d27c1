//! Images that a container daemon builds, holds or pulls.

use std::path::Path;

use async_trait::async_trait;
use image::ImageRef;
use image::dockerfile::Instruction;
use record::Reason;
use sandbox::docker::{BuildSpec, Docker};
use sandbox::{Root, SandboxError};

use crate::images::once::Once;
use crate::images::{EnvironmentSource, Images, NoRoot, key_of};

/// No Dockerfile comes near this size.
const DOCKERFILE_LIMIT: u64 = 16 << 20;

/// Images of a container daemon: `docker_image` where a task names one, else its Dockerfile, built by the daemon.
pub struct DockerImages {
    docker: Docker,
    made: Once<Root>,
}

impl DockerImages {
    /// Images of this daemon.
    pub fn new(docker: Docker) -> Self {
        Self { docker, made: Once::default() }
    }

    async fn find_or_make(&self, source: &EnvironmentSource) -> Result<Root, NoRoot> {
        let image = match &source.docker_image {
            Some(name) => {
                pullable(name)?;
                self.docker.pull(name).await
            }
            None => {
                let dockerfile = source.context.join("Dockerfile");
                buildable(&dockerfile)?;
                self.docker.build(&BuildSpec::new(&source.context, dockerfile)).await
            }
        };
        image.map(Root::Image).map_err(|error| (reason_of(&error), error.to_string()))
    }
}

#[async_trait]
impl Images for DockerImages {
    async fn root(&self, source: &EnvironmentSource) -> Result<Root, NoRoot> {
        self.made.get_or_make(key_of(source)?, Box::pin(self.find_or_make(source))).await
    }
}

/// Refuses images that only the native engine has.
fn pullable(name: &str) -> Result<(), NoRoot> {
    let invalid = |what: String| (Reason::TaskInvalid, format!("environment.docker_image: {what}"));
    match name.parse::<ImageRef>().map_err(|error| invalid(error.to_string()))? {
        ImageRef::Remote(_) => Ok(()),
        ImageRef::Scratch | ImageRef::Host | ImageRef::Local(_) => {
            Err(invalid(format!("`{name}` exists for the native engine only; run with --engine native")))
        }
    }
}

/// Refuses a Dockerfile that starts from an image of the native engine: the daemon would look for it in a registry.
fn buildable(dockerfile: &Path) -> Result<(), NoRoot> {
    let invalid = |what: String| (Reason::TaskInvalid, what);
    let bytes =
        artifact::read_bounded(dockerfile, DOCKERFILE_LIMIT).map_err(|error| invalid(error.to_string()))?;
    let Ok(parsed) = image::dockerfile::parse(&String::from_utf8_lossy(&bytes)) else { return Ok(()) };
    for step in parsed.steps {
        let Instruction::From { image, .. } = step.instruction else { continue };
        if let Ok(ImageRef::Host | ImageRef::Local(_)) = image.parse::<ImageRef>() {
            let native = format!(
                "line {}: `{image}` exists for the native engine only; run with --engine native",
                step.line
            );
            return Err(invalid(format!("environment/Dockerfile, {native}")));
        }
    }
    Ok(())
}

/// A Dockerfile that cannot be built is the task's fault; a daemon or a registry that fails is not.
fn reason_of(error: &SandboxError) -> Reason {
    match error {
        SandboxError::Build { .. } => Reason::EnvironmentBuildFailed,
        SandboxError::Unavailable { .. } | SandboxError::Lost(_) => Reason::EngineLost,
        _ => Reason::EnvironmentStartFailed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_of_the_native_engine_are_refused_by_name() {
        assert_eq!(pullable("example.org/a/b:1"), Ok(()));
        for name in ["seatrial.local/host", "seatrial.local/site", "scratch"] {
            let (reason, detail) = pullable(name).unwrap_err();
            assert!(
                reason == Reason::TaskInvalid && detail.contains(name) && detail.contains("native"),
                "{detail}"
            );
        }
        assert!(pullable("NOT A NAME").is_err());
    }
}
