//! Reads every source of a project and holds it against the lock.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::StreamExt;
use record::SourceInput;

use crate::index::{DistributionSpec, FetchedDistribution, Index};
use crate::load::{Reading, Records, load};
use crate::lock::{Drift, DriftCause, LockChange, LockedDistribution, SeatrialLock};
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
    let records = read_all(request.specs, request.base, request.reading, &before).await?;
    let mut lock = SeatrialLock::default();
    for (name, records) in &records {
        judge(before.check(name, records.input()), request.mode)?;
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

async fn read_all(
    specs: &[SourceSpec],
    base: &Path,
    reading: Reading,
    lock: &SeatrialLock,
) -> Result<BTreeMap<String, Records>, SourceError> {
    let base: Arc<PathBuf> = Arc::new(base.to_owned());
    let mut ordered: Vec<_> = specs.to_vec();
    ordered.sort_by(|a, b| a.name.cmp(&b.name));
    let reads = ordered.into_iter().map(|spec| {
        let base = Arc::clone(&base);
        let locked = lock.sources.get(&spec.name).cloned();
        async move {
            let name = spec.name.clone();
            let read = tokio::task::spawn_blocking(move || {
                let records = load(&spec, &base, reading)?;
                // A row whose keys can be read may have another column that cannot. The lock tells that there are such
                // rows: it counts those that were read as a whole.
                let more = |locked: &SourceInput| {
                    locked.sha256 == records.input().sha256 && locked.rows < records.input().rows
                };
                if reading.keys_only && locked.as_ref().is_some_and(more) {
                    return load(&spec, &base, Reading { keys_only: false, ..reading });
                }
                Ok(records)
            })
            .await;
            let failed = |error: tokio::task::JoinError| SourceError::Worker {
                name: name.clone(),
                detail: error.to_string(),
            };
            let records = read.map_err(failed)??;
            Ok((name, records))
        }
    });
    let read: Vec<Result<_, SourceError>> =
        futures_util::stream::iter(reads).buffered(CONCURRENCY).collect().await;
    read.into_iter().collect()
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
