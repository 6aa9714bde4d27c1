//! Files out: a path as a tar stream, without passing through a link below it.
//!
//! The reply is chunks with their length in front, an empty one at the end, then the status.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::sys;
use crate::unpack::inside;
use crate::wire::{Status, Wire};

/// Deepest tree that is packed; each level holds a descriptor.
const MAX_DEPTH: usize = 256;

/// Bytes of a chunk, and of what is read at a time.
const CHUNK: usize = 64 << 10;

/// Packs the path that comes through the socket.
pub(crate) fn run(mut socket: &UnixStream) -> io::Result<()> {
    let path = String::get(&mut socket)?;
    let mut to = BufWriter::with_capacity(CHUNK, Chunks(socket));
    let status = match pack(&path, &mut to) {
        Ok(status) => status,
        Err(error) => Status::Failed(error.to_string()),
    };
    to.flush()?;
    0_u32.put(&mut socket)?;
    status.put(&mut socket)
}

/// Puts the length in front of everything that is written.
struct Chunks<'a>(&'a UnixStream);

impl Write for Chunks<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !bytes.is_empty() {
            (bytes.len() as u32).put(&mut self.0)?;
            self.0.write_all(bytes)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn pack(path: &str, to: &mut impl Write) -> io::Result<Status> {
    let path = Path::new(path);
    let resolve = sys::RESOLVE_IN_ROOT | sys::RESOLVE_NO_MAGICLINKS;
    let root = OpenOptions::new().read(true).custom_flags(sys::O_PATH | sys::O_DIRECTORY).open("/")?;
    let found = match sys::open_resolved(&root, path, sys::O_PATH | sys::O_NOFOLLOW, resolve) {
        Ok(found) => found,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Status::NoSuchPath);
        }
        Err(error) => return Err(error),
    };
    if found.metadata()?.is_dir() {
        pack_directory(to, &open_directory(&inside(&found, OsStr::new(".")))?, b"", 0)?;
    } else {
        let name = path.file_name().ok_or_else(|| io::Error::other("the path names no file"))?;
        let parent = path.parent().unwrap_or(Path::new("/"));
        let parent = sys::open_resolved(&root, parent, sys::O_PATH | sys::O_DIRECTORY, resolve)?;
        pack_entry(to, &parent, name, name.as_bytes(), 0)?;
    }
    // Two empty blocks are the end of an archive.
    to.write_all(&[0; 1024])?;
    Ok(Status::Done)
}

fn open_directory(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(sys::O_DIRECTORY | sys::O_NOFOLLOW).open(path)
}

/// Packs what a directory holds, in order of name.
fn pack_directory(to: &mut impl Write, directory: &File, at: &[u8], depth: usize) -> io::Result<()> {
    if depth > MAX_DEPTH {
        let at = String::from_utf8_lossy(at);
        return Err(io::Error::other(format!("{at} lies deeper than {MAX_DEPTH} directories")));
    }
    let entries = fs::read_dir(inside(directory, OsStr::new("")))?;
    let mut names =
        entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<io::Result<Vec<OsString>>>()?;
    names.sort_unstable();
    for name in names {
        let mut at = at.to_vec();
        if !at.is_empty() {
            at.push(b'/');
        }
        at.extend_from_slice(name.as_bytes());
        pack_entry(to, directory, &name, &at, depth)?;
    }
    Ok(())
}

fn pack_entry(to: &mut impl Write, parent: &File, name: &OsStr, at: &[u8], depth: usize) -> io::Result<()> {
    let path = inside(parent, name);
    let metadata = match fs::symlink_metadata(&path) {
        Ok(metadata) => metadata,
        // It went away since the directory was read.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if metadata.is_dir() {
        let Ok(directory) = open_directory(&path) else { return Ok(()) };
        header(to, at, b"", b'5', 0, &metadata)?;
        pack_directory(to, &directory, at, depth + 1)
    } else if metadata.is_symlink() {
        let Ok(link) = fs::read_link(&path) else { return Ok(()) };
        header(to, at, link.as_os_str().as_bytes(), b'2', 0, &metadata)
    } else if metadata.is_file() {
        let flags = sys::O_NOFOLLOW | sys::O_NONBLOCK;
        let Ok(file) = OpenOptions::new().read(true).custom_flags(flags).open(&path) else { return Ok(()) };
        // The name may mean something else by now.
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Ok(());
        }
        let size = metadata.len();
        header(to, at, b"", b'0', size, &metadata)?;
        // A file that shrinks meanwhile is filled up, one that grows is cut: the stream stays well-formed.
        let padding = (512 - size % 512) % 512;
        copy(file.take(size).chain(io::repeat(0)).take(size + padding), to)
    } else {
        // Sockets, pipes and devices mean nothing outside.
        Ok(())
    }
}

fn copy(mut from: impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(()),
            count => to.write_all(&buffer[..count])?,
        }
    }
}

/// Bytes of a name or link in a header.
const NAME: usize = 100;

/// Writes a header of the GNU form, with entries of their own for long names in front.
fn header(
    to: &mut impl Write,
    name: &[u8],
    link: &[u8],
    kind: u8,
    size: u64,
    metadata: &Metadata,
) -> io::Result<()> {
    const LONG: &[u8] = b"././@LongLink";
    for (text, long_kind) in [(link, b'K'), (name, b'L')] {
        if text.len() > NAME {
            block(to, LONG, b"", long_kind, text.len() as u64 + 1, 0, 0)?;
            to.write_all(text)?;
            to.write_all(&vec![0; 512 - text.len() % 512])?;
        }
    }
    let cut = |text: &[u8]| text[..text.len().min(NAME)].to_vec();
    let mtime = u64::try_from(metadata.mtime()).unwrap_or(0);
    block(to, &cut(name), &cut(link), kind, size, metadata.mode() & 0o7777, mtime)
}

fn block(
    to: &mut impl Write,
    name: &[u8],
    link: &[u8],
    kind: u8,
    size: u64,
    mode: u32,
    mtime: u64,
) -> io::Result<()> {
    let mut bytes = [0; 512];
    bytes[..name.len()].copy_from_slice(name);
    number(&mut bytes[100..108], u64::from(mode));
    number(&mut bytes[108..116], 0);
    number(&mut bytes[116..124], 0);
    number(&mut bytes[124..136], size);
    number(&mut bytes[136..148], mtime);
    bytes[148..156].fill(b' ');
    bytes[156] = kind;
    bytes[157..157 + link.len()].copy_from_slice(link);
    bytes[257..265].copy_from_slice(b"ustar  \0");
    let sum: u64 = bytes.iter().map(|byte| u64::from(*byte)).sum();
    number(&mut bytes[148..156], sum);
    to.write_all(&bytes)
}

/// Octal digits with a zero byte behind them, or, where they do not fit, the number itself with its top bit set.
fn number(field: &mut [u8], value: u64) {
    let digits = field.len() - 1;
    let text = format!("{value:0digits$o}");
    if text.len() == digits {
        field[..digits].copy_from_slice(text.as_bytes());
    } else {
        field.fill(0);
        let start = field.len() - 8;
        field[start..].copy_from_slice(&value.to_be_bytes());
        field[0] = 0x80;
    }
}
