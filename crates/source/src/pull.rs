//! Reads every source of a project and holds it against the lock.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use futures_util::StreamExt;

use crate::gather::{Terms, gather};
use crate::index::{DistributionSpec, FetchedDistribution, Index};
use crate::load::{Keep, Reading, Records, load_gathered};
use crate::lock::{Drift, DriftCause, LockChange, LockedDistribution, LockedSource, SeatrialLock};
use crate::remote::Remote;
use crate::spec::SourceSpec;
use crate::{Loaded, SourceError};

/// How many sources are read at once.
const CONCURRENCY: usize = 4;

/// What is to be read.
#[derive(Debug)]
pub struct PullRequest<'r> {
    /// The recipe's sources, id lists included.
    pub specs: &'r [SourceSpec],
    /// The directory that paths are relative to.
    pub base: &'r Path,
    /// The lock as it stands, if there is one.
    pub lock: Option<&'r SeatrialLock>,
    /// What to do about differences.
    pub mode: PullMode,
    /// How the rows are read.
    pub reading: Reading,
    /// How public repositories are reached.
    pub remote: &'r Remote,
    /// What public repositories are asked.
    pub network: Network,
    /// Where source distributions come from; without an index they are left alone, and their lock entries are kept.
    pub index: Option<&'r Index>,
}

/// What to do when a source is not what the lock says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PullMode {
    /// Whatever differs from the lock is refused, what is new is locked.
    Lock,
    /// Every source must be in the lock and must not differ.
    Locked,
    /// The lock is written anew from what is there.
    Update,
}

/// What public repositories are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// What their revisions mean now and which files they have, even where the lock knows.
    Ask,
    /// Only for what the lock does not know, and for files that are not here.
    Missing,
}

/// What was read.
#[derive(Debug)]
pub struct Pulled {
    /// Records by the names of their sources.
    pub records: BTreeMap<String, Records>,
    /// Source distributions by file name.
    pub distributions: BTreeMap<String, FetchedDistribution>,
    /// The lock that belongs to all of it; the caller writes it.
    pub lock: SeatrialLock,
    /// What that lock says otherwise than the old one.
    pub changes: Vec<LockChange>,
}

/// Reads the sources, verifies them against the lock, and fetches the source distributions that profiles name.
///
/// Nothing is written but the cache of downloads. The first failure in the order of names is the one reported.
pub async fn pull(request: PullRequest<'_>) -> Result<Pulled, SourceError> {
    let mut names = BTreeSet::new();
    for spec in request.specs {
        if !names.insert(&spec.name) {
            return Err(SourceError::DuplicateName(spec.name.clone()));
        }
    }
    let before = request.lock.cloned().unwrap_or_default();
    let records = read_all(&request, &before).await?;
    let mut lock = SeatrialLock::default();
    for (name, records) in &records {
        judge(before.check(name, records.input()), request.mode)?;
        if let Some(spec) = request.specs.iter().find(|spec| spec.name == *name) {
            count(spec, records)?;
        }
        lock.sources.insert(name.clone(), records.input().clone());
    }
    let mut distributions = BTreeMap::new();
    match request.index {
        None => lock.distributions.clone_from(&before.distributions),
        Some(index) => {
            let specs = wanted_distributions(&records, &before, request.mode)?;
            for fetched in index.fetch_all(&specs).await {
                let fetched = fetched?;
                judge(before.check_distribution(&fetched.file, fetched.sha256), request.mode)?;
                let entry = LockedDistribution {
                    package: fetched.package.clone(),
                    version: fetched.version.clone(),
                    sha256: fetched.sha256,
                };
                lock.distributions.insert(fetched.file.clone(), entry);
                distributions.insert(fetched.file.clone(), fetched);
            }
        }
    }
    let changes = lock.changes_since(&before);
    Ok(Pulled { records, distributions, lock, changes })
}

/// Brings sources here and reads them, a few at a time; the results stand in the order of names.
async fn read_all(
    request: &PullRequest<'_>,
    lock: &SeatrialLock,
) -> Result<BTreeMap<String, Records>, SourceError> {
    let mut ordered: Vec<_> = request.specs.iter().collect();
    ordered.sort_by(|a, b| a.name.cmp(&b.name));
    for spec in &ordered {
        spec.check()?;
    }
    let reads = ordered.into_iter().map(|spec| read_one(spec, request, lock.sources.get(&spec.name)));
    let read: Vec<Result<_, SourceError>> =
        futures_util::stream::iter(reads).buffered(CONCURRENCY).collect().await;
    read.into_iter().collect()
}

async fn read_one(
    spec: &SourceSpec,
    request: &PullRequest<'_>,
    locked: Option<&LockedSource>,
) -> Result<(String, Records), SourceError> {
    let terms = Terms {
        remote: request.remote,
        locked: locked.filter(|_| request.mode != PullMode::Update),
        network: request.network,
    };
    if terms.locked.is_none() && request.mode == PullMode::Locked {
        return Err(Drift { name: spec.name.clone(), cause: DriftCause::NotLocked }.into());
    }
    let gathered = gather(spec, request.base, terms).await?;
    let (name, reading) = (spec.name.clone(), request.reading.clone());
    let (spec, locked, known) = (spec.clone(), locked.cloned(), Arc::clone(request.remote.store.known()));
    let read = tokio::task::spawn_blocking(move || {
        let records = load_gathered(&spec, gathered.clone(), &reading, Some(&known))?;
        // A row whose keys can be read may have another column that cannot. The lock tells that there are such
        // rows: it counts those that were read as a whole.
        let more = |locked: &LockedSource| {
            locked.input().sha256 == records.input().input().sha256 && locked.rows < records.input().rows
        };
        if reading.keep == (Keep::Keys { whole: false }) && locked.as_ref().is_some_and(more) {
            let reading = Reading { keep: Keep::Keys { whole: true }, ..reading };
            return load_gathered(&spec, gathered, &reading, Some(&known));
        }
        Ok(records)
    })
    .await;
    let failed =
        |error: tokio::task::JoinError| SourceError::Worker { name: name.clone(), detail: error.to_string() };
    let records = read.map_err(failed)??;
    Ok((name, records))
}

/// Holds the number of rows against the recipe's.
fn count(spec: &SourceSpec, records: &Records) -> Result<(), SourceError> {
    let input = records.input();
    match spec.expect_rows {
        Some(expected) if expected != input.rows => Err(SourceError::RowCount {
            name: spec.name.clone(),
            expected,
            found: input.rows,
            left_out: input.left_out,
        }),
        _ => Ok(()),
    }
}

/// Applies the mode to a difference.
fn judge(checked: Result<(), Drift>, mode: PullMode) -> Result<(), Drift> {
    match (checked, mode) {
        (Ok(()), _)
        | (Err(_), PullMode::Update)
        | (Err(Drift { cause: DriftCause::NotLocked, .. }), PullMode::Lock) => Ok(()),
        (Err(drift), _) => Err(drift),
    }
}

/// The distributions that profiles name, each once, in the order of file names. A profile without a digest takes the
/// locked one.
fn wanted_distributions(
    records: &BTreeMap<String, Records>,
    lock: &SeatrialLock,
    mode: PullMode,
) -> Result<Vec<DistributionSpec>, SourceError> {
    let mut wanted: BTreeMap<(String, String), DistributionSpec> = BTreeMap::new();
    for (name, records) in records {
        let Records::Profiles(Loaded { rows, .. }) = records else {
            continue;
        };
        for profile in rows {
            let wrong = |detail: String| SourceError::Distribution {
                name: name.clone(),
                repo: profile.repo.clone(),
                detail,
            };
            let Some(mut spec) =
                DistributionSpec::of_profile(profile).map_err(|error| wrong(error.to_string()))?
            else {
                continue;
            };
            let locked = lock.distributions.iter().find(|(file, entry)| match &spec.file {
                Some(wanted) => wanted == *file,
                None => entry.package == spec.package && entry.version == spec.version,
            });
            if let Some((file, entry)) = locked.filter(|_| mode != PullMode::Update) {
                spec.file.get_or_insert_with(|| file.clone());
                spec.sha256.get_or_insert(entry.sha256);
            }
            let key = (spec.package.clone(), spec.version.clone());
            match wanted.get(&key) {
                Some(first) if *first != spec => {
                    let detail = "another profile pins another file or digest of the same version".to_owned();
                    return Err(wrong(detail));
                }
                _ => wanted.insert(key, spec),
            };
        }
    }
    Ok(wanted.into_values().collect())
}
