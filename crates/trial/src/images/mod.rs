//! Root file systems of environments: built or fetched once, however many trials want them.

mod bases;
mod cluster;
mod docker;
mod local;
mod once;

use std::path::PathBuf;

use async_trait::async_trait;
pub use cluster::{ClusterImages, Mirrored};
pub use docker::DockerImages;
pub use local::{ImageOutcome, ImagesConfig, LocalImages};
use record::Reason;
use sandbox::Root;

/// What an environment is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvironmentSource {
    /// A prebuilt image, which goes before the build context.
    pub docker_image: Option<String>,
    /// A directory with a Dockerfile and what it copies.
    pub context: PathBuf,
}

/// Why there is no root file system.
pub type NoRoot = (Reason, String);

/// Gives the root file systems that environments start from, in the form that one engine takes.
#[async_trait]
pub trait Images: Send + Sync {
    /// The root file system of an environment, built or fetched when it is not there yet. However many ask for the same one
    /// at a time, it is built once.
    async fn root(&self, source: &EnvironmentSource) -> Result<Root, NoRoot>;
}

/// Sources with equal keys give equal root file systems.
fn key_of(source: &EnvironmentSource) -> Result<String, NoRoot> {
    match &source.docker_image {
        Some(name) => Ok(format!("image {name}")),
        None if !source.context.join("Dockerfile").is_file() => {
            let context = source.context.display();
            Err((
                Reason::TaskInvalid,
                format!("{context} has no Dockerfile, and task.toml names no docker_image"),
            ))
        }
        None => task::tree_digest_of(&source.context)
            .map(|digest| format!("context {}", digest.hex()))
            .map_err(|error| (Reason::TaskInvalid, error.to_string())),
    }
}
