//! Reads a directory into a view.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Read, Seek};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use ident::Digest;
use rustix::fs::OFlags;
use task::{TaskError, inspect_task, printable};
use walkdir::WalkDir;

use super::archive;
use super::model::{ConfigState, Entry, FileEntry, TaskView};
use crate::check::CheckError;
use crate::lines::solid;

/// More entries than any real task holds.
const MAX_ENTRIES: usize = 200_000;
/// Deeper than any real task nests its directories.
const MAX_DEPTH: usize = 100;
/// Files above this size are hashed and not kept.
const MAX_CONTENT: u64 = 1 << 20;
/// No more content than this is kept of one task.
const MAX_TOTAL: u64 = 64 << 20;

impl TaskView {
    /// Reads the task directory at `path`.
    ///
    /// Links are recorded with their text and never followed, special files are never opened, and what lies beyond a
    /// bound is named in [`TaskView::cut`].
    pub fn read(path: &Path) -> Result<Self, CheckError> {
        let io = |source| CheckError::Io { path: path.to_owned(), source };
        if !std::fs::symlink_metadata(path).map_err(io)?.is_dir() {
            return Err(CheckError::NotADirectory { path: path.to_owned() });
        }
        // The name of `.` or `x/..` is that of the directory itself.
        let canonical = std::fs::canonicalize(path).map_err(io)?;
        let name = canonical.file_name().map(|name| name.as_bytes().to_vec()).unwrap_or_default();
        let mut walk = Walk { entries: BTreeMap::new(), kept: 0, cut: Vec::new() };
        walk.read(path)?;
        let (config, missing) = match inspect_task(path) {
            Ok(inspection) => {
                let config = match (inspection.reading, inspection.config_error) {
                    (Some(reading), _) => ConfigState::Read(Box::new(reading)),
                    (None, Some(error)) => ConfigState::Broken(error),
                    (None, None) => ConfigState::Missing,
                };
                (config, inspection.missing)
            }
            Err(TaskError::Io { path, source }) => return Err(CheckError::Io { path, source }),
            Err(error) => (ConfigState::Unreadable(error.to_string()), Vec::new()),
        };
        Ok(Self { name, entries: walk.entries, config, missing, cut: walk.cut })
    }

    /// The same view under another directory name, for a task that is not kept under its own.
    #[must_use]
    pub fn named(mut self, name: impl Into<Vec<u8>>) -> Self {
        self.name = name.into();
        self
    }
}

struct Walk {
    entries: BTreeMap<Vec<u8>, Entry>,
    kept: u64,
    cut: Vec<String>,
}

impl Walk {
    fn read(&mut self, root: &Path) -> Result<(), CheckError> {
        for found in WalkDir::new(root).min_depth(1).max_depth(MAX_DEPTH).sort_by_file_name() {
            let found = found.map_err(|error| CheckError::Io {
                path: error.path().unwrap_or(root).to_owned(),
                source: error.into_io_error().unwrap_or_else(|| io::Error::other("links form a cycle")),
            })?;
            if self.entries.len() == MAX_ENTRIES {
                self.cut.push(format!("it holds more than {MAX_ENTRIES} files and directories"));
                break;
            }
            let relative =
                found.path().strip_prefix(root).unwrap_or(found.path()).as_os_str().as_bytes().to_vec();
            let io = |source| CheckError::Io { path: found.path().to_owned(), source };
            let kind = found.file_type();
            let entry = if kind.is_dir() {
                if found.depth() == MAX_DEPTH {
                    let path = printable(&relative);
                    self.cut.push(format!("`{path}` is nested deeper than {MAX_DEPTH} directories"));
                }
                Entry::Directory
            } else if kind.is_symlink() {
                let target = std::fs::read_link(found.path()).map_err(io)?;
                Entry::Link { target: target.into_os_string().into_vec() }
            } else if kind.is_file() {
                Entry::File(self.file(found.path()).map_err(io)?)
            } else if kind.is_fifo() {
                Entry::Special { kind: "pipe" }
            } else if kind.is_socket() {
                Entry::Special { kind: "socket" }
            } else {
                Entry::Special { kind: "device" }
            };
            self.entries.insert(relative, entry);
        }
        Ok(())
    }

    fn file(&mut self, path: &Path) -> io::Result<FileEntry> {
        // Somebody may have put a link or a pipe in its place since it was looked at: neither is followed or waited for.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let mut file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        let opened = file.metadata()?;
        if !opened.is_file() {
            return Err(io::Error::other("it changed while it was read"));
        }
        let mut entry = FileEntry {
            size: opened.len(),
            executable: opened.mode() & 0o100 != 0,
            content: None,
            digest: None,
            solid: opened.len(),
            archive: None,
        };
        if archive::looks_like(path) {
            let mut budget = MAX_TOTAL.saturating_sub(self.kept);
            entry.archive = Some(archive::read(file, &mut budget)?);
            self.kept = MAX_TOTAL - budget;
            return Ok(entry);
        }
        if opened.len() <= MAX_CONTENT && self.kept + opened.len() <= MAX_TOTAL {
            let mut content = Vec::with_capacity(opened.len() as usize + 1);
            (&mut file).take(MAX_CONTENT + 1).read_to_end(&mut content)?;
            entry.content = Some(content).filter(|content| content.len() as u64 <= MAX_CONTENT);
        }
        if let Some(content) = &entry.content {
            self.kept += content.len() as u64;
            entry.solid = solid(content);
        } else {
            file.rewind()?;
            entry.digest = Some(Digest::of_reader(&mut file)?);
        }
        Ok(entry)
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn everything_is_recorded_and_nothing_followed() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret"), "secret").unwrap();
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        std::fs::create_dir(root.join("environment")).unwrap();
        std::fs::write(root.join("environment/big"), vec![b'x'; MAX_CONTENT as usize + 1]).unwrap();
        std::fs::write(root.join(OsStr::from_bytes(b"foo\xff")), "x").unwrap();
        std::os::unix::fs::symlink(outside.path(), root.join("out")).unwrap();
        std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();

        let view = TaskView::read(root).unwrap();
        let paths: Vec<_> = view.entries.keys().map(|path| printable(path)).collect();
        assert_eq!(paths, ["environment", "environment/big", "foo\\xff", "out", "socket"]);
        assert_eq!(view.file(b"environment/big").unwrap().content, None);
        assert_eq!(view.file(b"environment/big").unwrap().size, MAX_CONTENT + 1);
        assert!(matches!(&view.entries[&b"out"[..]], Entry::Link { .. }));
        assert_eq!(view.entries[&b"socket"[..]], Entry::Special { kind: "socket" });
        assert!(matches!(view.config, ConfigState::Missing));
        assert_eq!(view.cut, Vec::<String>::new());
    }

    #[test]
    fn a_file_is_no_task() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(matches!(TaskView::read(file.path()), Err(CheckError::NotADirectory { .. })));
        assert!(matches!(TaskView::read(Path::new("/no/such/place")), Err(CheckError::Io { .. })));
    }
}
