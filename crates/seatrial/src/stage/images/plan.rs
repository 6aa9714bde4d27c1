//! `seatrial images plan`: which image goes to which shard.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt, TryStreamExt, stream};
use image::mirror::IN_LAYOUT;
use image::shards::{Desired, Missing, PlanRequest, ShardPlan, Wanted};
use image::{ImageError, ImageRef, Registry, RemoteRef};
use record::{ImageBuilds, ImageKind, MaterializedTask, ShardConfig};
use serde_json::json;

use super::build::{self, BUILDS};
use super::sources::Sources;
use super::{IMAGES, original, placements, registry, runtime, shards, unknown, wanted_tasks};
use crate::failure::{Exit, Failure, OrExit, Result};
use crate::output::{Output, count, table};
use crate::project::Project;
use crate::stage::materialize::{self, MATERIALIZE};
use crate::stage::status::Standing;

/// Sources asked at the same time.
const PARALLEL: usize = 8;
/// As many of the fullest shards are shown.
const FULLEST: usize = 5;
/// As many images of a kind are named.
const NAMED: usize = 10;

/// Asks what is there and what the sources have, and writes the plan when all of it fits.
pub fn run(output: Output, project: &Project, rehome: bool) -> Result {
    let plan = projected(output, project, rehome)?;
    show(output, &plan)?;
    refuse(&plan)?;
    artifact::store(&project.path(IMAGES), &plan)?;
    let (available, pending) = plan.available_and_pending();
    output.json(&json!({
        "document": IMAGES,
        "available": available,
        "pending": pending,
        "skipped": plan.missing.len(),
        "gate": plan.gate,
        "hub_budget": plan.hub_budget,
    }))
}

/// Asks again what is there, and refuses as the command does where the images of the tasks do not fit any more. Writes nothing.
pub fn still_fits(output: Output, project: &Project) -> Result {
    refuse(&projected(output, project, false)?)
}

/// Asks what is there and what the sources have, and lays the images onto the shards.
fn projected(output: Output, project: &Project, rehome: bool) -> Result<ShardPlan> {
    let shards = shards(project)?;
    let (materialized, digest) = materialize::load(project)?;
    let standing = Standing::load(output, project)?;
    let tasks = wanted_tasks(&standing, &materialized)?;
    let bases = bases(&tasks)?;
    let builds = build::load(project, digest)?;
    let registry = registry(project)?;
    let runtime = runtime()?;
    output.stage("images", format_args!("{} are looked for", count(bases.len(), "base image")));
    let found = find(output, project, &registry, &bases, shards.config());
    let (mut wanted, mut missing) = runtime.block_on(found)?;
    let mut inputs = BTreeMap::from([(MATERIALIZE.to_owned(), digest)]);
    match builds {
        Some((builds, digest)) => {
            add_built(&tasks, builds, &mut wanted, &mut missing)?;
            inputs.insert(BUILDS.to_owned(), digest);
        }
        None => output.stage("images", "bases only; `seatrial images build` makes the images of tasks"),
    }
    missing.sort();
    let desired = Desired::new(wanted).or_exit(Exit::Usage)?;
    let tags: BTreeSet<String> = desired.images().iter().map(Wanted::tag).collect();
    let snapshot = runtime.block_on(registry.snapshot(&shards, &tags)).map_err(|error| unknown(&error))?;
    let placed = placements(project)?;
    let request = PlanRequest {
        shards: &shards,
        desired: &desired,
        snapshot: &snapshot,
        placed: &placed,
        inputs: &inputs,
        missing: &missing,
        rehome,
    };
    image::shards::plan(&request).or_exit(Exit::Usage)
}

/// The images that tasks start from, as their authors name them. What exists on this machine only cannot come from a registry.
fn bases(tasks: &[&MaterializedTask]) -> Result<BTreeSet<RemoteRef>> {
    let references = tasks.iter().map(|task| original(task)).collect::<Result<Vec<ImageRef>>>()?;
    Ok(references.iter().filter_map(ImageRef::remote).cloned().collect())
}

/// Adds the images of tasks, and the bases that this project builds.
fn add_built(
    tasks: &[&MaterializedTask],
    builds: ImageBuilds,
    wanted: &mut Vec<Wanted>,
    missing: &mut Vec<Missing>,
) -> Result {
    let mut left: BTreeSet<&str> = tasks.iter().map(|task| task.task_id.as_str()).collect();
    let mut is_wanted = |kind, key: &str| kind == ImageKind::Baseanchor || left.remove(key);
    for image in builds.images {
        if is_wanted(image.kind, &image.key) {
            wanted.push(Wanted {
                kind: image.kind,
                source: format!("{IN_LAYOUT}{}", image.key),
                key: image.key,
                digest: image.digest,
                media_type: image.media_type,
                group: image.base,
            });
        }
    }
    for image in builds.skipped {
        if is_wanted(image.kind, &image.key) {
            let source = format!("{IN_LAYOUT}{}", image.key);
            missing.push(Missing { kind: image.kind, key: image.key, source, reason: image.reason });
        }
    }
    match left.first() {
        None => Ok(()),
        Some(first) => {
            let message = format!("{} not built, such as that of {first}", count(left.len(), "task image"));
            Err(Failure::new(Exit::Conflict, message).hint("run `seatrial images build`"))
        }
    }
}

/// The content that each reference names now: that of the first source on this machine which has it, else that of its registry.
async fn find(
    output: Output,
    project: &Project,
    registry: &Registry,
    bases: &BTreeSet<RemoteRef>,
    config: &ShardConfig,
) -> Result<(Vec<Wanted>, Vec<Missing>)> {
    let platform = config.platform.as_deref();
    let mut sources = Sources::open(project, config).await?;
    let (mut elsewhere, mut answers) = (BTreeSet::new(), Vec::new());
    for base in bases {
        match sources.look_up(output, base, platform).await? {
            Some(answer) => answers.push(answer),
            None => {
                elsewhere.insert(base.clone());
            }
        }
    }
    sources.finish()?;
    answers.extend(look_up(registry, &elsewhere, platform).await?);
    let (mut wanted, mut missing) = (Vec::new(), Vec::new());
    for answer in answers {
        match answer {
            Ok(image) => wanted.push(image),
            Err(image) => missing.push(image),
        }
    }
    Ok((wanted, missing))
}

/// Asks the registries for the content that each reference names now. What a registry does not have is missing; one that gives no
/// answer is an error.
async fn look_up(
    registry: &Registry,
    bases: &BTreeSet<RemoteRef>,
    platform: Option<&str>,
) -> Result<Vec<std::result::Result<Wanted, Missing>>> {
    let asked = stream::iter(bases).map(async |base| {
        let key = base.to_string();
        let found = match platform {
            Some(platform) => registry.look_up_platform(base, platform).await,
            None => registry.look_up(base).await,
        };
        let missing = |reason| {
            Err(Missing { kind: ImageKind::Baseanchor, key: key.clone(), source: key.clone(), reason })
        };
        Ok::<_, Failure>(match found {
            Ok(Some(found)) => Ok(Wanted {
                kind: ImageKind::Baseanchor,
                source: key.clone(),
                digest: found.digest,
                media_type: found.media_type,
                group: key.clone(),
                key: key.clone(),
            }),
            Ok(None) => missing(format!("{} does not have it", base.host())),
            // An index without the platform, or something that is no image.
            Err(ImageError::Manifest { what, .. }) => missing(what),
            Err(error) => return Err(source_failure(&key, &error)),
        })
    });
    asked.buffered(PARALLEL).try_collect().await
}

fn show(output: Output, plan: &ShardPlan) -> Result {
    let mut fullest: Vec<_> = plan.shards.iter().collect();
    fullest.sort_by_key(|shard| std::cmp::Reverse(shard.projected));
    let rows = fullest.into_iter().take(FULLEST).map(|shard| {
        let numbers =
            [shard.live, shard.foreign, shard.pending, shard.projected].map(|tags| tags.to_string());
        let [live, foreign, pending, projected] = numbers;
        [shard.name.clone(), live, foreign, pending, projected]
    });
    output.print(table(["fullest shards", "live", "of others", "pending", "projected"], rows))?;
    for missing in plan.missing.iter().take(NAMED) {
        output.say(format_args!("skipped: {}: {}", missing.source, missing.reason));
    }
    for duplicate in &plan.duplicates {
        let others = duplicate.others.join(", ");
        output.say(format_args!("{} is live in {} and again in {others}", duplicate.tag, duplicate.kept));
    }
    let (available, pending) = plan.available_and_pending();
    output.stage(
        "images",
        format_args!(
            "{available} available, {pending} pending, {} skipped; at most {} tags in a shard, {} allowed; {} counted pulls",
            plan.missing.len(),
            plan.gate.worst,
            plan.gate.limit,
            plan.hub_budget.counted_gets
        ),
    );
    Ok(())
}

/// Conflicts and a gate that does not hold end the command before anything is written.
fn refuse(plan: &ShardPlan) -> Result {
    let conflicts: Vec<String> =
        plan.conflicts().take(NAMED).map(|item| format!("{}:{}", item.repository, item.tag)).collect();
    if !conflicts.is_empty() {
        let message =
            format!("{} name other images: {}", count(plan.conflicts().count(), "tag"), conflicts.join(", "));
        return Err(Failure::new(Exit::Conflict, message)
            .hint("nothing was written; `overwrite = true` in [images] lets tags be moved"));
    }
    if plan.gate.ok {
        return Ok(());
    }
    let over: Vec<String> = plan
        .gate
        .over
        .iter()
        .take(FULLEST)
        .map(|shard| {
            format!(
                "{} would have {} tags, {} too many, with {}",
                shard.shard,
                shard.projected,
                shard.over,
                shard.first.join(", ")
            )
        })
        .collect();
    let message = format!(
        "{} would pass the limit of {} tags:\n{}",
        count(plan.gate.over.len(), "shard"),
        plan.gate.limit,
        over.join("\n")
    );
    let failure = Failure::new(Exit::Refused, message)
        .hint("nothing was written; `overflow = \"probe\"` or more shards make room");
    Err(match plan.gate.rehome_moves {
        Some(moves) => failure.hint(format!("with --rehome all would fit, and {moves} images would move")),
        None => failure,
    })
}

fn source_failure(source: &str, error: &ImageError) -> Failure {
    let message = format!("what {source} names is not known: {error}");
    Failure::new(Exit::Unknown, message).hint("nothing was changed")
}
