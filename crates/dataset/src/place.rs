//! Directories that appear whole or not at all and are never overwritten.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fs_err as fs;
use rayon::prelude::*;
use task::printable;

use crate::attest::is_attestation;
use crate::copy::set_mode;
use crate::sums::{self, SUMS, Sums};
use crate::{DatasetError, Problem};

/// A bound for the file with the sums.
const SUMS_LIMIT: u64 = 1 << 30;

/// What became of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlacedDirectory {
    /// The final path.
    pub(crate) path: PathBuf,
    /// Whether the same content was there before.
    pub(crate) existed: bool,
}

/// Builds a directory beside its final place, adds `SHA256SUMS`, and moves it there with one rename.
///
/// A directory of the same name with the same sums stays as it is; one with others is a conflict.
pub(crate) fn place<F>(parent: &Path, name: &str, build: F) -> Result<PlacedDirectory, DatasetError>
where
    F: FnOnce(&Path) -> Result<(), DatasetError>,
{
    place_hashed(parent, name, |root| build(root).map(|()| Sums::new()))
}

/// The same for a builder that knows the digests of some files already; those are not read again.
pub(crate) fn place_hashed<F>(parent: &Path, name: &str, build: F) -> Result<PlacedDirectory, DatasetError>
where
    F: FnOnce(&Path) -> Result<Sums, DatasetError>,
{
    fs::create_dir_all(parent).map_err(DatasetError::io(parent))?;
    let temporary = artifact::unfinished().tempdir_in(parent).map_err(DatasetError::io(parent))?;
    let known = build(temporary.path())?;
    let files = sums::list(temporary.path())?.files;
    let sums = sums::complete(temporary.path(), &files, known)?;
    // The files themselves are not synced one by one: after a crash the sums tell which of them are torn.
    artifact::write_atomic(&temporary.path().join(SUMS), &sums::write(&sums))?;
    open_up(temporary.path(), &files)?;

    let path = parent.join(name);
    if std::fs::symlink_metadata(&path).is_ok() {
        return existing(path, &sums);
    }
    match fs::rename(temporary.path(), &path) {
        Ok(()) => {
            // What was the temporary directory has another name now, so nothing is left to remove.
            let _ = temporary.keep();
            Ok(PlacedDirectory { path, existed: false })
        }
        // Somebody else was faster.
        Err(_) if std::fs::symlink_metadata(&path).is_ok() => existing(path, &sums),
        Err(error) => Err(DatasetError::Io { path, source: error }),
    }
}

/// Lets everybody read a finished directory, its files and its sums, whatever the umask is; what its owner may run,
/// everybody may.
fn open_up(root: &Path, files: &[PathBuf]) -> Result<(), DatasetError> {
    files.par_iter().map(PathBuf::as_path).chain([Path::new(SUMS)]).try_for_each(|file| {
        let path = root.join(file);
        let mode = fs::symlink_metadata(&path).map_err(DatasetError::io(&path))?.mode() & 0o7777;
        let wanted = if mode & 0o100 == 0 { 0o644 } else { 0o755 };
        if mode == wanted { Ok(()) } else { set_mode(&path, wanted) }
    })?;
    set_mode(root, 0o755)
}

/// Compares what is there with what would have been written. Attestations came later and may be others now.
fn existing(path: PathBuf, new: &Sums) -> Result<PlacedDirectory, DatasetError> {
    let old = match artifact::read_bounded(&path.join(SUMS), SUMS_LIMIT) {
        Ok(text) => sums::parse(&text).0,
        Err(_) => Sums::new(),
    };
    if old == *new {
        let mut files = sums::list(&path)?.files;
        files.retain(|file| !is_attestation(file));
        let real = sums::hash(&path, &files)?;
        if real == *new {
            return Ok(PlacedDirectory { path, existed: true });
        }
        let problems = differences(&real, new)
            .map(|file| Problem { file: printable(file), message: "is not as it was written".into() });
        return Err(DatasetError::Unsound { problems: problems.collect(), path });
    }
    let differing = differences(&old, new).map(|file| printable(file)).collect();
    Err(DatasetError::Conflict { path, differing })
}

/// The paths whose digests differ or that stand on one side only, sorted.
pub(crate) fn differences<'a>(a: &'a Sums, b: &'a Sums) -> impl Iterator<Item = &'a Vec<u8>> {
    let paths: BTreeSet<&Vec<u8>> = a.keys().chain(b.keys()).collect();
    paths.into_iter().filter(|path| a.get(*path) != b.get(*path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_may_read_what_was_placed() {
        let temp = tempfile::tempdir().unwrap();
        let placed = place(temp.path(), "set", |root| {
            for (name, mode) in [("data", 0o600), ("script", 0o700)] {
                std::fs::write(root.join(name), "x").unwrap();
                set_mode(&root.join(name), mode)?;
            }
            Ok(())
        });
        let path = placed.unwrap().path;
        let mode = |name: &str| std::fs::metadata(path.join(name)).unwrap().mode() & 0o777;
        assert_eq!(["data", "script", SUMS, "."].map(mode), [0o644, 0o755, 0o644, 0o755]);
    }
}
