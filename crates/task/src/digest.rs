//! What a task directory is: Harbor's two digests and Seatrial's own.

use std::collections::BTreeMap;
use std::path::Path;

use ident::{Digest, Sha256Writer};

use crate::harborignore::{ListFilter, WalkFilter};
use crate::snapshot::{Entries, MAX_DEPTH, Node, Snapshot};
use crate::{TaskError, printable};

/// The files at the root of a task that Harbor's content hash covers.
const HASHED_FILES: [&[u8]; 4] = [b"task.toml", b"instruction.md", b"README.md", b"trajectory.json"];
/// The folders that it covers.
const HASHED_FOLDERS: [&[u8]; 4] = [b"environment", b"tests", b"solution", b"steps"];
/// Followed directory links can multiply what is visited.
const MAX_VISITS: usize = 1_000_000;

/// The identities of one task directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskDigests {
    /// Harbor's content hash, as in its lock files and data sets.
    pub content_hash: Digest,
    /// Harbor's older checksum over the whole directory, a required field of its trial results.
    pub task_checksum: Digest,
    /// Seatrial's own identity of the directory, see [`tree_digest_of`].
    pub tree_digest: Digest,
    /// The identity of everything that gives the reward: the digest of `tests/` alone or, in a task whose steps bring
    /// tests, of a tree that holds `tests/` and every `steps/<step>/tests/`. A link from there to another place in the
    /// task counts with the content that it ends at.
    pub verifier_digest: Digest,
}

/// Computes the digests of the task directory at `path`. Nothing in it has to parse.
///
/// The first two are those of Harbor 0.26, byte for byte. Harbor cannot hash file names that are not UTF-8; here their
/// bytes are taken. Stricter than Harbor, any link that is absolute, leaves the directory, points at nothing or runs in
/// a circle is an error, as is anything that is neither file, directory nor link.
pub fn digest_task(path: &Path) -> Result<TaskDigests, TaskError> {
    digests(&Snapshot::take(path)?, path)
}

/// The same, with the digest of every regular file by the bytes of its path below the directory: each file is read once.
pub fn digest_task_and_files(path: &Path) -> Result<(TaskDigests, FileDigests), TaskError> {
    let snapshot = Snapshot::take(path)?;
    let mut files = FileDigests::new();
    each_leaf(&snapshot.root, &mut Vec::new(), &mut |path, _, node| {
        if let Node::File { digest, .. } = node {
            files.insert(path.to_vec(), *digest);
        }
    });
    Ok((digests(&snapshot, path)?, files))
}

/// Digests of files by the bytes of their paths, components joined by `/`.
pub type FileDigests = BTreeMap<Vec<u8>, Digest>;

/// Visits all files and links with their paths, components joined by `/`, and their names.
fn each_leaf<'a>(entries: &'a Entries, above: &mut Vec<u8>, visit: &mut impl FnMut(&[u8], &[u8], &'a Node)) {
    for (name, node) in entries {
        let length = above.len();
        above.extend_from_slice(name);
        if let Node::Directory(children) = node {
            above.push(b'/');
            each_leaf(children, above, visit);
        } else {
            visit(above, name, node);
        }
        above.truncate(length);
    }
}

fn digests(snapshot: &Snapshot, path: &Path) -> Result<TaskDigests, TaskError> {
    Ok(TaskDigests {
        content_hash: content_hash(snapshot),
        task_checksum: task_checksum(snapshot, path)?,
        tree_digest: tree_digest(&snapshot.root, &|_| None),
        verifier_digest: verifier_digest(snapshot),
    })
}

/// Computes Seatrial's identity of any directory, such as a task's `tests/`, which makes the verifier digest.
///
/// SHA-256 over the line `seatrial.tree/1\n` and then, for every file and link in ascending order of the bytes of its
/// path (components joined by `/`), one record of
///
/// - one byte for its kind: `f` file, `x` file that its owner may execute, `l` symbolic link;
/// - the length of the path as 8 bytes, big-endian, and the path;
/// - for a file the 32 bytes of the SHA-256 of its content, for a link the length of its text as 8 bytes and the text.
///
/// Of a file's mode only the owner's executable bit counts, because that is what git and archives agree to carry. Owners,
/// times and empty directories do not count. What operating systems and editors leave behind does not count either,
/// see [`is_litter`]; byte code and nested repositories do, because they can change what a trial does.
pub fn tree_digest_of(directory: &Path) -> Result<Digest, TaskError> {
    Ok(tree_digest(&Snapshot::take(directory)?.root, &|_| None))
}

/// Tells whether a file of this name is litter that no program of a trial reads: `.DS_Store`, `Thumbs.db`, and the
/// backups `*~`, `*.swp` and `*.swo` of editors.
///
/// Litter never counts in a tree digest, so one more `.DS_Store` leaves every verdict valid.
pub fn is_litter(name: &[u8]) -> bool {
    matches!(name, b".DS_Store" | b"Thumbs.db")
        || name.ends_with(b"~")
        || name.ends_with(b".swp")
        || name.ends_with(b".swo")
}

/// Tells whether an entry of this name does not belong into a task: litter, Python byte code and its folders, nested
/// git repositories.
pub fn is_extraneous(name: &[u8]) -> bool {
    is_litter(name) || matches!(name, b"__pycache__" | b".git") || name.ends_with(b".pyc")
}

fn verifier_digest(snapshot: &Snapshot) -> Digest {
    let tests = b"tests".to_vec();
    let folder = |node: Option<&Node>| match node {
        Some(Node::Directory(entries)) => Some(entries.clone()),
        _ => None,
    };
    let own = folder(snapshot.root.get(&tests)).unwrap_or_default();
    let steps = folder(snapshot.root.get(&b"steps"[..])).unwrap_or_default().into_iter().filter_map(
        |(name, node)| {
            let Node::Directory(step) = node else { return None };
            let inside = folder(step.get(&tests))?;
            Some((name, Node::Directory(Entries::from([(tests.clone(), Node::Directory(inside))]))))
        },
    );
    let steps: Entries = steps.collect();
    let root = if steps.is_empty() {
        own
    } else {
        Entries::from([(tests, Node::Directory(own)), (b"steps".to_vec(), Node::Directory(steps))])
    };
    let outside = |ends_at: &[Vec<u8>]| {
        let inside = match ends_at {
            [first, ..] if first == b"tests" => true,
            [first, _, third, ..] => first == b"steps" && third == b"tests",
            _ => false,
        };
        match snapshot.get(ends_at) {
            _ if inside => None,
            Some(Node::File { digest, .. }) => Some(*digest),
            Some(Node::Directory(entries)) => Some(tree_digest(entries, &|_| None)),
            Some(Node::Link { .. }) | None => None,
        }
    };
    tree_digest(&root, &outside)
}

/// Digests a tree as [`tree_digest_of`] says. For a link that ends outside of it, `outside` gives the digest of its end,
/// which is put behind the record of the link.
fn tree_digest(root: &Entries, outside: &dyn Fn(&[Vec<u8>]) -> Option<Digest>) -> Digest {
    let mut records = Vec::new();
    each_leaf(root, &mut Vec::new(), &mut |path, name, node| {
        if !is_litter(name) {
            records.push((path.to_vec(), node));
        }
    });
    records.sort_by(|a, b| a.0.cmp(&b.0));
    let mut stream = b"seatrial.tree/1\n".to_vec();
    let sized = |bytes: &[u8], stream: &mut Vec<u8>| {
        stream.extend((bytes.len() as u64).to_be_bytes());
        stream.extend(bytes);
    };
    for (path, node) in records {
        match node {
            Node::File { digest, executable, .. } => {
                stream.push(if *executable { b'x' } else { b'f' });
                sized(&path, &mut stream);
                stream.extend(digest.as_bytes());
            }
            Node::Link { target, ends_at } => {
                stream.push(b'l');
                sized(&path, &mut stream);
                sized(target, &mut stream);
                if let Some(end) = outside(ends_at) {
                    stream.extend(end.as_bytes());
                }
            }
            Node::Directory(_) => {}
        }
    }
    Digest::of(stream)
}

fn content_hash(snapshot: &Snapshot) -> Digest {
    let walk_filter = WalkFilter::of(snapshot);
    let list_filter = ListFilter::of(snapshot);
    let mut files: Vec<(Vec<u8>, Digest)> = Vec::new();
    for name in HASHED_FILES {
        let path = [name.to_vec()];
        if let Some(digest) = snapshot.get(&path).and_then(|node| file_digest(snapshot, node)) {
            files.push((name.to_vec(), digest));
        }
    }
    for folder in HASHED_FOLDERS {
        let mut path = vec![folder.to_vec()];
        if let Some(Node::Directory(children)) = snapshot.get(&path) {
            packaged(snapshot, &walk_filter, children, &mut path, &mut files);
        }
    }
    files.retain(|(path, _)| !list_filter.excludes(path));
    files.sort();
    let mut stream = Vec::new();
    for (path, digest) in files {
        stream.extend(path);
        stream.push(0);
        stream.extend(digest.hex().as_bytes());
        stream.push(b'\n');
    }
    Digest::of(stream)
}

/// Collects every file below a packaged folder; directory links are neither entered nor counted.
fn packaged(
    snapshot: &Snapshot,
    filter: &WalkFilter<'_>,
    entries: &Entries,
    path: &mut Vec<Vec<u8>>,
    into: &mut Vec<(Vec<u8>, Digest)>,
) {
    for (name, node) in entries {
        path.push(name.clone());
        if !filter.excludes(path) {
            if let Node::Directory(children) = node {
                packaged(snapshot, filter, children, path, into);
            } else if let Some(digest) = file_digest(snapshot, node) {
                into.push((path.join(&b'/'), digest));
            }
        }
        path.pop();
    }
}

fn file_digest(snapshot: &Snapshot, node: &Node) -> Option<Digest> {
    match node {
        Node::File { digest, .. } => Some(*digest),
        Node::Link { ends_at, .. } => match snapshot.get(ends_at) {
            Some(Node::File { digest, .. }) => Some(*digest),
            _ => None,
        },
        Node::Directory(_) => None,
    }
}

fn task_checksum(snapshot: &Snapshot, root: &Path) -> Result<Digest, TaskError> {
    let mut walk = Checksum { snapshot, filter: WalkFilter::of(snapshot), root, open: Vec::new(), visits: 0 };
    let digest = walk.directory(&snapshot.root, Vec::new(), &mut Vec::new())?;
    Ok(digest.unwrap_or_else(|| Digest::of("")))
}

/// The `dirhash` walk: names and data, links followed, empty directories skipped.
struct Checksum<'a> {
    snapshot: &'a Snapshot,
    filter: WalkFilter<'a>,
    root: &'a Path,
    /// Where the directories that are being read really stand, from the root inwards.
    open: Vec<Vec<Vec<u8>>>,
    visits: usize,
}

impl<'a> Checksum<'a> {
    /// The digest of a directory, or `None` when no file lies below it.
    fn directory(
        &mut self,
        entries: &'a Entries,
        stands_at: Vec<Vec<u8>>,
        path: &mut Vec<Vec<u8>>,
    ) -> Result<Option<Digest>, TaskError> {
        if self.open.len() > MAX_DEPTH {
            return Err(TaskError::TooDeep { path: printable(&path.join(&b'/')), limit: MAX_DEPTH });
        }
        self.open.push(stands_at);
        let mut records: Vec<Vec<u8>> = Vec::with_capacity(entries.len());
        for (name, node) in entries {
            self.visits += 1;
            if self.visits > MAX_VISITS {
                return Err(TaskError::TooManyEntries { path: self.root.to_owned(), limit: MAX_VISITS });
            }
            path.push(name.clone());
            if !self.filter.excludes(path) {
                records.extend(self.entry(name, node, path)?);
            }
            path.pop();
        }
        self.open.pop();
        if records.is_empty() {
            return Ok(None);
        }
        records.sort();
        let mut writer = Sha256Writer::new(std::io::sink());
        let written = std::io::copy(&mut records.join(&b"\0\0"[..]).as_slice(), &mut writer);
        written.expect("a sink takes everything");
        Ok(Some(writer.finish().0))
    }

    fn entry(
        &mut self,
        name: &[u8],
        node: &'a Node,
        path: &mut Vec<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>, TaskError> {
        let (kind, digest) = match node {
            Node::File { digest, .. } => ("data", *digest),
            Node::Directory(children) => {
                let mut stands_at = self.open.last().cloned().unwrap_or_default();
                stands_at.push(name.to_vec());
                match self.directory(children, stands_at, path)? {
                    Some(digest) => ("dirhash", digest),
                    None => return Ok(None),
                }
            }
            Node::Link { ends_at, .. } => match self.snapshot.get(ends_at) {
                Some(Node::File { digest, .. }) => ("data", *digest),
                Some(Node::Directory(children)) => {
                    if self.open.contains(ends_at) {
                        return Err(TaskError::LinkCycle { link: printable(&path.join(&b'/')) });
                    }
                    match self.directory(children, ends_at.clone(), path)? {
                        Some(digest) => ("dirhash", digest),
                        None => return Ok(None),
                    }
                }
                // The walk refuses links to the root, and a resolved end is never a link.
                Some(Node::Link { .. }) | None => return Ok(None),
            },
        };
        let mut record = format!("{kind}:{digest}\0name:").into_bytes();
        record.extend_from_slice(name);
        Ok(Some(record))
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use fs_err as fs;

    use super::*;

    fn task() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("task.toml", ""),
            ("instruction.md", "do it\n"),
            ("environment/Dockerfile", "FROM x\n"),
            ("environment/data/a.csv", "1\r\n"),
            ("tests/test.sh", "exit 0\n"),
        ] {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        directory
    }

    #[test]
    fn content_modes_and_link_texts_count_and_litter_does_not() {
        let task = task();
        let path = task.path();
        let digest = || tree_digest_of(path).unwrap();
        let first = digest();
        fs::write(path.join("environment/.DS_Store"), "x").unwrap();
        fs::write(path.join("environment/a.csv~"), "x").unwrap();
        fs::create_dir(path.join("environment/empty")).unwrap();
        assert_eq!(digest(), first);
        let script = path.join("tests/test.sh");
        fs::set_permissions(&script, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(digest(), first, "only the executable bit of a mode counts");
        fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        let second = digest();
        assert_ne!(second, first);
        symlink("test.sh", path.join("tests/run.sh")).unwrap();
        let third = digest();
        assert_ne!(third, second);
        fs::remove_file(path.join("tests/run.sh")).unwrap();
        symlink("./test.sh", path.join("tests/run.sh")).unwrap();
        assert_ne!(digest(), third, "the text of a link counts");
    }

    #[test]
    fn every_file_comes_with_its_digest() {
        let task = task();
        fs::write(task.path().join("tests/a~"), "litter").unwrap();
        symlink("test.sh", task.path().join("tests/again")).unwrap();
        let (digests, files) = digest_task_and_files(task.path()).unwrap();
        assert_eq!(digests, digest_task(task.path()).unwrap());
        let names: Vec<&[u8]> = files.keys().map(Vec::as_slice).collect();
        let expected: [&[u8]; 6] = [
            b"environment/Dockerfile",
            b"environment/data/a.csv",
            b"instruction.md",
            b"task.toml",
            b"tests/a~",
            b"tests/test.sh",
        ];
        assert_eq!(names, expected);
        assert_eq!(files[&b"tests/a~"[..]], Digest::of("litter"));
    }

    #[test]
    fn names_need_not_be_text() {
        let task = task();
        let before = digest_task(task.path()).unwrap();
        fs::write(task.path().join("environment").join(OsStr::from_bytes(b"foo\xff")), "x").unwrap();
        let after = digest_task(task.path()).unwrap();
        assert_ne!(after.tree_digest, before.tree_digest);
        assert_ne!(after.content_hash, before.content_hash);
        assert_ne!(after.task_checksum, before.task_checksum);
    }

    #[test]
    fn links_out_dangling_links_and_circles_are_named() {
        for (link, target, expected) in [
            (
                "environment/passwd",
                "/etc/passwd",
                "`environment/passwd` leads out of the task, to `/etc/passwd`",
            ),
            ("tests/shared", "../../../outside", "`tests/shared` leads out of the task"),
            ("tests/gone", "nothing", "`tests/gone` points at `nothing`"),
            ("tests/through", "test.sh/x", "`tests/through` points at"),
            ("tests/self", "self", "`tests/self` leads back"),
            ("tests/up", "../tests", "`tests/up` leads back"),
        ] {
            let task = task();
            symlink(target, task.path().join(link)).unwrap();
            let error = digest_task(task.path()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn the_verifier_is_its_tests_and_what_they_link_to() {
        let task = task();
        let path = task.path();
        let digest = || digest_task(path).unwrap().verifier_digest;
        let first = digest();
        assert_eq!(first, tree_digest_of(&path.join("tests")).unwrap());
        fs::write(path.join("instruction.md"), "do something else\n").unwrap();
        assert_eq!(digest(), first);
        symlink("../environment/data/a.csv", path.join("tests/a.csv")).unwrap();
        let linked = digest();
        assert_ne!(linked, first);
        fs::write(path.join("environment/data/a.csv"), "2\n").unwrap();
        assert_ne!(digest(), linked, "the end of a link out of tests/ counts");
        let before = digest();
        fs::create_dir_all(path.join("steps/one/tests")).unwrap();
        fs::write(path.join("steps/one/tests/test.sh"), "exit 1\n").unwrap();
        assert_ne!(digest(), before);
    }

    #[test]
    fn a_circle_of_two_links_is_found_and_a_second_way_is_none() {
        let task = task();
        symlink("../environment/data", task.path().join("tests/data")).unwrap();
        symlink("data/a.csv", task.path().join("environment/a.csv")).unwrap();
        digest_task(task.path()).unwrap();
        symlink("../../tests", task.path().join("environment/data/tests")).unwrap();
        assert!(matches!(digest_task(task.path()), Err(TaskError::LinkCycle { .. })));
    }

    #[test]
    fn a_socket_is_refused() {
        let task = task();
        let socket = task.path().join("tests/socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert!(
            matches!(digest_task(task.path()), Err(TaskError::SpecialFile { path }) if path == "tests/socket")
        );
    }
}
