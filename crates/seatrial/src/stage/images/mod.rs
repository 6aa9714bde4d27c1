//! `seatrial images`: images of tasks and their bases in the shards of a registry.
//!
//! Built and packed here, planned onto the shards, and put in the place of the images that they are copies of.

mod build;
mod frozen;
mod mirror;
mod plan;
mod rewrite;
mod sources;
mod tags;
mod verify;

use std::collections::BTreeSet;
use std::path::Path;

use ident::Digest;
use image::shards::{ShardPlan, Shards};
use image::{Credentials, ImageRef, LiveUnknown, Registry, RegistryOptions};
use ledger::Ledger;
use record::{ImageBuilds, ImageKind, MaterializeDocument, MaterializedTask, PlacedImage, Status};
use trial::Mirrored;

use build::BUILDS;
pub use build::run as build;
pub use frozen::{absent, frozen, missing};
pub use mirror::run as mirror;
pub use plan::{run as plan, still_fits};
pub use rewrite::{REWRITE, Rewrite, run as rewrite};
pub use tags::run as tags;
pub use verify::run as verify;

use crate::failure::{Exit, Failure, OrExit, Result};
use crate::project::Project;
use crate::stage::materialize::{self, MATERIALIZE, TASKS};
use crate::stage::prove::LEDGER;
use crate::stage::status::Standing;
use crate::workbench::credentials;

/// Name of the plan.
pub const IMAGES: &str = "images.json";
/// Where images are packed, in the directory of derived files.
pub const LAYOUT: &str = "images";

/// The tasks that no stage has rejected.
fn wanted_tasks<'m>(
    standing: &Standing,
    materialized: &'m MaterializeDocument,
) -> Result<Vec<&'m MaterializedTask>> {
    let statuses = standing.statuses()?;
    let rejected =
        |task: &&MaterializedTask| matches!(statuses.get(&task.task_id), Some(Status::Rejected { .. }));
    Ok(materialized.tasks.iter().filter(|task| !rejected(task)).collect())
}

/// The image that a task starts from, whatever copy stands in its place.
fn original(task: &MaterializedTask) -> Result<ImageRef> {
    task.copy_of.as_ref().unwrap_or(&task.base_image).parse().or_exit(Exit::Usage)
}

/// Where images were seen when earlier plans had been carried out.
fn placements(project: &Project) -> Result<Vec<PlacedImage>> {
    let ledger = Ledger::open_existing(&project.path(LEDGER))?;
    Ok(ledger.map(|ledger| ledger.placements()).transpose()?.unwrap_or_default())
}

fn shards(project: &Project) -> Result<Shards> {
    let config = project.recipe.images.clone().ok_or_else(|| {
        Failure::new(Exit::Usage, "the recipe names no registry")
            .hint("[images] with registry, namespace, shards and tag_limit does")
    })?;
    Shards::new(config).or_exit(Exit::Usage)
}

/// The plan, its digest and its shards; refused when it was made for another registry than the recipe names.
fn load_plan(project: &Project) -> Result<(ShardPlan, Digest, Shards)> {
    let shards = shards(project)?;
    let (plan, digest) = artifact::load::<ShardPlan>(&project.path(IMAGES))?;
    if plan.config != *shards.config() {
        let message = format!("{IMAGES} was made with other settings of [images]");
        return Err(Failure::new(Exit::Conflict, message).hint("run `seatrial images plan`"));
    }
    Ok((plan, digest, shards))
}

fn registry(project: &Project) -> Result<Registry> {
    registry_with(&project.state("downloads")?)
}

/// Registries with the user's credentials, and what they send in this directory.
pub fn registry_with(cache: &Path) -> Result<Registry> {
    let mut options = RegistryOptions::new(cache);
    if let Some(path) = credentials() {
        options.credentials = Credentials::load(&path).or_exit(Exit::Usage)?;
    }
    Registry::new(options).or_exit(Exit::Failed)
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Runtime::new().or_exit(Exit::Failed)
}

fn unknown(error: &LiveUnknown) -> Failure {
    Failure::from_error(Exit::Unknown, error).hint("nothing was changed; unknown tags do not count as none")
}

/// Where the images of the present tasks, and bases, were seen in the registry. Nothing where the former were not built and mirrored.
pub fn mirrored(project: &Project) -> Result<Mirrored> {
    let none = Mirrored::default();
    if !project.path(MATERIALIZE).exists() {
        return Ok(none);
    }
    let (_, digest) = materialize::load(project)?;
    let found = artifact::load_optional::<ImageBuilds>(&project.path(BUILDS))?;
    // Images of earlier tasks are not those of the present ones.
    let present = found.filter(|(builds, _)| builds.inputs.get(MATERIALIZE) == Some(&digest));
    let Some((builds, _)) = present else { return Ok(none) };
    let built: BTreeSet<(&str, &str)> =
        builds.images.iter().map(|image| (image.key.as_str(), image.digest.as_str())).collect();
    let placed = placements(project)?;
    // What was seen there is another image when the task was built anew since.
    let mut mirrored = Mirrored::default();
    for PlacedImage { kind, key, repository, digest, .. } in placed {
        let place = format!("{repository}@{digest}");
        match kind {
            ImageKind::Baseanchor => {
                mirrored.bases.insert(key, place);
            }
            ImageKind::Task if built.contains(&(key.as_str(), digest.as_str())) => {
                mirrored.tasks.insert(project.path(TASKS).join(key).join("environment"), place);
            }
            ImageKind::Task => {}
        }
    }
    Ok(mirrored)
}
