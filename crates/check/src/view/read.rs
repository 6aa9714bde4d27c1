//! Reads a directory into a view.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};

use bytes::Bytes;
use ident::Digest;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, fstat, openat, readlinkat, statat};
use rustix::io::Errno;
use task::{Inspection, Listed, TaskError, inspect_listed, inspect_task, printable};

use super::archive;
use super::buffer;
use super::model::{ConfigState, Entry, FileEntry, TaskView};
use crate::check::CheckError;

/// More entries than any real task holds.
const MAX_ENTRIES: usize = 200_000;
/// Deeper than any real task nests its directories.
const MAX_DEPTH: usize = 100;
/// Files above this size are hashed and not kept.
const MAX_CONTENT: u64 = 1 << 20;
/// Names are asked for in pieces of this size; one of them is at most 255 bytes long.
const LISTING: usize = 8 << 10;
/// No more content than this is kept of one task.
const MAX_TOTAL: u64 = 64 << 20;

impl TaskView {
    /// Reads the task directory at `path`.
    ///
    /// Links are recorded with their text and never followed, special files are never opened, and what lies beyond a
    /// bound is named in [`TaskView::cut`].
    pub fn read(path: &Path) -> Result<Self, CheckError> {
        let io = |source| CheckError::Io { path: path.to_owned(), source };
        let mut walk = match Walk::begin(path) {
            Err(_) if !std::fs::symlink_metadata(path).map_err(io)?.is_dir() => {
                return Err(CheckError::NotADirectory { path: path.to_owned() });
            }
            begun => begun?,
        };
        walk.directory(&mut Vec::new(), 1)?;
        let (config, missing) = match walk.inspect() {
            Ok(Inspection { reading, config_error, missing, .. }) => {
                let config = match (reading, config_error) {
                    (Some(reading), _) => ConfigState::Read(Box::new(reading)),
                    (None, Some(error)) => ConfigState::Broken(error),
                    (None, None) => ConfigState::Missing,
                };
                (config, missing)
            }
            Err(TaskError::Io { path, source }) => return Err(CheckError::Io { path, source }),
            Err(error) => (ConfigState::Unreadable(error.to_string()), Vec::new()),
        };
        let name = name_of(path).map_err(io)?;
        Ok(Self { name, entries: walk.entries, config, missing, cut: walk.cut })
    }

    /// The same view under another directory name, for a task that is not kept under its own.
    #[must_use]
    pub fn named(mut self, name: impl Into<Vec<u8>>) -> Self {
        self.name = name.into();
        self
    }
}

/// The name of a directory that is no link; that of `.` or `x/..` is that of the directory itself.
fn name_of(path: &Path) -> io::Result<Vec<u8>> {
    let name = match path.components().next_back() {
        Some(Component::Normal(name)) => Some(name.as_bytes().to_vec()),
        _ => std::fs::canonicalize(path)?.file_name().map(|name| name.as_bytes().to_vec()),
    };
    Ok(name.unwrap_or_default())
}

struct Walk<'a> {
    root: &'a Path,
    top: OwnedFd,
    entries: BTreeMap<Vec<u8>, Entry>,
    /// Bytes of content that are kept.
    kept: u64,
    /// Bytes of archives in memory, their members that are not kept included.
    held: u64,
    cut: Vec<String>,
}

impl<'a> Walk<'a> {
    fn begin(root: &'a Path) -> Result<Self, CheckError> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let top = openat(CWD, root, flags, Mode::empty())
            .map_err(|error| CheckError::Io { path: root.to_owned(), source: error.into() })?;
        Ok(Self { root, top, entries: BTreeMap::new(), kept: 0, held: 0, cut: Vec::new() })
    }

    fn failed(&self, relative: &[u8], source: impl Into<io::Error>) -> CheckError {
        let path = if relative.is_empty() { self.root.to_owned() } else { self.root.join(os(relative)) };
        CheckError::Io { path, source: source.into() }
    }

    fn open(&self, relative: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        openat(&self.top, relative, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
    }

    /// Reads the directory at `path` and everything below it, in order of names. `depth` is that of its entries.
    fn directory(&mut self, path: &mut Vec<u8>, depth: usize) -> Result<(), CheckError> {
        let listed = self.names(path).map_err(|error| self.failed(path, error))?;
        let above = path.len();
        for (name, kind) in listed {
            if self.entries.len() == MAX_ENTRIES {
                if self.cut.last().is_none_or(|why| !why.starts_with("it holds more than")) {
                    self.cut.push(format!("it holds more than {MAX_ENTRIES} files and directories"));
                }
                return Ok(());
            }
            if above > 0 {
                path.push(b'/');
            }
            path.extend_from_slice(&name);
            self.entry(path, kind, depth)?;
            path.truncate(above);
        }
        Ok(())
    }

    fn entry(&mut self, path: &mut Vec<u8>, kind: FileType, depth: usize) -> Result<(), CheckError> {
        let entry = match kind {
            FileType::Directory => {
                self.entries.insert(path.clone(), Entry::Directory);
                if depth < MAX_DEPTH {
                    return self.directory(path, depth + 1);
                }
                let path = printable(path);
                self.cut.push(format!("`{path}` is nested deeper than {MAX_DEPTH} directories"));
                return Ok(());
            }
            FileType::Symlink => {
                let target = readlinkat(&self.top, path.as_slice(), Vec::new());
                Entry::Link { target: target.map_err(|error| self.failed(path, error))?.into_bytes() }
            }
            FileType::RegularFile => Entry::File(self.file(path).map_err(|error| self.failed(path, error))?),
            FileType::Fifo => Entry::Special { kind: "pipe" },
            FileType::Socket => Entry::Special { kind: "socket" },
            _ => Entry::Special { kind: "device" },
        };
        self.entries.insert(path.clone(), entry);
        Ok(())
    }

    /// The names in a directory with their kinds, in order.
    fn names(&self, path: &[u8]) -> Result<Vec<(Vec<u8>, FileType)>, Errno> {
        let opened;
        let directory = if path.is_empty() {
            self.top.as_fd()
        } else {
            opened = self.open(path, OFlags::DIRECTORY)?;
            opened.as_fd()
        };
        let mut buffer = [MaybeUninit::uninit(); LISTING];
        let mut entries = RawDir::new(directory, &mut buffer);
        let mut names = Vec::new();
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => {
                    FileType::from_raw_mode(statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode)
                }
                kind => kind,
            };
            names.push((name.to_bytes().to_vec(), kind));
        }
        names.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        Ok(names)
    }

    fn file(&mut self, path: &[u8]) -> io::Result<FileEntry> {
        // Somebody may have put a link or a pipe in its place since it was looked at: neither is followed or waited for.
        let mut file = File::from(self.open(path, OFlags::NONBLOCK)?);
        let opened = fstat(&file)?;
        if FileType::from_raw_mode(opened.st_mode) != FileType::RegularFile {
            return Err(io::Error::other("it changed while it was read"));
        }
        let size = opened.st_size as u64;
        let executable = opened.st_mode & 0o100 != 0;
        let mut entry = FileEntry { size, executable, content: None, digest: None, archive: None };
        if archive::looks_like(path) {
            let mut budget = MAX_TOTAL.saturating_sub(self.kept);
            let whole = if self.held + size <= MAX_TOTAL { buffer::read(&file, size)? } else { None };
            entry.archive = Some(match whole {
                Some(bytes) => {
                    self.held += size;
                    archive::read_whole(&bytes, &mut budget)?
                }
                None => {
                    file.rewind()?;
                    archive::read(file, &mut budget)?
                }
            });
            self.kept = MAX_TOTAL - budget;
            return Ok(entry);
        }
        if size <= MAX_CONTENT && self.kept + size <= MAX_TOTAL {
            let mut content = Vec::new();
            if !buffer::fill(&file, size, &mut content)? {
                let rest = MAX_CONTENT + 1 - content.len() as u64;
                (&mut file).take(rest).read_to_end(&mut content)?;
            }
            entry.content = Some(Bytes::from(content)).filter(|content| content.len() as u64 <= MAX_CONTENT);
        }
        if let Some(content) = &entry.content {
            self.kept += content.len() as u64;
        } else {
            file.rewind()?;
            entry.digest = Some(Digest::of_reader(&mut file)?);
        }
        Ok(entry)
    }

    /// What the task says about itself, from what was just read where that is enough: without links, and with a
    /// configuration that was kept.
    fn inspect(&self) -> Result<Inspection, TaskError> {
        let mut listed = Vec::with_capacity(self.entries.len());
        for (path, entry) in &self.entries {
            listed.push((
                path.as_slice(),
                match entry {
                    Entry::Directory => Listed::Directory,
                    Entry::File(FileEntry { content, .. }) => Listed::File(content.as_deref()),
                    Entry::Link { .. } | Entry::Special { .. } => return inspect_task(self.root),
                },
            ));
        }
        let known = if self.cut.is_empty() { inspect_listed(listed) } else { None };
        known.map_or_else(|| inspect_task(self.root), Ok)
    }
}

fn os(bytes: &[u8]) -> PathBuf {
    std::ffi::OsString::from_vec(bytes.to_vec()).into()
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
