//! The tree itself.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use ident::Digest;

use super::path::{PathFault, check_path};
use crate::printable;
use crate::snapshot::climbs_out;

/// A file or a symbolic link of a tree. Contents are shared, so cloning a tree is cheap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A regular file.
    File {
        /// Its bytes.
        content: Arc<[u8]>,
        /// Whether it may be executed; the only part of a mode that a tree keeps.
        executable: bool,
    },
    /// A symbolic link that does not leave the tree.
    Link {
        /// Its text.
        target: Vec<u8>,
    },
}

impl Entry {
    /// A file that is not executable.
    pub fn file(content: impl Into<Arc<[u8]>>) -> Self {
        Self::File { content: content.into(), executable: false }
    }

    /// The bytes that git stores for the entry: a file's content or a link's text.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::File { content, .. } => content,
            Self::Link { target } => target,
        }
    }

    /// The mode that git stores for the entry.
    pub fn git_mode(&self) -> u32 {
        match self {
            Self::File { executable: false, .. } => 0o100_644,
            Self::File { executable: true, .. } => 0o100_755,
            Self::Link { .. } => 0o120_000,
        }
    }
}

/// Files and links by their path in bytes.
///
/// Holds as invariants that every path is relative and plain, none is inside a `.git`, none is below a file or a link,
/// and no link leads out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree {
    entries: BTreeMap<Vec<u8>, Entry>,
}

/// Why a tree cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// The system or the archive reader refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The archive or directory.
        path: PathBuf,
        /// What happened.
        source: io::Error,
    },
    /// A path that may not stand in a tree.
    #[error("the path `{path}` is refused: {fault}")]
    Path {
        /// The path.
        path: String,
        /// What is wrong with it.
        fault: PathFault,
    },
    /// A link that leaves the tree.
    #[error("the link `{link}` leads out of the tree, to `{target}`")]
    LinkOutside {
        /// The link.
        link: String,
        /// Its text.
        target: String,
    },
    /// A hard link to nothing that came before it.
    #[error("the hard link `{link}` names `{target}`, which is no file before it in the archive")]
    HardLink {
        /// The link.
        link: String,
        /// What it names.
        target: String,
    },
    /// One name for a file and for a directory, or below a link.
    #[error("`{path}` stands below `{parent}`, which is no directory")]
    BelowFile {
        /// The path.
        path: String,
        /// The file or link above it.
        parent: String,
    },
    /// A pipe, a device or a socket.
    #[error("`{path}` is neither file, directory nor link")]
    Special {
        /// The path.
        path: String,
    },
    /// More than the limits allow.
    #[error("{} holds more than {limit} {what}", path.display())]
    TooLarge {
        /// The archive or directory.
        path: PathBuf,
        /// The bound.
        limit: u64,
        /// What was counted.
        what: &'static str,
    },
    /// An archive whose entries do not share one top directory.
    #[error("{} holds `{entry}` beside its top directory `{top}`", path.display())]
    SeveralTops {
        /// The archive.
        path: PathBuf,
        /// The first top directory.
        top: String,
        /// An entry outside it.
        entry: String,
    },
}

impl Tree {
    /// An empty tree.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds or replaces the entry at `path`.
    pub fn insert(&mut self, path: impl Into<Vec<u8>>, entry: Entry) -> Result<(), TreeError> {
        let path = path.into();
        check_path(&path).map_err(|fault| TreeError::Path { path: printable(&path), fault })?;
        if let Some(parent) = self.file_above(&path) {
            return Err(TreeError::BelowFile { path: printable(&path), parent: printable(parent) });
        }
        let mut below = path.clone();
        below.push(b'/');
        if let Some(child) = self.below(&below).next() {
            return Err(TreeError::BelowFile { path: printable(child.0), parent: printable(&path) });
        }
        if let Entry::Link { target } = &entry
            && (target.contains(&0) || climbs_out(target, path.split(|&b| b == b'/').count() - 1))
        {
            return Err(TreeError::LinkOutside { link: printable(&path), target: printable(target) });
        }
        self.entries.insert(path, entry);
        Ok(())
    }

    /// The file or link that stands where `path` needs a directory.
    fn file_above<'a>(&self, path: &'a [u8]) -> Option<&'a [u8]> {
        let cuts = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        cuts.map(|(cut, _)| &path[..cut]).find(|parent| self.entries.contains_key(*parent))
    }

    /// Takes the entry at `path` out.
    pub fn remove(&mut self, path: &[u8]) -> Option<Entry> {
        self.entries.remove(path)
    }

    /// The entry at `path`.
    pub fn get(&self, path: &[u8]) -> Option<&Entry> {
        self.entries.get(path)
    }

    /// All entries in ascending order of their path.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &Entry)> {
        self.entries.iter().map(|(path, entry)| (path.as_slice(), entry))
    }

    /// The entries whose path begins with `prefix`.
    fn below<'a>(&'a self, prefix: &'a [u8]) -> impl Iterator<Item = (&'a [u8], &'a Entry)> {
        let from = self.entries.range(prefix.to_vec()..);
        from.map(|(path, entry)| (path.as_slice(), entry))
            .take_while(move |(path, _)| path.starts_with(prefix))
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the tree has no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The identity of the tree: equal digests mean equal paths, kinds, executable bits and bytes.
    pub fn digest(&self) -> Digest {
        let mut stream = b"seatrial.files/1\n".to_vec();
        for (path, entry) in self.iter() {
            stream.extend(entry.git_mode().to_be_bytes());
            stream.extend((path.len() as u64).to_be_bytes());
            stream.extend(path);
            stream.extend(Digest::of(entry.bytes()).as_bytes());
        }
        Digest::of(stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_links_are_kept_inside() {
        let mut tree = Tree::new();
        tree.insert("a/b", Entry::file(*b"1")).unwrap();
        assert!(matches!(tree.insert("a/b/c", Entry::file(*b"")), Err(TreeError::BelowFile { .. })));
        assert!(matches!(tree.insert("a", Entry::file(*b"")), Err(TreeError::BelowFile { .. })));
        assert!(matches!(tree.insert("../a", Entry::file(*b"")), Err(TreeError::Path { .. })));
        let link = |target: &str| Entry::Link { target: target.into() };
        tree.insert("a/up", link("../x")).unwrap();
        assert!(matches!(tree.insert("a/out", link("../../x")), Err(TreeError::LinkOutside { .. })));
        assert!(matches!(tree.insert("out", link("/etc")), Err(TreeError::LinkOutside { .. })));
        assert_eq!(tree.len(), 2);
    }

    #[test]
    fn the_digest_sees_modes_and_bytes() {
        let tree = |content: &[u8], executable| {
            let mut tree = Tree::new();
            tree.insert("f", Entry::File { content: content.into(), executable }).unwrap();
            tree.digest()
        };
        assert_ne!(tree(b"a", false), tree(b"a", true));
        assert_ne!(tree(b"a", false), tree(b"b", false));
        assert_eq!(tree(b"a", false), tree(b"a", false));
    }
}
