//! Brings what a source consists of onto this machine: revisions resolved, files chosen, fetched and verified.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use futures_util::{StreamExt, TryStreamExt};
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use ident::{Digest, TaskId};
use record::SourceRole;

use crate::SourceError;
use crate::file::FileInput;
use crate::lock::{Drift, DriftCause, LockedSource, differences};
use crate::pull::Network;
use crate::remote::{CodeHost, ContentId, Fetched, Hub, Remote, RemoteError, RepoFile, is_commit};
use crate::spec::{RepoSpec, SourcePlace, SourceSpec};

/// How many files of one source are fetched at once.
const CONCURRENCY: usize = 4;

/// Where a source's data lies on this machine.
#[derive(Debug, Clone)]
pub(crate) struct Gathered {
    /// The commit, where the place has one.
    pub revision: Option<String>,
    /// The data.
    pub content: Content,
    /// What is worth telling.
    pub notes: Vec<String>,
}

/// Data on this machine.
#[derive(Debug, Clone)]
pub(crate) enum Content {
    /// Files with rows, each under its name in the lock.
    Files(BTreeMap<String, FileInput>),
    /// A directory of task directories, and what stands before their names in the lock.
    Directory {
        /// The directory.
        root: PathBuf,
        /// Such as `tasks/`; empty for a repository.
        prefix: String,
    },
    /// A list of tasks, and which data set of it.
    Manifest {
        /// The list.
        input: FileInput,
        /// The data set.
        dataset: Option<String>,
        /// Directories of its tasks that were fetched from git repositories.
        fetched: BTreeMap<TaskId, PathBuf>,
    },
}

/// What decides how a source is brought here.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms<'t> {
    /// Connections and the cache.
    pub remote: &'t Remote,
    /// The source's entry in the lock; none while it is written anew.
    pub locked: Option<&'t LockedSource>,
    /// What the network may be asked.
    pub network: Network,
}

impl Terms<'_> {
    /// The locked entry, where nothing else is to be asked for.
    pub(crate) fn taken_as_locked(&self) -> Option<&LockedSource> {
        let asks = self.network == Network::Ask && self.remote.settings.offline.is_none();
        self.locked.filter(|_| !asks)
    }
}

/// What a local source consists of; none for places elsewhere.
pub(crate) fn gather_local(spec: &SourceSpec, base: &Path) -> Result<Option<Gathered>, SourceError> {
    let content = match &spec.place {
        SourcePlace::File(paths) => {
            let mut files = BTreeMap::new();
            for path in paths {
                let key = path.to_string_lossy().into_owned();
                if files.insert(key, FileInput::new(base.join(path), path.clone())).is_some() {
                    let detail = format!("names {} twice", path.display());
                    return Err(SourceError::Choice { name: spec.name.clone(), detail });
                }
            }
            Content::Files(files)
        }
        SourcePlace::Dir(path) => {
            Content::Directory { root: base.join(path), prefix: format!("{}/", path.display()) }
        }
        SourcePlace::Manifest { path, dataset } => Content::Manifest {
            input: FileInput::new(base.join(path), path.clone()),
            dataset: dataset.clone(),
            fetched: BTreeMap::new(),
        },
        SourcePlace::HubFiles { .. } | SourcePlace::HubTasks { .. } | SourcePlace::CodeFiles { .. } => {
            return Ok(None);
        }
    };
    Ok(Some(Gathered { revision: None, content, notes: Vec::new() }))
}

/// Brings a source here.
pub(crate) async fn gather(
    spec: &SourceSpec,
    base: &Path,
    terms: Terms<'_>,
) -> Result<Gathered, SourceError> {
    tracing::debug!(source = spec.name, "gathers");
    if let Some(mut gathered) = gather_local(spec, base)? {
        if let Content::Manifest { input, dataset, fetched } = &mut gathered.content
            && spec.role == SourceRole::Tasks
        {
            let (manifest, _) = crate::load::manifest(spec, input, dataset.as_deref())?;
            let (directories, anew) = crate::git_tasks::gather(spec, &manifest.tasks, terms).await?;
            *fetched = directories;
            if let Some(first) = anew.first() {
                let number = anew.len();
                gathered.notes.push(format!(
                    "fetched task directories that had changed since, and were fetched anew: {number} (`{first}` first)"
                ));
            }
        }
        return Ok(gathered);
    }
    let origin = spec.place.origin();
    if let Some(locked) = terms.locked.filter(|locked| locked.origin != origin) {
        let cause = DriftCause::Origin { locked: locked.origin.clone(), found: origin };
        return Err(Drift { name: spec.name.clone(), cause }.into());
    }
    match &spec.place {
        SourcePlace::HubFiles { at, patterns } => {
            let hub = Hub::new(terms.remote, &at.repo);
            let commit = commit(spec, at, terms, async |revision| hub.commit(revision).await).await?;
            hub_files(spec, hub, commit, patterns, terms).await
        }
        SourcePlace::CodeFiles { at, paths } => {
            let host = CodeHost::new(terms.remote, &at.repo);
            let commit = commit(spec, at, terms, async |revision| host.commit(revision).await).await?;
            code_files(spec, host, commit, paths, terms).await
        }
        SourcePlace::HubTasks { at, below } => {
            let hub = Hub::new(terms.remote, &at.repo);
            let commit = commit(spec, at, terms, async |revision| hub.commit(revision).await).await?;
            crate::hub_tasks::gather(spec, hub, commit, below, terms).await
        }
        SourcePlace::File(_) | SourcePlace::Dir(_) | SourcePlace::Manifest { .. } => {
            unreachable!("local places are gathered above")
        }
    }
}

/// The commit to take: the locked one, or the one that the revision means now. A branch that has moved is refused.
async fn commit(
    spec: &SourceSpec,
    at: &RepoSpec,
    terms: Terms<'_>,
    resolve: impl AsyncFnOnce(&str) -> Result<String, RemoteError>,
) -> Result<String, SourceError> {
    if let Some(locked) = terms.taken_as_locked() {
        return match &locked.revision {
            Some(commit) if is_commit(commit) => Ok(commit.clone()),
            locked => {
                let (locked, found) = (locked.clone(), Some(at.revision.clone()));
                let cause = DriftCause::Revision { locked, found };
                Err(Drift { name: spec.name.clone(), cause }.into())
            }
        };
    }
    let found = resolve(&at.revision).await.map_err(|source| remote(spec, source))?;
    match terms.locked {
        Some(locked) if locked.revision.as_ref() != Some(&found) => {
            let cause = DriftCause::Revision { locked: locked.revision.clone(), found: Some(found) };
            Err(Drift { name: spec.name.clone(), cause }.into())
        }
        _ => Ok(found),
    }
}

async fn hub_files(
    spec: &SourceSpec,
    hub: Hub<'_>,
    commit: String,
    patterns: &[String],
    terms: Terms<'_>,
) -> Result<Gathered, SourceError> {
    let mut notes = Vec::new();
    let (files, by) = match terms.taken_as_locked() {
        Some(locked) => (as_locked(locked), "lock"),
        None => {
            let listing = hub.files(&commit).await.map_err(|source| remote(spec, source))?;
            if listing.local {
                notes.push(
                    "the list of files is that of the local copy, which may lack some; \
                     expect_rows in the recipe would show it"
                        .to_owned(),
                );
            }
            (choose(spec, listing.files, patterns)?, "repository")
        }
    };
    compare_with_lock(spec, &files, terms)?;
    let hub = &hub;
    let fetched = fetch_all(spec, files, async |file| hub.fetch(&commit, &file, by).await).await?;
    Ok(Gathered { content: Content::Files(fetched), revision: Some(commit), notes })
}

async fn code_files(
    spec: &SourceSpec,
    host: CodeHost<'_>,
    commit: String,
    paths: &[String],
    terms: Terms<'_>,
) -> Result<Gathered, SourceError> {
    let (files, by) = match terms.taken_as_locked() {
        Some(locked) => (as_locked(locked), "lock"),
        None => {
            let mut files = BTreeMap::new();
            for path in paths {
                let file = host.file(&commit, path).await.map_err(|source| remote(spec, source))?;
                files.insert(path.clone(), file);
            }
            (files, "repository")
        }
    };
    compare_with_lock(spec, &files, terms)?;
    let host = &host;
    let fetched = fetch_all(spec, files, async |file| host.fetch(&commit, &file, by).await).await?;
    Ok(Gathered { content: Content::Files(fetched), revision: Some(commit), notes: Vec::new() })
}

/// The files that the lock names.
fn as_locked(locked: &LockedSource) -> BTreeMap<String, RepoFile> {
    let files = locked.files.iter().map(|(path, file)| {
        let id = ContentId::Sha256(file.sha256);
        (path.clone(), RepoFile { path: path.clone(), size: file.size, id })
    });
    files.collect()
}

/// Refuses what differs from the lock as far as it can be told before anything is fetched: other names, and other
/// contents where the repository names them by SHA-256.
fn compare_with_lock(
    spec: &SourceSpec,
    files: &BTreeMap<String, RepoFile>,
    terms: Terms<'_>,
) -> Result<(), SourceError> {
    let Some(locked) = terms.locked else { return Ok(()) };
    let known = files.iter().filter_map(|(path, file)| match &file.id {
        ContentId::Sha256(digest) => Some((path.clone(), digest.hex())),
        // Told once it is here.
        ContentId::Git(_) => Some((path.clone(), locked.files.get(path)?.sha256.hex())),
    });
    let mut found: BTreeMap<_, _> = known.collect();
    for path in files.keys().filter(|path| !locked.files.contains_key(*path)) {
        found.entry(path.clone()).or_insert_with(|| files[path].id.text());
    }
    let pinned = locked.files.iter().map(|(path, file)| (path.clone(), file.sha256.hex())).collect();
    let changes = differences(&pinned, &found);
    if changes.is_empty() {
        return Ok(());
    }
    Err(Drift { name: spec.name.clone(), cause: DriftCause::Files(changes) }.into())
}

/// Fetches files, a few at a time.
pub(crate) async fn fetch_all(
    spec: &SourceSpec,
    files: BTreeMap<String, RepoFile>,
    fetch: impl AsyncFn(RepoFile) -> Result<Fetched, RemoteError>,
) -> Result<BTreeMap<String, FileInput>, SourceError> {
    let fetch = &fetch;
    let fetched = futures_util::stream::iter(files).map(|(path, file)| async move {
        let fetched = fetch(file).await?;
        let input = FileInput::of_verified(fetched.path, PathBuf::from(&path), fetched.sha256);
        Ok::<_, RemoteError>((path, input))
    });
    fetched.buffered(CONCURRENCY).try_collect().await.map_err(|source| remote(spec, source))
}

/// The files that the patterns choose; without patterns every Parquet file.
fn choose(
    spec: &SourceSpec,
    files: BTreeMap<String, RepoFile>,
    patterns: &[String],
) -> Result<BTreeMap<String, RepoFile>, SourceError> {
    let wrong = |detail: String| SourceError::Choice { name: spec.name.clone(), detail };
    let default = ["**/*.parquet".to_owned()];
    let patterns = if patterns.is_empty() { &default[..] } else { patterns };
    let set = glob_set(patterns).map_err(wrong)?;
    let mut used = BTreeSet::new();
    let chosen: BTreeMap<_, _> = files
        .into_iter()
        .filter(|(path, _)| {
            let matching = set.matches(path);
            used.extend(matching.iter().copied());
            !matching.is_empty()
        })
        .collect();
    if let Some((_, unused)) = patterns.iter().enumerate().find(|(at, _)| !used.contains(at)) {
        return Err(wrong(format!(
            "no file of the repository fits `{unused}`; name the files with `files`, such as \"data/train-*.parquet\""
        )));
    }
    let missing = missing_shards(chosen.keys().map(String::as_str));
    if !missing.is_empty() {
        return Err(wrong(format!("parts of a series are missing: {}", missing.join(", "))));
    }
    Ok(chosen)
}

fn glob_set(patterns: &[String]) -> Result<GlobSet, String> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let glob = GlobBuilder::new(pattern).literal_separator(true).build();
        set.add(glob.map_err(|error| format!("`{pattern}` is no pattern: {}", error.kind()))?);
    }
    set.build().map_err(|error| format!("the patterns cannot be used together: {}", error.kind()))
}

/// The names of parts such as `train-00001-of-00003.parquet` that belong to a series of which others are there.
fn missing_shards<'p>(paths: impl Iterator<Item = &'p str>) -> Vec<String> {
    /// A series that claims more parts than this is no reason to list them all.
    const SHOWN: usize = 10;
    let mut series: BTreeMap<(&str, u64, &str), BTreeSet<u64>> = BTreeMap::new();
    for path in paths {
        if let Some((before, number, of, after)) = shard(path) {
            series.entry((before, of, after)).or_default().insert(number);
        }
    }
    let missing = series.iter().flat_map(|((before, of, after), there)| {
        let absent = (0..*of).filter(|number| !there.contains(number));
        absent.map(move |number| format!("{before}{number:05}-of-{of:05}{after}"))
    });
    missing.take(SHOWN).collect()
}

/// Takes `before-00001-of-00003after` apart.
fn shard(path: &str) -> Option<(&str, u64, u64, &str)> {
    let at = path.rfind("-of-")?;
    let number = path[..at].get(at.checked_sub(5)?..)?;
    let of = path.get(at + 4..at + 9)?;
    let parse = |text: &str| text.bytes().all(|c| c.is_ascii_digit()).then(|| text.parse().ok()).flatten();
    Some((&path[..at - 5], parse(number)?, parse(of)?, &path[at + 9..]))
}

/// An error of a repository, with the source's name.
pub(crate) fn remote(spec: &SourceSpec, source: RemoteError) -> SourceError {
    SourceError::Remote { name: spec.name.clone(), source: Box::new(source) }
}

/// A text as a file of its own, to be read as a list of ids.
pub(crate) fn names_file(remote: &Remote, names: &str, shown: String) -> Result<FileInput, RemoteError> {
    let digest = remote.store.keep_text(names)?;
    Ok(list_file(remote, digest, shown))
}

/// A kept text.
pub(crate) fn list_file(remote: &Remote, digest: Digest, shown: String) -> FileInput {
    FileInput::of_verified(remote.store.path(digest), PathBuf::from(shown), digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> SourceSpec {
        SourceSpec::file("s", "x", SourceRole::Ids)
    }

    fn files(paths: &[&str]) -> BTreeMap<String, RepoFile> {
        let file =
            |path: &str| RepoFile { path: path.into(), size: 1, id: ContentId::Sha256(Digest::of(path)) };
        paths.iter().map(|path| ((*path).to_owned(), file(path))).collect()
    }

    fn chosen(paths: &[&str], patterns: &[&str]) -> Result<Vec<String>, String> {
        let patterns: Vec<_> = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
        let chosen = choose(&spec(), files(paths), &patterns).map_err(|error| error.to_string())?;
        Ok(chosen.into_keys().collect())
    }

    #[test]
    fn files_are_chosen_by_patterns_or_by_their_format() {
        let all = ["README.md", "a.parquet", "data/b.parquet", "data/c.jsonl.gz", "data/deep/d.parquet"];
        assert_eq!(chosen(&all, &[]).unwrap(), ["a.parquet", "data/b.parquet", "data/deep/d.parquet"]);
        assert_eq!(chosen(&all, &["data/*"]).unwrap(), ["data/b.parquet", "data/c.jsonl.gz"]);
        assert_eq!(chosen(&all, &["{a,b}.parquet"]).unwrap(), ["a.parquet"]);
        assert!(chosen(&all, &["data/*", "x/*"]).unwrap_err().contains("fits `x/*`"));
        assert!(chosen(&["README.md"], &[]).unwrap_err().contains("no file of the repository fits"));
        assert!(chosen(&all, &["[a"]).unwrap_err().contains("is no pattern"));
    }

    #[test]
    fn a_series_is_whole() {
        let whole = ["d/t-00000-of-00002.parquet", "d/t-00001-of-00002.parquet"];
        assert_eq!(chosen(&whole, &[]).unwrap(), whole);
        let message = chosen(&["d/t-00001-of-00003.parquet"], &[]).unwrap_err();
        assert!(message.ends_with("d/t-00000-of-00003.parquet, d/t-00002-of-00003.parquet"), "{message}");
        for odd in ["-of-", "a-of-b.parquet", "0-of-00001", "ab-0000x-of-00002", "ä-00000-of-0000é"] {
            assert_eq!(shard(odd), None, "{odd}");
        }
        assert_eq!(shard("x-00000-of-99999"), Some(("x-", 0, 99_999, "")));
    }
}
