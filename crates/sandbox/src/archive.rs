//! Tar streams at rest, between a sandbox and whoever packs or unpacks them.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// What is kept in memory; a larger archive lies in an unnamed temporary file.
const IN_MEMORY: usize = 1 << 20;

/// A tar stream of known length. Small ones are in memory, large ones in an unnamed file that vanishes with the value.
pub struct Archive {
    body: Body,
    len: u64,
}

enum Body {
    Memory(Vec<u8>),
    File(File),
}

impl Archive {
    /// Packs with a [`tar::Builder`].
    pub fn pack(fill: impl FnOnce(&mut tar::Builder<ArchiveWriter>) -> io::Result<()>) -> io::Result<Self> {
        let mut builder = tar::Builder::new(ArchiveWriter::default());
        fill(&mut builder)?;
        Ok(builder.into_inner()?.finish())
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there is not a single byte.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Reads from the start; readers are independent of each other.
    pub fn reader(&self) -> ArchiveReader<'_> {
        ArchiveReader { archive: self, at: 0 }
    }

    /// As a tar archive from its start.
    pub fn as_tar(&self) -> tar::Archive<ArchiveReader<'_>> {
        tar::Archive::new(self.reader())
    }

    /// Reads at an offset, as `pread` does.
    pub fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        match &self.body {
            Body::Memory(bytes) => {
                let rest = usize::try_from(at).ok().and_then(|at| bytes.get(at..)).unwrap_or_default();
                let count = rest.len().min(buffer.len());
                buffer[..count].copy_from_slice(&rest[..count]);
                Ok(count)
            }
            Body::File(file) => file.read_at(buffer, at),
        }
    }
}

impl From<Vec<u8>> for Archive {
    fn from(bytes: Vec<u8>) -> Self {
        Self { len: bytes.len() as u64, body: Body::Memory(bytes) }
    }
}

impl fmt::Debug for Archive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Archive").field("len", &self.len).finish_non_exhaustive()
    }
}

/// Reads an [`Archive`].
#[derive(Debug)]
pub struct ArchiveReader<'a> {
    archive: &'a Archive,
    at: u64,
}

impl Read for ArchiveReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.archive.read_at(self.at, buffer)?;
        self.at += count as u64;
        Ok(count)
    }
}

impl Seek for ArchiveReader<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.archive.len.checked_add_signed(by),
        };
        self.at =
            at.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "before the archive's start"))?;
        Ok(self.at)
    }
}

/// Takes the bytes of an [`Archive`] as they come.
#[derive(Debug, Default)]
pub struct ArchiveWriter {
    memory: Vec<u8>,
    file: Option<File>,
    len: u64,
}

impl ArchiveWriter {
    /// Bytes so far.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether nothing has been written yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The archive.
    pub fn finish(self) -> Archive {
        let body = self.file.map_or(Body::Memory(self.memory), Body::File);
        Archive { body, len: self.len }
    }
}

impl Write for ArchiveWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.file.is_none() && self.memory.len() + bytes.len() > IN_MEMORY {
            let mut file = tempfile::tempfile()?;
            file.write_all(&self.memory)?;
            self.memory = Vec::new();
            self.file = Some(file);
        }
        let count = match &mut self.file {
            Some(file) => file.write(bytes)?,
            None => self.memory.write(bytes)?,
        };
        self.len += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Bytes of a name or link in a header.
const LONGEST_NAME: usize = 100;

/// Adds an entry in the GNU form: names and links that do not fit stand in entries of their own in front, whatever bytes they
/// are made of. [`tar::Builder`] refuses long names that are no UTF-8.
pub fn append_entry(
    builder: &mut tar::Builder<impl Write>,
    header: &mut tar::Header,
    name: &Path,
    link: Option<&Path>,
    content: impl Read,
) -> io::Result<()> {
    let bytes = |path: &Path| path.as_os_str().as_bytes().to_vec();
    let (name, link) = (bytes(name), link.map(bytes).unwrap_or_default());
    for (text, kind) in [(&link, b'K'), (&name, b'L')] {
        if text.len() > LONGEST_NAME {
            let mut long = tar::Header::new_gnu();
            put(&mut long.as_old_mut().name, b"././@LongLink");
            long.set_mode(0o644);
            long.set_uid(0);
            long.set_gid(0);
            long.set_mtime(0);
            long.set_entry_type(tar::EntryType::new(kind));
            // A zero byte ends the text.
            long.set_size(text.len() as u64 + 1);
            long.set_cksum();
            builder.append(&long, text.chain(&[0_u8][..]))?;
        }
    }
    let old = header.as_old_mut();
    put(&mut old.name, &name);
    put(&mut old.linkname, &link);
    header.set_cksum();
    builder.append(header, content)
}

/// Fills a field of a header with as much of a text as there is room for.
fn put(field: &mut [u8; LONGEST_NAME], text: &[u8]) {
    let kept = text.len().min(LONGEST_NAME);
    field.fill(0);
    field[..kept].copy_from_slice(&text[..kept]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_archives_read_alike() {
        for size in [0, 10, IN_MEMORY, IN_MEMORY + 1, 3 * IN_MEMORY] {
            let bytes: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
            let mut writer = ArchiveWriter::default();
            bytes.chunks(70_000).for_each(|chunk| writer.write_all(chunk).unwrap());
            assert_eq!(writer.file.is_some(), size > IN_MEMORY);
            let archive = writer.finish();
            assert_eq!(archive.len(), size as u64);
            for _ in 0..2 {
                let mut read = Vec::new();
                archive.reader().read_to_end(&mut read).unwrap();
                assert!(read == bytes);
            }
        }
    }
}
