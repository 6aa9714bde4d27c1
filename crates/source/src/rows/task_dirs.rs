//! Directories of Harbor task directories.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use fs_err as fs;
use ident::{Digest, Sha256Writer, TaskId, TaskIdError};

use crate::file::{KnownDigest, KnownDigests, Stamp};
use crate::lock::LockedSource;

/// One task directory: its name is the task's id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskDirectory {
    /// The id.
    pub id: TaskId,
    /// The directory.
    pub path: PathBuf,
}

/// What a directory of task directories holds.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// Task directories in order of id.
    pub tasks: Vec<TaskDirectory>,
    /// What else lies there, as sentences.
    pub notes: Vec<String>,
    /// Names of task directories that are no ids.
    pub faults: Vec<(PathBuf, BadName)>,
}

/// Why a name is no id.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadName {
    #[error("the name is not valid UTF-8")]
    NotUtf8,
    #[error(transparent)]
    TaskId(#[from] TaskIdError),
}

/// Lists the children of `root` that hold a `task.toml`. Links are named and not followed.
pub(crate) fn list_task_directories(root: &Path) -> io::Result<Listing> {
    let mut listing = Listing::default();
    let mut entries = fs::read_dir(root)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    let mut skipped: Vec<String> = Vec::new();
    for entry in entries {
        let path = entry.path();
        let name = entry.file_name();
        if !entry.file_type()?.is_dir() || !is_file(&path.join("task.toml"))? {
            skipped.push(name.to_string_lossy().escape_debug().to_string());
            continue;
        }
        let id = name.to_str().ok_or(BadName::NotUtf8).and_then(|name| Ok(TaskId::new(name)?));
        match id {
            Ok(id) => listing.tasks.push(TaskDirectory { id, path }),
            Err(problem) => listing.faults.push((path, problem)),
        }
    }
    if !skipped.is_empty() {
        let shown: Vec<_> = skipped.iter().take(10).cloned().collect();
        let more = if skipped.len() > shown.len() { ", …" } else { "" };
        let number = skipped.len();
        listing.notes.push(format!(
            "entries that are no task directories, files and links among them: {number} ({}{more})",
            shown.join(", ")
        ));
    }
    let mut folded: Vec<_> =
        listing.tasks.iter().map(|task| (task.id.as_str().to_lowercase(), task)).collect();
    folded.sort();
    for pair in folded.windows(2) {
        if pair[0].0 == pair[1].0 {
            let (first, second) = (&pair[0].1.id, &pair[1].1.id);
            listing.notes.push(format!(
                "task directories `{first}` and `{second}` differ in case only, \
                 which some file systems cannot tell apart"
            ));
        }
    }
    Ok(listing)
}

fn is_file(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(metadata) => Ok(metadata.is_file()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// A digest of each task directory and the bytes in its files, for the lock.
pub(crate) fn hash_task_directories(
    tasks: &[TaskDirectory],
    known: Option<&KnownDigests>,
) -> io::Result<Vec<(TaskId, Digest, u64)>> {
    let hash = |task: &TaskDirectory| {
        let (digest, size) = hash_tree(&task.path, known)?;
        Ok((task.id.clone(), digest, size))
    };
    tasks.iter().map(hash).collect()
}

/// Whether a directory holds the task directories of the lock as they were locked, and no others.
pub(crate) fn are_as_locked(
    root: &Path,
    locked: &LockedSource,
    known: Option<&KnownDigests>,
) -> io::Result<bool> {
    let listing = list_task_directories(root)?;
    let found = hash_task_directories(&listing.tasks, known)?;
    let found: BTreeMap<&str, Digest> = found.iter().map(|(id, digest, _)| (id.as_str(), *digest)).collect();
    let pinned = locked.files.iter().map(|(id, file)| (id.as_str(), file.sha256)).collect();
    Ok(listing.faults.is_empty() && found == pinned)
}

/// Hashes names, kinds, the executable bit, contents and targets of links below `root`. Only the lock compares these
/// digests, with others of its own kind; the identity of a task is another one.
///
/// Nothing is read of a tree that is `known` and has not changed. One that changes meanwhile is refused.
pub(crate) fn hash_tree(root: &Path, known: Option<&KnownDigests>) -> io::Result<(Digest, u64)> {
    let tree = Tree::below(root)?;
    let size = tree.entries.iter().filter(|entry| entry.metadata.is_file()).map(|entry| entry.metadata.len());
    let size = size.sum();
    if let Some(noted) = known.and_then(|known| known.recall(root, &tree.stamp)) {
        return Ok((noted.sha256, size));
    }
    let mut hash = Sha256Writer::new(io::sink());
    for Entry { name, metadata } in &tree.entries {
        let path = root.join(name);
        let (kind, content) = if metadata.is_dir() {
            ("directory", Digest::of(""))
        } else if metadata.is_symlink() {
            ("link", Digest::of(fs::read_link(path)?.as_os_str().as_encoded_bytes()))
        } else if metadata.is_file() {
            let kind = if is_executable(metadata) { "program" } else { "file" };
            (kind, Digest::of_reader(fs::File::open(path)?)?)
        } else {
            ("special", Digest::of(""))
        };
        // A name can hold anything but NUL, which therefore ends it.
        hash.write_all(name.as_os_str().as_encoded_bytes())?;
        hash.write_all(format!("\0{kind}\0{content}\n").as_bytes())?;
    }
    let sha256 = hash.finish().0;
    if !tree.stamp.is_same(&Tree::below(root)?.stamp) {
        let detail = format!(
            "{} has changed while it was read; run the command again when nobody writes to it",
            root.display()
        );
        return Err(io::Error::new(io::ErrorKind::InvalidData, detail));
    }
    if let Some(known) = known {
        known.note(root, &tree.stamp, &KnownDigest { sha256, git: None });
    }
    Ok((sha256, size))
}

/// What lies below a directory, without the contents of files.
struct Tree {
    entries: Vec<Entry>,
    stamp: Stamp,
}

struct Entry {
    /// The path from the directory.
    name: PathBuf,
    metadata: Metadata,
}

impl Tree {
    /// Looks at everything below `root`; the order is that of the lock's digests.
    fn below(root: &Path) -> io::Result<Self> {
        let begun = SystemTime::now();
        let mut entries = Vec::new();
        let mut open = vec![PathBuf::new()];
        while let Some(relative) = open.pop() {
            let mut found = fs::read_dir(root.join(&relative))?.collect::<io::Result<Vec<_>>>()?;
            found.sort_by_key(fs::DirEntry::file_name);
            for entry in found {
                let name = relative.join(entry.file_name());
                let metadata = fs::symlink_metadata(entry.path())?;
                if metadata.is_dir() {
                    open.push(name.clone());
                }
                entries.push(Entry { name, metadata });
            }
        }
        let stamp = Stamp::of_tree(entries.iter().map(|entry| (&*entry.name, &entry.metadata)), begun);
        Ok(Self { entries, stamp })
    }
}

fn is_executable(metadata: &Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    metadata.permissions().mode() & 0o111 != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(root: &Path, name: &str) -> PathBuf {
        let path = root.join(name);
        fs::create_dir_all(path.join("tests")).unwrap();
        fs::write(path.join("task.toml"), "version = \"1.0\"\n").unwrap();
        path
    }

    #[test]
    fn task_directories_are_listed_and_the_rest_is_named() {
        let root = tempfile::tempdir().unwrap();
        let first = task(root.path(), "b.1");
        task(root.path(), "a.1");
        fs::create_dir(root.path().join("empty")).unwrap();
        fs::write(root.path().join("README.md"), "").unwrap();
        std::os::unix::fs::symlink(&first, root.path().join("linked")).unwrap();
        let listing = list_task_directories(root.path()).unwrap();
        let ids: Vec<_> = listing.tasks.iter().map(|task| task.id.as_str()).collect();
        assert_eq!(ids, ["a.1", "b.1"]);
        assert!(listing.notes[0].contains(": 3 (README.md, empty, linked)"), "{:?}", listing.notes);
        assert!(listing.faults.is_empty());
    }

    #[test]
    fn names_that_are_no_ids_are_faults_and_names_that_collide_are_named() {
        let root = tempfile::tempdir().unwrap();
        for name in ["a.1", "A.1", "trail "] {
            task(root.path(), name);
        }
        let listing = list_task_directories(root.path()).unwrap();
        assert!(matches!(listing.faults[..], [(_, BadName::TaskId(_))]));
        assert!(listing.notes[0].contains("`A.1` and `a.1` differ in case only"), "{:?}", listing.notes);
    }

    #[test]
    fn every_byte_mode_and_link_counts() {
        use std::os::unix::fs::PermissionsExt;
        let root = tempfile::tempdir().unwrap();
        let path = task(root.path(), "a.1");
        let script = path.join("tests/test.sh");
        let digest = || hash_tree(&path, None).unwrap();
        let mut digests = vec![digest()];
        fs::write(&script, "true\n").unwrap();
        digests.push(digest());
        fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        digests.push(digest());
        std::os::unix::fs::symlink("tests", path.join("link")).unwrap();
        digests.push(digest());
        fs::write(&script, "false\n").unwrap();
        digests.push(digest());
        assert_eq!(digest(), digest());
        digests.sort();
        digests.dedup();
        assert_eq!(digests.len(), 5);
    }
    #[test]
    fn a_directory_is_read_again_when_anything_below_it_has_changed() {
        let root = tempfile::tempdir().unwrap();
        let path = task(root.path(), "a.1");
        let script = path.join("tests/test.sh");
        fs::write(&script, "true\n").unwrap();
        let notes = KnownDigests::new(root.path().join("notes"), false);
        let anew = KnownDigests::new(root.path().join("notes"), true);
        let digest = |known| hash_tree(&path, known).unwrap();
        let first = digest(Some(&notes));
        assert_eq!(first, digest(None));
        assert!(!root.path().join("notes").exists(), "a directory that has only just changed was noted");
        // Another digest than the true one shows where the answer comes from.
        let note = |text: &str| {
            let entries = Tree::below(&path).unwrap().entries;
            let later = SystemTime::now() + std::time::Duration::from_secs(3600);
            let stamp = Stamp::of_tree(entries.iter().map(|entry| (&*entry.name, &entry.metadata)), later);
            notes.note(&path, &stamp, &KnownDigest { sha256: Digest::of(text), git: None });
        };
        note("noted");
        assert_eq!(digest(Some(&notes)), (Digest::of("noted"), first.1));
        assert_eq!(digest(Some(&anew)), first);
        // The same size and the same time of writing.
        let written = fs::metadata(&script).unwrap().modified().unwrap();
        fs::write(&script, "TRUE\n").unwrap();
        fs::File::options().write(true).open(&script).unwrap().set_modified(written).unwrap();
        let second = digest(Some(&notes));
        assert_eq!(second, digest(None));
        assert_ne!(second, first);
        // A new, a renamed and a removed entry, and another mode.
        let (new, other) = (path.join("tests/new"), path.join("tests/other"));
        let changes: [&dyn Fn() -> io::Result<()>; 4] =
            [&|| fs::write(&new, ""), &|| fs::rename(&new, &other), &|| fs::remove_file(&other), &|| {
                fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            }];
        for change in changes {
            note("noted");
            assert_eq!(digest(Some(&notes)).0, Digest::of("noted"));
            change().unwrap();
            assert_eq!(digest(Some(&notes)), digest(None));
        }
    }

    #[test]
    fn directories_are_as_locked_when_none_differs_is_missing_or_new() {
        use crate::lock::LockedFile;
        let root = tempfile::tempdir().unwrap();
        let paths = ["a.1", "b.1"].map(|name| task(root.path(), name));
        let files = paths.iter().zip(["a.1", "b.1"]).map(|(path, id)| {
            let (sha256, size) = hash_tree(path, None).unwrap();
            (id.to_owned(), LockedFile { sha256, size, rows: 1 })
        });
        let locked = LockedSource {
            origin: String::new(),
            revision: None,
            files: files.collect(),
            rows: 2,
            left_out: 0,
        };
        let is_as_locked = || are_as_locked(root.path(), &locked, None).unwrap();
        assert!(is_as_locked());
        fs::write(paths[0].join("task.toml"), "version = \"2.0\"\n").unwrap();
        assert!(!is_as_locked());
        fs::write(paths[0].join("task.toml"), "version = \"1.0\"\n").unwrap();
        assert!(is_as_locked());
        let new = task(root.path(), "c.1");
        assert!(!is_as_locked());
        fs::remove_dir_all(new).unwrap();
        fs::remove_dir_all(&paths[1]).unwrap();
        assert!(!is_as_locked());
    }
}
