//! Files written whole or not at all, and read with a bound.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use fs_err as fs;
use rustix::fs::OFlags;

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
    File::open(parent).and_then(|directory| directory.sync_all()).map_err(io)
}

/// Whether the disk or a quota is full.
pub fn is_disk_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// How a file is opened under whose name a stranger may have put something else: a link at the end of the path is an error, and a
/// pipe is not waited for.
pub fn no_follow() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
    options
}

/// Opens a regular file for reading; everything else under its name is an error.
pub fn open_file(path: &Path) -> io::Result<File> {
    let file = no_follow().read(true).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a regular file")) }
}

/// Reads a regular file of at most `limit` bytes; a link is refused, not followed.
pub fn read_bounded(path: &Path, limit: u64) -> Result<Vec<u8>, ArtifactError> {
    let io = |source| ArtifactError::Io { path: path.to_owned(), source };
    let file = open_file(path).map_err(|error| match path.symlink_metadata() {
        Ok(found) if !found.is_file() => ArtifactError::NotAFile { path: path.to_owned() },
        _ => io(error),
    })?;
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes).map_err(io)?;
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
        let pipe = directory.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
            .unwrap();
        let socket = directory.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        for other in [&link, &pipe, &socket, &directory.path().to_owned()] {
            assert!(matches!(read_bounded(other, 99), Err(ArtifactError::NotAFile { .. })), "{other:?}");
        }
        assert!(matches!(read_bounded(&directory.path().join("none"), 99), Err(ArtifactError::Io { .. })));
    }
}
