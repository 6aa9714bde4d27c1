//! What was done to a registry, line by line.
//!
//! Nothing depends on the journal: what is there is asked for again. It tells which repositories probably have a blob, which saves
//! sending it, and it tells people what happened.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};

use fs_err as fs;
use serde::{Deserialize, Serialize};

use crate::ImageError;

const SCHEMA: &str = "seatrial.mirror-journal/1";
const NAME: &str = "journal.jsonl";
/// Under this name a journal that grew too long is kept until the next one does.
const OLD_NAME: &str = "journal.old.jsonl";
/// A longer journal is put aside.
const MAX_JOURNAL: u64 = 64 << 20;
/// Longest line that is read.
const MAX_LINE: u64 = 64 << 10;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum Entry {
    /// A command begins.
    Begin {
        /// The journal's schema.
        schema: String,
        /// Digest of the plan.
        plan: String,
    },
    /// A blob is in a repository, sent now or found there.
    BlobOk { repository: String, digest: String, size: u64, sent: bool },
    /// A blob is in a repository because another one has it.
    MountOk { repository: String, digest: String, size: u64, from: String },
    /// An image is complete under its tag.
    TagOk { repository: String, tag: String, digest: String },
    /// An image was given up.
    Fail { repository: String, tag: String, digest: String, reason: String },
}

/// A journal that is written to, and kept to one command at a time.
pub(super) struct Journal {
    file: fs::File,
    path: PathBuf,
    /// Repositories in which earlier commands saw a blob, by its digest.
    pub(super) seen: BTreeMap<String, BTreeSet<String>>,
    _lock: fs::File,
}

/// Why there is no journal.
pub(super) enum JournalError {
    /// Another command has it.
    Locked,
    Image(ImageError),
}

impl Journal {
    /// Opens the journal in a directory of its own, which is created, and begins a command.
    pub(super) fn open(directory: &Path, plan: &str) -> Result<Self, JournalError> {
        let doing = |e: std::io::Error| {
            JournalError::Image(ImageError::io(format!("opening the journal in {}", directory.display()), e))
        };
        fs::create_dir_all(directory).map_err(doing)?;
        let mut options = fs::OpenOptions::new();
        let lock = options.create(true).truncate(false).write(true).open(directory.join("lock"));
        let lock = lock.map_err(doing)?;
        match lock.file().try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => return Err(JournalError::Locked),
            Err(std::fs::TryLockError::Error(error)) => return Err(doing(error)),
        }
        let path = directory.join(NAME);
        if fs::metadata(&path).is_ok_and(|found| found.len() > MAX_JOURNAL) {
            fs::rename(&path, directory.join(OLD_NAME)).map_err(doing)?;
        }
        let file = fs::OpenOptions::new().create(true).append(true).read(true).open(&path).map_err(doing)?;
        let (seen, torn) = read(&file).map_err(doing)?;
        let mut journal = Self { file, path, seen, _lock: lock };
        if torn {
            journal.file.write_all(b"\n").map_err(doing)?;
        }
        journal
            .write(&Entry::Begin { schema: SCHEMA.to_owned(), plan: plan.to_owned() })
            .map_err(JournalError::Image)?;
        Ok(journal)
    }

    /// Appends an event. Ends of images are on the disk when this returns.
    pub(super) fn write(&mut self, entry: &Entry) -> Result<(), ImageError> {
        let doing = |e| ImageError::io(format!("writing {}", self.path.display()), e);
        let mut line = serde_json::to_vec(entry).map_err(|e| doing(e.into()))?;
        line.push(b'\n');
        self.file.write_all(&line).map_err(doing)?;
        if matches!(entry, Entry::TagOk { .. } | Entry::Fail { .. }) {
            self.file.sync_data().map_err(doing)?;
        }
        Ok(())
    }
}

/// Blobs by digest, and whether the last line has no end. Lines that are none are left out: a killed command may leave one.
fn read(file: &fs::File) -> std::io::Result<(BTreeMap<String, BTreeSet<String>>, bool)> {
    let mut reader = BufReader::new(file.file());
    let mut seen: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut torn = false;
    loop {
        let mut line = Vec::new();
        if reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)? == 0 {
            return Ok((seen, torn));
        }
        torn = line.last() != Some(&b'\n');
        if let Ok(Entry::BlobOk { repository, digest, .. } | Entry::MountOk { repository, digest, .. }) =
            serde_json::from_slice(&line)
        {
            seen.entry(digest).or_default().insert(repository);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(directory: &Path) -> Journal {
        match Journal::open(directory, "plan") {
            Ok(journal) => journal,
            Err(JournalError::Locked) => panic!("locked"),
            Err(JournalError::Image(error)) => panic!("{error}"),
        }
    }

    fn blob(repository: &str, digest: &str) -> Entry {
        Entry::BlobOk { repository: repository.into(), digest: digest.into(), size: 1, sent: true }
    }

    #[test]
    fn a_torn_line_costs_that_line_only() {
        let directory = tempfile::tempdir().unwrap();
        let mut journal = open(directory.path());
        journal.write(&blob("a", "one")).unwrap();
        journal.write(&blob("b", "one")).unwrap();
        drop(journal);
        let path = directory.path().join(NAME);
        let mut text = fs::read_to_string(&path).unwrap();
        text.push_str("{\"event\":\"blob_ok\",\"repos");
        fs::write(&path, text).unwrap();
        let mut journal = open(directory.path());
        assert_eq!(journal.seen["one"].len(), 2);
        journal.write(&blob("c", "two")).unwrap();
        drop(journal);
        let journal = open(directory.path());
        assert_eq!((journal.seen["one"].len(), journal.seen["two"].len()), (2, 1));
    }

    #[test]
    fn one_command_writes_at_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let _first = open(directory.path());
        assert!(matches!(Journal::open(directory.path(), "plan"), Err(JournalError::Locked)));
    }
}
