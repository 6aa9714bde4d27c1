//! The plan itself: actions, the number of tags that shards will have, and the gate.

use std::collections::{BTreeMap, BTreeSet};

use artifact::Document;
use ident::Digest;
use record::{ImageKind, ImageSource, PlacedImage, ShardConfig};
use serde::{Deserialize, Serialize};

use super::assign::{Assigned, Places};
use super::{Desired, Shards, Snapshot, Wanted};
use crate::ImageRef;

/// As many items of a shard that is over its limit are named.
const FIRST_ITEMS: usize = 5;
/// The registry that counts what is pulled from it.
const COUNTING_HOST: &str = "docker.io";
/// Seconds over which it counts.
const WINDOW_SEC: u64 = 21_600;

/// What a plan is made of.
#[derive(Debug, Clone, Copy)]
pub struct PlanRequest<'a> {
    /// The shards.
    pub shards: &'a Shards,
    /// What is wanted.
    pub desired: &'a Desired,
    /// What is there: the complete tags of every shard.
    pub snapshot: &'a Snapshot,
    /// What accepted plans put where, oldest first.
    pub placed: &'a [PlacedImage],
    /// Digests of what the wanted images were made from, by name.
    pub inputs: &'a BTreeMap<String, Digest>,
    /// Images that are wanted and not to be had, in order.
    pub missing: &'a [Missing],
    /// Whether every image goes home, wherever it was before.
    pub rehome: bool,
}

/// `images.json`: which image goes where, and whether it fits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardPlan {
    /// `seatrial.images/1`.
    pub schema: String,
    /// The settings.
    pub config: ShardConfig,
    /// Digests of what it was made from: `snapshot`, `placed`, and what the caller named.
    pub inputs: BTreeMap<String, Digest>,
    /// Every shard, by number.
    pub shards: Vec<Shard>,
    /// Every wanted image, in order of kind and key.
    pub items: Vec<Item>,
    /// Wanted images that are not to be had, in order of kind and key.
    pub missing: Vec<Missing>,
    /// Tags that are live more than once.
    pub duplicates: Vec<Duplicate>,
    /// Whether all shards stay within the limit.
    pub gate: Gate,
    /// Pulls that the counting registry will count.
    pub hub_budget: HubBudget,
}

/// One shard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// Its name, without registry and namespace.
    pub name: String,
    /// Tags that it has.
    pub live: u64,
    /// Those among them that no plan of ours knows.
    pub foreign: u64,
    /// Tags that it gets.
    pub pending: u64,
    /// Tags that it will have.
    pub projected: u64,
}

/// One image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// What it is for.
    pub kind: ImageKind,
    /// Its key.
    pub key: String,
    /// Where it comes from.
    pub source: String,
    /// Digest of its manifest.
    pub digest: String,
    /// Media type of its manifest.
    pub media_type: String,
    /// The shard's repository, with registry and namespace.
    pub repository: String,
    /// The tag.
    pub tag: String,
    /// What is to be done.
    pub action: Action,
    /// Why it goes there.
    pub reason: Reason,
}

/// A wanted image that its source does not have. It gets no place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Missing {
    /// What it is for.
    pub kind: ImageKind,
    /// Its key.
    pub key: String,
    /// Where it was looked for.
    pub source: String,
    /// What was found instead.
    pub reason: String,
}

/// What is to be done about an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Nothing: it is there.
    Skip,
    /// Copy it under a new tag.
    Copy,
    /// Move a tag that names something else.
    Retag,
    /// Put it back where it was.
    Restore,
    /// The tag names something else, and may not be moved.
    Conflict,
}

impl std::fmt::Display for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Skip => "skip",
            Self::Copy => "copy",
            Self::Retag => "retag",
            Self::Restore => "restore",
            Self::Conflict => "conflict",
        })
    }
}

impl Action {
    /// Whether it adds a tag to the shard.
    pub fn adds_tag(self) -> bool {
        matches!(self, Self::Copy | Self::Restore)
    }
}

/// Why an image goes to its shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// It was found there.
    Adopted,
    /// An accepted plan put it there.
    Accepted,
    /// Its hash.
    Home,
    /// Its home is full.
    Probed,
}

/// A tag that is live in more than one shard. All of them count; nothing is removed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Duplicate {
    /// The tag.
    pub tag: String,
    /// The repository that counts as its place.
    pub kept: String,
    /// The others.
    pub others: Vec<String>,
}

/// Whether the shards stay within the limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gate {
    /// Whether they do.
    pub ok: bool,
    /// Most tags in a shard.
    pub limit: u64,
    /// The largest number of tags that a shard will have.
    pub worst: u64,
    /// Shards above the limit, the worst first.
    pub over: Vec<OverLimit>,
    /// How many images would move if everything went home, where that would bring all shards within the limit.
    pub rehome_moves: Option<u64>,
}

/// A shard above the limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverLimit {
    /// The shard.
    pub shard: String,
    /// Tags that it would have.
    pub projected: u64,
    /// How many of them are too many.
    pub over: u64,
    /// The first images that it would get.
    pub first: Vec<String>,
}

/// Pulls of manifests that Docker Hub counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HubBudget {
    /// Distinct images to be pulled from it.
    pub counted_gets: u64,
    /// Seconds over which it counts.
    pub window_sec: u64,
}

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The snapshot is of another set of shards.
    #[error("the live tags are those of {found} shards, and the settings name {wanted}")]
    Snapshot {
        /// Shards of the snapshot.
        found: usize,
        /// Shards of the settings.
        wanted: u32,
    },
    /// An accepted place is none any more.
    #[error(
        "the {kind} image `{key}` was put into {repository}, which the settings do not know any more; `--rehome` gives every image a new place"
    )]
    NoSuchShard {
        /// The kind.
        kind: ImageKind,
        /// The key.
        key: String,
        /// The repository.
        repository: String,
    },
    /// Two images with one tag, or with tags that differ in case only.
    #[error(
        "the images `{first}` and `{second}` would both be {repository}:{tag}, where case does not count"
    )]
    SameTag {
        /// A key.
        first: String,
        /// Another one.
        second: String,
        /// The repository.
        repository: String,
        /// The tag of the second.
        tag: String,
    },
}

/// Makes the plan. A plan whose gate does not hold or that has conflicts is a plan too: it says what is in the way.
pub fn plan(request: &PlanRequest<'_>) -> Result<ShardPlan, PlanError> {
    let PlanRequest { shards, desired, snapshot, placed, .. } = request;
    let config = shards.config();
    if snapshot.shards() != config.shards as usize {
        return Err(PlanError::Snapshot { found: snapshot.shards(), wanted: config.shards });
    }
    let images = desired.images();
    let assigned = Places::new(shards, snapshot, placed, images, request.rehome)?.assign(images);
    no_tag_twice(shards, images, &assigned)?;
    let counts = counts(request, &assigned);
    let mut gate = gate(config, images, &assigned, &counts);
    if !gate.ok && !request.rehome {
        gate.rehome_moves = rehome_moves(request, &assigned)?;
    }
    let mut inputs = request.inputs.clone();
    inputs.insert("snapshot".into(), snapshot.digest());
    inputs.insert("placed".into(), Digest::of(rows(placed)));
    Ok(ShardPlan {
        schema: ShardPlan::SCHEMA.into(),
        config: config.clone(),
        inputs,
        shards: counts,
        missing: request.missing.to_vec(),
        duplicates: duplicates(shards, &assigned),
        hub_budget: hub_budget(images, &assigned),
        items: images.iter().zip(assigned).map(|(image, place)| item(shards, image, place)).collect(),
        gate,
    })
}

impl Document for ShardPlan {
    const SCHEMA: &'static str = "seatrial.images/1";
    const STAGE: &'static str = "images plan";
}

impl ShardPlan {
    /// How many images are there, and how many are not yet.
    pub fn available_and_pending(&self) -> (usize, usize) {
        let available = self.items.iter().filter(|item| item.action == Action::Skip).count();
        (available, self.items.len() - available)
    }

    /// The images whose tag names something else.
    pub fn conflicts(&self) -> impl Iterator<Item = &Item> {
        self.items.iter().filter(|item| item.action == Action::Conflict)
    }
}

fn item(shards: &Shards, image: &Wanted, place: Assigned) -> Item {
    Item {
        kind: image.kind,
        key: image.key.clone(),
        source: image.source.clone(),
        digest: image.digest.clone(),
        media_type: image.media_type.clone(),
        repository: shards.repository(place.shard),
        tag: place.tag,
        action: place.action,
        reason: place.reason,
    }
}

/// Some registries keep tags in file names of systems that know no case.
fn no_tag_twice(shards: &Shards, images: &[Wanted], assigned: &[Assigned]) -> Result<(), PlanError> {
    let mut seen = BTreeMap::new();
    for (image, place) in images.iter().zip(assigned) {
        if let Some(first) = seen.insert((place.shard, place.tag.to_ascii_lowercase()), &image.key) {
            return Err(PlanError::SameTag {
                first: first.clone(),
                second: image.key.clone(),
                repository: shards.repository(place.shard),
                tag: place.tag.clone(),
            });
        }
    }
    Ok(())
}

fn counts(request: &PlanRequest<'_>, assigned: &[Assigned]) -> Vec<Shard> {
    let PlanRequest { shards, snapshot, placed, .. } = request;
    let numbers = shards.numbers();
    let ours: BTreeSet<(String, &str)> =
        placed.iter().map(|row| (row.repository.clone(), row.tag.as_str())).collect();
    let mut known: Vec<BTreeSet<&str>> = vec![BTreeSet::new(); numbers.len()];
    let mut pending = vec![0_u64; numbers.len()];
    for place in assigned {
        for shard in place.duplicates.iter().chain([&place.shard]) {
            known[*shard as usize].insert(&place.tag);
        }
        pending[place.shard as usize] += u64::from(place.action.adds_tag());
    }
    numbers
        .map(|number| {
            let repository = shards.repository(number);
            let foreign = snapshot.tags(number).filter(|tag| {
                !known[number as usize].contains(tag) && !ours.contains(&(repository.clone(), tag))
            });
            let (live, pending) = (snapshot.count(number), pending[number as usize]);
            Shard {
                name: shards.name(number).to_owned(),
                live,
                foreign: foreign.count() as u64,
                pending,
                projected: live + pending,
            }
        })
        .collect()
}

fn gate(config: &ShardConfig, images: &[Wanted], assigned: &[Assigned], shards: &[Shard]) -> Gate {
    let limit = config.tag_limit;
    let mut over: Vec<OverLimit> = shards
        .iter()
        .zip(0_u32..)
        .filter(|(shard, _)| shard.projected > limit)
        .map(|(shard, number)| OverLimit {
            shard: shard.name.clone(),
            projected: shard.projected,
            over: shard.projected - limit,
            first: images
                .iter()
                .zip(assigned)
                .filter(|(_, place)| place.shard == number && place.action.adds_tag())
                .map(|(image, _)| image.key.clone())
                .take(FIRST_ITEMS)
                .collect(),
        })
        .collect();
    // Stable: shards that are equally bad stay in order.
    over.sort_by_key(|shard| std::cmp::Reverse(shard.projected));
    let worst = shards.iter().map(|shard| shard.projected).max().unwrap_or(0);
    Gate { ok: over.is_empty(), limit, worst, over, rehome_moves: None }
}

fn rehome_moves(request: &PlanRequest<'_>, now: &[Assigned]) -> Result<Option<u64>, PlanError> {
    let homes = plan(&PlanRequest { rehome: true, ..*request })?;
    let moved =
        |(item, place): &(&Item, &Assigned)| item.repository != request.shards.repository(place.shard);
    Ok(homes.gate.ok.then(|| homes.items.iter().zip(now).filter(moved).count() as u64))
}

fn duplicates(shards: &Shards, assigned: &[Assigned]) -> Vec<Duplicate> {
    let mut found: Vec<Duplicate> = assigned
        .iter()
        .filter(|place| !place.duplicates.is_empty())
        .map(|place| Duplicate {
            tag: place.tag.clone(),
            kept: shards.repository(place.shard),
            others: place.duplicates.iter().map(|shard| shards.repository(*shard)).collect(),
        })
        .collect();
    found.sort();
    found
}

fn hub_budget(images: &[Wanted], assigned: &[Assigned]) -> HubBudget {
    let counted: BTreeSet<&str> = images
        .iter()
        .zip(assigned)
        .filter(|(_, place)| place.action.adds_tag() || place.action == Action::Retag)
        // The text of a place on this machine would pass for a reference without a host.
        .filter(|(image, _)| !ImageSource::is_prefix_of(&image.source))
        .filter(|(image, _)| {
            let source: Option<ImageRef> = image.source.parse().ok();
            source.as_ref().and_then(ImageRef::remote).is_some_and(|remote| remote.host() == COUNTING_HOST)
        })
        .map(|(image, _)| image.digest.as_str())
        .collect();
    HubBudget { counted_gets: counted.len() as u64, window_sec: WINDOW_SEC }
}

/// The rows as text, one a line.
fn rows(placed: &[PlacedImage]) -> String {
    let line = |row: &PlacedImage| {
        format!("{}\t{}\t{}\t{}\t{}\n", row.kind, row.key, row.repository, row.tag, row.digest)
    };
    placed.iter().map(line).collect()
}

#[cfg(test)]
mod tests;
