//! Reads a tree from a directory on disk.

use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use fs_err as fs;

use super::archive::TreeLimits;
use super::model::{Entry, Tree, TreeError};
use crate::printable;

/// Also bounds the recursion.
const MAX_DEPTH: usize = 100;

impl Tree {
    /// Reads the directory at `root`. Links are kept as links and never followed; one that leads out is an error.
    /// Everything inside a `.git` is left out, as are empty directories.
    pub fn from_directory(root: &Path, limits: TreeLimits) -> Result<Self, TreeError> {
        let mut reader = Reader { root, limits, entries: 0, bytes: 0, tree: Self::new() };
        reader.directory(root, &mut Vec::new(), 0)?;
        Ok(reader.tree)
    }
}

struct Reader<'a> {
    root: &'a Path,
    limits: TreeLimits,
    entries: u64,
    bytes: u64,
    tree: Tree,
}

impl Reader<'_> {
    fn too_large(&self, limit: u64, what: &'static str) -> TreeError {
        TreeError::TooLarge { path: self.root.to_owned(), limit, what }
    }

    fn directory(&mut self, directory: &Path, above: &mut Vec<u8>, depth: usize) -> Result<(), TreeError> {
        if depth > MAX_DEPTH {
            return Err(self.too_large(MAX_DEPTH as u64, "nested directories"));
        }
        let io = |source| TreeError::Io { path: directory.to_owned(), source };
        for entry in fs::read_dir(directory).map_err(io)? {
            let entry = entry.map_err(io)?;
            let name = entry.file_name();
            if name.as_bytes().eq_ignore_ascii_case(b".git") {
                continue;
            }
            self.entries += 1;
            if self.entries > self.limits.entries {
                return Err(self.too_large(self.limits.entries, "entries"));
            }
            let length = above.len();
            above.extend_from_slice(name.as_bytes());
            let path = entry.path();
            let io = |source| TreeError::Io { path: path.clone(), source };
            let metadata = std::fs::symlink_metadata(&path).map_err(io)?;
            if metadata.is_dir() {
                above.push(b'/');
                self.directory(&path, above, depth + 1)?;
            } else if metadata.is_symlink() {
                let target = std::fs::read_link(&path).map_err(io)?.into_os_string().into_vec();
                self.tree.insert(above.clone(), Entry::Link { target })?;
            } else if metadata.is_file() {
                self.bytes += metadata.len();
                if self.bytes > self.limits.bytes {
                    return Err(self.too_large(self.limits.bytes, "bytes"));
                }
                let content = std::fs::read(&path).map_err(io)?;
                let executable = metadata.permissions().mode() & 0o100 != 0;
                self.tree.insert(above.clone(), Entry::File { content: content.into(), executable })?;
            } else {
                return Err(TreeError::Special { path: printable(above) });
            }
            above.truncate(length);
        }
        Ok(())
    }
}
