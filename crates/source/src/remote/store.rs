//! Verified files on disk, each under its digest.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use fs_err as fs;
use ident::Digest;

use super::RemoteError;
use super::identity::{ContentId, Measured, is_commit, measure};

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
        let real = fs::canonicalize(path).map_err(failed)?;
        let stamp = stamp(&fs::metadata(&real).map_err(failed)?);
        let note =
            self.directory.join("measured").join(Digest::of(real.as_os_str().as_encoded_bytes()).hex());
        if let Some(known) = fs::read_to_string(&note).ok().and_then(|text| recall(&text, &stamp)) {
            return Ok(known);
        }
        let copy = real.clone();
        let measured = tokio::task::spawn_blocking(move || measure(&copy)).await;
        let measured = measured.map_err(io::Error::other).flatten().map_err(failed)?;
        let after = fs::metadata(&real).map_err(failed)?;
        if self::stamp(&after) == stamp && is_settled(&after) {
            make(&self.directory.join("measured"))?;
            let text = format!("{stamp}\n{} {} {}\n", measured.size, measured.sha256, measured.git);
            artifact::write_atomic(&note, text.as_bytes())
                .map_err(|error| RemoteError::Io { path: note, source: io::Error::other(error) })?;
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

/// Everything that changes when somebody writes to a file, or puts another in its place.
fn stamp(metadata: &std::fs::Metadata) -> String {
    use std::os::unix::fs::MetadataExt as _;
    let (device, inode, size) = (metadata.dev(), metadata.ino(), metadata.size());
    let (written, changed) = (metadata.mtime(), metadata.ctime());
    format!("{device} {inode} {size} {written}.{} {changed}.{}", metadata.mtime_nsec(), metadata.ctime_nsec())
}

/// Whether the file's last change is so long ago that another one would have another time.
fn is_settled(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs().cast_signed());
    now.saturating_sub(metadata.ctime()) >= SETTLED_SECONDS
}

/// File systems tell times apart that lie this many seconds apart, and many tell smaller ones.
const SETTLED_SECONDS: i64 = 3;

/// What a note says, if it is about the file as it is now.
fn recall(text: &str, stamp: &str) -> Option<Measured> {
    let rest = text.strip_prefix(stamp)?.strip_prefix('\n')?;
    let mut words = rest.split_whitespace();
    let size = words.next()?.parse().ok()?;
    let sha256 = Digest::parse(words.next()?).ok()?;
    let git = words.next().filter(|git| is_commit(git))?.to_owned();
    Some(Measured { size, sha256, git })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_the_past(path: &Path) {
        // The time of the last change of a file cannot be set, so a note is written for the file as it is.
        let metadata = fs::metadata(path).unwrap();
        let measured = measure(path).unwrap();
        let note = path
            .parent()
            .unwrap()
            .join("measured")
            .join(Digest::of(fs::canonicalize(path).unwrap().as_os_str().as_encoded_bytes()).hex());
        fs::create_dir_all(note.parent().unwrap()).unwrap();
        // Another digest than the true one shows where the answer comes from.
        let text =
            format!("{}\n{} {} {}\n", stamp(&metadata), measured.size, Digest::of("noted"), measured.git);
        fs::write(note, text).unwrap();
    }

    #[tokio::test]
    async fn what_was_measured_is_remembered_until_the_file_changes() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::new(directory.path().to_owned());
        let path = directory.path().join("x");
        fs::write(&path, "content").unwrap();
        assert_eq!(store.measured(&path).await.unwrap().sha256, Digest::of("content"));
        assert!(!directory.path().join("measured").exists(), "a file that has just changed was noted");
        in_the_past(&path);
        assert_eq!(store.measured(&path).await.unwrap().sha256, Digest::of("noted"));
        fs::write(&path, "CONTENT").unwrap();
        assert_eq!(store.measured(&path).await.unwrap().sha256, Digest::of("CONTENT"));
        in_the_past(&path);
        let other = directory.path().join("y");
        fs::write(&other, "CONTENT").unwrap();
        fs::rename(&other, &path).unwrap();
        assert_eq!(store.measured(&path).await.unwrap().sha256, Digest::of("CONTENT"));
    }

    #[test]
    fn notes_of_other_forms_are_none() {
        let good = format!("s\n7 {} {}\n", Digest::of("x"), "0".repeat(40));
        assert_eq!(recall(&good, "s").unwrap().size, 7);
        for text in ["", "s", "s\n", "t\n7 x y", "s\n7 x y", &good.replace('0', "é")] {
            assert!(recall(text, "s").is_none(), "{text}");
        }
    }
}
