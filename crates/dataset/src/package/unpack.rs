//! Reading packages, whoever made them.
//!
//! An archive is refused at the first thing that [`pack`](super::pack) would not write: only directories, plain files and links, paths
//! plainly below one directory, each once and in order, each in a directory that came before it. Links are made last, so that
//! nothing is ever written through one. Memory is bounded, and so is what is written.

use std::borrow::Cow;
use std::cell::Cell;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use fs_err as fs;
use tar::{Archive, Entry, EntryType};
use task::printable;

use crate::sums::path_fault;

/// The longest path, and the longest text of a link.
const LONGEST_PATH: usize = 4096;
/// Bytes of all links together, which are kept until the end.
const LINK_BYTES: usize = 64 << 20;
/// Bytes that may stand between the content of one file and that of the next.
const HEADERS: u64 = 64 << 10;
/// The largest window of compression: 128 MiB.
const WINDOW_LOG: u32 = 27;

/// Bounds on what a package may unpack to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnpackLimits {
    /// Files, directories, links, and the names that are too long for a header.
    pub(crate) entries: u64,
    /// Bytes of the archive once it is inflated.
    pub(crate) bytes: u64,
}

impl UnpackLimits {
    /// The bounds for a package of `size` bytes: two million entries, and a thousand times its size, but at least 1 GiB and at most 256 GiB.
    pub(crate) fn of(size: u64) -> Self {
        Self { entries: 2_000_000, bytes: size.saturating_mul(1000).clamp(1 << 30, 256 << 30) }
    }
}

/// Why an archive is no package.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PackageFault {
    /// It cannot be read as an archive.
    #[error("cannot be read: {0}")]
    Archive(io::Error),
    /// An entry that no package has.
    #[error("holds `{entry}`, which {problem}")]
    Entry { entry: String, problem: &'static str },
    /// More than any package holds.
    #[error("holds more than {limit} {what}")]
    Bound { what: &'static str, limit: u64 },
    /// Something follows the archive.
    #[error("goes on after the end of its archive")]
    Trailing,
    /// There is nothing in it.
    #[error("is empty")]
    Empty,
    /// The system refused to write.
    #[error("{}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

/// Unpacks a package into the empty directory `into`, without its first component, which is returned.
pub(crate) fn unpack(package: impl Read, into: &Path, limits: UnpackLimits) -> Result<String, PackageFault> {
    let mut decoder = zstd::Decoder::with_buffer(BufReader::with_capacity(1 << 20, package))
        .map_err(PackageFault::Archive)?
        .single_frame();
    decoder.window_log_max(WINDOW_LOG).map_err(PackageFault::Archive)?;
    let meter =
        Rc::new(Meter { left: Cell::new(limits.bytes), headers: Cell::new(None), reached: Cell::new(None) });
    let mut archive = Archive::new(Metered { inner: decoder, meter: Rc::clone(&meter), limits });
    let mut unpacking = Unpacking { into, set: None, last: Vec::new(), links: Vec::new(), link_bytes: 0 };
    let mut long = Long::default();
    let mut seen = 0;
    let failed = |error| meter.fault(error);
    let mut entries = archive.entries().map_err(PackageFault::Archive)?.raw(true);
    loop {
        meter.headers.set(Some(HEADERS));
        let Some(entry) = entries.next() else { break };
        let mut entry = entry.map_err(failed)?;
        meter.headers.set(None);
        seen += 1;
        if seen > limits.entries {
            return Err(PackageFault::Bound { what: "entries", limit: limits.entries });
        }
        match entry.header().entry_type() {
            EntryType::GNULongName => long.name = Some(long_text(&mut entry).map_err(failed)?),
            EntryType::GNULongLink => long.link = Some(long_text(&mut entry).map_err(failed)?),
            _ => unpacking.entry(&mut entry, std::mem::take(&mut long), &failed)?,
        }
        // What is left of it, so that only headers stand between entries.
        io::copy(&mut entry, &mut io::sink()).map_err(failed)?;
    }
    meter.headers.set(None);
    let mut rest = archive.into_inner();
    let mut buffer = [0; 8192];
    loop {
        match rest.read(&mut buffer).map_err(failed)? {
            0 => break,
            // Archives end with blocks of zeros.
            count if buffer[..count].iter().all(|byte| *byte == 0) => {}
            _ => return Err(PackageFault::Trailing),
        }
    }
    let mut rest = rest.inner.finish();
    if rest.read(&mut buffer).map_err(PackageFault::Archive)? != 0 {
        return Err(PackageFault::Trailing);
    }
    unpacking.finish()
}

/// Names that do not fit into a header stand in an entry before it.
#[derive(Debug, Default)]
struct Long {
    name: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
}

fn long_text<R: Read>(entry: &mut Entry<'_, R>) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    entry.take(LONGEST_PATH as u64 + 2).read_to_end(&mut text)?;
    text.pop_if(|byte| *byte == 0);
    Ok(text)
}

struct Unpacking<'a> {
    into: &'a Path,
    /// The first component of all paths.
    set: Option<String>,
    /// The path before, in the order of the archive.
    last: Vec<u8>,
    /// Links and their texts, to be made at the end.
    links: Vec<(PathBuf, PathBuf)>,
    /// The bytes of all of them.
    link_bytes: usize,
}

impl Unpacking<'_> {
    fn entry<R: Read>(
        &mut self,
        entry: &mut Entry<'_, R>,
        long: Long,
        failed: &dyn Fn(io::Error) -> PackageFault,
    ) -> Result<(), PackageFault> {
        let kind = entry.header().entry_type();
        let name = long.name.unwrap_or_else(|| entry.path_bytes().into_owned());
        let fault = |problem| PackageFault::Entry { entry: printable(&name), problem };
        let below = self.below(kind, &name).map_err(fault)?;
        let Some(below) = below else { return Ok(()) };
        let to = self.into.join(OsStr::from_bytes(below));
        // All that is here was written by this function, and links are not written yet.
        if !to.parent().is_some_and(Path::is_dir) {
            return Err(fault("is in a directory that the package does not hold"));
        }
        let unwritten = |source| PackageFault::Write { path: to.clone(), source };
        match kind {
            EntryType::Directory => {
                fs::create_dir(&to).map_err(unwritten)?;
                fs::set_permissions(&to, Permissions::from_mode(0o755)).map_err(unwritten)?;
            }
            EntryType::Regular => {
                let mode = entry.header().mode().map_err(failed)?;
                let mode = if mode & 0o100 == 0 { 0o644 } else { 0o755 };
                let mut file =
                    OpenOptions::new().write(true).create_new(true).open(&to).map_err(unwritten)?;
                copy(entry, &mut file, failed, &unwritten)?;
                // Exactly this mode, whatever the umask is.
                file.set_permissions(Permissions::from_mode(mode)).map_err(unwritten)?;
            }
            EntryType::Symlink => {
                let text = long.link.or_else(|| entry.link_name_bytes().map(Cow::into_owned));
                let text = text.filter(|text| !text.is_empty() && text.len() <= LONGEST_PATH);
                let text = text.ok_or_else(|| fault("is a link to nothing"))?;
                self.link_bytes += text.len() + to.as_os_str().len();
                if self.link_bytes > LINK_BYTES {
                    return Err(PackageFault::Bound { what: "bytes of links", limit: LINK_BYTES as u64 });
                }
                self.links.push((to, PathBuf::from(OsStr::from_bytes(&text))));
            }
            _ => return Err(fault("is neither a file nor a directory nor a link")),
        }
        Ok(())
    }

    /// Where an entry belongs below the set; none for the directory of the set itself.
    fn below<'n>(&mut self, kind: EntryType, name: &'n [u8]) -> Result<Option<&'n [u8]>, &'static str> {
        let path = match kind {
            EntryType::Directory => name.strip_suffix(b"/").unwrap_or(name),
            _ => name,
        };
        if path.len() > LONGEST_PATH {
            return Err("has a longer name than any file");
        }
        if let Some(problem) = path_fault(path) {
            return Err(problem);
        }
        let text = std::str::from_utf8(path).map_err(|_| "has a name that is not UTF-8")?;
        let (set, below) = text.split_once('/').unwrap_or((text, ""));
        let Some(known) = &self.set else {
            if !below.is_empty() || kind != EntryType::Directory {
                return Err("comes before the directory of the set");
            }
            self.set = Some(set.to_owned());
            return Ok(None);
        };
        if set != known {
            return Err("is not in the directory of the set");
        }
        if below.as_bytes() <= self.last.as_slice() {
            return Err("is there twice, or not in order");
        }
        self.last = below.as_bytes().to_vec();
        Ok(Some(below.as_bytes()))
    }

    fn finish(self) -> Result<String, PackageFault> {
        for (link, text) in self.links {
            symlink(&text, &link).map_err(|source| PackageFault::Write { path: link, source })?;
        }
        self.set.ok_or(PackageFault::Empty)
    }
}

/// Copies the content of a file, and tells failures of the archive from those of the disk.
fn copy<R: Read>(
    entry: &mut Entry<'_, R>,
    file: &mut File,
    failed: &dyn Fn(io::Error) -> PackageFault,
    unwritten: &dyn Fn(io::Error) -> PackageFault,
) -> Result<(), PackageFault> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        match entry.read(&mut buffer).map_err(failed)? {
            0 => return Ok(()),
            count => file.write_all(&buffer[..count]).map_err(unwritten)?,
        }
    }
}

/// What may still be read.
struct Meter {
    /// Of the whole archive.
    left: Cell<u64>,
    /// Of headers, while they are read.
    headers: Cell<Option<u64>>,
    /// The bound that was reached.
    reached: Cell<Option<(&'static str, u64)>>,
}

impl Meter {
    /// What a failure of reading means.
    fn fault(&self, error: io::Error) -> PackageFault {
        match self.reached.get() {
            Some((what, limit)) => PackageFault::Bound { what, limit },
            None => PackageFault::Archive(error),
        }
    }
}

/// An inflated archive that is read within bounds.
struct Metered<R> {
    inner: R,
    meter: Rc<Meter>,
    limits: UnpackLimits,
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)? as u64;
        let reached = |what, limit| {
            self.meter.reached.set(Some((what, limit)));
            io::Error::other("a bound was reached")
        };
        let left = self.meter.left.get().checked_sub(count);
        self.meter.left.set(left.ok_or_else(|| reached("bytes when it is unpacked", self.limits.bytes))?);
        if let Some(headers) = self.meter.headers.get() {
            let left = headers.checked_sub(count);
            self.meter
                .headers
                .set(Some(left.ok_or_else(|| reached("bytes of headers before one entry", HEADERS))?));
        }
        Ok(count as usize)
    }
}

#[cfg(test)]
mod tests {
    use tar::{Builder, Header};

    use super::*;

    const LIMITS: UnpackLimits = UnpackLimits { entries: 20, bytes: 1 << 20 };

    /// An entry of any kind whose name and link are taken as they are.
    fn entry(kind: EntryType, name: &[u8], link: &[u8], content: &[u8]) -> Vec<u8> {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        let gnu = header.as_gnu_mut().unwrap();
        gnu.name[..name.len()].copy_from_slice(name);
        gnu.linkname[..link.len()].copy_from_slice(link);
        header.set_cksum();
        let mut bytes = header.as_bytes().to_vec();
        bytes.extend_from_slice(content);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
        bytes
    }

    fn directory(name: &str) -> Vec<u8> {
        entry(EntryType::Directory, name.as_bytes(), b"", b"")
    }

    fn file(name: &str, content: &str) -> Vec<u8> {
        entry(EntryType::Regular, name.as_bytes(), b"", content.as_bytes())
    }

    fn link(name: &str, text: &str) -> Vec<u8> {
        entry(EntryType::Symlink, name.as_bytes(), text.as_bytes(), b"")
    }

    fn zipped(entries: &[Vec<u8>]) -> Vec<u8> {
        let archive = [entries.concat(), vec![0; 1024]].concat();
        zstd::encode_all(archive.as_slice(), 1).unwrap()
    }

    /// What is said about an archive, once it is sure that nothing was written outside.
    fn unpacked(package: &[u8]) -> Result<String, String> {
        let around = tempfile::tempdir().unwrap();
        let into = around.path().join("into");
        std::fs::create_dir(&into).unwrap();
        let said = unpack(package, &into, LIMITS).map_err(|fault| fault.to_string());
        assert_eq!(std::fs::read_dir(around.path()).unwrap().count(), 1, "something was written outside");
        said
    }

    #[test]
    fn a_plain_archive_is_unpacked_with_its_links_last() {
        let into = tempfile::tempdir().unwrap();
        let entries = [directory("s/"), link("s/a", "b/c"), directory("s/b/"), file("s/b/c", "x")];
        assert_eq!(unpack(zipped(&entries).as_slice(), into.path(), LIMITS).unwrap(), "s");
        assert_eq!(std::fs::read(into.path().join("a")).unwrap(), b"x");
    }

    #[test]
    fn tricks_with_paths_links_and_kinds_are_refused_by_name() {
        let set = || directory("s/");
        let through = [set(), link("s/d", "/tmp"), file("s/d/x", "x")];
        for (entries, said) in [
            (vec![set(), file("s/../x", "x")], "`s/../x`, which has a component that is a direction"),
            (vec![set(), file("/x", "x")], "is absolute"),
            (vec![set(), file("s//x", "x")], "has an empty component"),
            (vec![set(), file("s/./x", "x")], "is a direction"),
            (vec![set(), file("s/a\\b", "x")], "backslash"),
            (vec![set(), entry(EntryType::Regular, b"s/\xff", b"", b"x")], "not UTF-8"),
            (vec![set(), file("t/x", "x")], "is not in the directory of the set"),
            (vec![file("s/x", "x")], "comes before the directory of the set"),
            (vec![set(), file("s/x", "x"), file("s/x", "y")], "is there twice"),
            (vec![set(), file("s/y", "x"), file("s/x", "y")], "not in order"),
            (vec![set(), file("s/d/x", "x")], "in a directory that the package does not hold"),
            (through.to_vec(), "in a directory that the package does not hold"),
            (vec![set(), link("s/l", "")], "is a link to nothing"),
            (vec![set(), entry(EntryType::Link, b"s/l", b"/etc/passwd", b"")], "is neither"),
            (vec![set(), entry(EntryType::Char, b"s/l", b"", b"")], "is neither"),
            (vec![set(), entry(EntryType::Fifo, b"s/l", b"", b"")], "is neither"),
            (vec![set(), entry(EntryType::XHeader, b"s/l", b"", b"9 path=x\n")], "is neither"),
            (vec![], "is empty"),
        ] {
            let found = unpacked(&zipped(&entries)).unwrap_err();
            assert!(found.contains(said), "{found:?} and not {said:?}");
        }
    }

    #[test]
    fn bombs_end_at_their_bounds() {
        let many: Vec<_> =
            std::iter::once(directory("s/")).chain((0..30).map(|n| file(&format!("s/{n:02}"), ""))).collect();
        assert_eq!(unpacked(&zipped(&many)).unwrap_err(), "holds more than 20 entries");
        let zeros = "0".repeat(2 << 20);
        let large = zipped(&[directory("s/"), file("s/x", &zeros)]);
        assert!(large.len() < 4096, "it is small as long as it is packed");
        assert_eq!(unpacked(&large).unwrap_err(), "holds more than 1048576 bytes when it is unpacked");
        let name = entry(EntryType::GNULongName, b"././@LongLink", b"", &zeros.as_bytes()[..1 << 19]);
        let found = unpacked(&zipped(&[directory("s/"), name, file("s/x", "")])).unwrap_err();
        assert!(found.contains("longer name than any file"), "{found}");
        let names: Vec<_> = std::iter::once(directory("s/"))
            .chain((0..200).map(|_| entry(EntryType::GNULongName, b"././@LongLink", b"", b"s/x")))
            .collect();
        assert!(unpacked(&zipped(&names)).is_err(), "names without files");
    }

    #[test]
    fn nothing_may_follow_and_nothing_be_missing() {
        let plain = zipped(&[directory("s/"), file("s/x", "x")]);
        for more in [&b"x"[..], &plain] {
            let found = unpacked(&[&plain, more].concat()).unwrap_err();
            assert_eq!(found, "goes on after the end of its archive");
        }
        let hidden = [directory("s/"), vec![0; 1024], file("s/x", "x")].concat();
        let hidden = zstd::encode_all(hidden.as_slice(), 1).unwrap();
        assert_eq!(unpacked(&hidden).unwrap_err(), "goes on after the end of its archive");
        for cut in [0, 1, 10, plain.len() / 2, plain.len() - 1] {
            assert!(unpacked(&plain[..cut]).is_err(), "cut at {cut}");
        }
        let mut tar = Builder::new(Vec::new());
        tar.append_data(&mut Header::new_gnu(), "s/x", &b""[..]).unwrap();
        assert!(unpacked(&tar.into_inner().unwrap()).is_err(), "not compressed");
    }

    proptest::proptest! {
        #[test]
        fn reading_never_panics(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..2000)) {
            let _ = unpacked(&zstd::encode_all(bytes.as_slice(), 1).unwrap());
            let _ = unpacked(&bytes);
        }
    }
}
