//! `seatrial images`: what the shards of a registry have, and which image goes to which of them.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt, TryStreamExt, stream};
use image::shards::{Desired, Missing, PlanRequest, ShardPlan, Shards, Wanted};
use image::{Credentials, ImageError, ImageRef, LiveUnknown, Registry, RegistryOptions, RemoteRef};
use ledger::Ledger;
use record::{ImageKind, PlacedImage, Status};
use serde_json::json;

use crate::failure::{Exit, Failure, OrExit, Result};
use crate::output::{Output, count, table};
use crate::project::Project;
use crate::stage::materialize::{self, MATERIALIZE};
use crate::stage::prove::LEDGER;
use crate::stage::status::Standing;
use crate::workbench::credentials;

/// Name of the document.
pub const IMAGES: &str = "images.json";

/// Sources asked at the same time.
const PARALLEL: usize = 8;
/// As many of the fullest shards are shown.
const FULLEST: usize = 5;
/// As many images of a kind are named.
const NAMED: usize = 10;

/// `images tags`: live tags by shard.
pub fn tags(output: Output, project: &Project) -> Result {
    let shards = shards(project)?;
    let registry = registry(project)?;
    let live =
        runtime()?.block_on(registry.snapshot(&shards, &BTreeSet::new())).map_err(|error| unknown(&error))?;
    let limit = shards.config().tag_limit;
    let rows = shards.numbers().map(|number| {
        let tags = live.count(number);
        let room = limit.saturating_sub(tags);
        [shards.name(number).to_owned(), tags.to_string(), room.to_string()]
    });
    output.print(table(["shard", "tags", "room"], rows))?;
    let total: u64 = shards.numbers().map(|number| live.count(number)).sum();
    let room = limit * u64::from(shards.config().shards);
    output.stage("images", format_args!("{total} tags; the shards hold {room}, {limit} each"));
    let listed: BTreeMap<String, Vec<&str>> =
        shards.numbers().map(|number| (shards.repository(number), live.tags(number).collect())).collect();
    output.json(&json!({ "schema": "seatrial.images-tags/1", "tag_limit": limit, "shards": listed }))
}

/// `images plan`: asks what is there and what the sources have, and writes the plan when all of it fits.
pub fn plan(output: Output, project: &Project, rehome: bool) -> Result {
    let shards = shards(project)?;
    let (materialized, digest) = materialize::load(project)?;
    let standing = Standing::load(output, project)?;
    let bases = bases(&standing, &materialized)?;
    let registry = registry(project)?;
    let runtime = runtime()?;
    output.stage("images", format_args!("{} are looked for", count(bases.len(), "base image")));
    let (wanted, missing) = runtime.block_on(look_up(&registry, &bases))?;
    let desired = Desired::new(wanted).or_exit(Exit::Usage)?;
    let tags: BTreeSet<String> = desired.images().iter().map(Wanted::tag).collect();
    let snapshot = runtime.block_on(registry.snapshot(&shards, &tags)).map_err(|error| unknown(&error))?;
    let placed = placements(project)?;
    let inputs = BTreeMap::from([(MATERIALIZE.to_owned(), digest)]);
    let request = PlanRequest {
        shards: &shards,
        desired: &desired,
        snapshot: &snapshot,
        placed: &placed,
        inputs: &inputs,
        missing: &missing,
        rehome,
    };
    let plan = image::shards::plan(&request).or_exit(Exit::Usage)?;
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

/// Where images were seen when earlier plans had been carried out.
fn placements(project: &Project) -> Result<Vec<PlacedImage>> {
    let ledger = Ledger::open_existing(&project.path(LEDGER))?;
    Ok(ledger.map(|ledger| ledger.placements()).transpose()?.unwrap_or_default())
}

/// The images that tasks start from: of every task that no stage has rejected.
fn bases(standing: &Standing, materialized: &record::MaterializeDocument) -> Result<BTreeSet<RemoteRef>> {
    let statuses = standing.statuses()?;
    let rejected = |task| matches!(statuses.get(task), Some(Status::Rejected { .. }));
    let left = materialized.tasks.iter().filter(|task| !rejected(&task.task_id));
    let references: BTreeSet<ImageRef> = left
        .map(|task| task.base_image.parse::<ImageRef>())
        .collect::<std::result::Result<_, _>>()
        .or_exit(Exit::Usage)?;
    // What exists on this machine only cannot come from a registry.
    Ok(references.iter().filter_map(ImageRef::remote).cloned().collect())
}

/// Asks the sources for the content that each reference names now. What a source does not have is missing; a source that gives
/// no answer is an error.
async fn look_up(registry: &Registry, bases: &BTreeSet<RemoteRef>) -> Result<(Vec<Wanted>, Vec<Missing>)> {
    let asked = stream::iter(bases).map(async |base| {
        let key = base.to_string();
        let found = registry.look_up(base).await.map_err(|error| source_failure(&key, &error))?;
        Ok::<_, Failure>(found.map_or_else(
            || {
                let reason = format!("{} does not have it", base.host());
                Err(Missing { kind: ImageKind::Baseanchor, key: key.clone(), source: key.clone(), reason })
            },
            |found| {
                Ok(Wanted {
                    kind: ImageKind::Baseanchor,
                    source: key.clone(),
                    digest: found.digest,
                    media_type: found.media_type,
                    group: key.clone(),
                    key: key.clone(),
                })
            },
        ))
    });
    let answers: Vec<std::result::Result<Wanted, Missing>> = asked.buffered(PARALLEL).try_collect().await?;
    let (mut wanted, mut missing) = (Vec::new(), Vec::new());
    for answer in answers {
        match answer {
            Ok(image) => wanted.push(image),
            Err(image) => missing.push(image),
        }
    }
    Ok((wanted, missing))
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

fn shards(project: &Project) -> Result<Shards> {
    let config = project.recipe.images.clone().ok_or_else(|| {
        Failure::new(Exit::Usage, "the recipe names no registry")
            .hint("[images] with registry, namespace, shards and tag_limit does")
    })?;
    Shards::new(config).or_exit(Exit::Usage)
}

fn registry(project: &Project) -> Result<Registry> {
    let mut options = RegistryOptions::new(project.state("downloads")?);
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

fn source_failure(source: &str, error: &ImageError) -> Failure {
    let message = format!("what {source} names is not known: {error}");
    Failure::new(Exit::Unknown, message).hint("nothing was changed")
}
