//! What a sandbox has written to its overlays.
//!
//! It is measured again and again: a hard limit would need a file system of its own for every sandbox, which means either
//! memory, counted against the memory limit, or a loop device, which an ordinary user does not get.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};

use crate::native::wire::{self, Operation};
use crate::storage::Measured;

/// Deepest tree that is measured; each level holds a descriptor. What lies deeper counts as too much.
const MAX_DEPTH: usize = 200;

/// The directories that take the changes of a sandbox.
pub(crate) struct Uppers {
    directories: Arc<[PathBuf]>,
    control: OwnedFd,
}

impl Uppers {
    /// The directories of the sandbox whose init listens at `control`.
    pub(crate) fn new(directories: impl IntoIterator<Item = PathBuf>, control: OwnedFd) -> Self {
        Self { directories: directories.into_iter().collect(), control }
    }
}

impl Measured for Uppers {
    async fn written(&self) -> Option<u64> {
        let directories = Arc::clone(&self.directories);
        tokio::task::spawn_blocking(move || measure(&directories)).await.ok()
    }

    async fn kill_all(&self) {
        let _ = kill_all(self.control.as_fd());
    }
}

fn kill_all(control: BorrowedFd<'_>) -> std::io::Result<()> {
    let body = wire::body(&())?;
    // The answer is not waited for; the socket only has to be there.
    let (_ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    wire::send_request(control, Operation::KillAll, &[body.as_fd(), theirs.as_fd()])
}

/// Bytes on disk below the directories, while they may change.
fn measure(directories: &[PathBuf]) -> u64 {
    let open = |path: &PathBuf| rustix::fs::openat(CWD, path, OPEN, Mode::empty());
    directories
        .iter()
        .filter_map(|path| open(path).ok())
        .fold(0, |sum, top| sum.saturating_add(below(top.as_fd(), 0)))
}

const OPEN: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

fn below(directory: BorrowedFd<'_>, depth: usize) -> u64 {
    const BLOCK: u64 = 512;
    if depth > MAX_DEPTH {
        return u64::MAX;
    }
    let Ok(entries) = rustix::fs::Dir::read_from(directory) else { return 0 };
    let mut sum = 0_u64;
    for entry in entries.flatten() {
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        // What went away meanwhile takes no room.
        let Ok(stat) = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        sum = sum.saturating_add(u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(BLOCK));
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            // One that is closed to an ordinary user is closed to its commands as well.
            if let Ok(inner) = rustix::fs::openat(directory, name, OPEN, Mode::empty()) {
                sum = sum.saturating_add(below(inner.as_fd(), depth + 1));
            }
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use fs_err as fs;

    use super::*;

    #[test]
    fn blocks_are_summed_over_the_tree() {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir_all(temp.path().join("a/b")).unwrap();
        let empty = measure(&[temp.path().to_owned()]);
        fs::write(temp.path().join("a/b/file"), vec![1; 1 << 20]).unwrap();
        fs::os::unix::fs::symlink("/usr", temp.path().join("a/link")).unwrap();
        let full = measure(&[temp.path().to_owned()]);
        assert!((1 << 20..=(1 << 20) + (64 << 10)).contains(&(full - empty)), "{empty} {full}");
        assert_eq!(measure(&["/no/such/directory".into()]), 0);
    }
}
