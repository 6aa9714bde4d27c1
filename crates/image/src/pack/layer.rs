//! One archive with everything that a stack of layer directories changes.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use fs_err as fs;
use rustix::io::Errno;
use tar::{EntryType, Header};

use crate::ImageError;
use crate::overlay;
use crate::stack::open_file;
use crate::writer::FIXED_TIME;

/// What a deleted file is called in an archive: this, then its name.
const WHITEOUT_PREFIX: &str = ".wh.";
/// What says that nothing of the directory below it is seen.
const OPAQUE_MARK: &str = ".wh..wh..opq";
/// What stands before the name of an extended attribute in a header.
const XATTR_PREFIX: &str = "SCHILY.xattr.";
/// The attribute that gives a program privileges without being set-user-id.
const CAPABILITY: &str = "security.capability";
/// Most bytes in a list of attributes, and in the value of one (Linux, `limits.h`).
const ATTRIBUTES_LIMIT: usize = 65_536;
/// Longest link target that fits into a plain header.
const SHORT_LINK: usize = 100;

/// Writes the changes of all directories, lowest first, as one archive.
pub(super) fn write(layers: &[&Path], out: impl Write) -> Result<(), ImageError> {
    let mut archive = Archive {
        tar: tar::Builder::new(out),
        links: BTreeMap::new(),
        is_root: rustix::process::geteuid().is_root(),
    };
    let topmost_first: Vec<PathBuf> = layers.iter().rev().map(|layer| layer.to_path_buf()).collect();
    archive.below(Path::new(""), &topmost_first)?;
    let mut out = archive.tar.into_inner().map_err(writing)?;
    out.flush().map_err(writing)
}

struct Archive<W: Write> {
    tar: tar::Builder<W>,
    /// Files with several names, by device and number: the name that was written.
    links: BTreeMap<(u64, u64), PathBuf>,
    is_root: bool,
}

/// One name in one layer.
struct Entry {
    path: PathBuf,
    metadata: Metadata,
}

impl Entry {
    fn is_whiteout(&self) -> bool {
        overlay::is_whiteout(&self.path, &self.metadata)
    }
}

impl<W: Write> Archive<W> {
    /// Everything below a directory, which the layers hold at these places, topmost first.
    fn below(&mut self, path: &Path, layers: &[PathBuf]) -> Result<(), ImageError> {
        for (name, found) in names(layers)? {
            let path = path.join(&name);
            let Some(top) = found.first() else { continue };
            if top.is_whiteout() {
                self.mark(&path.with_file_name(prefixed(&name)))?;
            } else if top.metadata.is_dir() {
                let (parts, hides) = directory_parts(&found);
                self.entry(&path, top, EntryType::Directory)?;
                if hides {
                    self.mark(&path.join(OPAQUE_MARK))?;
                }
                self.below(&path, &parts)?;
            } else {
                self.leaf(&path, top)?;
            }
        }
        Ok(())
    }

    fn leaf(&mut self, path: &Path, entry: &Entry) -> Result<(), ImageError> {
        let kind = entry.metadata.file_type();
        if entry.metadata.nlink() > 1 {
            let number = (entry.metadata.dev(), entry.metadata.ino());
            if let Some(first) = self.links.get(&number) {
                let first = first.clone();
                return self.link(path, entry, EntryType::Link, first.as_os_str());
            }
            self.links.insert(number, path.to_owned());
        }
        if kind.is_symlink() {
            let target = fs::read_link(&entry.path).map_err(|e| reading(&entry.path, e))?;
            self.link(path, entry, EntryType::Symlink, target.as_os_str())
        } else if kind.is_file() {
            self.entry(path, entry, EntryType::Regular)
        } else if kind.is_fifo() {
            self.entry(path, entry, EntryType::Fifo)
        } else {
            // Sockets have no place in an archive; devices cannot come into a layer.
            Ok(())
        }
    }

    fn link(
        &mut self,
        path: &Path,
        entry: &Entry,
        kind: EntryType,
        target: &OsStr,
    ) -> Result<(), ImageError> {
        let mut header = self.header(entry, kind);
        let target = target.as_bytes();
        if target.len() > SHORT_LINK {
            self.tar.append_pax_extensions([("linkpath", target)]).map_err(writing)?;
        }
        let short = &target[..target.len().min(SHORT_LINK)];
        header.set_link_name_literal(short).map_err(writing)?;
        self.tar.append_data(&mut header, path, io::empty()).map_err(writing)
    }

    fn entry(&mut self, path: &Path, entry: &Entry, kind: EntryType) -> Result<(), ImageError> {
        let mut header = self.header(entry, kind);
        let attributes = attributes(&entry.path)?;
        if !attributes.is_empty() {
            let pairs = attributes.iter().map(|(name, value)| (name.as_str(), value.as_slice()));
            self.tar.append_pax_extensions(pairs).map_err(writing)?;
        }
        if kind == EntryType::Regular {
            let file = open_file(&entry.path)?;
            header.set_size(entry.metadata.len());
            // A file that grew or shrank would shift everything behind it.
            let content = io::Read::take(file, entry.metadata.len());
            return self.tar.append_data(&mut header, path, content).map_err(writing);
        }
        self.tar.append_data(&mut header, path, io::empty()).map_err(writing)
    }

    fn header(&self, entry: &Entry, kind: EntryType) -> Header {
        let metadata = &entry.metadata;
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(metadata.mode() & 0o7777);
        // Without privilege everything in the store belongs to the user who runs this, who stands for root.
        let owner = |id: u32| u64::from(if self.is_root { id } else { 0 });
        header.set_uid(owner(metadata.uid()));
        header.set_gid(owner(metadata.gid()));
        header.set_mtime(metadata.mtime().clamp(0, FIXED_TIME).unsigned_abs());
        header.set_size(0);
        header
    }

    fn mark(&mut self, path: &Path) -> Result<(), ImageError> {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(0o644);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(FIXED_TIME.unsigned_abs());
        header.set_size(0);
        self.tar.append_data(&mut header, path, io::empty()).map_err(writing)
    }
}

/// By name what the layers hold, topmost first.
fn names(layers: &[PathBuf]) -> Result<BTreeMap<OsString, Vec<Entry>>, ImageError> {
    let mut names: BTreeMap<OsString, Vec<Entry>> = BTreeMap::new();
    for layer in layers {
        for entry in fs::read_dir(layer).map_err(|e| reading(layer, e))? {
            let entry = entry.map_err(|e| reading(layer, e))?;
            let path = entry.path();
            let metadata = fs::symlink_metadata(&path).map_err(|e| reading(&path, e))?;
            names.entry(entry.file_name()).or_default().push(Entry { path, metadata });
        }
    }
    Ok(names)
}

/// The places whose content shows through in a directory, topmost first, and whether what lies below all layers is hidden.
fn directory_parts(found: &[Entry]) -> (Vec<PathBuf>, bool) {
    let mut parts = Vec::new();
    for entry in found {
        if !entry.metadata.is_dir() || entry.is_whiteout() {
            return (parts, true);
        }
        parts.push(entry.path.clone());
        if overlay::is_opaque(&entry.path) {
            return (parts, true);
        }
    }
    (parts, false)
}

/// The extended attributes that mean something in another place, as header fields in order of name.
fn attributes(path: &Path) -> Result<Vec<(String, Vec<u8>)>, ImageError> {
    let failed = |e: Errno| reading(path, e.into());
    let mut list = vec![0; ATTRIBUTES_LIMIT];
    let length = match rustix::fs::llistxattr(path, &mut list[..]) {
        Ok(0) | Err(Errno::NOTSUP) => return Ok(Vec::new()),
        other => other.map_err(failed)?,
    };
    let names = list[..length].split(|byte| *byte == 0).filter_map(|name| std::str::from_utf8(name).ok());
    let kept = |name: &&str| {
        *name == CAPABILITY || (name.starts_with("user.") && !overlay::is_reserved_attribute(name.as_bytes()))
    };
    let mut found = BTreeMap::new();
    for name in names.filter(kept) {
        let mut value = vec![0; ATTRIBUTES_LIMIT];
        let length = rustix::fs::lgetxattr(path, name, &mut value[..]).map_err(failed)?;
        value.truncate(length);
        found.insert(format!("{XATTR_PREFIX}{name}"), value);
    }
    Ok(found.into_iter().collect())
}

fn prefixed(name: &OsStr) -> OsString {
    let mut prefixed = OsString::from(WHITEOUT_PREFIX);
    prefixed.push(name);
    prefixed
}

fn reading(path: &Path, e: io::Error) -> ImageError {
    ImageError::io(format!("reading {}", path.display()), e)
}

fn writing(e: io::Error) -> ImageError {
    ImageError::io("packing a layer", e)
}
