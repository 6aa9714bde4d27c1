//! Sees whether a registry has what a plan says.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, stream};
use record::{ImageKind, PlacedImage};
use serde::Serialize;

use super::graph::{Graph, walk};
use super::progress::Progress;
use super::run::remote;
use super::verified::verified;
use crate::registry::Registry;
use crate::shards::{Item, ShardPlan, Shards};
use crate::{ImageError, LiveUnknown, RemoteRef};

/// The first pause between two looks at a tag; the following ones double.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause between two looks.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
/// How often a blob is read in all, when reading breaks off.
const TRIES: u32 = 5;

/// How thoroughly is looked.
#[derive(Debug, Clone)]
pub struct VerifyOptions {
    /// Whether all content is read and hashed.
    pub deep: bool,
    /// How long tags are waited for that cannot be seen yet: some registries show them late.
    pub patience: Duration,
    /// Requests at the same time, at least 1.
    pub parallel: usize,
}

/// What was seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VerifyReport {
    /// Every item of the plan, in its order.
    pub images: Vec<VerifiedImage>,
    /// Shards above the limit of tags, with what they have.
    pub over: BTreeMap<String, u64>,
    /// Blobs that were read and hashed.
    pub blobs: u64,
    /// Bytes of those.
    pub bytes: u64,
}

/// What was seen of one image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VerifiedImage {
    /// What it is for.
    pub kind: ImageKind,
    /// Its key.
    pub key: String,
    /// The repository, with registry and namespace.
    pub repository: String,
    /// The tag.
    pub tag: String,
    /// Digest of its manifest.
    pub digest: String,
    /// What is wrong with it; nothing where it is there.
    pub problem: Option<String>,
}

impl VerifyReport {
    /// The images that are where they should be.
    pub fn placed(&self) -> Vec<PlacedImage> {
        let good = self.images.iter().filter(|image| image.problem.is_none());
        good.map(|image| PlacedImage {
            kind: image.kind,
            key: image.key.clone(),
            repository: image.repository.clone(),
            tag: image.tag.clone(),
            digest: image.digest.clone(),
        })
        .collect()
    }
}

/// Looks at every tag of a plan, and with `deep` at every byte behind them. Changes nothing.
pub async fn verify(
    registry: &Registry,
    plan: &ShardPlan,
    shards: &Shards,
    options: &VerifyOptions,
    progress: &Progress,
) -> Result<VerifyReport, LiveUnknown> {
    let tags: BTreeSet<String> = plan.items.iter().map(|item| item.tag.clone()).collect();
    let begun = Instant::now();
    let snapshot = registry.snapshot(shards, &tags).await?;
    let limit = plan.config.tag_limit;
    let over = shards.numbers().filter(|number| snapshot.count(*number) > limit);
    let over = over.map(|number| (shards.name(number).to_owned(), snapshot.count(number))).collect();
    let numbers: BTreeMap<String, u32> =
        shards.numbers().map(|number| (shards.repository(number), number)).collect();
    let mut look = Look { registry, plan, options, problems: BTreeMap::new() };
    let there = |item: &Item| {
        let number = numbers.get(&item.repository);
        number.is_some_and(|number| snapshot.has(*number, &item.tag, &item.digest))
    };
    let late: Vec<usize> = (0..plan.items.len()).filter(|number| !there(&plan.items[*number])).collect();
    look.wait_for(late, begun).await?;
    let (blobs, bytes) = if options.deep { look.deep(progress).await } else { (0, 0) };
    let images = plan.items.iter().enumerate().map(|(number, item)| VerifiedImage {
        kind: item.kind,
        key: item.key.clone(),
        repository: item.repository.clone(),
        tag: item.tag.clone(),
        digest: item.digest.clone(),
        problem: look.problems.remove(&number),
    });
    Ok(VerifyReport { images: images.collect(), over, blobs, bytes })
}

struct Look<'a> {
    registry: &'a Registry,
    plan: &'a ShardPlan,
    options: &'a VerifyOptions,
    /// What is wrong, by number of the item.
    problems: BTreeMap<usize, String>,
}

/// A blob that images need.
#[derive(Default)]
struct Needed {
    size: u64,
    /// Images by repository.
    by_repository: BTreeMap<String, Vec<usize>>,
}

impl Look<'_> {
    /// Looks again at images that were not seen, until all are or patience is at its end.
    async fn wait_for(&mut self, mut late: Vec<usize>, begun: Instant) -> Result<(), LiveUnknown> {
        let mut pause = FIRST_PAUSE;
        loop {
            let asked =
                stream::iter(late).map(async |number| (number, self.tag(&self.plan.items[number]).await));
            let answers: Vec<_> = asked.buffered(self.options.parallel.max(1)).collect().await;
            late = Vec::new();
            self.problems.clear();
            for (number, answer) in answers {
                if let Some(problem) = answer? {
                    self.problems.insert(number, problem);
                    late.push(number);
                }
            }
            let left = self.options.patience.saturating_sub(begun.elapsed());
            if late.is_empty() || left.is_zero() {
                return Ok(());
            }
            tracing::info!(images = late.len(), "waits for tags that cannot be seen yet");
            tokio::time::sleep(pause.min(left)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// What is wrong with a tag.
    async fn tag(&self, item: &Item) -> Result<Option<String>, LiveUnknown> {
        let unanswered = |source| LiveUnknown::Unanswered { repository: item.repository.clone(), source };
        let reference: crate::ImageRef = format!("{}:{}", item.repository, item.tag)
            .parse()
            .map_err(|error| unanswered(ImageError::Reference(error)))?;
        let Some(reference) = reference.remote() else { return Ok(Some("is in no registry".to_owned())) };
        let found = self.registry.look_up(reference).await.map_err(unanswered)?;
        Ok(match found {
            None => Some("is not there".to_owned()),
            Some(found) if found.digest == item.digest => None,
            Some(found) => Some(format!("names {} instead", found.digest)),
        })
    }

    /// Reads all content of the images that are there. Every blob is read once, and asked for in every other repository.
    async fn deep(&mut self, progress: &Progress) -> (u64, u64) {
        let good: Vec<usize> =
            (0..self.plan.items.len()).filter(|number| !self.problems.contains_key(number)).collect();
        let walked =
            stream::iter(good).map(async |number| (number, self.graph(&self.plan.items[number]).await));
        let walked: Vec<(usize, Result<Graph, ImageError>)> =
            walked.buffered(self.options.parallel.max(1)).collect().await;
        let mut needed: BTreeMap<String, Needed> = BTreeMap::new();
        for (number, graph) in walked {
            match graph {
                Ok(graph) => {
                    for (digest, size) in graph.blobs {
                        let blob = needed.entry(digest).or_default();
                        blob.size = size;
                        let repository = self.plan.items[number].repository.clone();
                        blob.by_repository.entry(repository).or_default().push(number);
                    }
                }
                Err(error) => drop(self.problems.insert(number, error.to_string())),
            }
        }
        progress.want(0, needed.values().map(|blob| blob.size).sum());
        let (blobs, bytes) = (needed.len() as u64, needed.values().map(|blob| blob.size).sum());
        let checked =
            stream::iter(needed).map(async |(digest, blob)| self.blob(&digest, blob, progress).await);
        let checked: Vec<Vec<(usize, String)>> =
            checked.buffer_unordered(self.options.parallel.max(1)).collect().await;
        // In one order, whatever the order of the answers was.
        let problems: BTreeSet<(usize, String)> = checked.into_iter().flatten().collect();
        for (number, problem) in problems {
            self.problems.entry(number).or_insert(problem);
        }
        (blobs, bytes)
    }

    /// The manifests of an image as the registry has them.
    async fn graph(&self, item: &Item) -> Result<Graph, ImageError> {
        let repository = remote(&item.repository)?;
        let fetch = async |digest: &str| self.registry.fetch_manifest(&repository, digest).await;
        walk(&item.repository, &item.digest, &item.media_type, fetch).await
    }

    /// What is wrong with a blob, by image.
    async fn blob(&self, digest: &str, blob: Needed, progress: &Progress) -> Vec<(usize, String)> {
        let mut problems = Vec::new();
        let mut hashed = false;
        for (name, images) in &blob.by_repository {
            let seen = match remote(name) {
                Ok(repository) if hashed => self.present(&repository, digest).await,
                Ok(repository) => self.hash(&repository, digest, blob.size, progress).await,
                Err(error) => Err(error),
            };
            match seen {
                Ok(()) => hashed = true,
                Err(error) => problems.extend(images.iter().map(|image| (*image, error.to_string()))),
            }
        }
        problems
    }

    async fn present(&self, repository: &RemoteRef, digest: &str) -> Result<(), ImageError> {
        if self.registry.has_blob(repository, digest).await? {
            return Ok(());
        }
        Err(ImageError::NotFound {
            reference: digest.to_owned(),
            reason: format!("{}/{} does not have the blob", repository.host(), repository.path()),
        })
    }

    async fn hash(
        &self,
        repository: &RemoteRef,
        digest: &str,
        size: u64,
        progress: &Progress,
    ) -> Result<(), ImageError> {
        let mut tried = 0;
        loop {
            tried += 1;
            let error = match self.read(repository, digest, size, progress).await {
                Err(error @ (ImageError::Registry { .. } | ImageError::Cut { .. })) if tried < TRIES => error,
                other => return other,
            };
            tracing::debug!(%error, digest, "reads again");
            tokio::time::sleep(self.registry.wait(tried, None).unwrap_or_default()).await;
        }
    }

    async fn read(
        &self,
        repository: &RemoteRef,
        digest: &str,
        size: u64,
        progress: &Progress,
    ) -> Result<(), ImageError> {
        let content = self.registry.blob_stream(repository, digest).await?;
        let place = format!("{}/{}", repository.host(), repository.path());
        let mut content = verified(place, digest.to_owned(), size, content);
        let mut read = 0;
        while let Some(piece) = content.next().await {
            match piece {
                Ok(piece) => {
                    read += piece.len() as u64;
                    progress.add_bytes(piece.len() as u64);
                }
                Err(error) => {
                    progress.take_bytes(read);
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}
