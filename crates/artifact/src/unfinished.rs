//! What is still being written: beside the place that it will have, under a name that says so, locked as long as its writer
//! lives.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{File, Permissions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use fs_err as fs;
use tempfile::{NamedTempFile, TempDir};

/// Around the names of what is still being written.
const AROUND: (&str, &str) = (".seatrial-", ".tmp");

/// What was made a moment ago may not have its lock yet.
const YOUNG: Duration = Duration::from_secs(60);

/// Paths are forgotten once there are twice as many as were left the last time, and at least so many.
const REMEMBERED: usize = 64;

/// What this process began, with the locks of directories; those of files are held by the files themselves.
static BEGUN: Mutex<Begun> = Mutex::new(Begun { paths: BTreeMap::new(), limit: REMEMBERED });

struct Begun {
    paths: BTreeMap<PathBuf, Option<File>>,
    limit: usize,
}

/// Makes files and directories that are still being written.
#[derive(Debug)]
pub struct Unfinished {
    builder: tempfile::Builder<'static, 'static>,
}

/// Makes files and directories that are still being written, beside the place that they will have. What a killed program
/// left of them is known by [`is_unfinished`].
pub fn unfinished() -> Unfinished {
    let mut builder = tempfile::Builder::new();
    builder.prefix(AROUND.0).suffix(AROUND.1);
    Unfinished { builder }
}

impl Unfinished {
    /// Sets permissions other than the owner's, less those that the process masks.
    #[must_use]
    pub fn permissions(mut self, permissions: Permissions) -> Self {
        self.builder.permissions(permissions);
        self
    }

    /// Makes a file in a directory. It is removed when it is dropped before it has another name.
    pub fn tempfile_in(&self, directory: impl AsRef<Path>) -> io::Result<NamedTempFile> {
        let mut begun = begun();
        let file = self.builder.tempfile_in(directory)?;
        // A filesystem without locks has no leftovers that are known as such.
        let _ = file.as_file().try_lock();
        begun.remember(file.path(), None);
        Ok(file)
    }

    /// Makes a directory in a directory. It is removed when it is dropped before it has another name.
    pub fn tempdir_in(&self, directory: impl AsRef<Path>) -> io::Result<TempDir> {
        let mut begun = begun();
        let made = self.builder.tempdir_in(directory)?;
        let handle = File::open(made.path()).ok().filter(|handle| handle.try_lock().is_ok());
        begun.remember(made.path(), handle);
        Ok(made)
    }
}

/// Held from before something is made until it is remembered: whoever is asked to remove everything misses nothing.
fn begun() -> MutexGuard<'static, Begun> {
    BEGUN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Begun {
    fn remember(&mut self, path: &Path, lock: Option<File>) {
        // The working directory may change before the path is needed.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        self.paths.insert(path, lock);
        if self.paths.len() > self.limit {
            self.paths.retain(|path, _| path.symlink_metadata().is_ok());
            self.limit = REMEMBERED.max(2 * self.paths.len());
        }
    }
}

/// Removes everything that this process began and did not finish. The process has to end right after it: whoever wants to begin
/// something more waits for that end.
pub fn abandon() {
    let begun = begun();
    for path in begun.paths.keys() {
        remove(path);
    }
    std::mem::forget(begun);
}

/// Removes what killed programs left unfinished in a directory, and says what that was. Whatever a living process holds stays.
pub fn sweep(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let left = |path: &Path| {
        let metadata =
            path.symlink_metadata().ok().filter(|metadata| metadata.is_file() || metadata.is_dir())?;
        let age = SystemTime::now().duration_since(metadata.modified().ok()?).ok()?;
        let handle = (age > YOUNG).then(|| File::open(path).ok())??;
        handle.try_lock().ok()?;
        Some(())
    };
    let mut swept = Vec::new();
    for entry in entries.flatten().filter(|entry| is_unfinished(&entry.file_name())) {
        if left(&entry.path()).is_some() && remove(&entry.path()) {
            swept.push(entry.path());
        }
    }
    swept.sort();
    swept
}

fn remove(path: &Path) -> bool {
    match path.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => std::fs::remove_dir_all(path).is_ok(),
        Ok(_) => std::fs::remove_file(path).is_ok(),
        Err(_) => false,
    }
}

/// Whether this is the name of something that was still being written.
pub fn is_unfinished(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.starts_with(AROUND.0.as_bytes()) && name.ends_with(AROUND.1.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_program_left_is_swept_and_what_is_held_stays() {
        let directory = tempfile::tempdir().unwrap();
        let file = unfinished().tempfile_in(directory.path()).unwrap();
        let folder = unfinished().tempdir_in(directory.path()).unwrap();
        let left = [".seatrial-aaaaaa.tmp", ".seatrial-bbbbbb.tmp"].map(|name| directory.path().join(name));
        std::fs::write(&left[0], "half").unwrap();
        std::fs::create_dir(&left[1]).unwrap();
        std::fs::write(left[1].join("part"), "half").unwrap();
        assert_eq!(sweep(directory.path()), [] as [PathBuf; 0], "it may just have been made");
        let long_ago = SystemTime::now() - 2 * YOUNG;
        for path in left.iter().map(PathBuf::as_path).chain([file.path(), folder.path()]) {
            File::open(path).unwrap().set_modified(long_ago).unwrap();
        }
        assert_eq!(sweep(directory.path()), left);
        assert!(file.path().exists() && folder.path().exists());
    }
}
