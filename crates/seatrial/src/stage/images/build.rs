//! `seatrial images build`: the images of tasks, packed as an OCI layout.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use artifact::Document;
use futures_util::{StreamExt, stream};
use ident::Digest;
use image::pack::{BaseImage, LayoutWriter, Packed};
use image::{ImageError, ImageRef, RootImage};
use record::{BuiltImage, ImageBuilds, ImageKind, MaterializedTask, UnbuiltImage};
use serde_json::json;
use trial::{EnvironmentSource, LocalImages};

use super::{LAYOUT, original, wanted_tasks};
use crate::cli::Jobs;
use crate::failure::{Exit, Failure, OrExit, Result};
use crate::output::{Output, count};
use crate::project::Project;
use crate::stage::materialize::{self, MATERIALIZE, TASKS};
use crate::stage::status::Standing;
use crate::workbench::processors;

/// Name of the document.
pub const BUILDS: &str = "image-builds.json";

/// The command: builds the image of every task that is not rejected and of the bases that this project builds, and packs them.
pub fn run(output: Output, project: &Project, jobs: &Jobs) -> Result {
    let (materialized, digest) = materialize::load(project)?;
    let standing = Standing::load(output, project)?;
    let tasks = wanted_tasks(&standing, &materialized)?;
    let bench = project.local_workbench(jobs)?;
    let layout = LayoutWriter::open(&project.state(LAYOUT)?).or_exit(Exit::Failed)?;
    let builder = Builder { images: bench.local.clone(), layout: Arc::new(layout) };
    let at_once = jobs.jobs.map_or_else(processors, usize::from);
    output.stage("images", format_args!("{} are built", count(tasks.len(), "task image")));
    let (packed, built, skipped) = bench.run(async {
        let mut made = builder.bases(&tasks).await?;
        let bases = std::mem::take(&mut made.bases);
        let results: Vec<_> = stream::iter(&tasks)
            .map(|task| builder.task(project, task, &bases))
            .buffered(at_once)
            .collect()
            .await;
        for result in results {
            made.add(result?);
        }
        Ok((made.packed, made.built, made.skipped))
    })?;
    let layout = Arc::into_inner(builder.layout).expect("all work has come to its end");
    layout.finish(&packed).or_exit(Exit::Failed)?;
    let mut document = ImageBuilds {
        schema: <ImageBuilds as Document>::SCHEMA.into(),
        inputs: BTreeMap::from([(MATERIALIZE.to_owned(), digest)]),
        images: built,
        skipped,
    };
    document.images.sort_by(|a, b| (a.kind, &a.key).cmp(&(b.kind, &b.key)));
    document.skipped.sort_by(|a, b| (a.kind, &a.key).cmp(&(b.kind, &b.key)));
    artifact::store(&project.path(BUILDS), &document)?;
    show(output, &document)
}

fn show(output: Output, document: &ImageBuilds) -> Result {
    let (intended, failed): (Vec<_>, Vec<_>) = document.skipped.iter().partition(|image| image.intended);
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for image in &intended {
        *reasons.entry(image.reason.as_str()).or_default() += 1;
    }
    for (reason, number) in reasons {
        output.say(format_args!("no image of its own for {}: {reason}", count(number, "task or base")));
    }
    for image in &failed {
        output.say(format_args!("{} {}: {}", image.kind, image.key, image.reason));
    }
    output.stage(
        "images",
        format_args!(
            "{} in .seatrial/{LAYOUT}, {} without one, {} failed",
            count(document.images.len(), "image"),
            intended.len(),
            failed.len()
        ),
    );
    output
        .json(&json!({ "document": BUILDS, "images": document.images.len(), "skipped": document.skipped }))?;
    match failed.len() {
        0 => Ok(()),
        number => Err(Failure::new(Exit::Failed, format!("{} could not be built", count(number, "image")))),
    }
}

/// The document and its digest, where there is one; refused when it is about other tasks.
pub(super) fn load(project: &Project, materialized: Digest) -> Result<Option<(ImageBuilds, Digest)>> {
    let found = artifact::load_optional::<ImageBuilds>(&project.path(BUILDS))?;
    match found {
        Some((document, _)) if document.inputs.get(MATERIALIZE) != Some(&materialized) => {
            Err(Failure::new(Exit::Conflict, format!("{BUILDS} is about other tasks"))
                .hint("run `seatrial images build`"))
        }
        found => Ok(found),
    }
}

/// What came of one image.
enum Made {
    Image(BuiltImage, Packed),
    Nothing(UnbuiltImage),
}

#[derive(Default)]
struct AllMade {
    packed: Vec<Packed>,
    built: Vec<BuiltImage>,
    skipped: Vec<UnbuiltImage>,
    /// Documents of the bases that tasks are built on, by the reference that the task has.
    bases: BTreeMap<String, BaseImage>,
}

impl AllMade {
    fn add(&mut self, made: Made) {
        match made {
            Made::Image(image, packed) => {
                self.built.push(image);
                self.packed.push(packed);
            }
            Made::Nothing(image) => self.skipped.push(image),
        }
    }
}

struct Builder {
    images: Arc<LocalImages>,
    layout: Arc<LayoutWriter>,
}

impl Builder {
    /// Fetches the bases of tasks, and packs those that this project builds itself.
    async fn bases(&self, tasks: &[&MaterializedTask]) -> Result<AllMade> {
        let mut made = AllMade::default();
        let mut seen = BTreeSet::new();
        for task in tasks {
            if !seen.insert(&task.base_image) {
                continue;
            }
            let reference: ImageRef = task.base_image.parse().or_exit(Exit::Usage)?;
            match &reference {
                ImageRef::Remote(_) => {
                    // Without one the tasks themselves say why.
                    if let Ok(Some(base)) = self.images.describe(&reference).await {
                        let base = match original(task)?.remote() {
                            Some(original) => base.as_copy_of(original),
                            None => base,
                        };
                        made.bases.insert(task.base_image.clone(), base);
                    }
                }
                ImageRef::Local(_) => {
                    let key = reference.to_string();
                    match self.images.resolve(&reference).await {
                        Ok(image) => {
                            // Without the image below it every layer is packed.
                            let below = self.images.below(&reference, &image).await.unwrap_or_default();
                            let result =
                                self.pack(ImageKind::Baseanchor, &key, &key, image.clone(), below).await?;
                            if let Made::Image(_, packed) = &result {
                                let base = self.layout.as_base(packed, &image).or_exit(Exit::Failed)?;
                                made.bases.insert(task.base_image.clone(), base);
                            }
                            made.add(result);
                        }
                        Err((_, reason)) => made.add(failed(ImageKind::Baseanchor, &key, reason)),
                    }
                }
                ImageRef::Host | ImageRef::Scratch => {}
            }
        }
        Ok(made)
    }

    async fn task(
        &self,
        project: &Project,
        task: &MaterializedTask,
        bases: &BTreeMap<String, BaseImage>,
    ) -> Result<Made> {
        let key = task.task_id.as_str();
        let context = project.path(TASKS).join(key).join("environment");
        let source = EnvironmentSource { docker_image: None, context };
        let original = original(task)?.to_string();
        match self.images.image(&source).await {
            Ok(image) => {
                self.pack(ImageKind::Task, key, &original, image, bases.get(&task.base_image).cloned()).await
            }
            Err((_, reason)) => Ok(failed(ImageKind::Task, key, reason)),
        }
    }

    /// Packing reads and compresses, on a thread of its own.
    async fn pack(
        &self,
        kind: ImageKind,
        key: &str,
        original: &str,
        image: RootImage,
        base: Option<BaseImage>,
    ) -> Result<Made> {
        let (layout, name) = (Arc::clone(&self.layout), key.to_owned());
        let work = tokio::task::spawn_blocking(move || layout.add(&name, &image, base.as_ref()));
        match work.await.or_exit(Exit::Failed)? {
            Ok(packed) => {
                let image = BuiltImage {
                    kind,
                    key: key.to_owned(),
                    base: original.to_owned(),
                    digest: packed.digest.clone(),
                    media_type: packed.media_type.to_owned(),
                };
                Ok(Made::Image(image, packed))
            }
            Err(error @ ImageError::Host(_)) => Ok(Made::Nothing(UnbuiltImage {
                kind,
                key: key.to_owned(),
                reason: error.to_string(),
                intended: true,
            })),
            Err(error) if error.is_disk_full() => Err(error).or_exit(Exit::Budget),
            Err(error) => Ok(failed(kind, key, error.to_string())),
        }
    }
}

fn failed(kind: ImageKind, key: &str, reason: String) -> Made {
    Made::Nothing(UnbuiltImage { kind, key: key.to_owned(), reason, intended: false })
}
