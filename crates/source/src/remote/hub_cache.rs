//! The hub's own cache on this machine: `refs/`, `snapshots/` and `blobs/` below a directory a repository. Read only.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use fs_err as fs;

use super::download::Fetched;
use super::error::RemoteError;
use super::identity::{ContentId, RepoFile, is_commit, measure};
use super::store::Store;

/// The cached copy of one dataset repository.
pub(super) struct HubCache {
    root: PathBuf,
}

/// No reference is longer.
const REFERENCE_LIMIT: u64 = 4096;

/// No snapshot is deeper.
const MOST_LEVELS: usize = 32;

impl HubCache {
    pub(super) fn new(cache: &Path, repo: &str) -> Self {
        Self { root: cache.join(format!("datasets--{}", repo.replace('/', "--"))) }
    }

    /// The commit that a branch or tag had when it was last cached.
    pub(super) fn commit(&self, revision: &str) -> Result<Option<String>, RemoteError> {
        if revision.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Ok(None);
        }
        let path = self.root.join("refs").join(revision);
        let bytes = match artifact::read_bounded(&path, REFERENCE_LIMIT) {
            Ok(bytes) => bytes,
            Err(artifact::ArtifactError::Io { source, .. }) if absent(&source) => return Ok(None),
            Err(error) => return Err(RemoteError::Io { path, source: io::Error::other(error) }),
        };
        let text = String::from_utf8_lossy(&bytes).trim().to_owned();
        Ok(is_commit(&text).then_some(text))
    }

    /// The files of a snapshot. Those whose content cannot be told from the cache are measured.
    pub(super) fn files(&self, commit: &str) -> Result<BTreeMap<String, RepoFile>, RemoteError> {
        let snapshot = self.root.join("snapshots").join(commit);
        let mut files = BTreeMap::new();
        let mut open = vec![(String::new(), 0)];
        while let Some((prefix, level)) = open.pop() {
            let directory = snapshot.join(&prefix);
            let failed = |source| RemoteError::Io { path: directory.clone(), source };
            let entries = match fs::read_dir(&directory) {
                Ok(entries) => entries,
                Err(error) if absent(&error) => continue,
                Err(source) => return Err(failed(source)),
            };
            for entry in entries {
                let entry = entry.map_err(failed)?;
                let Ok(name) = entry.file_name().into_string() else { continue };
                let path = if prefix.is_empty() { name } else { format!("{prefix}/{name}") };
                if entry.file_type().map_err(failed)?.is_dir() {
                    if level < MOST_LEVELS {
                        open.push((path, level + 1));
                    }
                    continue;
                }
                let Some((real, id)) = self.blob(commit, &path)? else { continue };
                let size = fs::metadata(&real).map_err(failed)?.len();
                let id = match id {
                    Some(id) => id,
                    None => ContentId::Sha256(measure(&real).map_err(failed)?.sha256),
                };
                files.insert(path.clone(), RepoFile { path, size, id });
            }
        }
        Ok(files)
    }

    /// A file of a snapshot, if it is there and is what is expected. A damaged one is passed over.
    pub(super) async fn verified(
        &self,
        store: &Store,
        commit: &str,
        file: &RepoFile,
    ) -> Result<Option<Fetched>, RemoteError> {
        let Some((path, _)) = self.blob(commit, &file.path)? else { return Ok(None) };
        let measured = store.measured(&path).await?;
        let same = match &file.id {
            ContentId::Sha256(digest) => measured.sha256 == *digest,
            ContentId::Git(id) => measured.git == *id,
        };
        if same && measured.size == file.size {
            return Ok(Some(Fetched { path, sha256: measured.sha256, size: measured.size }));
        }
        tracing::warn!(path = %path.display(), "this file of the hub's cache is not what its repository says");
        Ok(None)
    }

    /// Where a file of a snapshot lies, and the content id that its blob is named by. Nothing outside the repository's
    /// own directory is looked at, wherever a link leads.
    fn blob(&self, commit: &str, path: &str) -> Result<Option<(PathBuf, Option<ContentId>)>, RemoteError> {
        let link = self.root.join("snapshots").join(commit).join(path);
        let real = |path: &Path| match fs::canonicalize(path) {
            Ok(real) => Ok(Some(real)),
            Err(error) if absent(&error) => Ok(None),
            Err(source) => Err(RemoteError::Io { path: path.to_owned(), source }),
        };
        let (Some(root), Some(file)) = (real(&self.root)?, real(&link)?) else { return Ok(None) };
        if !file.starts_with(&root) || !file.is_file() {
            return Ok(None);
        }
        let blob =
            file.strip_prefix(root.join("blobs")).ok().and_then(|name| ContentId::parse(name.to_str()?));
        Ok(Some((file, blob)))
    }
}

fn absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

    #[tokio::test]
    async fn snapshots_are_read_and_links_out_are_not_followed() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().join("datasets--o--n");
        for directory in ["blobs", "refs/pr", &format!("snapshots/{COMMIT}/data")] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        fs::write(root.join("refs/main"), COMMIT).unwrap();
        fs::write(root.join("refs/pr/1"), "garbage").unwrap();
        let sha256 = ident::Digest::of("content");
        fs::write(root.join("blobs").join(sha256.hex()), "content").unwrap();
        fs::write(home.path().join("outside"), "content").unwrap();
        let data = root.join(format!("snapshots/{COMMIT}/data"));
        symlink(format!("../../../blobs/{sha256}"), data.join("a.parquet")).unwrap();
        symlink("../../../../outside", data.join("b.parquet")).unwrap();
        symlink("nowhere", data.join("c.parquet")).unwrap();
        fs::write(data.join("d.parquet"), "plain").unwrap();

        let cache = HubCache::new(home.path(), "o/n");
        let store = Store::new(home.path().join("downloads"), false);
        assert_eq!(cache.commit("main").unwrap().as_deref(), Some(COMMIT));
        for revision in ["pr/1", "dev", "../refs/main", "pr"] {
            assert_eq!(cache.commit(revision).unwrap_or(None), None, "{revision}");
        }
        let files = cache.files(COMMIT).unwrap();
        assert_eq!(files.keys().collect::<Vec<_>>(), ["data/a.parquet", "data/d.parquet"]);
        assert_eq!(files["data/a.parquet"].id, ContentId::Sha256(sha256));
        let found = cache.verified(&store, COMMIT, &files["data/a.parquet"]).await.unwrap().unwrap();
        assert_eq!((found.sha256, found.size), (sha256, 7));
        let other =
            RepoFile { id: ContentId::Sha256(ident::Digest::of("x")), ..files["data/a.parquet"].clone() };
        assert_eq!(cache.verified(&store, COMMIT, &other).await.unwrap(), None);
    }
}
