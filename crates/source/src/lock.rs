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
    /// `seatrial.lock/2`.
    pub schema: String,
    /// Sources by the names that the recipe gives them.
    pub sources: BTreeMap<String, LockedSource>,
    /// Source distributions by file name.
    pub distributions: BTreeMap<String, LockedDistribution>,
}

/// One pinned source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedSource {
    /// Kind and place as the recipe names them.
    pub origin: String,
    /// The commit, where the place has one.
    pub revision: Option<String>,
    /// Everything that was read: files by path, or task directories by name.
    pub files: BTreeMap<String, LockedFile>,
    /// Rows that were read.
    pub rows: u64,
    /// Rows that were left out because they cannot be read.
    pub left_out: u64,
}

/// One pinned file, or one pinned task directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedFile {
    /// SHA-256 of the file as it lies there, compressed or not.
    pub sha256: Digest,
    /// Its size in bytes.
    pub size: u64,
    /// Rows that were read of it.
    pub rows: u64,
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
    /// The recipe names another place.
    Origin {
        /// In the lock.
        locked: String,
        /// In the recipe.
        found: String,
    },
    /// Another revision: a branch or a tag has moved.
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
    /// The same files gave another number of bad rows: the reading rules have changed.
    LeftOut {
        /// In the lock.
        locked: u64,
        /// In hand.
        found: u64,
    },
}

/// One value that differs between the lock and what is there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct LockChange {
    /// The file, or the source or distribution as a whole.
    pub what: String,
    /// In the lock; none when it is new.
    pub locked: Option<String>,
    /// In hand; none when it is gone.
    pub found: Option<String>,
}

impl Document for SeatrialLock {
    const SCHEMA: &'static str = "seatrial.lock/2";
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

    /// The sources as documents name their inputs.
    pub fn inputs(&self) -> BTreeMap<String, SourceInput> {
        self.sources.iter().map(|(name, source)| (name.clone(), source.input())).collect()
    }

    /// Holds a source against its entry.
    pub fn check(&self, name: &str, found: &LockedSource) -> Result<(), Drift> {
        let drift = |cause| Err(Drift { name: name.to_owned(), cause });
        let Some(locked) = self.sources.get(name) else {
            return drift(DriftCause::NotLocked);
        };
        if locked.origin != found.origin {
            let (locked, found) = (locked.origin.clone(), found.origin.clone());
            return drift(DriftCause::Origin { locked, found });
        }
        if locked.revision != found.revision {
            let (locked, found) = (locked.revision.clone(), found.revision.clone());
            return drift(DriftCause::Revision { locked, found });
        }
        let changes = differences(&locked.digests(), &found.digests());
        if !changes.is_empty() {
            return drift(DriftCause::Files(changes));
        }
        if locked.rows != found.rows {
            return drift(DriftCause::Rows { locked: locked.rows, found: found.rows });
        }
        if locked.left_out != found.left_out {
            return drift(DriftCause::LeftOut { locked: locked.left_out, found: found.left_out });
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
                locked: Some(locked.sha256.hex()),
                found: Some(found.hex()),
            }]),
        };
        Err(Drift { name: file.to_owned(), cause })
    }

    /// What this lock says otherwise than `earlier`, in order of names.
    pub fn changes_since(&self, earlier: &Self) -> Vec<LockChange> {
        let values = |lock: &Self| -> BTreeMap<String, String> {
            let sources = lock.sources.iter().flat_map(|(name, source)| {
                let files = source.digests().into_iter();
                files.map(move |(file, digest)| (format!("source {name}: {file}"), digest))
            });
            let distributions = lock
                .distributions
                .iter()
                .map(|(file, entry)| (format!("distribution {file}"), entry.sha256.hex()));
            sources.chain(distributions).collect()
        };
        let mut changes = differences(&values(earlier), &values(self));
        for (name, source) in &self.sources {
            if let Some(before) = earlier.sources.get(name) {
                changes.extend(source.whole_since(name, before));
            }
        }
        changes.sort();
        changes
    }
}

impl LockedSource {
    /// The source as documents name their inputs.
    pub fn input(&self) -> SourceInput {
        let sha256 = self.files.iter().map(|(path, file)| (path.clone(), file.sha256)).collect();
        SourceInput { revision: self.revision.clone(), sha256, rows: self.rows }
    }

    /// What is said otherwise of the source as a whole. Rows are named where the files do not explain them.
    fn whole_since(&self, name: &str, earlier: &Self) -> Vec<LockChange> {
        let same_files = self.digests() == earlier.digests();
        let number = |number: u64| same_files.then(|| number.to_string());
        let values = |source: &Self| {
            [
                ("origin", Some(source.origin.clone())),
                ("revision", source.revision.clone()),
                ("rows", number(source.rows)),
                ("rows left out", number(source.left_out)),
            ]
        };
        let pairs = values(earlier).into_iter().zip(values(self));
        pairs
            .filter(|((_, locked), (_, found))| locked != found)
            .map(|((what, locked), (_, found))| LockChange {
                what: format!("source {name}: {what}"),
                locked,
                found,
            })
            .collect()
    }

    fn digests(&self) -> BTreeMap<String, String> {
        self.files.iter().map(|(path, file)| (path.clone(), file.sha256.hex())).collect()
    }
}

/// What differs between two sets of named values, in the order of names.
pub(crate) fn differences(
    locked: &BTreeMap<String, String>,
    found: &BTreeMap<String, String>,
) -> Vec<LockChange> {
    let mut changes: Vec<_> = locked
        .iter()
        .filter(|(what, value)| found.get(*what) != Some(value))
        .map(|(what, value)| LockChange {
            what: what.clone(),
            locked: Some(value.clone()),
            found: found.get(what).cloned(),
        })
        .collect();
    let new = found.iter().filter(|(what, _)| !locked.contains_key(*what));
    changes.extend(new.map(|(what, value)| LockChange {
        what: what.clone(),
        locked: None,
        found: Some(value.clone()),
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
            Self::Origin { locked, found } => write!(f, "`{locked}` is locked, the recipe names `{found}`"),
            Self::Revision { locked, found } => {
                write!(f, "revision {} is locked, {} is there", or_none(locked), or_none(found))
            }
            Self::LeftOut { locked, found } => {
                write!(f, "{locked} bad rows are locked, {found} were found")
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
        match (&self.locked, &self.found) {
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

    fn input(files: &[(&str, &str)], rows: u64) -> LockedSource {
        let files = files.iter().map(|(file, text)| {
            let file_rows = rows / files.len().max(1) as u64;
            let size = text.len() as u64;
            ((*file).to_owned(), LockedFile { sha256: Digest::of(text), size, rows: file_rows })
        });
        LockedSource { origin: "file".into(), revision: None, files: files.collect(), rows, left_out: 0 }
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
        let shown: Vec<_> =
            changes.iter().map(|change| (change.what.as_str(), change.found.clone())).collect();
        assert_eq!(shown, [("t/2", None), ("t/3", Some(Digest::of("3").hex()))]);
        let elsewhere = LockedSource { origin: "dir".into(), ..input(&[("x.jsonl", "1")], 1) };
        assert!(matches!(lock.check("b", &elsewhere), Err(Drift { cause: DriftCause::Origin { .. }, .. })));
        let moved = LockedSource { revision: Some("c".into()), ..input(&[("x.jsonl", "1")], 1) };
        let message = lock.check("b", &moved).unwrap_err().to_string();
        assert!(message.contains("revision none is locked, c is there"), "{message}");
        let fewer = LockedSource { left_out: 1, ..input(&[("x.jsonl", "1")], 1) };
        assert!(matches!(lock.check("b", &fewer), Err(Drift { cause: DriftCause::LeftOut { .. }, .. })));
        let rows = lock.check("b", &input(&[("x.jsonl", "1")], 9)).unwrap_err();
        assert_eq!(rows.cause, DriftCause::Rows { locked: 1, found: 9 });
        assert!(lock.check_distribution("p-1.0.tar.gz", Digest::of("other")).is_err());
        assert!(lock.check_distribution("p-1.0.tar.gz", Digest::of("sdist")).is_ok());
    }

    #[test]
    fn changes_between_two_locks_are_listed_by_name() {
        let mut newer = lock();
        newer.sources.remove("b");
        newer.sources.get_mut("a").unwrap().revision = Some("c".into());
        let changes: Vec<_> = newer.changes_since(&lock()).iter().map(|change| change.what.clone()).collect();
        assert_eq!(changes, ["source a: revision", "source b: x.jsonl"]);
        assert_eq!(lock().changes_since(&lock()), []);
    }
}
