//! Verified files on disk, each under its digest.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fs_err as fs;
use ident::Digest;

use super::RemoteError;
use super::identity::{ContentId, Measured, is_commit, measure};
use crate::file::{KnownDigest, KnownDigests, Stamp};

/// The cache of downloads. Everything in it can be deleted at any time.
#[derive(Debug)]
pub(crate) struct Store {
    directory: PathBuf,
    known: Arc<KnownDigests>,
}

impl Store {
    /// The cache in a directory. With `hash_anew` no file is taken for what it was when it was hashed before.
    pub(super) fn new(directory: PathBuf, hash_anew: bool) -> Self {
        let known = Arc::new(KnownDigests::new(directory.join("measured"), hash_anew));
        Self { directory, known }
    }

    /// Digests of files that were hashed before, in this cache and elsewhere.
    pub(crate) fn known(&self) -> &Arc<KnownDigests> {
        &self.known
    }

    /// Where a file of this digest lies or would lie.
    pub(crate) fn path(&self, sha256: Digest) -> PathBuf {
        self.directory.join(sha256.hex())
    }

    /// Where files of a set of task directories are put together.
    pub(crate) fn directory(&self, kind: &str, key: &str) -> PathBuf {
        self.directory.join(kind).join(key)
    }

    /// The verified file of an id. A damaged one is removed.
    pub(crate) async fn find(&self, id: &ContentId) -> Result<Option<(PathBuf, Digest)>, RemoteError> {
        let sha256 = match id {
            ContentId::Sha256(digest) => *digest,
            ContentId::Git(id) => match self.by_git(id)? {
                Some(digest) => digest,
                None => return Ok(None),
            },
        };
        let path = self.path(sha256);
        let measured = match self.measured(&path).await {
            Ok(measured) => measured,
            Err(RemoteError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let same = match id {
            ContentId::Sha256(_) => true,
            ContentId::Git(id) => measured.git == *id,
        };
        if same && measured.sha256 == sha256 {
            return Ok(Some((path, sha256)));
        }
        tracing::warn!(path = %path.display(), "a damaged download was removed");
        fs::remove_file(&path).map_err(|source| RemoteError::Io { path, source })?;
        Ok(None)
    }

    /// Size and ids of a file: what was measured before, while nothing about the file has changed since, or measured
    /// anew. Data sets have gigabytes, and every stage looks at them.
    pub(super) async fn measured(&self, path: &Path) -> Result<Measured, RemoteError> {
        let failed = |source| RemoteError::Io { path: path.to_owned(), source };
        let metadata = fs::metadata(path).map_err(failed)?;
        let stamp = Stamp::of(&metadata);
        if let Some(KnownDigest { sha256, git: Some(git) }) = self.known.recall(path, &stamp)
            && is_commit(&git)
        {
            return Ok(Measured { size: metadata.len(), sha256, git });
        }
        let copy = path.to_owned();
        let measured = tokio::task::spawn_blocking(move || measure(&copy)).await;
        let measured = measured.map_err(io::Error::other).flatten().map_err(failed)?;
        if stamp.is_still(&fs::metadata(path).map_err(failed)?) {
            let known = KnownDigest { sha256: measured.sha256, git: Some(measured.git.clone()) };
            self.known.note(path, &stamp, &known);
        }
        Ok(measured)
    }

    /// Keeps a text as a file of its own, so that it is found by its digest later.
    pub(crate) fn keep_text(&self, text: &str) -> Result<Digest, RemoteError> {
        let sha256 = Digest::of(text);
        let path = self.path(sha256);
        let failed = |source| RemoteError::Io { path: path.clone(), source };
        let mut file = self.new_file()?;
        io::Write::write_all(&mut file, text.as_bytes()).map_err(failed)?;
        file.persist(&path).map_err(|error| failed(error.error))?;
        Ok(sha256)
    }

    /// Where what came of a transfer is kept until it is whole. The key tells content and place.
    pub(super) fn part(&self, key: &str) -> Result<PathBuf, RemoteError> {
        let directory = self.directory.join("parts");
        make(&directory)?;
        Ok(directory.join(format!("{}.part", Digest::of(key).hex())))
    }

    /// Gives a whole and verified file its name.
    pub(super) fn keep(&self, part: &Path, sha256: Digest, git: &str) -> Result<PathBuf, RemoteError> {
        let path = self.path(sha256);
        let failed = |source| RemoteError::Io { path: path.clone(), source };
        fs::File::open(part).and_then(|file| file.sync_all()).map_err(failed)?;
        fs::rename(part, &path).map_err(failed)?;
        self.remember_git(git, sha256)?;
        Ok(path)
    }

    /// Notes which file has a git blob id.
    pub(super) fn remember_git(&self, git: &str, sha256: Digest) -> Result<(), RemoteError> {
        let directory = self.directory.join("git");
        make(&directory)?;
        let path = directory.join(git);
        artifact::write_atomic(&path, sha256.hex().as_bytes())
            .map_err(|error| RemoteError::Io { path, source: io::Error::other(error) })
    }

    fn by_git(&self, id: &str) -> Result<Option<Digest>, RemoteError> {
        if !is_commit(id) {
            return Ok(None);
        }
        let path = self.directory.join("git").join(id);
        match fs::read_to_string(&path) {
            // What cannot be read as a digest is no note of ours, and costs one more download.
            Ok(text) => Ok(Digest::parse(text.trim()).ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(RemoteError::Io { path, source }),
        }
    }

    fn new_file(&self) -> Result<tempfile::NamedTempFile, RemoteError> {
        make(&self.directory)?;
        let file = artifact::unfinished().tempfile_in(&self.directory);
        file.map_err(|source| RemoteError::Io { path: self.directory.clone(), source })
    }
}

fn make(directory: &Path) -> Result<(), RemoteError> {
    fs::create_dir_all(directory).map_err(|source| RemoteError::Io { path: directory.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_measured_is_remembered_until_the_file_changes() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::new(directory.path().to_owned(), false);
        let path = directory.path().join("x");
        fs::write(&path, "content").unwrap();
        assert_eq!(store.measured(&path).await.unwrap().sha256, Digest::of("content"));
        assert!(!directory.path().join("measured").exists(), "a file that has only just changed was noted");
        // Another digest than the true one shows where the answer comes from.
        let known = KnownDigest { sha256: Digest::of("noted"), git: Some("0".repeat(40)) };
        let stamp = Stamp::long_ago(&fs::metadata(&path).unwrap());
        store.known.note(&path, &stamp, &known);
        assert_eq!(store.measured(&path).await.unwrap().sha256, Digest::of("noted"));
        let anew = Store::new(directory.path().to_owned(), true);
        assert_eq!(anew.measured(&path).await.unwrap().sha256, Digest::of("content"));
        store.known.note(&path, &stamp, &KnownDigest { git: None, ..known });
        assert_eq!(store.measured(&path).await.unwrap().sha256, Digest::of("content"));
    }
}
