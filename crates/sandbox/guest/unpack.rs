//! Files in: entries of an archive that the engine has read, placed below one directory.
//!
//! The tree belongs to whoever ran there before, so it may hold links and special files at any place. What is
//! unpacked stays beneath its directory and replaces links instead of following them.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, FileTimes, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, fchown, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::sys;
use crate::wire::{Entry, EntryKind, Status, Wire};

/// Unpacks what comes through the socket.
pub(crate) fn run(socket: &UnixStream) -> io::Result<()> {
    let mut from = io::BufReader::with_capacity(256 << 10, socket);
    let status = match unpack(&mut from) {
        Ok(()) => Status::Done,
        Err(error) => Status::Failed(error.to_string()),
    };
    status.put(&mut &*socket)
}

fn unpack(from: &mut impl Read) -> io::Result<()> {
    let directory = String::get(from)?;
    fs::create_dir_all(&directory).map_err(|error| step(&directory, &error))?;
    let top = OpenOptions::new().read(true).custom_flags(sys::O_PATH | sys::O_DIRECTORY).open(&directory);
    let top = top.map_err(|error| step(&directory, &error))?;
    let mut target = Target { top, last: None };
    loop {
        let entry = Entry::get(from)?;
        if entry.kind == EntryKind::Last {
            return Ok(());
        }
        let name = PathBuf::from(OsString::from_vec(entry.name.clone()));
        let mut content = from.take(entry.size);
        let placed = target.place(&entry, &name, &mut content);
        placed.map_err(|error| step(&format!("entry {}", name.display()), &error))?;
        // Whatever was not placed is not the next entry.
        io::copy(&mut content, &mut io::sink())?;
    }
}

fn step(what: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

/// The name of a file in an open directory, for calls that take only paths.
pub(crate) fn inside(directory: &File, name: &OsStr) -> PathBuf {
    let mut path = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()));
    path.push(name);
    path
}

/// The directory that an archive is unpacked into.
struct Target {
    top: File,
    /// The parent of the entry before, as neighbours follow each other.
    last: Option<(PathBuf, File)>,
}

impl Target {
    fn place(&mut self, entry: &Entry, name: &Path, content: &mut impl Read) -> io::Result<()> {
        let path = beneath(name)?;
        let Some(leaf) = path.file_name() else {
            // The directory itself keeps its mode.
            return Ok(());
        };
        let link = PathBuf::from(OsStr::from_bytes(&entry.link));
        let at = inside(self.parent(path.parent().unwrap_or(Path::new("")))?, leaf);
        let mode = entry.mode & 0o7777;
        if entry.kind == EntryKind::Directory {
            return place_directory(&at, mode);
        }
        match fs::remove_file(&at) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        match entry.kind {
            EntryKind::File => {
                let mut options = OpenOptions::new();
                options.write(true).create_new(true).mode(0o600).custom_flags(sys::O_NOFOLLOW);
                let mut file = options.open(&at)?;
                io::copy(content, &mut file)?;
                give_to_root(&file)?;
                file.set_permissions(Permissions::from_mode(mode))?;
                let time = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(entry.mtime));
                let time = time.unwrap_or(SystemTime::UNIX_EPOCH);
                file.set_times(FileTimes::new().set_accessed(time).set_modified(time))
            }
            EntryKind::Symlink => symlink(&link, &at),
            EntryKind::HardLink => {
                let link = beneath(&link)?;
                let name =
                    link.file_name().ok_or_else(|| io::Error::other("a link to the directory itself"))?;
                let from = open_beneath(&self.top, link.parent().unwrap_or(Path::new("")))?;
                fs::hard_link(inside(&from, name), &at)
            }
            EntryKind::Fifo => sys::make_fifo(&at, mode),
            EntryKind::Directory | EntryKind::Last => Ok(()),
        }
    }

    /// Opens the directory `path` beneath the top, creating what is missing.
    fn parent(&mut self, path: &Path) -> io::Result<&File> {
        if path.as_os_str().is_empty() {
            return Ok(&self.top);
        }
        if self.last.as_ref().is_none_or(|(known, _)| known != path) {
            let directory = match open_beneath(&self.top, path) {
                Err(error) if error.kind() == ErrorKind::NotFound => self.create(path)?,
                other => other?,
            };
            self.last = Some((path.to_owned(), directory));
        }
        self.last.as_ref().map(|(_, directory)| directory).ok_or_else(|| io::Error::other("no directory"))
    }

    fn create(&self, path: &Path) -> io::Result<File> {
        let mut current = self.top.try_clone()?;
        let mut so_far = PathBuf::new();
        for component in path.components() {
            so_far.push(component);
            match DirBuilder::new().mode(0o755).create(inside(&current, component.as_os_str())) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
            current = open_beneath(&self.top, &so_far)?;
        }
        Ok(current)
    }
}

fn place_directory(at: &Path, mode: u32) -> io::Result<()> {
    let make = || DirBuilder::new().mode(0o755).create(at);
    match make() {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            if !fs::symlink_metadata(at)?.is_dir() {
                fs::remove_file(at)?;
                make()?;
            }
        }
        other => other?,
    }
    let flags = sys::O_DIRECTORY | sys::O_NOFOLLOW;
    let directory = OpenOptions::new().read(true).custom_flags(flags).open(at)?;
    give_to_root(&directory)?;
    directory.set_permissions(Permissions::from_mode(mode))
}

/// Makes root the owner. Who may not give files away keeps them.
fn give_to_root(file: &File) -> io::Result<()> {
    match fchown(file, Some(0), Some(0)) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(()),
        other => other,
    }
}

/// The entry's path without a leading `/` and without `.`; `..` is refused.
fn beneath(path: &Path) -> io::Result<PathBuf> {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => clean.push(name),
            Component::CurDir | Component::RootDir => {}
            Component::ParentDir | Component::Prefix(_) => {
                return Err(io::Error::other(format!("{} leads out of the directory", path.display())));
            }
        }
    }
    Ok(clean)
}

fn open_beneath(top: &File, path: &Path) -> io::Result<File> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let resolve = sys::RESOLVE_BENEATH | sys::RESOLVE_NO_MAGICLINKS;
    match sys::open_resolved(top, path, sys::O_PATH | sys::O_DIRECTORY, resolve) {
        Err(error) if error.kind() == ErrorKind::CrossesDevices => {
            Err(io::Error::other(format!("{} leads out of the directory through a link", path.display())))
        }
        other => other,
    }
}
