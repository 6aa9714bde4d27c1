//! Reads the members of a tar archive under bounds.
//!
//! Nothing is unpacked and nothing refused: hostile names and links are kept as they are for the rules to judge.

use std::io::{self, BufRead, BufReader, Cursor, Read};

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use ident::Digest;
use tar::EntryType;
use task::printable;

use super::model::{Archive, Member, MemberKind};
use crate::lines::file_name;

/// More members than any workspace has.
const MAX_MEMBERS: usize = 100_000;
/// Archives are read up to this size, after decompression.
const MAX_BYTES: u64 = 256 << 20;
/// Members above this size are hashed and not kept.
const MAX_CONTENT: u64 = 256 << 10;
/// Packs of git objects and their indexes are kept up to this size.
const MAX_PACK: u64 = 32 << 20;

/// Archives that are not in memory are read in pieces of this size.
const BUFFER: usize = 128 << 10;
/// Length of a block of an archive.
const BLOCK: u64 = 512;
/// How a file begins that is compressed with gzip.
const GZIP: &[u8] = &[0x1f, 0x8b];

/// Whether a file at this path is taken for an archive.
pub(super) fn looks_like(path: &[u8]) -> bool {
    let name = file_name(path).to_ascii_lowercase();
    [&b".tar"[..], b".tar.gz", b".tgz"].iter().any(|end| name.ends_with(end))
}

/// Lists the members of the archive that `reader` gives; content is kept as far as `budget` bytes reach, which are
/// taken off it. Only an error of the reader itself is an error: an archive that is damaged is cut short and says so.
pub(super) fn read(reader: impl Read, budget: &mut u64) -> io::Result<Archive> {
    let mut reader = BufReader::with_capacity(BUFFER, reader);
    let gzip = reader.fill_buf()?.starts_with(GZIP);
    let reader: Box<dyn Read> = if gzip { Box::new(MultiGzDecoder::new(reader)) } else { Box::new(reader) };
    let mut archive = Archive::default();
    let mut tar = tar::Archive::new(reader.take(MAX_BYTES));
    let entries = tar.entries();
    if let Err(error) = entries.and_then(|entries| members(entries, None, &mut archive.members, budget)) {
        archive.cut = Some(error.to_string());
    }
    Ok(archive)
}

/// As [`read`], of an archive that is in memory; the contents of its members are parts of it.
pub(super) fn read_whole(bytes: &Bytes, budget: &mut u64) -> io::Result<Archive> {
    if bytes.starts_with(GZIP) {
        return read(bytes.as_ref(), budget);
    }
    let mut archive = Archive::default();
    let mut tar = tar::Archive::new(Cursor::new(bytes.as_ref()));
    let entries = tar.entries_with_seek();
    if let Err(error) =
        entries.and_then(|entries| members(entries, Some(bytes), &mut archive.members, budget))
    {
        archive.cut = Some(error.to_string());
    }
    Ok(archive)
}

fn members<R: Read>(
    entries: tar::Entries<'_, R>,
    whole: Option<&Bytes>,
    members: &mut Vec<Member>,
    budget: &mut u64,
) -> io::Result<()> {
    for entry in entries {
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
        // A file with holes is shorter in the archive than it is.
        let whole = whole.filter(|_| !entry.header().entry_type().is_gnu_sparse());
        let (mut content, mut digest) = (None, None);
        if kind == MemberKind::File {
            let packed = path.ends_with(b".pack") || path.ends_with(b".idx");
            let limit = if packed { MAX_PACK } else { MAX_CONTENT };
            let kept = size <= limit && size <= *budget;
            let broken = || io::Error::other(format!("it breaks off inside `{}`", printable(&path)));
            if let Some(bytes) = whole {
                let begin = entry.raw_file_position();
                let range = begin as usize..begin.saturating_add(size) as usize;
                let part = bytes.get(range.clone()).ok_or_else(broken)?;
                if kept {
                    content = Some(bytes.slice(range));
                } else {
                    digest = Some(Digest::of(part));
                }
            } else {
                let mut reader = Counted { inner: &mut entry, read: 0 };
                if kept {
                    let mut bytes = Vec::with_capacity(size as usize);
                    reader.read_to_end(&mut bytes)?;
                    content = Some(Bytes::from(bytes));
                } else {
                    digest = Some(Digest::of_reader(&mut reader)?);
                }
                // A reader of an archive that breaks off inside a member simply ends.
                if reader.read < size {
                    return Err(broken());
                }
            }
            *budget = budget.saturating_sub(content.as_ref().map_or(0, |bytes| bytes.len() as u64));
        }
        let end = entry.raw_file_position().saturating_add(size.next_multiple_of(BLOCK));
        members.push(Member { path, kind, size, content, digest });
        // Who steps over what is missing does not see that it is.
        if whole.is_some_and(|bytes| end > bytes.len() as u64) {
            return Err(io::Error::other("it breaks off behind a member"));
        }
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

    use proptest::prelude::*;

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
        assert_eq!(archive, read_whole(&Bytes::from(plain), &mut (1 << 20)).unwrap());
        assert_eq!(budget, (1 << 20) - 3);
    }

    #[test]
    fn damage_cuts_the_list_short() {
        let whole = tar_of(&[("a", b"one"), ("b", &[1; 4000])]);
        for (end, members) in [(200, 0), (513, 0), (600, 1), (1100, 1), (1700, 1), (5536, 2), (5600, 2)] {
            let pieces = read(&whole[..end], &mut (1 << 20)).unwrap();
            let memory = read_whole(&Bytes::copy_from_slice(&whole[..end]), &mut (1 << 20)).unwrap();
            for archive in [pieces, memory] {
                assert_eq!((archive.members.len(), archive.cut.is_some()), (members, true), "{end}");
            }
        }
        assert!(read(&b"no archive at all"[..], &mut 0).unwrap().cut.is_some());
    }

    #[test]
    fn names_decide_what_an_archive_is() {
        for (name, wanted) in
            [("w.tar", true), ("w.TAR.GZ", true), ("w.tgz", true), ("w.tar.bz2", false), ("tar", false)]
        {
            assert_eq!(looks_like(format!("environment/{name}").as_bytes()), wanted, "{name}");
        }
    }

    proptest! {
        /// However an archive is damaged, it holds the same whether it is read in pieces or lies in memory.
        #[test]
        fn pieces_and_memory_show_the_same(
            sizes in prop::collection::vec(0_usize..1500, 1..5),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
            end in any::<prop::sample::Index>(),
            cut in any::<bool>(),
        ) {
            let contents: Vec<(String, Vec<u8>)> =
                sizes.iter().enumerate().map(|(at, size)| (format!("file-{at}"), vec![b'x'; *size])).collect();
            let files: Vec<(&str, &[u8])> =
                contents.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect();
            let mut bytes = tar_of(&files);
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            if cut {
                bytes.truncate(end.index(bytes.len()));
            }
            let pieces = read(&bytes[..], &mut (1 << 20)).unwrap();
            let memory = read_whole(&Bytes::from(bytes), &mut (1 << 20)).unwrap();
            prop_assert_eq!(pieces.members, memory.members);
            prop_assert_eq!(pieces.cut.is_some(), memory.cut.is_some());
        }
    }
}
