//! The directory that holds a sandbox's changes, and its removal whatever the sandbox left in it.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use fs_err as fs;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::native::wire::Overlay;

/// Deepest level that is emptied in place; what lies deeper is first moved up. Bounds descriptors and stack.
const MAX_DEPTH: usize = 64;

/// A directory of one sandbox on the host. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Makes the directory, readable by nobody else.
    pub(crate) fn create(parent: &Path, name: &str) -> io::Result<Self> {
        let path = parent.join(name);
        fs::create_dir(&path)?;
        let scratch = Self { path };
        rustix::fs::chmod(&scratch.path, Mode::RWXU)?;
        fs::create_dir(scratch.stage())?;
        Ok(scratch)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where the init mounts its private file system.
    pub(crate) fn stage(&self) -> PathBuf {
        self.path.join("stage")
    }

    /// Makes the directories for the changes of an overlay. The mode of the upper one is what the mounted directory
    /// shows.
    pub(crate) fn prepare(overlay: &Overlay) -> io::Result<()> {
        fs::create_dir(&overlay.upper)?;
        rustix::fs::chmod(&overlay.upper, Mode::from_raw_mode(0o755))?;
        fs::create_dir(&overlay.work)
    }

    /// Removes the directory and everything in it.
    pub(crate) fn remove(&mut self) -> io::Result<()> {
        let path = std::mem::take(&mut self.path);
        if path.as_os_str().is_empty() { Ok(()) } else { remove_tree(&path) }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            tracing::warn!(%error, "a sandbox's scratch directory could not be removed");
        }
    }
}

/// Removes a directory tree that hostile programs may have shaped: never follows a link, opens up closed
/// directories, and takes any depth with few descriptors. A missing tree is fine.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    let named = |error: Errno| io::Error::other(format!("removing {}: {error}", path.display()));
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::other(format!("{} cannot be removed", path.display())));
    };
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    let parent = rustix::fs::open(parent, OPEN, Mode::empty()).map_err(named)?;
    let top = match open_directory(parent.as_fd(), name) {
        Ok(top) => top,
        Err(Errno::NOENT) => return Ok(()),
        Err(Errno::NOTDIR | Errno::LOOP) => {
            return rustix::fs::unlinkat(&parent, name, AtFlags::empty()).map_err(named);
        }
        Err(error) => return Err(named(error)),
    };
    let mut remover = Remover { top, moved: 0 };
    // Directories that were too deep now lie directly in the top one, under new names.
    loop {
        let before = remover.moved;
        let top = remover.top.try_clone()?;
        remover.empty(top.as_fd(), 0).map_err(named)?;
        if remover.moved == before {
            break;
        }
    }
    rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR).map_err(named)
}

const OPEN: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

struct Remover {
    top: OwnedFd,
    moved: u64,
}

impl Remover {
    fn empty(&mut self, directory: BorrowedFd<'_>, depth: usize) -> Result<(), Errno> {
        for name in names(directory)? {
            match rustix::fs::unlinkat(directory, &name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => continue,
                Err(Errno::ISDIR | Errno::PERM) => {}
                Err(error) => return Err(error),
            }
            if depth >= MAX_DEPTH {
                self.moved += 1;
                // A name no sandbox could have put here: it writes one level further down.
                let aside = format!("deep-{}", self.moved);
                // A directory can only be moved by who may write to it.
                let _ = open_directory(directory, &name)?;
                rustix::fs::renameat(directory, &name, &self.top, aside)?;
                continue;
            }
            let inner = open_directory(directory, &name)?;
            self.empty(inner.as_fd(), depth + 1)?;
            match rustix::fs::unlinkat(directory, &name, AtFlags::REMOVEDIR) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn names(directory: BorrowedFd<'_>) -> Result<Vec<OsString>, Errno> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(directory)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(OsString::from_vec(name));
        }
    }
    Ok(names)
}

/// Opens a directory for emptying; an ordinary user first has to open up one that was closed.
fn open_directory(parent: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    let owner_may_all = |mode: u32| mode & 0o700 == 0o700;
    let stat = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return Err(Errno::NOTDIR);
    }
    if !owner_may_all(stat.st_mode) {
        // A directory, seen just now, in a tree that nobody works in any more.
        rustix::fs::chmodat(parent, name, Mode::RWXU, AtFlags::empty())?;
    }
    rustix::fs::openat(parent, name, OPEN, Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_directories_and_links_go_but_not_their_targets() {
        let temp = tempfile::tempdir().unwrap();
        let (tree, kept) = (temp.path().join("tree"), temp.path().join("kept"));
        fs::create_dir_all(tree.join("a/b")).unwrap();
        fs::create_dir(&kept).unwrap();
        fs::write(kept.join("file"), "x").unwrap();
        fs::os::unix::fs::symlink(&kept, tree.join("a/link")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            tree.join("a/whiteout"),
            FileType::CharacterDevice,
            Mode::empty(),
            0,
        )
        .unwrap();
        rustix::fs::chmod(tree.join("a/b"), Mode::empty()).unwrap();
        rustix::fs::chmod(tree.join("a"), Mode::empty()).unwrap();
        remove_tree(&tree).unwrap();
        assert!(!tree.exists());
        assert!(kept.join("file").exists());
        remove_tree(&tree).unwrap();
    }

    #[test]
    fn depth_needs_no_descriptors() {
        let temp = tempfile::tempdir().unwrap();
        let tree = temp.path().join("tree");
        fs::create_dir(&tree).unwrap();
        let mut current = rustix::fs::open(&tree, OPEN, Mode::empty()).unwrap();
        for _ in 0..3000 {
            rustix::fs::mkdirat(&current, "d", Mode::RWXU).unwrap();
            current = rustix::fs::openat(&current, "d", OPEN, Mode::empty()).unwrap();
        }
        remove_tree(&tree).unwrap();
        assert!(!tree.exists());
    }
}
