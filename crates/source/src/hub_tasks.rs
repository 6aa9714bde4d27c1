//! Task directories in a dataset repository: their names, or the directories themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fs_err as fs;
use futures_util::{StreamExt, TryStreamExt};
use ident::Digest;
use record::SourceRole;

use crate::SourceError;
use crate::gather::{Content, Gathered, Terms, list_file, names_file, remote};
use crate::lock::LockedSource;
use crate::remote::{ContentId, Hub, RemoteError, RepoFile};
use crate::rows::are_as_locked;
use crate::spec::SourceSpec;

/// How many small files are fetched at once.
const CONCURRENCY: usize = 8;

/// What is told of a cache that somebody has written to.
const FETCHED_ANEW: &str = "fetched task directories had changed since, and were fetched anew";

/// Name of the list of ids in the lock.
const NAMES: &str = "names";

/// Brings the names of task directories here, or the directories.
pub(crate) async fn gather(
    spec: &SourceSpec,
    hub: Hub<'_>,
    commit: String,
    below: &str,
    terms: Terms<'_>,
) -> Result<Gathered, SourceError> {
    let store = &terms.remote.store;
    let locked_list = terms.taken_as_locked().and_then(|locked| locked.files.get(NAMES));
    if spec.role == SourceRole::Ids
        && let Some(list) = locked_list
    {
        let kept =
            store.find(&ContentId::Sha256(list.sha256)).await.map_err(|source| remote(spec, source))?;
        if kept.is_some() {
            let input = list_file(terms.remote, list.sha256, NAMES.into());
            let content = Content::Files(BTreeMap::from([(NAMES.to_owned(), input)]));
            return Ok(Gathered { revision: Some(commit), content, notes: Vec::new() });
        }
    }
    let root = store.directory("task-dirs", &Digest::of(format!("{}@{commit}", spec.place.origin())).hex());
    let mut notes = Vec::new();
    if spec.role == SourceRole::Tasks
        && let Some(locked) = terms.taken_as_locked()
        && root.is_dir()
    {
        if holds_as_locked(&root, locked, terms).await {
            let content = Content::Directory { root, prefix: String::new() };
            return Ok(Gathered { revision: Some(commit), content, notes });
        }
        notes.push(FETCHED_ANEW.to_owned());
    }
    let listing = hub.files(&commit).await.map_err(|source| remote(spec, source))?;
    if listing.local {
        notes.push(
            "the list of tasks is that of the local copy, which may lack some; \
             expect_rows in the recipe would show it"
                .to_owned(),
        );
    }
    let Tasks { ids, files, others } = tasks(listing.files, below);
    if ids.is_empty() {
        let place = if below.is_empty() { "the repository's root".to_owned() } else { format!("`{below}`") };
        let detail = format!("no directory with a task.toml lies in {place}; name another with `path`");
        return Err(SourceError::Choice { name: spec.name.clone(), detail });
    }
    if others > 0 {
        notes.push(format!("files that belong to no task directory: {others}"));
    }
    let content = if spec.role == SourceRole::Ids {
        let names: String = ids.iter().flat_map(|id| [id.as_str(), "\n"]).collect();
        let input = names_file(terms.remote, &names, NAMES.into()).map_err(|source| remote(spec, source))?;
        Content::Files(BTreeMap::from([(NAMES.to_owned(), input)]))
    } else {
        let commit = commit.as_str();
        let fetch = |file: RepoFile| async move { Ok(hub.fetch(commit, &file, "repository").await?.path) };
        // The hub knows no programs.
        let placed = |path| PlacedFile { path, from: PathBuf::new(), program: false };
        let files = files.into_iter().map(|(path, file)| (file, placed(path))).collect();
        assemble(files, &root, fetch).await.map_err(|source| remote(spec, source))?;
        Content::Directory { root, prefix: String::new() }
    };
    Ok(Gathered { revision: Some(commit), content, notes })
}

/// Whether fetched directories are still what the lock says. Whatever keeps them from being read is a reason to fetch
/// them anew.
async fn holds_as_locked(root: &Path, locked: &LockedSource, terms: Terms<'_>) -> bool {
    let (root, locked, known) = (root.to_owned(), locked.clone(), Arc::clone(terms.remote.store.known()));
    let found = tokio::task::spawn_blocking(move || are_as_locked(&root, &locked, Some(&known))).await;
    matches!(found, Ok(Ok(true)))
}

/// What a repository holds below a directory.
struct Tasks {
    /// Names of directories with a `task.toml`.
    ids: BTreeSet<String>,
    /// Their files, by the path from the directory that holds the tasks.
    files: Vec<(String, RepoFile)>,
    /// Number of the other files.
    others: u64,
}

fn tasks(listing: BTreeMap<String, RepoFile>, below: &str) -> Tasks {
    let below = below.trim_matches('/');
    let inside = |path: &str| match below {
        "" => Some(path.to_owned()),
        below => path.strip_prefix(below)?.strip_prefix('/').map(str::to_owned),
    };
    let inner: Vec<_> = listing.into_values().filter_map(|file| Some((inside(&file.path)?, file))).collect();
    let ids: BTreeSet<String> = inner
        .iter()
        .filter_map(|(path, _)| path.strip_suffix("/task.toml").filter(|id| !id.contains('/')))
        .map(str::to_owned)
        .collect();
    let (files, others): (Vec<_>, Vec<_>) =
        inner.into_iter().partition(|(path, _)| path.split_once('/').is_some_and(|(id, _)| ids.contains(id)));
    Tasks { ids, files, others: others.len() as u64 }
}

/// Fetches files and puts a directory of them together, which appears at `root` all at once. `fetch` tells where a verified file
/// lies.
pub(crate) async fn assemble<F>(
    files: Vec<(RepoFile, PlacedFile)>,
    root: &Path,
    fetch: impl Fn(RepoFile) -> F,
) -> Result<(), RemoteError>
where
    F: Future<Output = Result<PathBuf, RemoteError>>,
{
    let fetched: Vec<PlacedFile> = futures_util::stream::iter(files)
        .map(|(file, placed)| {
            let from = fetch(file);
            async move { Ok::<_, RemoteError>(PlacedFile { from: from.await?, ..placed }) }
        })
        .buffered(CONCURRENCY)
        .try_collect()
        .await?;
    place_directory(fetched, root.to_owned()).await
}

/// A verified file that becomes one of a directory.
pub(crate) struct PlacedFile {
    /// Its path from the directory.
    pub path: String,
    /// Where it lies now.
    pub from: PathBuf,
    /// Whether its owner may execute it.
    pub program: bool,
}

async fn place_directory(fetched: Vec<PlacedFile>, root: PathBuf) -> Result<(), RemoteError> {
    let shown = root.clone();
    let placed = tokio::task::spawn_blocking(move || place(&fetched, &root)).await;
    let stopped = |error: tokio::task::JoinError| RemoteError::Worker {
        what: "task directories".into(),
        detail: error.to_string(),
    };
    placed.map_err(stopped)?.map_err(|source| RemoteError::Io { path: shown, source })
}

fn place(files: &[PlacedFile], root: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let parent = root.parent().ok_or(std::io::ErrorKind::InvalidInput)?;
    fs::create_dir_all(parent)?;
    let new = artifact::unfinished().tempdir_in(parent)?;
    for file in files {
        let to = new.path().join(&file.path);
        fs::create_dir_all(to.parent().ok_or(std::io::ErrorKind::InvalidInput)?)?;
        // Copied, not linked: nobody who edits a task shall change the cache.
        fs::copy(&file.from, &to)?;
        let mode = if file.program { 0o755 } else { 0o644 };
        fs::set_permissions(to, std::fs::Permissions::from_mode(mode))?;
    }
    if root.exists() {
        fs::remove_dir_all(root)?;
    }
    fs::rename(new.keep(), root)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_with_a_task_toml_are_tasks() {
        let paths = [
            "README.md",
            "a.1/task.toml",
            "a.1/tests/test.sh",
            "b/notes.txt",
            "deep/c.1/task.toml",
            "deep/c.1/tests/task.toml",
            "task.toml",
        ];
        let listing: BTreeMap<_, _> = paths
            .iter()
            .map(|path| {
                let id = ContentId::Sha256(Digest::of(path));
                ((*path).to_owned(), RepoFile { path: (*path).into(), size: 1, id })
            })
            .collect();
        let of = |below| {
            let tasks = tasks(listing.clone(), below);
            let files: Vec<_> = tasks.files.iter().map(|(path, _)| path.clone()).collect();
            (tasks.ids.into_iter().collect::<Vec<_>>(), files, tasks.others)
        };
        let (ids, files, others) = of("");
        assert_eq!((ids, others), (vec!["a.1".to_owned()], 5));
        assert_eq!(files, ["a.1/task.toml", "a.1/tests/test.sh"]);
        let (ids, files, others) = of("deep/");
        assert_eq!((ids, others), (vec!["c.1".to_owned()], 0));
        assert_eq!(files, ["c.1/task.toml", "c.1/tests/task.toml"]);
        assert_eq!(of("dee").0, [""; 0]);
    }
}
