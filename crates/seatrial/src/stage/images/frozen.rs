//! Images of tasks that are frozen: which they are, and whether registries have them.

use std::collections::{BTreeMap, BTreeSet};

use dataset::{DatasetError, FrozenImage, RegistryImages, frozen_images};
use futures_util::{StreamExt, TryStreamExt, stream};
use ident::TaskId;
use image::shards::Item;
use image::{ImageRef, Registry};
use record::{ImageBuilds, MaterializeDocument, MaterializedTask, PlacedImage};

use super::build::BUILDS;
use super::{IMAGES, load_plan, placements, registry, runtime};
use crate::failure::{Exit, Failure, OrExit, Result};
use crate::output::{Output, count};
use crate::project::Project;
use crate::stage::freeze;
use crate::stage::materialize::{MATERIALIZE, file_digest};

/// Registries asked at the same time.
const PARALLEL: usize = 8;

/// The image of every task; refused unless the registry of a project that names one has all of them now.
pub fn frozen(
    output: Output,
    project: &Project,
    tasks: &[&MaterializedTask],
) -> Result<BTreeMap<TaskId, FrozenImage>> {
    let tasks = tasks.iter().copied();
    if project.recipe.images.is_none() {
        return frozen_images(tasks, None).map_err(|error| freeze::failure(&error));
    }
    let mut planned = Vec::new();
    if project.path(IMAGES).exists() {
        let (plan, _, _) = load_plan(project)?;
        if plan.inputs.get(MATERIALIZE) != Some(&file_digest(&project.path(MATERIALIZE))?) {
            return Err(Failure::new(Exit::Conflict, format!("{IMAGES} is about other tasks"))
                .hint("run `seatrial images plan`, `mirror` and `verify`"));
        }
        planned = plan.items;
    }
    let builds = artifact::load_optional::<ImageBuilds>(&project.path(BUILDS))?;
    let unbuilt = builds.map(|(builds, _)| builds.skipped).unwrap_or_default();
    let placed = placements(project)?;
    let images = RegistryImages { planned: &planned, placed: &placed, unbuilt: &unbuilt };
    let images = frozen_images(tasks, Some(images)).map_err(|error| freeze::failure(&error))?;
    let references = images.values().filter_map(|image| image.reference.as_deref()).collect();
    let absent = absent(&registry(project)?, &references)?;
    if let Some((reference, problem)) = absent.first() {
        let message = format!(
            "{} of the set are not in the registry, such as {reference}: {problem}",
            count(absent.len(), "image")
        );
        return Err(Failure::new(Exit::Refused, message)
            .hint("nothing was frozen; run `seatrial images mirror` and `verify`"));
    }
    output.stage("freeze", format_args!("{} verified in the registry", count(references.len(), "image")));
    Ok(images)
}

/// Tasks that cannot have an image in the registry of a project that names one: the plan of images says that the source has none, or
/// that it could not be built. Each comes with a stable name of the reason. Nothing is known without a plan of these very tasks.
pub fn missing(project: &Project, materialized: &MaterializeDocument) -> Result<BTreeMap<TaskId, String>> {
    if project.recipe.images.is_none() || !project.path(IMAGES).exists() {
        return Ok(BTreeMap::new());
    }
    let (plan, _, _) = load_plan(project)?;
    if plan.inputs.get(MATERIALIZE) != Some(&file_digest(&project.path(MATERIALIZE))?) {
        return Ok(BTreeMap::new());
    }
    let builds = artifact::load_optional::<ImageBuilds>(&project.path(BUILDS))?;
    let unbuilt = builds.map(|(builds, _)| builds.skipped).unwrap_or_default();
    // Whether an image was seen yet is a matter of freezing.
    let placed: Vec<_> = plan.items.iter().map(as_placed).collect();
    let images = RegistryImages { planned: &plan.items, placed: &placed, unbuilt: &unbuilt };
    match frozen_images(&materialized.tasks, Some(images)) {
        Ok(_) => Ok(BTreeMap::new()),
        Err(DatasetError::Images(gaps)) => {
            Ok(gaps.into_iter().map(|gap| (gap.task_id, "image_missing".to_owned())).collect())
        }
        Err(error) => Err(freeze::failure(&error)),
    }
}

fn as_placed(item: &Item) -> PlacedImage {
    let Item { kind, key, repository, tag, digest, .. } = item.clone();
    PlacedImage { kind, key, repository, tag, digest }
}

/// Asks registries for images: those that are not there, each with what is wrong.
pub fn absent(registry: &Registry, references: &BTreeSet<&str>) -> Result<Vec<(String, String)>> {
    let asked = stream::iter(references).map(async |reference| {
        let parsed: ImageRef = reference.parse().or_exit(Exit::Conflict)?;
        let Some(remote) = parsed.remote() else {
            return Ok(Some(((*reference).to_owned(), "names no registry".to_owned())));
        };
        let found = registry.look_up(remote).await.map_err(|error| {
            Failure::from_error(Exit::Unknown, &error)
                .hint("nothing was changed; an image that cannot be asked for does not count as there")
        })?;
        let problem = match (found, remote.digest()) {
            (None, _) => "is not there".to_owned(),
            (Some(found), Some(digest)) if found.digest != digest => format!("is there as {}", found.digest),
            _ => return Ok(None),
        };
        Ok::<_, Failure>(Some(((*reference).to_owned(), problem)))
    });
    let answers: Vec<_> = runtime()?.block_on(asked.buffered(PARALLEL).try_collect())?;
    Ok(answers.into_iter().flatten().collect())
}
