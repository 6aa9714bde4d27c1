//! Where something goes: the form by its name, a look at what stands there, and the last step.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use fs_err as fs;
use tempfile::{NamedTempFile, TempDir};

use crate::TraceError;

/// In which form a set is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// A directory of Parquet shards with a card.
    Directory,
    /// One Parquet file.
    Parquet,
    /// One file of JSON lines.
    Jsonl,
}

impl Target {
    /// The form by the suffix of a path, whatever its case; a path without one is a directory. What stands at the path already
    /// has to leave room: a file takes the place of a file, and a directory that of an empty one.
    pub fn of(path: &Path) -> Result<Self, TraceError> {
        let target = Self::named(path)?;
        let wrong = |wanted| Err(TraceError::Output { path: path.to_owned(), wanted });
        let there = match fs::symlink_metadata(path) {
            Ok(there) => there,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(target),
            Err(error) => return Err(TraceError::io(path)(error)),
        };
        match target {
            Self::Directory if there.is_symlink() => wrong("is a link; name the directory that it leads to"),
            Self::Directory if !there.is_dir() => {
                wrong("is no directory; a name that ends in .parquet or .jsonl, or a directory, is wanted")
            }
            Self::Directory => {
                let mut entries = fs::read_dir(path).map_err(TraceError::io(path))?;
                match entries.next() {
                    None => Ok(target),
                    Some(_) => Err(TraceError::Occupied { path: path.to_owned() }),
                }
            }
            _ if there.is_file() || there.is_symlink() => Ok(target),
            _ => wrong("is no regular file, and would not be replaced by one; name another place"),
        }
    }

    fn named(path: &Path) -> Result<Self, TraceError> {
        match suffix(path).as_deref() {
            Some("parquet") => Ok(Self::Parquet),
            Some("jsonl" | "ndjson") => Ok(Self::Jsonl),
            _ if path.is_dir() => Ok(Self::Directory),
            // A version in a name is no suffix.
            Some("json" | "csv" | "gz" | "zst" | "arrow" | "txt") => Err(TraceError::Output {
                path: path.to_owned(),
                wanted: "a name that ends in .parquet or .jsonl, or a directory, is wanted",
            }),
            _ => Ok(Self::Directory),
        }
    }
}

/// What a name ends with behind its last dot, in small letters.
pub(crate) fn suffix(path: &Path) -> Option<String> {
    path.extension().and_then(|suffix| suffix.to_str()).map(str::to_ascii_lowercase)
}

/// The directory in which something is written before it takes its place; what killed programs left there is removed.
fn beside(path: &Path) -> Result<PathBuf, TraceError> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    fs::create_dir_all(&parent).map_err(TraceError::io(&parent))?;
    artifact::sweep(&parent);
    Ok(parent)
}

/// Begins a file that will stand at `path`. Its permissions are those of any new file.
pub(crate) fn begin_file(path: &Path) -> Result<NamedTempFile, TraceError> {
    let parent = beside(path)?;
    let builder = artifact::unfinished().permissions(Permissions::from_mode(0o666));
    builder.tempfile_in(&parent).map_err(TraceError::io(&parent))
}

/// Puts a finished file in its place, over whatever file stands there, and says how many bytes it has.
pub(crate) fn put_file(file: NamedTempFile, path: &Path) -> Result<u64, TraceError> {
    file.as_file().sync_all().map_err(TraceError::io(path))?;
    let file = file.persist(path).map_err(|error| TraceError::io(path)(error.error))?;
    Ok(file.metadata().map_err(TraceError::io(path))?.len())
}

/// Begins a directory that will stand at `path`. Its permissions are those of any new directory.
pub(crate) fn begin_directory(path: &Path) -> Result<TempDir, TraceError> {
    let parent = beside(path)?;
    let builder = artifact::unfinished().permissions(Permissions::from_mode(0o777));
    builder.tempdir_in(&parent).map_err(TraceError::io(&parent))
}

/// Puts a finished directory in its place, over an empty one at most.
pub(crate) fn put_directory(directory: TempDir, path: &Path) -> Result<(), TraceError> {
    use io::ErrorKind as E;
    match fs::rename(directory.path(), path) {
        Ok(()) => {
            let _ = directory.keep();
            Ok(())
        }
        Err(error) if matches!(error.kind(), E::DirectoryNotEmpty | E::AlreadyExists | E::NotADirectory) => {
            Err(TraceError::Overtaken { path: path.to_owned() })
        }
        Err(error) => Err(TraceError::io(path)(error)),
    }
}
