//! Unpacks layer archives into directories in the layer form of [`Layer::Directory`](crate::Layer::Directory).
//!
//! Rules for entries, from the OCI image layer specification and from the fact that archives come from strangers:
//!
//! - names are relative and have no `..`; nothing is ever written below a symbolic link;
//! - `.wh.<name>` hides `<name>` of lower layers, `.wh..wh..opq` all of them; neither touches this layer's own files;
//! - of several entries with one name the last wins;
//! - hard links point to files that come before them in the same archive;
//! - device nodes are left out, since a sandbox brings its own `/dev`;
//! - `user.*` attributes and `security.capability` are kept, except those that overlayfs itself uses;
//! - size and number of entries are bounded.

use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;
use std::rc::Rc;

use tar::EntryType;

use crate::ImageError;
use crate::archive;
use crate::layer_path::LayerPath;
use crate::overlay;
use crate::writer::{Attributes, LayerWriter};

/// Headers, long names and attributes that may precede one entry, in bytes.
const MAX_HEADERS: u64 = 1 << 20;

/// Bounds on what one archive may unpack to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnpackLimits {
    /// Entries of any kind.
    pub entries: u64,
    /// Bytes of all files together.
    pub total: u64,
    /// Bytes of one file.
    pub file: u64,
}

impl Default for UnpackLimits {
    /// Two million entries, 64 GiB in all, 16 GiB a file.
    fn default() -> Self {
        Self { entries: 2_000_000, total: 64 << 30, file: 16 << 30 }
    }
}

/// What an archive held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unpacked {
    /// Entries written, whiteouts included.
    pub entries: u64,
    /// Bytes of file content written.
    pub bytes: u64,
    /// Device nodes left out.
    pub devices: u64,
}

/// Unpacks a layer, compressed or not, into the empty directory `into`.
///
/// `name` stands for the archive in messages. Nothing outside `into` is written whatever the archive holds; after
/// an error `into` is to be thrown away.
pub fn unpack_layer(
    name: &str,
    stream: impl Read,
    into: &Path,
    limits: &UnpackLimits,
) -> Result<Unpacked, ImageError> {
    let stream = archive::inflate(name, Box::new(stream))?;
    let mut writer = LayerWriter::open(into, &|_| None)?;
    let mut place = |path: &LayerPath, _: bool| Ok(path.clone());
    let rules = Rules { whiteouts: true, owner: None, time: None, place: &mut place };
    let unpacked = unpack_into(name, stream, &mut writer, limits, rules)?;
    writer.finish()?;
    Ok(unpacked)
}

/// Maps an entry's path to where it is written; the flag says whether the entry is a directory.
pub(crate) type Place<'a> = dyn FnMut(&LayerPath, bool) -> Result<LayerPath, ImageError> + 'a;

/// How entries are treated.
pub(crate) struct Rules<'a> {
    /// Whether `.wh.` names are deletions or ordinary names.
    pub(crate) whiteouts: bool,
    /// Owner of everything instead of the archive's.
    pub(crate) owner: Option<(u32, u32)>,
    /// Modification time of everything instead of the archive's.
    pub(crate) time: Option<i64>,
    /// Where entries go.
    pub(crate) place: &'a mut Place<'a>,
}

/// Unpacks an inflated archive through a writer.
pub(crate) fn unpack_into(
    name: &str,
    stream: impl Read,
    writer: &mut LayerWriter<'_>,
    limits: &UnpackLimits,
    mut rules: Rules<'_>,
) -> Result<Unpacked, ImageError> {
    let headers = Rc::new(Cell::new(Some(MAX_HEADERS)));
    let mut archive = tar::Archive::new(Metered { inner: stream, headers: Rc::clone(&headers) });
    let failed = |e: io::Error| ImageError::io(format!("reading {name}"), e);
    let mut unpacked = Unpacked::default();
    let mut seen = 0_u64;
    let mut entries = archive.entries().map_err(failed)?;
    loop {
        // Only headers are read between entries, because every entry is read to its end below.
        headers.set(Some(MAX_HEADERS));
        let Some(entry) = entries.next() else { break };
        let mut entry = entry.map_err(failed)?;
        headers.set(None);
        seen += 1;
        if seen > limits.entries {
            return Err(ImageError::Bound { what: "entries", limit: limits.entries });
        }
        let left = limits.total - unpacked.bytes;
        if entry.size() > left {
            return Err(ImageError::Bound { what: "bytes in all files", limit: limits.total });
        }
        write_entry(&mut entry, writer, limits, left, &mut rules, &mut unpacked)?;
        io::copy(&mut entry.take(limits.total), &mut io::sink()).map_err(failed)?;
    }
    Ok(unpacked)
}

fn write_entry<R: Read>(
    entry: &mut tar::Entry<'_, R>,
    writer: &mut LayerWriter<'_>,
    limits: &UnpackLimits,
    left: u64,
    rules: &mut Rules<'_>,
    unpacked: &mut Unpacked,
) -> Result<(), ImageError> {
    let name = OsString::from_vec(entry.path_bytes().into_owned());
    let name = Path::new(&name);
    let path = LayerPath::of_entry(name).map_err(|rule| ImageError::entry(name, rule))?;
    let kind = match entry.header().entry_type() {
        // The oldest tar format has no type for directories, only a slash at the end.
        EntryType::Regular if name.as_os_str().as_bytes().ends_with(b"/") => EntryType::Directory,
        kind => kind,
    };
    if kind.is_pax_global_extensions() {
        return Ok(());
    }
    if rules.whiteouts
        && let Some((parent, last)) = path.split()
        && let Some(hidden) = last.as_bytes().strip_prefix(b".wh.")
    {
        unpacked.entries += 1;
        return delete(writer, rules, name, &parent, hidden);
    }
    let attributes = attributes_of(entry, name, rules)?;
    let path = (rules.place)(&path, kind.is_dir())?;
    match kind {
        EntryType::Directory => writer.directory(&path, attributes)?,
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
            unpacked.bytes += writer.file(&path, entry, limits.file.min(left), &attributes)?;
        }
        EntryType::Symlink => {
            let target = link_target(entry, name)?;
            writer.symlink(&path, OsStr::from_bytes(&target), &attributes)?;
        }
        EntryType::Link => {
            let target = OsString::from_vec(link_target(entry, name)?);
            // Targets are names of the same archive; a leading slash there is common and means its root.
            let target = OsStr::from_bytes(trim_slashes(target.as_bytes())).to_owned();
            let target = LayerPath::of_entry(Path::new(&target))
                .map_err(|rule| ImageError::entry(name, format!("is a hard link whose target {rule}")))?;
            let target = (rules.place)(&target, false)?;
            writer.hard_link(&path, &target)?;
        }
        EntryType::Fifo => writer.fifo(&path, &attributes)?,
        EntryType::Char | EntryType::Block => {
            unpacked.devices += 1;
            return Ok(());
        }
        other => {
            return Err(ImageError::entry(name, format!("has the unknown type {:#04x}", other.as_byte())));
        }
    }
    unpacked.entries += 1;
    Ok(())
}

fn delete(
    writer: &mut LayerWriter<'_>,
    rules: &mut Rules<'_>,
    name: &Path,
    parent: &LayerPath,
    hidden: &[u8],
) -> Result<(), ImageError> {
    let parent = (rules.place)(parent, true)?;
    match hidden {
        b".wh..opq" => writer.opaque(&parent),
        // Other names with two prefixes are bookkeeping of older union file systems.
        _ if hidden.starts_with(b".wh.") => Ok(()),
        b"" | b"." | b".." => Err(ImageError::entry(name, "is a deletion of nothing that can be deleted")),
        _ => writer.whiteout(&parent.join(OsStr::from_bytes(hidden))),
    }
}

fn link_target<R: Read>(entry: &tar::Entry<'_, R>, name: &Path) -> Result<Vec<u8>, ImageError> {
    match entry.link_name_bytes() {
        Some(target) if target.is_empty() || target.contains(&0) || target.len() > 4095 => {
            Err(ImageError::entry(name, "is a link whose target is empty, too long or has a zero byte"))
        }
        Some(target) => Ok(target.into_owned()),
        None => Err(ImageError::entry(name, "is a link without a target")),
    }
}

fn trim_slashes(mut bytes: &[u8]) -> &[u8] {
    while let Some(rest) = bytes.strip_prefix(b"/") {
        bytes = rest;
    }
    bytes
}

fn attributes_of<R: Read>(
    entry: &mut tar::Entry<'_, R>,
    name: &Path,
    rules: &Rules<'_>,
) -> Result<Attributes, ImageError> {
    let bad = |what: &str, e: &io::Error| ImageError::entry(name, format!("has a broken {what}: {e}"));
    let fields = entry.header().as_old();
    // A field without digits is zero, as for every other reader.
    let number = |what: &str, field: &[u8], value: io::Result<u64>| match value {
        Ok(value) => Ok(value),
        Err(_) if field.iter().all(|b| matches!(b, 0 | b' ')) => Ok(0),
        Err(e) => Err(bad(what, &e)),
    };
    let id = |what: &str, field: &[u8], value: io::Result<u64>| {
        let value = number(what, field, value)?;
        u32::try_from(value)
            .map_err(|_| ImageError::entry(name, format!("has the {what} {value}, beyond 32 bits")))
    };
    let header = entry.header();
    let (uid, gid) = match rules.owner {
        Some(owner) => owner,
        None => (id("owner", &fields.uid, header.uid())?, id("group", &fields.gid, header.gid())?),
    };
    let mode = id("mode", &fields.mode, header.mode().map(u64::from))?;
    let mtime = match rules.time {
        Some(time) => time,
        None => i64::try_from(number("time", &fields.mtime, header.mtime())?).unwrap_or(0),
    };
    let mut xattrs = Vec::new();
    if let Some(extensions) = entry.pax_extensions().map_err(|e| bad("extended header", &e))? {
        for extension in extensions {
            let extension = extension.map_err(|e| bad("extended header", &e))?;
            let Some(key) = extension.key_bytes().strip_prefix(b"SCHILY.xattr.") else { continue };
            let wanted = key.starts_with(b"user.") || key == b"security.capability";
            if wanted && !overlay::is_reserved_attribute(key) && !key.contains(&0) && key.len() <= 255 {
                xattrs.push((OsStr::from_bytes(key).to_owned(), extension.value_bytes().to_vec()));
            }
        }
    }
    Ok(Attributes { mode, uid, gid, mtime, xattrs })
}

/// Stops archives that spend their bytes on headers, which the tar reader keeps in memory.
struct Metered<R> {
    inner: R,
    headers: Rc<Cell<Option<u64>>>,
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        if let Some(left) = self.headers.get() {
            let left = left.checked_sub(count as u64).ok_or_else(|| {
                io::Error::other(format!("more than {MAX_HEADERS} bytes of headers before one entry"))
            })?;
            self.headers.set(Some(left));
        }
        Ok(count)
    }
}
