//! Digests of files and task directories that were hashed before, while nothing about them has changed since.

use std::fs::Metadata;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use fs_err as fs;
use ident::Digest;

/// File systems tell times apart that lie so many seconds apart, and most tell smaller ones.
const SETTLED_SECONDS: i64 = 2;

/// No note comes near this size.
const NOTE_LIMIT: u64 = 4096;

/// Notes on files, one for each path. All of them can be deleted at any time.
#[derive(Debug)]
pub(crate) struct KnownDigests {
    directory: PathBuf,
    /// Whether notes are written only, and every file is hashed.
    anew: bool,
}

/// What a file or a directory was like at one time: everything that changes when somebody writes to it, or puts another in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stamp {
    text: String,
    /// Whether the last change was so long ago that another one would have another time.
    settled: bool,
}

/// What a note tells of a file's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KnownDigest {
    /// Its SHA-256.
    pub sha256: Digest,
    /// Git's id of it, where somebody asked for that too.
    pub git: Option<String>,
}

impl Stamp {
    /// The stamp of a file now.
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self::at(metadata, seconds(SystemTime::now()))
    }

    fn at(metadata: &Metadata, now: i64) -> Self {
        let (device, inode, size) = (metadata.dev(), metadata.ino(), metadata.size());
        let (written, changed) = (metadata.mtime(), metadata.ctime());
        let (written_ns, changed_ns) = (metadata.mtime_nsec(), metadata.ctime_nsec());
        let text = format!("{device} {inode} {size} {written}.{written_ns} {changed}.{changed_ns}");
        Self { text, settled: now.saturating_sub(changed) > SETTLED_SECONDS }
    }

    /// The stamp of a file whose last change lies far back.
    #[cfg(test)]
    pub(crate) fn long_ago(metadata: &Metadata) -> Self {
        Self::at(metadata, i64::MAX)
    }

    /// The stamp of a directory whose entries were looked at from `begun` on: the names of all that lies below it, and
    /// the stamp of each.
    pub(crate) fn of_tree<'t>(
        entries: impl Iterator<Item = (&'t Path, &'t Metadata)>,
        begun: SystemTime,
    ) -> Self {
        let now = seconds(begun);
        let mut names = Vec::new();
        let mut settled = true;
        for (name, metadata) in entries {
            let stamp = Self::at(metadata, now);
            settled &= stamp.settled;
            names.extend_from_slice(name.as_os_str().as_encoded_bytes());
            // A name can hold anything but NUL, which therefore ends it.
            names.extend_from_slice(format!("\0{}\n", stamp.text).as_bytes());
        }
        Self { text: format!("tree {}", Digest::of(names)), settled }
    }

    /// Whether the file is still the one of the stamp.
    pub(crate) fn is_still(&self, metadata: &Metadata) -> bool {
        self.is_same(&Self::at(metadata, 0))
    }

    /// Whether both are stamps of the same, whenever they were taken.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

fn seconds(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs().cast_signed())
}

impl KnownDigests {
    /// Notes in a directory, which is made when the first note is written. With `anew` no note is believed.
    pub(crate) fn new(directory: PathBuf, anew: bool) -> Self {
        Self { directory, anew }
    }

    /// The digest of a file that has not changed since it was noted.
    pub(crate) fn recall(&self, path: &Path, stamp: &Stamp) -> Option<KnownDigest> {
        if self.anew {
            return None;
        }
        let note = artifact::read_bounded(&self.note_of(path)?, NOTE_LIMIT).ok()?;
        let rest = std::str::from_utf8(&note).ok()?.strip_prefix(&stamp.text)?.strip_prefix('\n')?;
        let mut words = rest.split_whitespace();
        let sha256 = Digest::parse(words.next()?).ok()?;
        Some(KnownDigest { sha256, git: words.next().map(str::to_owned) })
    }

    /// Notes the digest of a file that was hashed after `stamp` was taken of it. A file whose last change was only just
    /// before that is not noted: the next change could leave the same times.
    ///
    /// A note that cannot be written costs the next reader the time to hash, and is no failure.
    pub(crate) fn note(&self, path: &Path, stamp: &Stamp, known: &KnownDigest) {
        let Some(note) = self.note_of(path).filter(|_| stamp.settled) else { return };
        let git = known.git.as_deref().unwrap_or_default();
        let text = format!("{}\n{} {git}\n", stamp.text, known.sha256);
        if let Err(error) = self.write(&note, &text) {
            tracing::warn!(%error, path = %path.display(), "the digest of a file cannot be noted");
        }
    }

    /// Not synced to disk: a note that was lost, or came only in part, is no note.
    fn write(&self, note: &Path, text: &str) -> io::Result<()> {
        fs::create_dir_all(&self.directory)?;
        let mut file = artifact::unfinished().tempfile_in(&self.directory)?;
        file.write_all(text.as_bytes())?;
        file.persist(note)?;
        Ok(())
    }

    fn note_of(&self, path: &Path) -> Option<PathBuf> {
        let path = std::path::absolute(path).ok()?;
        Some(self.directory.join(Digest::of(path.as_os_str().as_encoded_bytes()).hex()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    fn metadata(path: &Path) -> Metadata {
        std::fs::metadata(path).unwrap()
    }

    fn known(digest: Digest) -> KnownDigest {
        KnownDigest { sha256: digest, git: None }
    }

    #[test]
    fn a_digest_is_known_until_anything_about_the_file_changes() {
        let directory = tempfile::tempdir().unwrap();
        let notes = KnownDigests::new(directory.path().join("notes"), false);
        let path = directory.path().join("x");
        let written = SystemTime::now() - Duration::from_secs(3600);
        let write = |text: &str| {
            std::fs::write(&path, text).unwrap();
            std::fs::File::options().write(true).open(&path).unwrap().set_modified(written).unwrap();
            notes.note(&path, &Stamp::long_ago(&metadata(&path)), &known(Digest::of(text)));
        };
        let recalled = || notes.recall(&path, &Stamp::of(&metadata(&path)));
        write("content");
        assert_eq!(recalled(), Some(known(Digest::of("content"))));
        // The same size and the same time of writing: only the system's own time of the change is another.
        let before = Stamp::of(&metadata(&path));
        std::fs::write(&path, "CONTENT").unwrap();
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(written).unwrap();
        assert_eq!(recalled(), None);
        assert!(!before.is_still(&metadata(&path)));
        write("CONTENT");
        assert!(recalled().is_some());
        // Touched.
        let touched = written + Duration::from_secs(1);
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(touched).unwrap();
        assert_eq!(recalled(), None);
        write("CONTENT");
        // Another file in its place, with the same content.
        std::fs::write(directory.path().join("y"), "CONTENT").unwrap();
        std::fs::rename(directory.path().join("y"), &path).unwrap();
        assert_eq!(recalled(), None);
    }

    #[test]
    fn a_file_that_has_only_just_changed_is_not_noted() {
        let directory = tempfile::tempdir().unwrap();
        let notes = KnownDigests::new(directory.path().join("notes"), false);
        let path = directory.path().join("x");
        std::fs::write(&path, "content").unwrap();
        let changed = metadata(&path).ctime();
        for now in [0, changed, changed + 2] {
            let stamp = Stamp::at(&metadata(&path), now);
            notes.note(&path, &stamp, &known(Digest::of("content")));
            assert_eq!(notes.recall(&path, &stamp), None, "{now}");
        }
        let stamp = Stamp::at(&metadata(&path), changed + 3);
        notes.note(&path, &stamp, &known(Digest::of("content")));
        assert_eq!(notes.recall(&path, &stamp), Some(known(Digest::of("content"))));
        let anew = KnownDigests::new(directory.path().join("notes"), true);
        assert_eq!(anew.recall(&path, &stamp), None);
    }

    #[test]
    fn damaged_notes_are_none() {
        let directory = tempfile::tempdir().unwrap();
        let notes = KnownDigests::new(directory.path().to_owned(), false);
        let path = directory.path().join("x");
        std::fs::write(&path, "content").unwrap();
        let stamp = Stamp::long_ago(&metadata(&path));
        let whole = KnownDigest { sha256: Digest::of("content"), git: Some("0".repeat(40)) };
        notes.note(&path, &stamp, &whole);
        assert_eq!(notes.recall(&path, &stamp), Some(whole));
        let note = notes.note_of(&path).unwrap();
        let text = std::fs::read(&note).unwrap();
        let damaged = [&text[..0], &text[..text.len() / 2], b"\xff", &[b' '; 5000]];
        for bytes in damaged {
            std::fs::write(&note, bytes).unwrap();
            assert_eq!(notes.recall(&path, &stamp), None);
        }
    }
}
