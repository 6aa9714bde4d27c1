//! Writes into a fresh layer directory, name by name below an open directory, so that no link is ever followed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;

use crate::ImageError;
use crate::layer_path::LayerPath;
use crate::overlay;

/// The modification time that the builder gives to everything it writes, 2000-01-01 00:00:00 UTC: layers with equal
/// keys are equal on every machine, and archive formats that begin in 1980 can hold the files.
pub(crate) const FIXED_TIME: i64 = 946_684_800;

/// Mode, owner, time and extended attributes of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) mtime: i64,
    pub(crate) xattrs: Vec<(OsString, Vec<u8>)>,
}

impl Attributes {
    /// Permissions and owner, without extended attributes, at [`FIXED_TIME`].
    pub(crate) fn new(mode: u32, uid: u32, gid: u32) -> Self {
        Self { mode, uid, gid, mtime: FIXED_TIME, xattrs: Vec::new() }
    }

    /// A directory of root's that everybody may enter.
    pub(crate) fn directory() -> Self {
        Self::new(0o755, 0, 0)
    }
}

/// Writes one layer.
///
/// Owners and `security.capability` are kept when the process is root; otherwise everything belongs to the user who
/// runs it, whom a sandbox shows as root. Directories get their final modes in [`LayerWriter::finish`], so that
/// read-only ones can be filled.
pub(crate) struct LayerWriter<'a> {
    root: OwnedFd,
    keep_owner: bool,
    directories: BTreeMap<LayerPath, Attributes>,
    whiteouts: BTreeSet<LayerPath>,
    opaques: BTreeSet<LayerPath>,
    missing: &'a dyn Fn(&LayerPath) -> Option<Attributes>,
    parent: Option<(LayerPath, OwnedFd)>,
}

impl<'a> LayerWriter<'a> {
    /// Opens the layer directory. `missing` tells the attributes of a directory that has to be created because
    /// something is written below it: those of the same directory in the layers underneath.
    pub(crate) fn open(
        directory: &Path,
        missing: &'a dyn Fn(&LayerPath) -> Option<Attributes>,
    ) -> Result<Self, ImageError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let root = rustix::fs::open(directory, flags, Mode::empty())
            .map_err(|e| ImageError::io(format!("opening layer directory {}", directory.display()), e))?;
        let mut directories = BTreeMap::new();
        let top = LayerPath::root();
        directories.insert(top.clone(), missing(&top).unwrap_or_else(Attributes::directory));
        let keep_owner = rustix::process::geteuid().is_root();
        Ok(Self {
            root,
            keep_owner,
            directories,
            whiteouts: BTreeSet::new(),
            opaques: BTreeSet::new(),
            missing,
            parent: None,
        })
    }

    /// Whether the layer itself holds a directory at `path`.
    pub(crate) fn has_directory(&self, path: &LayerPath) -> bool {
        self.directories.contains_key(path)
    }

    /// Creates a directory or changes the attributes of one that exists.
    pub(crate) fn directory(&mut self, path: &LayerPath, attributes: Attributes) -> Result<(), ImageError> {
        let Some((parent, name)) = path.split() else {
            self.directories.insert(LayerPath::root(), attributes);
            return Ok(());
        };
        self.enter(&parent)?;
        let deleted_below = self.whiteouts.contains(path);
        if self.directories.contains_key(path) {
            self.directories.insert(path.clone(), attributes);
            return Ok(());
        }
        self.clear(path, name)?;
        let parent = self.current();
        at(path, rustix::fs::mkdirat(parent, name, Mode::RWXU))?;
        if deleted_below {
            // The lower directory was deleted and a new one made in its place.
            let fd = at(path, open_directory(parent, name))?;
            at(path, overlay::make_opaque(fd))?;
            self.opaques.insert(path.clone());
        }
        self.directories.insert(path.clone(), attributes);
        Ok(())
    }

    /// Writes a regular file and returns its length. More than `limit` bytes is an error.
    pub(crate) fn file(
        &mut self,
        path: &LayerPath,
        content: &mut dyn Read,
        limit: u64,
        attributes: &Attributes,
    ) -> Result<u64, ImageError> {
        let name = self.replace(path)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = at(path, rustix::fs::openat(self.current(), &name, flags, Mode::RUSR | Mode::WUSR))?;
        let mut file = std::fs::File::from(fd);
        let written = copy_sparse(content, &mut file, limit)
            .map_err(|e| ImageError::io(format!("writing {}", path.absolute().display()), e))?;
        if written > limit {
            return Err(ImageError::Bound { what: "bytes in one file", limit });
        }
        if self.keep_owner {
            at(
                path,
                rustix::fs::fchown(
                    &file,
                    Some(Uid::from_raw(attributes.uid)),
                    Some(Gid::from_raw(attributes.gid)),
                ),
            )?;
        }
        // Changing the owner clears the set-id bits, so the mode comes after it, and capabilities after both.
        at(path, rustix::fs::fchmod(&file, mode_of(attributes)))?;
        self.set_xattrs(path, &file, attributes)?;
        at(path, rustix::fs::futimens(&file, &times(attributes.mtime)))?;
        Ok(written)
    }

    /// Creates a symbolic link; its target is never looked at.
    pub(crate) fn symlink(
        &mut self,
        path: &LayerPath,
        target: &OsStr,
        attributes: &Attributes,
    ) -> Result<(), ImageError> {
        let name = self.replace(path)?;
        at(path, rustix::fs::symlinkat(target, self.current(), &name))?;
        self.own_and_date(path, &name, attributes)
    }

    /// Creates a named pipe.
    pub(crate) fn fifo(&mut self, path: &LayerPath, attributes: &Attributes) -> Result<(), ImageError> {
        let name = self.replace(path)?;
        at(path, rustix::fs::mknodat(self.current(), &name, FileType::Fifo, mode_of(attributes), 0))?;
        self.own_and_date(path, &name, attributes)?;
        // The process's mask may have taken bits away.
        at(path, rustix::fs::chmodat(self.current(), &name, mode_of(attributes), AtFlags::empty()))
    }

    /// Makes `path` another name of the file `existing`, which this layer must hold.
    pub(crate) fn hard_link(&mut self, path: &LayerPath, existing: &LayerPath) -> Result<(), ImageError> {
        if path == existing {
            return Ok(());
        }
        let refuse = |rule: &str| ImageError::entry(&path.relative(), rule);
        let Some((from_parent, from_name)) = existing.split() else {
            return Err(refuse("is a hard link to the layer's root"));
        };
        let from = self
            .walk(&from_parent)?
            .ok_or_else(|| refuse("is a hard link to a file that does not come before it in the layer"))?;
        match at(path, overlay::stat_at(&from, from_name))? {
            None => return Err(refuse("is a hard link to a file that does not come before it in the layer")),
            Some(FileType::Directory) => return Err(refuse("is a hard link to a directory")),
            Some(_) if self.whiteouts.contains(existing) => {
                return Err(refuse("is a hard link to a deleted file"));
            }
            Some(_) => {}
        }
        if path.is_within(existing) {
            return Err(refuse("is a hard link below its own target"));
        }
        let name = self.replace(path)?;
        at(path, rustix::fs::linkat(&from, from_name, self.current(), &name, AtFlags::empty()))
    }

    /// Hides `path` of lower layers. What this very layer holds at `path` stays visible.
    pub(crate) fn whiteout(&mut self, path: &LayerPath) -> Result<(), ImageError> {
        let Some((parent, name)) = path.split() else {
            return self.opaque(path);
        };
        self.enter(&parent)?;
        match at(path, overlay::stat_at(self.current(), name))? {
            Some(FileType::Directory) => self.opaque(path),
            Some(_) => Ok(()),
            None if self.opaques.contains(&parent) => Ok(()),
            None => {
                at(path, overlay::create_whiteout(self.current(), name))?;
                self.whiteouts.insert(path.clone());
                Ok(())
            }
        }
    }

    /// Hides everything that lower layers hold in the directory `path`.
    pub(crate) fn opaque(&mut self, path: &LayerPath) -> Result<(), ImageError> {
        self.enter(path)?;
        // Single whiteouts have nothing left to hide, and their attribute form would show in an opaque directory.
        let is_inside = |whiteout: &LayerPath| whiteout.split().is_some_and(|(parent, _)| parent == *path);
        let inside: Vec<LayerPath> =
            self.whiteouts.iter().filter(|whiteout| is_inside(whiteout)).cloned().collect();
        for whiteout in inside {
            if let Some((_, name)) = whiteout.split() {
                at(&whiteout, rustix::fs::unlinkat(self.current(), name, AtFlags::empty()))?;
            }
            self.whiteouts.remove(&whiteout);
        }
        at(path, overlay::make_opaque(self.current()))?;
        self.opaques.insert(path.clone());
        Ok(())
    }

    /// Sets the attributes of all directories and ends the layer.
    pub(crate) fn finish(mut self) -> Result<(), ImageError> {
        let directories = std::mem::take(&mut self.directories);
        // Deepest first: the last thing that happens to a directory is its own mode and time.
        for (path, attributes) in directories.iter().rev() {
            let fd = self
                .walk(path)?
                .ok_or_else(|| ImageError::entry(&path.relative(), "vanished while the layer was written"))?;
            if self.keep_owner {
                let (uid, gid) = (Uid::from_raw(attributes.uid), Gid::from_raw(attributes.gid));
                at(path, rustix::fs::fchown(&fd, Some(uid), Some(gid)))?;
            }
            self.set_xattrs(path, &fd, attributes)?;
            at(path, rustix::fs::futimens(&fd, &times(attributes.mtime)))?;
            at(path, rustix::fs::fchmod(&fd, mode_of(attributes)))?;
        }
        Ok(())
    }

    /// Makes the directory `path`, with its parents where they are missing, the current one.
    fn enter(&mut self, path: &LayerPath) -> Result<(), ImageError> {
        if self.parent.as_ref().is_some_and(|(current, _)| current == path) {
            return Ok(());
        }
        let mut fd = at(path, open_directory(&self.root, OsStr::new(".")))?;
        for depth in 1..=path.names().len() {
            let here = path.prefix(depth);
            let name = &path.names()[depth - 1];
            let next = match open_directory(&fd, name) {
                Ok(next) => next,
                Err(Errno::NOENT) => self.create_parent(&fd, &here, name, false)?,
                Err(Errno::NOTDIR | Errno::LOOP) if self.whiteouts.remove(&here) => {
                    at(&here, rustix::fs::unlinkat(&fd, name, AtFlags::empty()))?;
                    self.create_parent(&fd, &here, name, true)?
                }
                Err(Errno::NOTDIR | Errno::LOOP) => {
                    return Err(ImageError::entry(
                        &path.relative(),
                        format!(
                            "lies below `{}`, which is not a directory in this layer",
                            here.absolute().display()
                        ),
                    ));
                }
                Err(other) => {
                    return Err(ImageError::io(format!("opening {}", here.absolute().display()), other));
                }
            };
            fd = next;
        }
        self.parent = Some((path.clone(), fd));
        Ok(())
    }

    fn create_parent(
        &mut self,
        fd: &OwnedFd,
        path: &LayerPath,
        name: &OsStr,
        opaque: bool,
    ) -> Result<OwnedFd, ImageError> {
        at(path, rustix::fs::mkdirat(fd, name, Mode::RWXU))?;
        let created = at(path, open_directory(fd, name))?;
        if opaque {
            at(path, overlay::make_opaque(&created))?;
            self.opaques.insert(path.clone());
        }
        let attributes = (self.missing)(path).unwrap_or_else(Attributes::directory);
        self.directories.insert(path.clone(), attributes);
        Ok(created)
    }

    fn current(&self) -> &OwnedFd {
        self.parent.as_ref().map_or(&self.root, |(_, fd)| fd)
    }

    /// Enters the parent of `path`, removes what is at `path` and returns the last name.
    fn replace(&mut self, path: &LayerPath) -> Result<OsString, ImageError> {
        let Some((parent, name)) = path.split() else {
            return Err(ImageError::entry(
                Path::new("/"),
                "would replace the layer's root with something else",
            ));
        };
        self.enter(&parent)?;
        self.clear(path, name)?;
        Ok(name.to_owned())
    }

    /// Removes what is called `name` in the current directory. The last of several entries with one name wins.
    fn clear(&mut self, path: &LayerPath, name: &OsStr) -> Result<(), ImageError> {
        self.whiteouts.remove(path);
        match at(path, overlay::stat_at(self.current(), name))? {
            None => Ok(()),
            Some(FileType::Directory) => {
                at(path, remove_below(self.current(), name))?;
                self.directories.retain(|directory, _| !directory.is_within(path));
                self.whiteouts.retain(|whiteout| !whiteout.is_within(path));
                self.opaques.retain(|opaque| !opaque.is_within(path));
                Ok(())
            }
            Some(_) => at(path, rustix::fs::unlinkat(self.current(), name, AtFlags::empty())),
        }
    }

    /// Opens the directory `path` if it and its parents are directories.
    fn walk(&self, path: &LayerPath) -> Result<Option<OwnedFd>, ImageError> {
        let mut fd = at(path, open_directory(&self.root, OsStr::new(".")))?;
        for name in path.names() {
            fd = match open_directory(&fd, name) {
                Ok(next) => next,
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
                Err(other) => {
                    return Err(ImageError::io(format!("opening {}", path.absolute().display()), other));
                }
            };
        }
        Ok(Some(fd))
    }

    fn own_and_date(
        &self,
        path: &LayerPath,
        name: &OsStr,
        attributes: &Attributes,
    ) -> Result<(), ImageError> {
        if self.keep_owner {
            let (uid, gid) = (Uid::from_raw(attributes.uid), Gid::from_raw(attributes.gid));
            at(
                path,
                rustix::fs::chownat(self.current(), name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW),
            )?;
        }
        at(
            path,
            rustix::fs::utimensat(self.current(), name, &times(attributes.mtime), AtFlags::SYMLINK_NOFOLLOW),
        )
    }

    fn set_xattrs(
        &self,
        path: &LayerPath,
        fd: impl std::os::fd::AsFd,
        attributes: &Attributes,
    ) -> Result<(), ImageError> {
        for (name, value) in &attributes.xattrs {
            if name == "security.capability" && !self.keep_owner {
                continue;
            }
            match rustix::fs::fsetxattr(fd.as_fd(), name.as_os_str(), value, XattrFlags::empty()) {
                // A file system without such attributes loses them, as every unpacker does.
                Ok(()) | Err(Errno::NOTSUP) => {}
                Err(other) => return at(path, Err(other)),
            }
        }
        Ok(())
    }
}

fn at<T>(path: &LayerPath, result: rustix::io::Result<T>) -> Result<T, ImageError> {
    result.map_err(|e| ImageError::io(format!("writing {} of the layer", path.absolute().display()), e))
}

fn open_directory(parent: impl std::os::fd::AsFd, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(parent.as_fd(), name, flags, Mode::empty())
}

/// Removes a directory and everything below it without following links.
fn remove_below(parent: &OwnedFd, name: &OsStr) -> rustix::io::Result<()> {
    use std::os::unix::ffi::OsStrExt as _;
    let directory = open_directory(parent, name)?;
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(&directory)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." {
            names.push(name.to_owned());
        }
    }
    for inner in names {
        match overlay::stat_at(&directory, &inner)? {
            Some(FileType::Directory) => remove_below(&directory, &inner)?,
            Some(_) => rustix::fs::unlinkat(&directory, &inner, AtFlags::empty())?,
            None => {}
        }
    }
    rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)
}

fn mode_of(attributes: &Attributes) -> Mode {
    Mode::from_raw_mode(attributes.mode & 0o7777)
}

fn times(mtime: i64) -> Timestamps {
    let time = Timespec { tv_sec: mtime, tv_nsec: 0 };
    Timestamps { last_access: time, last_modification: time }
}

/// Copies at most `limit` bytes (one more to tell that there are more) and leaves holes for blocks of zeros.
fn copy_sparse(from: &mut dyn Read, to: &mut std::fs::File, limit: u64) -> io::Result<u64> {
    use std::io::{Seek as _, SeekFrom};
    let mut buffer = vec![0_u8; 128 * 1024];
    let (mut total, mut hole) = (0_u64, 0_u64);
    loop {
        let count = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        };
        total += count as u64;
        if total > limit {
            return Ok(total);
        }
        let chunk = &buffer[..count];
        if count >= 4096 && chunk.iter().all(|byte| *byte == 0) {
            hole += count as u64;
            continue;
        }
        if hole > 0 {
            to.seek(SeekFrom::Current(i64::try_from(hole).map_err(io::Error::other)?))?;
            hole = 0;
        }
        to.write_all(chunk)?;
    }
    if hole > 0 {
        to.set_len(total)?;
    }
    Ok(total)
}
