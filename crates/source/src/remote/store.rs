//! Verified files on disk, each under its digest.

use std::io;
use std::path::{Path, PathBuf};

use fs_err as fs;
use ident::Digest;

use super::RemoteError;
use super::identity::{ContentId, is_commit, measure};

/// The cache of downloads. Everything in it can be deleted at any time.
#[derive(Debug)]
pub(crate) struct Store {
    directory: PathBuf,
}

impl Store {
    pub(super) fn new(directory: PathBuf) -> Self {
        Self { directory }
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
        match measure_in_background(path.clone()).await {
            Ok((found, git)) => {
                let same = match id {
                    ContentId::Sha256(_) => found == sha256,
                    ContentId::Git(id) => found == sha256 && git == *id,
                };
                if same {
                    return Ok(Some((path, sha256)));
                }
                tracing::warn!(path = %path.display(), "a damaged download was removed");
                fs::remove_file(&path).map_err(|source| RemoteError::Io { path, source })?;
                Ok(None)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(RemoteError::Io { path, source }),
        }
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
        let file = tempfile::Builder::new().prefix(".seatrial-").suffix(".tmp").tempfile_in(&self.directory);
        file.map_err(|source| RemoteError::Io { path: self.directory.clone(), source })
    }
}

fn make(directory: &Path) -> Result<(), RemoteError> {
    fs::create_dir_all(directory).map_err(|source| RemoteError::Io { path: directory.to_owned(), source })
}

async fn measure_in_background(path: PathBuf) -> io::Result<(Digest, String)> {
    let measured = tokio::task::spawn_blocking(move || measure(&path)).await.map_err(io::Error::other)??;
    Ok((measured.sha256, measured.git))
}
