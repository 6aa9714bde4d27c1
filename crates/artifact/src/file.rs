//! Files written whole or not at all, and read with a bound.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use fs_err as fs;

use crate::unfinished;

/// Why a document could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    /// The system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The file is not there.
    #[error("{} is missing; run `seatrial {stage}` first", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// The stage that writes it.
        stage: &'static str,
    },
    /// Larger than anything this program writes.
    #[error("{} is larger than {limit} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The bound in bytes.
        limit: u64,
    },
    /// A link, a directory or a special file stands where a file should be.
    #[error("{} is not a regular file", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The content is not what it should be.
    #[error("{} is not a valid {schema} document: {detail}; delete it and run `seatrial {stage}` again", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The schema that was expected.
        schema: &'static str,
        /// What is wrong, and where.
        detail: String,
        /// The stage that writes it.
        stage: &'static str,
    },
    /// A value that has no canonical text.
    #[error(transparent)]
    Canonical(#[from] ident::CanonicalError),
}

/// Writes `bytes` to `path` through a temporary file in the same directory, a sync and a rename, and creates missing
/// parent directories.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> Result<(), ArtifactError> {
    let io = |source| ArtifactError::Io { path: path.to_owned(), source };
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    fs::create_dir_all(parent).map_err(io)?;
    let mut builder = unfinished();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder = builder.permissions(std::fs::Permissions::from_mode(0o644));
    }
    let mut file = builder.tempfile_in(parent).map_err(io)?;
    file.write_all(bytes).map_err(io)?;
    file.as_file().sync_all().map_err(io)?;
    file.persist(path).map_err(|error| io(error.error))?;
    // The rename itself is durable only once the directory is.
    std::fs::File::open(parent).and_then(|directory| directory.sync_all()).map_err(io)
}

/// Whether the disk or a quota is full.
pub fn is_disk_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Reads a regular file of at most `limit` bytes; a link is refused, not followed.
pub fn read_bounded(path: &Path, limit: u64) -> Result<Vec<u8>, ArtifactError> {
    let io = |source| ArtifactError::Io { path: path.to_owned(), source };
    if !std::fs::symlink_metadata(path).map_err(io)?.is_file() {
        return Err(ArtifactError::NotAFile { path: path.to_owned() });
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path).and_then(|file| file.take(limit + 1).read_to_end(&mut bytes)).map_err(io)?;
    if bytes.len() as u64 > limit {
        return Err(ArtifactError::TooLarge { path: path.to_owned(), limit });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_file_is_whole_and_readable() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/b.json");
        write_atomic(&path, b"one").unwrap();
        write_atomic(&path, b"two").unwrap();
        assert_eq!(read_bounded(&path, 3).unwrap(), b"two");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "temporary files are left");
    }

    #[test]
    fn bounds_and_links_are_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        write_atomic(&path, b"four").unwrap();
        assert!(matches!(read_bounded(&path, 3), Err(ArtifactError::TooLarge { .. })));
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(matches!(read_bounded(&link, 99), Err(ArtifactError::NotAFile { .. })));
    }
}
