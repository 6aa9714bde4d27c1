//! Files in and out as tar streams, from a helper that already lives in the sandbox's root.
//!
//! The tree belongs to whoever ran there before, so it may hold links and special files at any place. What is
//! unpacked stays beneath its directory; what is packed never passes through a link below the path asked for.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, ResolveFlags, Stat, Timespec, Timestamps, Uid};
use rustix::io::Errno;
use tar::{Builder, Entry, EntryType, Header};

use crate::archive::append_entry;
use crate::native::init::entry::step;
use crate::native::wire::{self, Reply, TransferRequest};

/// Deepest tree that is packed; each level holds a descriptor.
const MAX_DEPTH: usize = 256;

/// Most space for a link's target, the kernel's own bound.
const MAX_LINK: usize = 4096;

/// Unpacks the stream below the requested directory.
pub(super) fn unpack(body: OwnedFd, stream: OwnedFd) -> io::Result<Reply> {
    let request: TransferRequest = wire::read_body(body)?;
    fs_err::create_dir_all(&request.path)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut target = Target { top: rustix::fs::open(&request.path, flags, Mode::empty())?, last: None };
    let mut archive = tar::Archive::new(io::BufReader::with_capacity(256 << 10, File::from(stream)));
    for entry in archive.entries()? {
        let mut entry = entry?;
        let name = entry.path()?.into_owned();
        target
            .place(&mut entry, &name)
            .map_err(|error| step(&format!("entry {}", name.display()), &error))?;
    }
    // The rest of the stream is padding; reading it keeps the sender from a broken pipe.
    io::copy(&mut archive.into_inner(), &mut io::sink())?;
    Ok(Reply::Done)
}

/// The directory that an archive is unpacked into.
struct Target {
    top: OwnedFd,
    /// The parent of the entry before, as neighbours follow each other.
    last: Option<(PathBuf, OwnedFd)>,
}

impl Target {
    fn place(&mut self, entry: &mut Entry<'_, impl Read>, name: &Path) -> io::Result<()> {
        let kind = entry.header().entry_type();
        if kind.is_pax_global_extensions() {
            return Ok(());
        }
        let path = beneath(name)?;
        let mode = Mode::from_raw_mode(entry.header().mode()? & 0o7777);
        let Some(leaf) = path.file_name().map(OsStr::to_owned) else {
            // The directory itself: its mode is the caller's business only when it says so.
            return Ok(());
        };
        let parent = self.parent(path.parent().unwrap_or(Path::new("")))?;
        if kind == EntryType::Directory {
            return place_directory(parent, &leaf, mode);
        }
        match rustix::fs::unlinkat(parent, &leaf, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        match kind {
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                let flags =
                    OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let mut file = File::from(rustix::fs::openat(parent, &leaf, flags, Mode::RUSR | Mode::WUSR)?);
                io::copy(entry, &mut file)?;
                rustix::fs::fchown(&file, Some(Uid::ROOT), Some(Gid::ROOT))?;
                rustix::fs::fchmod(&file, mode)?;
                rustix::fs::futimens(&file, &times(entry.header().mtime()?))?;
            }
            EntryType::Symlink => {
                let to = entry.link_name()?.ok_or_else(|| io::Error::other("a link without target"))?;
                rustix::fs::symlinkat(to.as_ref(), parent, &leaf)?;
            }
            EntryType::Link => {
                let to = entry.link_name()?.ok_or_else(|| io::Error::other("a link without target"))?;
                let to = beneath(&to)?;
                let name =
                    to.file_name().ok_or_else(|| io::Error::other("a link to the directory itself"))?;
                let from = open_beneath(self.top.as_fd(), to.parent().unwrap_or(Path::new("")))?;
                let parent = self.parent(path.parent().unwrap_or(Path::new("")))?;
                rustix::fs::linkat(&from, name, parent, &leaf, AtFlags::empty())?;
            }
            EntryType::Fifo => rustix::fs::mknodat(parent, &leaf, FileType::Fifo, mode, 0)?,
            other => return Err(io::Error::other(format!("entries of type {other:?} are not unpacked"))),
        }
        Ok(())
    }

    /// Opens the directory `path` beneath the top, creating what is missing.
    fn parent(&mut self, path: &Path) -> io::Result<BorrowedFd<'_>> {
        if path.as_os_str().is_empty() {
            return Ok(self.top.as_fd());
        }
        if self.last.as_ref().is_none_or(|(known, _)| known != path) {
            let directory = match open_beneath(self.top.as_fd(), path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => self.create(path)?,
                other => other?,
            };
            self.last = Some((path.to_owned(), directory));
        }
        let (_, directory) = self.last.as_ref().expect("it was filled above when it was empty");
        Ok(directory.as_fd())
    }

    fn create(&self, path: &Path) -> io::Result<OwnedFd> {
        let mut current = self.top.try_clone()?;
        let mut so_far = PathBuf::new();
        for component in path.components() {
            so_far.push(component);
            match rustix::fs::mkdirat(&current, component.as_os_str(), Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            current = open_beneath(self.top.as_fd(), &so_far)?;
        }
        Ok(current)
    }
}

fn place_directory(parent: BorrowedFd<'_>, leaf: &OsStr, mode: Mode) -> io::Result<()> {
    match rustix::fs::mkdirat(parent, leaf, mode) {
        Ok(()) => {}
        Err(Errno::EXIST) => {
            let stat = rustix::fs::statat(parent, leaf, AtFlags::SYMLINK_NOFOLLOW)?;
            if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
                rustix::fs::unlinkat(parent, leaf, AtFlags::empty())?;
                rustix::fs::mkdirat(parent, leaf, mode)?;
            }
        }
        Err(error) => return Err(error.into()),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(parent, leaf, flags, Mode::empty())?;
    rustix::fs::fchown(&directory, Some(Uid::ROOT), Some(Gid::ROOT))?;
    rustix::fs::fchmod(&directory, mode)?;
    Ok(())
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

fn open_beneath(top: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(top, path, flags, Mode::empty(), resolve) {
        Err(Errno::XDEV) => {
            Err(io::Error::other(format!("{} leads out of the directory through a link", path.display())))
        }
        other => Ok(other?),
    }
}

fn times(seconds: u64) -> Timestamps {
    let time = Timespec { tv_sec: i64::try_from(seconds).unwrap_or(0), tv_nsec: 0 };
    Timestamps { last_access: time, last_modification: time }
}

/// Packs the requested path into the stream.
pub(super) fn pack(body: OwnedFd, stream: OwnedFd) -> io::Result<Reply> {
    let request: TransferRequest = wire::read_body(body)?;
    let path = Path::new(&request.path);
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let root = rustix::fs::open("/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let found = match rustix::fs::openat2(&root, path, flags, Mode::empty(), resolve) {
        Ok(found) => found,
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(Reply::NoSuchPath),
        Err(error) => return Err(error.into()),
    };
    let mut archive = Builder::new(io::BufWriter::with_capacity(256 << 10, File::from(stream)));
    let stat = rustix::fs::fstat(&found)?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
        let directory = rustix::fs::openat(&found, ".", READ_DIRECTORY, Mode::empty())?;
        pack_directory(&mut archive, directory.as_fd(), Path::new(""), 0)?;
    } else {
        let name = path.file_name().ok_or_else(|| io::Error::other("the path names no file"))?;
        let parent = path.parent().unwrap_or(Path::new("/"));
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let parent = rustix::fs::openat2(&root, parent, flags, Mode::empty(), resolve)?;
        pack_entry(&mut archive, parent.as_fd(), name, Path::new(name), 0)?;
    }
    io::Write::flush(&mut archive.into_inner()?)?;
    Ok(Reply::Done)
}

const READ_DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

type Archive = Builder<io::BufWriter<File>>;

/// Packs what a directory holds, in order of name.
fn pack_directory(
    archive: &mut Archive,
    directory: BorrowedFd<'_>,
    at: &Path,
    depth: usize,
) -> io::Result<()> {
    if depth > MAX_DEPTH {
        return Err(io::Error::other(format!("{} lies deeper than {MAX_DEPTH} directories", at.display())));
    }
    let mut names: Vec<OsString> = Vec::new();
    for entry in rustix::fs::Dir::read_from(directory)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(OsString::from_vec(name));
        }
    }
    names.sort_unstable();
    for name in names {
        pack_entry(archive, directory, &name, &at.join(&name), depth)?;
    }
    Ok(())
}

fn pack_entry(
    archive: &mut Archive,
    parent: BorrowedFd<'_>,
    name: &OsStr,
    at: &Path,
    depth: usize,
) -> io::Result<()> {
    let stat = match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        // It went away since the directory was read.
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let mut header = header(&stat);
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => {
            let Ok(directory) = rustix::fs::openat(parent, name, READ_DIRECTORY, Mode::empty()) else {
                return Ok(());
            };
            header.set_entry_type(EntryType::Directory);
            append_entry(archive, &mut header, at, None, io::empty())?;
            pack_directory(archive, directory.as_fd(), at, depth + 1)
        }
        FileType::Symlink => {
            let Ok(to) = rustix::fs::readlinkat(parent, name, Vec::with_capacity(MAX_LINK)) else {
                return Ok(());
            };
            header.set_entry_type(EntryType::Symlink);
            append_entry(
                archive,
                &mut header,
                at,
                Some(OsStr::from_bytes(to.as_bytes()).as_ref()),
                io::empty(),
            )
        }
        FileType::RegularFile => {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let Ok(file) = rustix::fs::openat(parent, name, flags, Mode::empty()) else { return Ok(()) };
            let file = File::from(file);
            // The name may mean something else by now.
            let stat = rustix::fs::fstat(&file)?;
            if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
                return Ok(());
            }
            let size = u64::try_from(stat.st_size).unwrap_or(0);
            header.set_size(size);
            header.set_entry_type(EntryType::Regular);
            // A file that shrinks meanwhile is filled up, one that grows is cut: the stream stays well-formed.
            append_entry(archive, &mut header, at, None, file.chain(io::repeat(0)).take(size))
        }
        // Sockets, pipes and devices mean nothing outside.
        _ => Ok(()),
    }
}

fn header(stat: &Stat) -> Header {
    let mut header = Header::new_gnu();
    header.set_mode(stat.st_mode & 0o7777);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(0);
    header.set_mtime(u64::try_from(stat.st_mtime).unwrap_or(0));
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_any_bytes_and_lengths_are_packed() {
        let temp = tempfile::tempdir().unwrap();
        let mut names: Vec<Vec<u8>> = Vec::new();
        for length in [1, 99, 100, 101, 200, 255] {
            names.push(vec![0xff; length]);
            names.push([&b"a"[..], &vec![0xfe; length - 1]].concat());
        }
        for (number, name) in names.iter().enumerate() {
            let path = temp.path().join(OsStr::from_bytes(name));
            if number % 2 == 0 {
                fs_err::write(path, number.to_string()).unwrap();
            } else {
                std::os::unix::fs::symlink(OsStr::from_bytes(name), path).unwrap();
            }
        }
        let deep = temp.path().join("d".repeat(120)).join("e".repeat(120));
        fs_err::create_dir_all(&deep).unwrap();
        fs_err::write(deep.join("f"), "deep").unwrap();

        let file = tempfile::tempfile().unwrap();
        let mut archive = Builder::new(io::BufWriter::new(file.try_clone().unwrap()));
        let top = rustix::fs::open(temp.path(), READ_DIRECTORY, Mode::empty()).unwrap();
        pack_directory(&mut archive, top.as_fd(), Path::new(""), 0).unwrap();
        archive.into_inner().unwrap().into_inner().unwrap();
        io::Seek::rewind(&mut &file).unwrap();

        let mut seen = Vec::new();
        for entry in tar::Archive::new(file).entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            let link = entry.link_name_bytes().map(std::borrow::Cow::into_owned);
            seen.push((entry.path_bytes().into_owned(), link, text));
        }
        for (number, name) in names.iter().enumerate() {
            let expected = if number % 2 == 0 {
                (name.clone(), None, number.to_string())
            } else {
                (name.clone(), Some(name.clone()), String::new())
            };
            assert!(seen.contains(&expected), "{} bytes", name.len());
        }
        let deep = format!("{}/{}/f", "d".repeat(120), "e".repeat(120)).into_bytes();
        assert!(seen.contains(&(deep, None, "deep".to_owned())));
        assert_eq!(seen.len(), names.len() + 3);
    }

    #[test]
    fn entry_paths_are_cleaned_and_never_climb() {
        assert_eq!(beneath(Path::new("/a/./b")).unwrap(), Path::new("a/b"));
        assert_eq!(beneath(Path::new("./")).unwrap(), Path::new(""));
        assert!(beneath(Path::new("a/../../b")).is_err());
        assert!(beneath(Path::new("..")).is_err());
    }
}
