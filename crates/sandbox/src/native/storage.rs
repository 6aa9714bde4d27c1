//! The limit on what a sandbox writes to its root file system.
//!
//! The limit is soft: what was written is measured again and again, at least once a second while there is little of
//! it, and a sandbox that wrote too much loses all its processes and takes no further command. A single file is held
//! at the limit by the kernel. A hard limit would need a file system of its own for every sandbox, which means either
//! memory, counted against the memory limit, or a loop device, which an ordinary user does not get.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use tokio::task::JoinHandle;

use crate::SandboxError;
use crate::native::wire::{self, Operation};

/// Shortest time between two measurements.
const PERIOD: Duration = Duration::from_millis(500);

/// Measuring takes at most one part in this many of the time.
const SHARE: u32 = 20;

/// Deepest tree that is measured; each level holds a descriptor. What lies deeper counts as too much.
const MAX_DEPTH: usize = 200;

/// Measures a sandbox as long as it lives.
#[derive(Debug)]
pub(crate) struct StorageWatch {
    limit: u64,
    exceeded: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl StorageWatch {
    /// Starts to watch the directories that take the changes of a sandbox.
    pub(crate) fn start(directories: Vec<PathBuf>, limit: u64, control: OwnedFd) -> Self {
        let exceeded = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&exceeded);
        let task = tokio::spawn(async move {
            let directories = Arc::new(directories);
            let mut pause = PERIOD;
            loop {
                tokio::time::sleep(pause).await;
                let directories = Arc::clone(&directories);
                let started = Instant::now();
                let Ok(written) = tokio::task::spawn_blocking(move || measure(&directories)).await else {
                    return;
                };
                pause = PERIOD.max(started.elapsed() * SHARE);
                if written > limit {
                    flag.store(true, Ordering::Relaxed);
                    // An init that is gone has nothing left to kill.
                    let _ = kill_all(control.as_fd());
                }
            }
        });
        Self { limit, exceeded, task }
    }

    /// An error once too much was written.
    pub(crate) fn check(&self) -> Result<(), SandboxError> {
        if self.exceeded.load(Ordering::Relaxed) {
            let what = "what was written to the sandbox's root file system".to_owned();
            return Err(SandboxError::TooLarge { what, limit: self.limit });
        }
        Ok(())
    }
}

impl Drop for StorageWatch {
    fn drop(&mut self) {
        self.task.abort();
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
