//! One look at a task directory: every entry with its kind and digest, links checked and never trusted.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::FileType;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::LazyLock;

use fs_err as fs;
use ident::Digest;

use crate::{TaskError, printable};

/// More entries than any real task holds.
const MAX_ENTRIES: usize = 200_000;
/// Deeper than any real task nests its directories; also bounds the recursion over a snapshot.
pub(crate) const MAX_DEPTH: usize = 100;
/// Ignore files are lists of a few patterns.
const MAX_IGNORE_BYTES: u64 = 1 << 20;

/// The digest of an outline's files.
static NOTHING: LazyLock<Digest> = LazyLock::new(|| Digest::of(""));

/// The system's number for links that lead to themselves; the standard library has no stable name for it.
const ELOOP: i32 = if cfg!(target_os = "linux") { 40 } else { 62 };

/// The entries of one directory by the bytes of their names.
pub(crate) type Entries = BTreeMap<Vec<u8>, Node>;

/// One entry of a directory tree as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Node {
    /// A regular file.
    File {
        /// Digest of the content.
        digest: Digest,
        /// Whether the owner may execute it.
        executable: bool,
        /// The content of the files that steer Harbor's digests, `.gitignore` and `.harborignore`.
        rules: Option<Vec<u8>>,
    },
    /// A directory.
    Directory(Entries),
    /// A symbolic link that ends at an entry of the same tree.
    Link {
        /// The text of the link.
        target: Vec<u8>,
        /// Where it ends, as components from the root of the tree.
        ends_at: Vec<Vec<u8>>,
    },
}

/// An entry of a directory that was listed by others.
#[derive(Debug, Clone, Copy)]
pub enum Listed<'a> {
    /// A directory.
    Directory,
    /// A regular file, with its content where that is known.
    File(Option<&'a [u8]>),
}

/// A whole directory tree; every link in it ends inside it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub(crate) root: Entries,
}

impl Snapshot {
    /// Reads the tree below `directory`, hashing file by file in pieces. Links are looked at and not followed.
    pub(crate) fn take(directory: &Path) -> Result<Self, TaskError> {
        Self::read(directory, true)
    }

    /// As [`take`](Self::take) for questions about names and kinds: files are not even looked at, every digest is that of
    /// nothing, and no file is executable.
    pub(crate) fn outline(directory: &Path) -> Result<Self, TaskError> {
        Self::read(directory, false)
    }

    fn read(directory: &Path, hashing: bool) -> Result<Self, TaskError> {
        let io = |source| TaskError::Io { path: directory.to_owned(), source };
        if !std::fs::symlink_metadata(directory).map_err(io)?.is_dir() {
            return Err(TaskError::NotADirectory { path: directory.to_owned() });
        }
        let canonical = std::fs::canonicalize(directory).map_err(io)?;
        let mut walk = Walk { root: &canonical, entries: 0, hashing };
        Ok(Self { root: walk.read(&canonical, &mut Vec::new())? })
    }

    /// Adds an entry to an outline; those above it have to be there. `None` where they are not, or where the content steers digests and is not known.
    pub(crate) fn insert(&mut self, path: &[u8], entry: Listed<'_>) -> Option<()> {
        let mut entries = &mut self.root;
        let mut parts = path.split(|&b| b == b'/').peekable();
        while let Some(name) = parts.next() {
            if parts.peek().is_none() {
                let node = match entry {
                    Listed::Directory => Node::Directory(Entries::new()),
                    Listed::File(content) => {
                        let rules = if steers(name) { Some(content?.to_vec()) } else { None };
                        Node::File { digest: *NOTHING, executable: false, rules }
                    }
                };
                entries.insert(name.to_vec(), node);
                return Some(());
            }
            entries = match entries.get_mut(name)? {
                Node::Directory(children) => children,
                _ => return None,
            };
        }
        None
    }

    /// Whether an entry anywhere in the tree has this name.
    pub(crate) fn holds(&self, name: &[u8]) -> bool {
        fn holds(entries: &Entries, name: &[u8]) -> bool {
            entries.iter().any(|(own, node)| {
                own == name || matches!(node, Node::Directory(children) if holds(children, name))
            })
        }
        holds(&self.root, name)
    }

    /// The entry at `components`, links not followed on the way.
    pub(crate) fn get(&self, components: &[Vec<u8>]) -> Option<&Node> {
        let (last, parents) = components.split_last()?;
        let mut entries = &self.root;
        for name in parents {
            match entries.get(name)? {
                Node::Directory(children) => entries = children,
                _ => return None,
            }
        }
        entries.get(last)
    }
}

impl Snapshot {
    /// The entry at `components` with every link on the way and at its end followed, and where it really stands.
    pub(crate) fn follow(&self, components: &[Vec<u8>]) -> Option<(&Node, Vec<Vec<u8>>)> {
        let mut stands_at = Vec::with_capacity(components.len());
        let mut found = None;
        for name in components {
            stands_at.push(name.clone());
            let mut node = self.get(&stands_at)?;
            if let Node::Link { ends_at, .. } = node {
                // The end of a link is never a link itself.
                stands_at.clone_from(ends_at);
                node = self.get(&stands_at)?;
            }
            found = Some(node);
        }
        Some((found?, stands_at))
    }
}

struct Walk<'a> {
    root: &'a Path,
    entries: usize,
    /// Whether files are read for their digests.
    hashing: bool,
}

impl Walk<'_> {
    fn read(&mut self, directory: &Path, above: &mut Vec<Vec<u8>>) -> Result<Entries, TaskError> {
        if above.len() > MAX_DEPTH {
            return Err(TaskError::TooDeep { path: printable(&above.join(&b'/')), limit: MAX_DEPTH });
        }
        let io = |source| TaskError::Io { path: directory.to_owned(), source };
        let mut entries = Entries::new();
        for entry in fs::read_dir(directory).map_err(io)? {
            let entry = entry.map_err(io)?;
            self.entries += 1;
            if self.entries > MAX_ENTRIES {
                return Err(TaskError::TooManyEntries { path: self.root.to_owned(), limit: MAX_ENTRIES });
            }
            let name = entry.file_name().into_vec();
            above.push(name.clone());
            // Mostly the directory itself knows, so that the entry need not be asked.
            let kind = entry.file_type().map_err(io)?;
            let node = self.node(&entry.path(), kind, above)?;
            above.pop();
            entries.insert(name, node);
        }
        Ok(entries)
    }

    fn node(&mut self, path: &Path, kind: FileType, relative: &mut Vec<Vec<u8>>) -> Result<Node, TaskError> {
        let io = |source| TaskError::Io { path: path.to_owned(), source };
        if kind.is_dir() {
            return Ok(Node::Directory(self.read(path, relative)?));
        }
        if kind.is_symlink() {
            return self.link(path, relative);
        }
        if !kind.is_file() {
            return Err(TaskError::SpecialFile { path: printable(&relative.join(&b'/')) });
        }
        let (digest, executable) = if self.hashing {
            let metadata = std::fs::symlink_metadata(path).map_err(io)?;
            let digest = std::fs::File::open(path).and_then(Digest::of_reader).map_err(io)?;
            (digest, metadata.permissions().mode() & 0o100 != 0)
        } else {
            (*NOTHING, false)
        };
        let rules = if relative.last().is_some_and(|name| steers(name)) {
            Some(artifact::read_bounded(path, MAX_IGNORE_BYTES)?)
        } else {
            None
        };
        Ok(Node::File { digest, executable, rules })
    }

    fn link(&self, path: &Path, relative: &[Vec<u8>]) -> Result<Node, TaskError> {
        let io = |source| TaskError::Io { path: path.to_owned(), source };
        let target = std::fs::read_link(path).map_err(io)?.into_os_string().into_vec();
        let link = || printable(&relative.join(&b'/'));
        let outside = || TaskError::LinkOutside { link: link(), target: printable(&target) };
        // The text is judged before the system is asked: a link that is absolute or climbs out is wrong on every
        // machine, whatever happens to stand at its end on this one.
        if climbs_out(&target, relative.len() - 1) {
            return Err(outside());
        }
        match std::fs::canonicalize(path) {
            Ok(end) => {
                let inside = end.strip_prefix(self.root).map_err(|_| outside())?;
                let ends_at = inside.iter().map(|name| OsStr::as_bytes(name).to_vec()).collect::<Vec<_>>();
                if end.is_dir() && relative.starts_with(&ends_at) {
                    return Err(TaskError::LinkCycle { link: link() });
                }
                Ok(Node::Link { target, ends_at })
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Err(TaskError::LinkDangling { link: link(), target: printable(&target) })
            }
            Err(error) if error.raw_os_error() == Some(ELOOP) => Err(TaskError::LinkCycle { link: link() }),
            Err(error) => Err(io(error)),
        }
    }
}

/// Whether a file of this name says what Harbor leaves out.
fn steers(name: &[u8]) -> bool {
    matches!(name, b".harborignore" | b".gitignore")
}

/// Whether a link text, read from a directory `depth` levels below the root, is absolute or climbs above the root.
pub(crate) fn climbs_out(target: &[u8], depth: usize) -> bool {
    if target.is_empty() || target.starts_with(b"/") {
        return true;
    }
    let mut level = depth;
    for part in target.split(|&b| b == b'/') {
        match part {
            b"" | b"." => {}
            b".." if level == 0 => return true,
            b".." => level -= 1,
            _ => level += 1,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_texts_are_judged_by_where_they_stand() {
        assert!(climbs_out(b"/etc/passwd", 3));
        assert!(climbs_out(b"../x", 0));
        assert!(climbs_out(b"a/../../x", 0));
        assert!(!climbs_out(b"../x", 1));
        assert!(!climbs_out(b"./a/../b", 0));
        assert!(climbs_out(b"../../../outside", 1));
    }
}
