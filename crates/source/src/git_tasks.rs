//! Task directories that a manifest places in git repositories of the code host.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ident::{Digest, TaskId};

use crate::SourceError;
use crate::gather::{Terms, remote};
use crate::hub_tasks::{PlacedFile, assemble};
use crate::manifest::{GitPlace, ListedTask};
use crate::remote::{CodeHost, ContentId, RepoFile, TreeEntry, is_commit};
use crate::rows::hash_tree;
use crate::spec::SourceSpec;

/// Directories of one commit that were listed, by their path. Tasks lie side by side, and few directories hold them.
type Listed = BTreeMap<String, Vec<TreeEntry>>;

/// Fetches the directories of the tasks that lie in repositories, and gives the ids of those that were here and had to
/// be fetched anew. One that is here already is taken when it is what the lock says: a commit never means anything else.
pub(crate) async fn gather(
    spec: &SourceSpec,
    tasks: &[ListedTask],
    terms: Terms<'_>,
) -> Result<(BTreeMap<TaskId, PathBuf>, Vec<TaskId>), SourceError> {
    let mut fetched = BTreeMap::new();
    let mut anew = Vec::new();
    let mut listed: BTreeMap<(String, String), Listed> = BTreeMap::new();
    for task in tasks {
        let Some(place) = &task.repository else { continue };
        let Directory { repo, commit, path } = directory(spec, task, place, terms)?;
        let root = terms
            .remote
            .store
            .directory("task-dirs", &Digest::of(format!("git {repo}@{commit} {path}")).hex());
        let pinned = terms.locked.and_then(|locked| locked.files.get(task.id.as_str()));
        let here = pinned.filter(|_| root.is_dir());
        let as_locked = match here {
            Some(locked) => has_digest(&root, locked.sha256, terms).await,
            None => false,
        };
        if !as_locked {
            anew.extend(here.map(|_| task.id.clone()));
            let host = CodeHost::new(terms.remote, &repo);
            let listed = listed.entry((repo.clone(), commit.clone())).or_default();
            let files = files(spec, task, host, &commit, &path, listed).await?;
            let commit = commit.as_str();
            let fetch =
                |file: RepoFile| async move { Ok(host.fetch(commit, &file, "repository").await?.path) };
            assemble(files, &root, fetch).await.map_err(|source| remote(spec, source))?;
        }
        fetched.insert(task.id.clone(), root);
    }
    Ok((fetched, anew))
}

/// Whether a fetched directory is still what the lock says. Whatever keeps it from being read is a reason to fetch it
/// anew.
async fn has_digest(root: &Path, locked: Digest, terms: Terms<'_>) -> bool {
    let (root, known) = (root.to_owned(), Arc::clone(terms.remote.store.known()));
    let found = tokio::task::spawn_blocking(move || hash_tree(&root, Some(&known))).await;
    matches!(found, Ok(Ok((digest, _))) if digest == locked)
}

/// A directory of a repository at a commit.
struct Directory {
    repo: String,
    commit: String,
    path: String,
}

fn directory(
    spec: &SourceSpec,
    task: &ListedTask,
    place: &GitPlace,
    terms: Terms<'_>,
) -> Result<Directory, SourceError> {
    let host = &terms.remote.settings.code_host;
    let repo = host.repository(&place.url).ok_or_else(|| {
        let (url, host) = (&place.url, host.shown());
        let detail = format!(
            "lies in {url}, which is no repository of {host}; clone it and read its directory with kind `dir`, \
             or read the list as `ids`"
        );
        wrong(spec, task, &detail)
    })?;
    let commit = place.commit.clone().unwrap_or_default();
    if !is_commit(&commit) {
        let detail = format!("names no commit of {}; write its 40 digits as git_commit_id", place.url);
        return Err(wrong(spec, task, &detail));
    }
    let path = task.path.as_deref().unwrap_or(task.id.as_str());
    let path = path.trim_start_matches("./").trim_end_matches('/').to_owned();
    Ok(Directory { repo, commit, path })
}

fn wrong(spec: &SourceSpec, task: &ListedTask, detail: &str) -> SourceError {
    SourceError::Choice { name: spec.name.clone(), detail: format!("task `{}` {detail}", task.id) }
}

/// The files of a directory, found from the top of the commit down.
async fn files(
    spec: &SourceSpec,
    task: &ListedTask,
    host: CodeHost<'_>,
    commit: &str,
    path: &str,
    listed: &mut Listed,
) -> Result<Vec<(RepoFile, PlacedFile)>, SourceError> {
    let mut id = commit.to_owned();
    let mut above = String::new();
    for part in path.split('/') {
        if !listed.contains_key(&above) {
            let entries = host.tree(&id, false).await.map_err(|source| remote(spec, source))?;
            listed.insert(above.clone(), entries);
        }
        let entries = &listed[&above];
        let found = entries.iter().find(|entry| entry.path == part && entry.is_directory());
        let Some(found) = found else {
            return Err(wrong(
                spec,
                task,
                &format!("has the path {path:?}, which is no directory at {commit}"),
            ));
        };
        id.clone_from(&found.sha);
        above = if above.is_empty() { part.to_owned() } else { format!("{above}/{part}") };
    }
    let entries = host.tree(&id, true).await.map_err(|source| remote(spec, source))?;
    let mut files = Vec::new();
    for entry in entries.into_iter().filter(|entry| !entry.is_directory()) {
        let program = match entry.mode.as_str() {
            "100644" | "100664" => false,
            "100755" => true,
            _ => {
                let detail = format!(
                    "has {:?}, a link or another repository, which is not fetched; clone the repository and read \
                     its directory with kind `dir`",
                    entry.path
                );
                return Err(wrong(spec, task, &detail));
            }
        };
        let file = RepoFile {
            path: format!("{path}/{}", entry.path),
            size: entry.size,
            id: ContentId::Git(entry.sha),
        };
        files.push((file, PlacedFile { path: entry.path, from: PathBuf::new(), program }));
    }
    Ok(files)
}
