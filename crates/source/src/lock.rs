//! The lock: what every source was when it was pinned.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use artifact::{ArtifactError, Document, write_atomic};
use ident::{CanonicalError, Digest, to_canonical_json};
use record::SourceInput;
use serde::{Deserialize, Serialize};

/// `seatrial.lock`: digests of every source and of every source distribution that a project was made from.
///
/// The file is canonical JSON with line breaks and indentation, so that a change of one digest is a change of one line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeatrialLock {
    /// `seatrial.lock/1`.
    pub schema: String,
    /// Sources by the names that the recipe gives them.
    pub sources: BTreeMap<String, SourceInput>,
    /// Source distributions by file name.
    pub distributions: BTreeMap<String, LockedDistribution>,
}

/// One pinned source distribution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedDistribution {
    /// Normalised name of the package.
    pub package: String,
    /// Version of the package.
    pub version: String,
    /// SHA-256 of the file.
    pub sha256: Digest,
}

/// A source that is not what the lock says. The command line ends with exit code 5.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("source `{name}` is not what the lock says: {cause}; {}", cause.remedy())]
pub struct Drift {
    /// The source or the file of a source distribution.
    pub name: String,
    /// What differs.
    pub cause: DriftCause,
}

/// What differs from the lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DriftCause {
    /// The lock does not know it.
    NotLocked,
    /// Other files, or other contents.
    Files(Vec<LockChange>),
    /// Another revision.
    Revision {
        /// In the lock.
        locked: Option<String>,
        /// In hand.
        found: Option<String>,
    },
    /// The same files gave another number of rows: the reading rules have changed.
    Rows {
        /// In the lock.
        locked: u64,
        /// In hand.
        found: u64,
    },
}

/// One digest that differs between the lock and what is there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct LockChange {
    /// The file, or the source or distribution as a whole.
    pub what: String,
    /// In the lock; none when it is new.
    pub locked: Option<Digest>,
    /// In hand; none when it is gone.
    pub found: Option<Digest>,
}

impl Document for SeatrialLock {
    const SCHEMA: &'static str = "seatrial.lock/1";
    const STAGE: &'static str = "source pull";
}

impl Default for SeatrialLock {
    fn default() -> Self {
        Self { schema: Self::SCHEMA.into(), sources: BTreeMap::new(), distributions: BTreeMap::new() }
    }
}

impl SeatrialLock {
    /// Reads the lock; none when there is no file.
    pub fn load(path: &Path) -> Result<Option<Self>, ArtifactError> {
        Ok(artifact::load_optional::<Self>(path)?.map(|(lock, _)| lock))
    }

    /// Writes the lock and returns the digest of its file.
    pub fn store(&self, path: &Path) -> Result<Digest, ArtifactError> {
        let text = self.to_text()?;
        write_atomic(path, text.as_bytes())?;
        Ok(Digest::of(text))
    }

    /// The text of the file.
    pub fn to_text(&self) -> Result<String, CanonicalError> {
        // Sorted first: the pretty printer keeps the order that it is given.
        let sorted: serde_json::Value = serde_json::from_str(&to_canonical_json(self)?)?;
        let mut text = serde_json::to_string_pretty(&sorted)?;
        text.push('\n');
        Ok(text)
    }

    /// Holds a source against its entry.
    pub fn check(&self, name: &str, found: &SourceInput) -> Result<(), Drift> {
        let drift = |cause| Err(Drift { name: name.to_owned(), cause });
        let Some(locked) = self.sources.get(name) else {
            return drift(DriftCause::NotLocked);
        };
        if locked.revision != found.revision {
            let (locked, found) = (locked.revision.clone(), found.revision.clone());
            return drift(DriftCause::Revision { locked, found });
        }
        let changes = file_changes(&locked.sha256, &found.sha256);
        if !changes.is_empty() {
            return drift(DriftCause::Files(changes));
        }
        if locked.rows != found.rows {
            return drift(DriftCause::Rows { locked: locked.rows, found: found.rows });
        }
        Ok(())
    }

    /// Holds a source distribution against its entry.
    pub fn check_distribution(&self, file: &str, found: Digest) -> Result<(), Drift> {
        let cause = match self.distributions.get(file) {
            None => DriftCause::NotLocked,
            Some(locked) if locked.sha256 == found => return Ok(()),
            Some(locked) => DriftCause::Files(vec![LockChange {
                what: file.to_owned(),
                locked: Some(locked.sha256),
                found: Some(found),
            }]),
        };
        Err(Drift { name: file.to_owned(), cause })
    }

    /// What this lock says otherwise than `earlier`, in order of names.
    pub fn changes_since(&self, earlier: &Self) -> Vec<LockChange> {
        let files = |lock: &Self| -> BTreeMap<String, Digest> {
            let sources = lock.sources.iter().flat_map(|(name, input)| {
                input.sha256.iter().map(move |(file, digest)| (format!("source {name}: {file}"), *digest))
            });
            let distributions =
                lock.distributions.iter().map(|(file, entry)| (format!("distribution {file}"), entry.sha256));
            sources.chain(distributions).collect()
        };
        file_changes(&files(earlier), &files(self))
    }
}

fn file_changes(locked: &BTreeMap<String, Digest>, found: &BTreeMap<String, Digest>) -> Vec<LockChange> {
    let mut changes: Vec<_> = locked
        .iter()
        .filter(|(what, digest)| found.get(*what) != Some(digest))
        .map(|(what, digest)| LockChange {
            what: what.clone(),
            locked: Some(*digest),
            found: found.get(what).copied(),
        })
        .collect();
    let new = found.iter().filter(|(what, _)| !locked.contains_key(*what));
    changes.extend(new.map(|(what, digest)| LockChange {
        what: what.clone(),
        locked: None,
        found: Some(*digest),
    }));
    changes.sort();
    changes
}

impl DriftCause {
    fn remedy(&self) -> &'static str {
        match self {
            Self::NotLocked => "run `seatrial source pull` to lock it",
            _ => "put the locked data back, or accept the new data with `seatrial source pull --update`",
        }
    }
}

impl fmt::Display for DriftCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// A drifted directory can have thousands of changes; the first ones show the kind.
        const SHOWN: usize = 5;
        let or_none = |revision: &Option<String>| revision.clone().unwrap_or_else(|| "none".into());
        match self {
            Self::NotLocked => f.write_str("it is not locked"),
            Self::Revision { locked, found } => {
                write!(f, "revision {} is locked, {} is there", or_none(locked), or_none(found))
            }
            Self::Rows { locked, found } => write!(f, "{locked} rows are locked, {found} were read"),
            Self::Files(changes) => {
                for (at, change) in changes.iter().take(SHOWN).enumerate() {
                    write!(f, "{}{change}", if at == 0 { "" } else { ", " })?;
                }
                match changes.len().saturating_sub(SHOWN) {
                    0 => Ok(()),
                    more => write!(f, " and {more} more"),
                }
            }
        }
    }
}

impl fmt::Display for LockChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.what)?;
        match (self.locked, self.found) {
            (Some(locked), Some(found)) => write!(f, "is locked as {locked} and is now {found}"),
            (Some(locked), None) => write!(f, "is locked as {locked} and is gone"),
            (None, Some(found)) => write!(f, "is new: {found}"),
            (None, None) => f.write_str("is nowhere"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(files: &[(&str, &str)], rows: u64) -> SourceInput {
        let sha256 = files.iter().map(|(file, text)| ((*file).to_owned(), Digest::of(text))).collect();
        SourceInput { revision: None, sha256, rows }
    }

    fn lock() -> SeatrialLock {
        let mut lock = SeatrialLock::default();
        lock.sources.insert("b".into(), input(&[("x.jsonl", "1")], 1));
        lock.sources.insert("a".into(), input(&[("t/2", "2"), ("t/1", "1")], 2));
        let entry =
            LockedDistribution { package: "p".into(), version: "1.0".into(), sha256: Digest::of("sdist") };
        lock.distributions.insert("p-1.0.tar.gz".into(), entry);
        lock
    }

    #[test]
    fn the_file_is_sorted_readable_and_comes_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("seatrial.lock");
        assert_eq!(SeatrialLock::load(&path).unwrap(), None);
        lock().store(&path).unwrap();
        let text = fs_err::read_to_string(&path).unwrap();
        assert!(text.starts_with("{\n  \"distributions\": {\n    \"p-1.0.tar.gz\": {\n"), "{text}");
        assert!(text.ends_with("}\n"));
        assert_eq!(SeatrialLock::load(&path).unwrap(), Some(lock()));
    }

    #[test]
    fn drift_names_both_digests_and_the_remedy() {
        let lock = lock();
        assert_eq!(lock.check("b", &input(&[("x.jsonl", "1")], 1)), Ok(()));
        let message = lock.check("b", &input(&[("x.jsonl", "2")], 1)).unwrap_err().to_string();
        for part in [Digest::of("1").hex(), Digest::of("2").hex(), "source pull --update".into()] {
            assert!(message.contains(&part), "{message}");
        }
        let unknown = lock.check("c", &input(&[], 0)).unwrap_err();
        assert_eq!(unknown.cause, DriftCause::NotLocked);
        let Err(Drift { cause: DriftCause::Files(changes), .. }) =
            lock.check("a", &input(&[("t/1", "1"), ("t/3", "3")], 2))
        else {
            panic!("no drift was seen");
        };
        let shown: Vec<_> = changes.iter().map(|change| (change.what.as_str(), change.found)).collect();
        assert_eq!(shown, [("t/2", None), ("t/3", Some(Digest::of("3")))]);
        let rows = lock.check("b", &input(&[("x.jsonl", "1")], 9)).unwrap_err();
        assert_eq!(rows.cause, DriftCause::Rows { locked: 1, found: 9 });
        assert!(lock.check_distribution("p-1.0.tar.gz", Digest::of("other")).is_err());
        assert!(lock.check_distribution("p-1.0.tar.gz", Digest::of("sdist")).is_ok());
    }

    #[test]
    fn changes_between_two_locks_are_listed_by_name() {
        let mut newer = lock();
        newer.sources.remove("b");
        newer.sources.insert("c".into(), input(&[("y", "1")], 1));
        let changes: Vec<_> = newer.changes_since(&lock()).iter().map(|change| change.what.clone()).collect();
        assert_eq!(changes, ["source b: x.jsonl", "source c: y"]);
        assert_eq!(lock().changes_since(&lock()), []);
    }
}
