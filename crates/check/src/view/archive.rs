//! Reads the members of a tar archive under bounds.
//!
//! Nothing is unpacked and nothing refused: hostile names and links are kept as they are for the rules to judge.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use flate2::read::MultiGzDecoder;
use ident::Digest;
use tar::EntryType;
use task::printable;

use super::model::{Archive, Member, MemberKind};
use crate::lines::solid;

/// More members than any workspace has.
const MAX_MEMBERS: usize = 100_000;
/// Archives are read up to this size, after decompression.
const MAX_BYTES: u64 = 256 << 20;
/// Members above this size are hashed and not kept.
const MAX_CONTENT: u64 = 256 << 10;
/// Packs of git objects and their indexes are kept up to this size.
const MAX_PACK: u64 = 32 << 20;

/// Archives that are not in memory yet are read in pieces of this size.
const BUFFER: usize = 128 << 10;

/// Whether a file of this name is taken for an archive.
pub(super) fn looks_like(path: &Path) -> bool {
    let name = path.file_name().map(OsStr::as_bytes).unwrap_or_default().to_ascii_lowercase();
    [&b".tar"[..], b".tar.gz", b".tgz"].iter().any(|end| name.ends_with(end))
}

/// Lists the members of the archive that `reader` gives; content is kept as far as `budget` bytes reach, which are
/// taken off it. Only an error of the reader itself is an error: an archive that is damaged is cut short and says so.
pub(super) fn read(reader: impl Read, budget: &mut u64) -> io::Result<Archive> {
    let mut reader = BufReader::with_capacity(BUFFER, reader);
    let gzip = reader.fill_buf()?.starts_with(&[0x1f, 0x8b]);
    let reader: Box<dyn Read> = if gzip { Box::new(MultiGzDecoder::new(reader)) } else { Box::new(reader) };
    let mut archive = Archive::default();
    let mut tar = tar::Archive::new(reader.take(MAX_BYTES));
    if let Err(error) = members(&mut tar, &mut archive.members, budget) {
        archive.cut = Some(error.to_string());
    }
    Ok(archive)
}

fn members(tar: &mut tar::Archive<impl Read>, members: &mut Vec<Member>, budget: &mut u64) -> io::Result<()> {
    for entry in tar.entries()? {
        let mut entry = entry?;
        if members.len() == MAX_MEMBERS {
            return Err(io::Error::other(format!("it holds more than {MAX_MEMBERS} members")));
        }
        let path = plain(&entry.path_bytes());
        let link = || entry.link_name_bytes().unwrap_or_default().into_owned();
        let size = entry.size();
        let kind = match entry.header().entry_type() {
            EntryType::Directory => MemberKind::Directory,
            EntryType::Symlink => MemberKind::Symlink(link()),
            EntryType::Link => MemberKind::Hardlink(plain(&link())),
            EntryType::XGlobalHeader | EntryType::XHeader => continue,
            EntryType::Char | EntryType::Block | EntryType::Fifo => MemberKind::Special,
            _ => MemberKind::File,
        };
        let (mut content, mut digest, mut weight) = (None, None, size);
        if kind == MemberKind::File {
            let mut reader = Counted { inner: &mut entry, read: 0 };
            let packed = path.ends_with(b".pack") || path.ends_with(b".idx");
            let limit = if packed { MAX_PACK } else { MAX_CONTENT };
            if size <= limit && size <= *budget {
                let mut bytes = Vec::with_capacity(size as usize);
                reader.read_to_end(&mut bytes)?;
                *budget = budget.saturating_sub(bytes.len() as u64);
                weight = solid(&bytes);
                content = Some(bytes);
            } else {
                digest = Some(Digest::of_reader(&mut reader)?);
            }
            // A reader of an archive that breaks off inside a member simply ends.
            if reader.read < size {
                return Err(io::Error::other(format!("it breaks off inside `{}`", printable(&path))));
            }
        }
        members.push(Member { path, kind, size, content, digest, solid: weight });
    }
    Ok(())
}

/// Counts what passes.
struct Counted<R> {
    inner: R,
    read: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.read += n as u64;
        Ok(n)
    }
}

/// A member's path without empty and `.` components; `..` stays.
fn plain(path: &[u8]) -> Vec<u8> {
    let parts: Vec<&[u8]> = path.split(|&b| b == b'/').filter(|part| !matches!(*part, b"" | b".")).collect();
    parts.join(&b'/')
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn tar_of(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (path, content) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            builder.append_data(&mut header, path, *content).unwrap();
        }
        builder.into_inner().unwrap()
    }

    #[test]
    fn members_are_listed_with_and_without_compression() {
        let plain = tar_of(&[("./a/b.txt", b"one"), ("big", &vec![7; MAX_CONTENT as usize + 1])]);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&plain).unwrap();
        let mut budget = 1 << 20;
        let archive = read(&plain[..], &mut budget).unwrap();
        assert_eq!(archive, read(&gzip.finish().unwrap()[..], &mut (1 << 20)).unwrap());
        assert_eq!(archive.cut, None);
        assert_eq!(archive.members[0].path, b"a/b.txt");
        assert_eq!(archive.members[0].content.as_deref(), Some(&b"one"[..]));
        assert_eq!(archive.members[1].content, None);
        assert_eq!(archive.members[1].digest, Some(Digest::of(vec![7; MAX_CONTENT as usize + 1])));
        assert_eq!((archive.members[0].solid, archive.members[1].solid), (3, MAX_CONTENT + 1));
        assert_eq!(budget, (1 << 20) - 3);
    }

    #[test]
    fn damage_cuts_the_list_short() {
        let whole = tar_of(&[("a", b"one"), ("b", &[1; 4000])]);
        let archive = read(&whole[..1700], &mut (1 << 20)).unwrap();
        assert_eq!(archive.members.len(), 1);
        assert!(archive.cut.is_some());
        assert!(read(&b"no archive at all"[..], &mut 0).unwrap().cut.is_some());
    }

    #[test]
    fn names_decide_what_an_archive_is() {
        for (name, wanted) in
            [("w.tar", true), ("w.TAR.GZ", true), ("w.tgz", true), ("w.tar.bz2", false), ("tar", false)]
        {
            assert_eq!(looks_like(Path::new(name)), wanted, "{name}");
        }
    }
}
