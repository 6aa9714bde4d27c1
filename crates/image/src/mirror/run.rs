//! Carries out a plan.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use tokio::task::JoinSet;

use super::fetch::{Fetched, Fetcher};
use super::graph::walk;
use super::journal::{Entry, Journal, JournalError};
use super::progress::Progress;
use super::report::{MirrorError, MirrorOutcome, MirrorReport, MirroredImage};
use super::schedule::{Fault, Job, Order, Schedule};
use super::source::{Source, Sources};
use super::transfer::{Came, Carrier, Errand, Failed};
use crate::registry::Registry;
use crate::shards::{Action, Item, ShardPlan, Shards, recheck};
use crate::{ImageError, ImageRef, Layout, RemoteRef};

/// How long to wait before a registry that said nothing else is asked whether it allows pulls again.
const PAUSE: Duration = Duration::from_secs(300);
/// The longest such wait.
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);
/// As many sources of one blob are tried.
const MOST_SOURCES: usize = 3;
/// From as many other repositories a blob is mounted before it is asked for.
const MOST_NEAR: usize = 3;

/// How a plan is carried out.
#[derive(Debug, Clone)]
pub struct MirrorOptions {
    /// OCI layouts from which images may come.
    pub layouts: Vec<Layout>,
    /// Directory of the journal, one for each registry and namespace.
    pub journal: PathBuf,
    /// Jobs at the same time, at least 1.
    pub parallel: usize,
    /// Counted pulls that are left to others.
    pub reserve: u64,
    /// Whether to wait until a registry allows pulls again, instead of stopping.
    pub wait: bool,
    /// Whether a registry that is not what it was when the plan was made is accepted.
    pub accept_drift: bool,
}

/// An image with all that is needed to put it somewhere.
struct Ready {
    /// Number in the plan.
    number: usize,
    adds_tag: bool,
    image: Fetched,
}

/// Carries out a plan: brings every blob to the registry once, and every image under its tag.
///
/// Live tags are asked for again first. Where a shard would pass its limit, a tag names another image, or something else is to be done
/// than the plan says, nothing is sent. An image that fails does not stop the others.
pub async fn mirror(
    registry: &Registry,
    plan: &ShardPlan,
    shards: &Shards,
    plan_digest: &str,
    options: &MirrorOptions,
    progress: &Arc<Progress>,
) -> Result<MirrorReport, MirrorError> {
    let journal = Journal::open(&options.journal, plan_digest).map_err(|error| match error {
        JournalError::Locked => {
            MirrorError::Locked(format!("{}/{}", plan.config.registry, plan.config.namespace))
        }
        JournalError::Image(error) => MirrorError::Image(error),
    })?;
    let tags: BTreeSet<String> = plan.items.iter().map(|item| item.tag.clone()).collect();
    let snapshot = registry.snapshot(shards, &tags).await?;
    let now = recheck(plan, shards, &snapshot)?;
    let conflicts = plan.items.iter().zip(&now.actions).filter(|(_, action)| **action == Action::Conflict);
    let conflicts: Vec<String> =
        conflicts.map(|(item, _)| format!("{}:{}", item.repository, item.tag)).collect();
    if !conflicts.is_empty() {
        return Err(MirrorError::Conflicts(conflicts));
    }
    if !now.over.is_empty() {
        return Err(MirrorError::Gate { limit: plan.config.tag_limit, over: now.over });
    }
    if !now.drift.is_empty() && !options.accept_drift {
        return Err(MirrorError::Drift(now.drift));
    }
    let mut run = Run {
        plan,
        options,
        carrier: Carrier {
            registry: registry.clone(),
            progress: Arc::clone(progress),
            mounts_not: Arc::new(AtomicBool::new(false)),
            manifests: Arc::default(),
        },
        sources: Sources::new(registry.clone(), &options.layouts),
        journal,
        tags: now.live,
        report: MirrorReport { images: Vec::new(), sent: 0, sent_bytes: 0, mounted: 0, found: 0 },
        outcomes: BTreeMap::new(),
    };
    run.carry_out(&now.actions).await?;
    let Run { mut report, mut outcomes, .. } = run;
    report.images = plan
        .items
        .iter()
        .enumerate()
        .map(|(number, item)| {
            let outcome = outcomes.remove(&number).unwrap_or(MirrorOutcome::Present);
            MirroredImage::new(item, outcome)
        })
        .collect();
    Ok(report)
}

/// A plan that is being carried out.
struct Run<'a> {
    plan: &'a ShardPlan,
    options: &'a MirrorOptions,
    carrier: Carrier,
    sources: Sources,
    journal: Journal,
    /// Tags by repository, those that are just being added included: the second line of the gate.
    tags: BTreeMap<String, u64>,
    report: MirrorReport,
    outcomes: BTreeMap<usize, MirrorOutcome>,
}

impl Run<'_> {
    async fn carry_out(&mut self, actions: &[Action]) -> Result<(), MirrorError> {
        let mut left: Vec<usize> =
            (0..actions.len()).filter(|number| actions[*number] != Action::Skip).collect();
        self.carrier.progress.want(left.len() as u64, 0);
        while !left.is_empty() {
            let (ready, pause) = self.fetch(&left, actions).await?;
            let later = self.transfer(ready, actions).await?;
            let pause = pause.max(later);
            left.retain(|number| matches!(self.outcomes.get(number), Some(MirrorOutcome::Deferred { .. })));
            match pause {
                Some(pause) if self.options.wait && !left.is_empty() => {
                    tracing::info!(?pause, images = left.len(), "waits until a registry allows more");
                    tokio::time::sleep(pause.min(LONGEST_PAUSE)).await;
                }
                _ => break,
            }
        }
        Ok(())
    }

    /// Gets the manifests of images. The images for which there is no pull left are put off, as long as the answer says.
    async fn fetch(
        &mut self,
        numbers: &[usize],
        actions: &[Action],
    ) -> Result<(Vec<Ready>, Option<Duration>), MirrorError> {
        let fetched: Vec<(usize, Result<Fetched, ImageError>)> = {
            let plan = self.plan;
            let is_one_platform = plan.config.platform.is_some();
            let (registry, reserve) = (&self.carrier.registry, self.options.reserve);
            let fetcher = Fetcher::new(registry, &self.sources, reserve, is_one_platform);
            let asked = stream::iter(numbers.iter().copied())
                .map(async |number| (number, fetcher.fetch(&plan.items[number]).await));
            asked.buffered(self.options.parallel.max(1)).collect().await
        };
        let mut ready = Vec::new();
        let mut pause = None;
        for (number, result) in fetched {
            match result {
                Ok(image) => {
                    self.outcomes.remove(&number);
                    ready.push(Ready { number, adds_tag: actions[number].adds_tag(), image });
                }
                Err(error) => pause = pause.max(self.give_up(number, &error)?),
            }
        }
        Ok((ready, pause))
    }

    /// Takes note of an image that did not arrive. Returns how long to wait where it may arrive later.
    fn give_up(&mut self, number: usize, error: &ImageError) -> Result<Option<Duration>, MirrorError> {
        let reason = error.to_string();
        if error.is_disk_full() {
            return Err(MirrorError::Image(ImageError::Io {
                doing: reason,
                source: std::io::ErrorKind::StorageFull.into(),
            }));
        }
        if error.is_budget() {
            self.outcomes.insert(number, MirrorOutcome::Deferred { reason });
            let asked = match error {
                ImageError::TooManyRequests { retry_after, .. } => *retry_after,
                _ => None,
            };
            return Ok(Some(asked.unwrap_or(PAUSE)));
        }
        let Item { repository, tag, digest, .. } = &self.plan.items[number];
        self.journal.write(&Entry::Fail {
            repository: repository.clone(),
            tag: tag.clone(),
            digest: digest.clone(),
            reason: reason.clone(),
        })?;
        self.outcomes.insert(number, MirrorOutcome::Failed { reason });
        Ok(None)
    }

    /// Repositories that probably have a blob: those in which earlier commands saw it, and those of images that are there.
    async fn near(&self, actions: &[Action]) -> BTreeMap<String, BTreeSet<String>> {
        let mut near = self.journal.seen.clone();
        let registry = &self.carrier.registry;
        let there = self.plan.items.iter().zip(actions).filter(|(_, action)| **action == Action::Skip);
        let asked = stream::iter(there.map(|(item, _)| item)).map(async |item| {
            let repository = remote(&item.repository)?;
            let fetch = async |digest: &str| match registry.kept_manifest(digest) {
                Some(bytes) => Ok(bytes),
                None if registry.quota(repository.host()).is_none() => {
                    registry.manifest_by_digest(&repository, digest).await
                }
                None => Err(ImageError::NotFound {
                    reference: digest.to_owned(),
                    reason: "a counted pull is not worth it".to_owned(),
                }),
            };
            let graph = walk(&item.repository, &item.digest, &item.media_type, fetch).await?;
            Ok::<_, ImageError>((item.repository.clone(), graph))
        });
        let found: Vec<_> = asked.buffered(self.options.parallel.max(1)).collect().await;
        // This only saves sending, so nothing is lost with what cannot be read.
        for (repository, graph) in found.into_iter().flatten() {
            for digest in graph.blobs.into_keys() {
                near.entry(digest).or_default().insert(repository.clone());
            }
        }
        near
    }

    /// Brings images to the registry. Returns how long to wait where some may arrive later.
    async fn transfer(
        &mut self,
        ready: Vec<Ready>,
        actions: &[Action],
    ) -> Result<Option<Duration>, MirrorError> {
        if ready.is_empty() {
            return Ok(None);
        }
        let near = self.near(actions).await;
        let mut work = Work::new(self.plan, ready, near)?;
        self.carrier.progress.want(0, work.schedule.blobs().iter().map(|blob| blob.size).sum());
        let mut running: JoinSet<(Job, Result<Came, Broken>)> = JoinSet::new();
        let mut pause = None;
        loop {
            while running.len() < self.options.parallel.max(1)
                && let Some(job) = work.next()
            {
                if let Some(error) = self.refuse(&work, job) {
                    let number = work.ready[work.image(job)].number;
                    work.schedule.failed(job, Fault::Repository);
                    self.give_up(number, &error)?;
                    continue;
                }
                self.spawn(&mut running, &work, job);
            }
            let Some(done) = running.join_next().await else { return Ok(pause) };
            let (job, result) = done.expect("a job does not panic, and is not cancelled while this runs");
            match result {
                Ok(came) => {
                    self.note(&work, job, &came)?;
                    work.schedule.done(job);
                }
                Err(broken) => {
                    let mut images = work.schedule.failed(job, broken.fault);
                    if broken.stops {
                        images.extend(work.stop(job));
                    }
                    for image in images {
                        pause = pause.max(self.give_up(work.ready[image].number, &broken.error)?);
                    }
                }
            }
        }
    }

    /// Counts a tag that is about to be added, and refuses it where the shard is full: the gate has let it pass, so somebody else
    /// must have added tags, or the plan is not what it says.
    fn refuse(&mut self, work: &Work, job: Job) -> Option<ImageError> {
        let Job::Finish { image } = job else { return None };
        let ready = &work.ready[image];
        if !ready.adds_tag {
            return None;
        }
        let item = &self.plan.items[ready.number];
        let tags = self.tags.entry(item.repository.clone()).or_default();
        if *tags >= self.plan.config.tag_limit {
            let what = format!("{} has {tags} tags already, and no more are added", item.repository);
            return Some(ImageError::Registry { host: self.plan.config.registry.clone(), what });
        }
        *tags += 1;
        None
    }

    fn spawn(&self, running: &mut JoinSet<(Job, Result<Came, Broken>)>, work: &Work, job: Job) {
        let carrier = self.carrier.clone();
        match job {
            Job::Finish { image } => {
                let ready = Arc::clone(&work.ready[image]);
                let item = &self.plan.items[ready.number];
                let (into, tag) = (work.repository_of(image).clone(), item.tag.clone());
                running.spawn(async move {
                    let put = carrier.finish(&into, &tag, &ready.image.graph.nodes).await;
                    let broken = |put: crate::registry::PutError| Broken {
                        fault: Fault::Repository,
                        error: put.error,
                        stops: put.is_final,
                    };
                    (job, put.map(|()| Came::Sent).map_err(broken))
                });
            }
            Job::Bring { .. } | Job::Mount { .. } => {
                let errand = work.errand(job);
                running.spawn(async move {
                    let came = carrier.bring(&errand).await;
                    let broken = |Failed { fault, error }| Broken { fault, error, stops: false };
                    (job, came.map_err(broken))
                });
            }
        }
    }

    fn note(&mut self, work: &Work, job: Job, came: &Came) -> Result<(), MirrorError> {
        let (blob, into) = match job {
            Job::Finish { image } => {
                let number = work.ready[image].number;
                let Item { repository, tag, digest, .. } = &self.plan.items[number];
                self.journal.write(&Entry::TagOk {
                    repository: repository.clone(),
                    tag: tag.clone(),
                    digest: digest.clone(),
                })?;
                self.outcomes.insert(number, MirrorOutcome::Copied);
                self.carrier.progress.add_image();
                return Ok(());
            }
            Job::Bring { blob, into } | Job::Mount { blob, into, .. } => {
                (&work.schedule.blobs()[blob], work.names[into].clone())
            }
        };
        let (digest, size) = (blob.digest.clone(), blob.size);
        // What is sent is counted piece by piece.
        if matches!(job, Job::Bring { .. }) && *came != Came::Sent {
            self.carrier.progress.add_bytes(size);
        }
        let entry = match came {
            Came::Found => {
                self.report.found += 1;
                Entry::BlobOk { repository: into, digest, size, sent: false }
            }
            Came::Sent => {
                self.report.sent += 1;
                self.report.sent_bytes += size;
                Entry::BlobOk { repository: into, digest, size, sent: true }
            }
            Came::Mounted { from } => {
                self.report.mounted += 1;
                Entry::MountOk { repository: into, digest, size, from: from.clone() }
            }
        };
        self.journal.write(&entry)?;
        Ok(())
    }
}

/// A job that failed, and whether its repository takes nothing more.
struct Broken {
    fault: Fault,
    error: ImageError,
    stops: bool,
}

/// The images that are being brought, and what is left to do for them.
struct Work {
    ready: Vec<Arc<Ready>>,
    /// Repositories by number, as the plan names them.
    names: Vec<String>,
    repositories: Vec<RemoteRef>,
    /// Number of the repository of every image.
    places: Vec<usize>,
    schedule: Schedule,
    near: BTreeMap<String, BTreeSet<String>>,
}

impl Work {
    fn new(
        plan: &ShardPlan,
        ready: Vec<Ready>,
        mut near: BTreeMap<String, BTreeSet<String>>,
    ) -> Result<Self, ImageError> {
        let repository = |ready: &Ready| &plan.items[ready.number].repository;
        let names: BTreeSet<&String> = ready.iter().map(repository).collect();
        let names: Vec<String> = names.into_iter().cloned().collect();
        let repositories = names.iter().map(|name| remote(name)).collect::<Result<Vec<_>, _>>()?;
        let place = |ready: &Ready| {
            names.binary_search(repository(ready)).expect("every repository of an image is in the list")
        };
        let places: Vec<usize> = ready.iter().map(place).collect();
        let orders: Vec<Order> = ready
            .iter()
            .zip(&places)
            .map(|(ready, place)| Order { repository: *place, blobs: ready.image.graph.blobs.clone() })
            .collect();
        // A source at the same registry can be mounted from.
        for Ready { image, .. } in &ready {
            let references = image.sources.iter().filter_map(Source::repository);
            for reference in references.filter(|reference| reference.host() == plan.config.registry) {
                let name = format!("{}/{}", reference.host(), reference.path());
                for digest in image.graph.blobs.keys() {
                    near.entry(digest.clone()).or_default().insert(name.clone());
                }
            }
        }
        let ready = ready.into_iter().map(Arc::new).collect();
        Ok(Self { ready, names, repositories, places, schedule: Schedule::new(&orders), near })
    }

    fn next(&mut self) -> Option<Job> {
        let (near, names) = (&self.near, &self.names);
        self.schedule
            .next(|blob, into| near.get(&blob.digest).is_some_and(|near| near.contains(&names[into])))
    }

    /// The image of a job that finishes one.
    fn image(&self, job: Job) -> usize {
        match job {
            Job::Finish { image } => image,
            Job::Bring { blob, .. } | Job::Mount { blob, .. } => {
                self.schedule.users(blob).next().expect("a blob is wanted by an image")
            }
        }
    }

    fn repository_of(&self, image: usize) -> &RemoteRef {
        &self.repositories[self.places[image]]
    }

    /// Gives up all images of the repository of a job.
    fn stop(&mut self, job: Job) -> Vec<usize> {
        let place = self.places[self.image(job)];
        let images = (0..self.ready.len()).filter(|image| self.places[*image] == place);
        self.schedule.give_up(images.collect::<Vec<_>>())
    }

    fn errand(&self, job: Job) -> Errand {
        let (blob, into, from) = match job {
            Job::Bring { blob, into } => (blob, into, None),
            Job::Mount { blob, into, from } => (blob, into, Some(from)),
            Job::Finish { .. } => unreachable!("an image is no errand"),
        };
        let found = &self.schedule.blobs()[blob];
        let mut near: Vec<RemoteRef> = from.map(|from| self.repositories[from].clone()).into_iter().collect();
        let known = self.near.get(&found.digest).into_iter().flatten();
        // A blob that probably is in the repository itself is asked for there.
        if from.is_none() && known.clone().all(|name| *name != self.names[into]) {
            near.extend(known.filter_map(|name| remote(name).ok()).take(MOST_NEAR));
        }
        let mut sources: Vec<Source> = Vec::new();
        for source in self.schedule.users(blob).flat_map(|image| &self.ready[image].image.sources) {
            if sources.len() < MOST_SOURCES && sources.iter().all(|known| known.place() != source.place()) {
                sources.push(source.clone());
            }
        }
        Errand {
            digest: found.digest.clone(),
            size: found.size,
            into: self.repositories[into].clone(),
            near,
            is_sure: from.is_some(),
            sources,
        }
    }
}

/// A repository as a reference; its tag means nothing.
pub(super) fn remote(repository: &str) -> Result<RemoteRef, ImageError> {
    let reference: ImageRef = format!("{repository}:latest").parse()?;
    Ok(reference.remote().expect("a repository with a host is remote").clone())
}
