//! Which image is kept for each task of a set.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use ident::TaskId;
use image::ImageRef;
use image::shards::Item;
use record::{ImageKind, MaterializedTask, PlacedImage, UnbuiltImage};
use serde::{Deserialize, Serialize};

use crate::DatasetError;

/// The image of a frozen task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrozenImage {
    /// In what form it is kept.
    pub form: ImageForm,
    /// Its full reference, with the digest where it is known; none where no registry has it.
    pub reference: Option<String>,
    /// Whether a registry was seen to have this very content before the set was frozen.
    pub verified: bool,
}

/// In what form an image is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageForm {
    /// The task's whole environment, ready to run.
    Task,
    /// What the environment is built from, by the task's Dockerfile.
    Base,
    /// A base that the project builds for itself; nothing but its own files has it.
    Project,
    /// The system of the machine that proved the task; nothing else has it.
    Host,
    /// Nothing: the environment is built from scratch.
    Empty,
}

impl fmt::Display for ImageForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Task => "task",
            Self::Base => "base",
            Self::Project => "project",
            Self::Host => "host",
            Self::Empty => "empty",
        })
    }
}

/// A task whose image no registry was seen to have.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ImageGap {
    /// The task.
    pub task_id: TaskId,
    /// What is missing.
    pub detail: String,
}

impl fmt::Display for ImageGap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task `{}`: {}", self.task_id, self.detail)
    }
}

/// The images of a project with a registry.
#[derive(Debug, Clone, Copy, Default)]
pub struct RegistryImages<'a> {
    /// The images that the plan gives places.
    pub planned: &'a [Item],
    /// Where images were seen.
    pub placed: &'a [PlacedImage],
    /// Images that there are none of.
    pub unbuilt: &'a [UnbuiltImage],
}

/// Says for every task which image is kept for it.
///
/// With a registry, every image of these tasks that a registry can have must have been seen where the plan puts it, with the
/// content that the plan gives it; otherwise all tasks without such an image come back as an error. Without a registry the
/// images are those that the tasks name.
pub fn frozen_images<'a>(
    tasks: impl IntoIterator<Item = &'a MaterializedTask>,
    registry: Option<RegistryImages<'_>>,
) -> Result<BTreeMap<TaskId, FrozenImage>, DatasetError> {
    let (mut images, mut gaps) = (BTreeMap::new(), Vec::new());
    let registry = registry.map(Registered::new);
    for task in tasks {
        let found = match &registry {
            Some(registry) => registry.image(task),
            None => named(task),
        };
        match found {
            Ok(image) => {
                images.insert(task.task_id.clone(), image);
            }
            Err(detail) => gaps.push(ImageGap { task_id: task.task_id.clone(), detail }),
        }
    }
    gaps.sort();
    if gaps.is_empty() { Ok(images) } else { Err(DatasetError::Images(gaps)) }
}

fn parsed(reference: &str) -> Result<ImageRef, String> {
    reference.parse().map_err(|error: image::ReferenceError| error.to_string())
}

/// The image that a task names.
fn named(task: &MaterializedTask) -> Result<FrozenImage, String> {
    let reference = parsed(&task.base_image)?;
    let form = match &reference {
        ImageRef::Scratch => ImageForm::Empty,
        ImageRef::Host => ImageForm::Host,
        ImageRef::Local(_) => ImageForm::Project,
        ImageRef::Remote(_) => ImageForm::Base,
    };
    let reference = reference.remote().map(ToString::to_string);
    Ok(FrozenImage { form, reference, verified: false })
}

/// The same by kind and key.
struct Registered<'a> {
    planned: BTreeMap<(ImageKind, &'a str), &'a Item>,
    seen: BTreeMap<(ImageKind, &'a str), &'a PlacedImage>,
    /// Tasks that are meant to have no image.
    without: BTreeSet<&'a str>,
}

impl<'a> Registered<'a> {
    fn new(images: RegistryImages<'a>) -> Self {
        let intended = images.unbuilt.iter().filter(|image| image.intended && image.kind == ImageKind::Task);
        Self {
            planned: images.planned.iter().map(|item| ((item.kind, item.key.as_str()), item)).collect(),
            seen: images.placed.iter().map(|image| ((image.kind, image.key.as_str()), image)).collect(),
            without: intended.map(|image| image.key.as_str()).collect(),
        }
    }

    /// The image that the registry has for a task: its own, or else that of its base.
    fn image(&self, task: &MaterializedTask) -> Result<FrozenImage, String> {
        let named = named(task)?;
        let base = parsed(task.copy_of.as_ref().unwrap_or(&task.base_image))?.to_string();
        let of_task = self.planned.get(&(ImageKind::Task, task.task_id.as_str()));
        let of_base = self.planned.get(&(ImageKind::Baseanchor, base.as_str()));
        let (form, item) = match (of_task, of_base) {
            (Some(item), _) => (ImageForm::Task, item),
            (None, Some(item)) => (ImageForm::Base, item),
            // No registry can have these.
            (None, None) if matches!(named.form, ImageForm::Host | ImageForm::Empty) => return Ok(named),
            (None, None)
                if named.form == ImageForm::Project && self.without.contains(task.task_id.as_str()) =>
            {
                return Ok(named);
            }
            (None, None) => return Err(format!("images.json plans neither its image nor its base `{base}`")),
        };
        let Item { kind, key, repository, tag, digest, .. } = item;
        let seen = self.seen.get(&(*kind, key.as_str()));
        if seen.is_none_or(|seen| (&seen.repository, &seen.tag, &seen.digest) != (repository, tag, digest)) {
            return Err(format!("{repository}:{tag} was not seen with {digest}"));
        }
        Ok(FrozenImage { form, reference: Some(format!("{repository}:{tag}@{digest}")), verified: true })
    }
}
