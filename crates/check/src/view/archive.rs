//! Reads the members of a tar archive under bounds.
//!
//! Nothing is unpacked and nothing refused: hostile names and links are kept as they are for the rules to judge.

use std::io::{self, BufRead, BufReader, Cursor, Read};

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use ident::Digest;
use tar::{EntryType, Header};
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
/// So many bytes of an archive are about one member.
const USUAL_MEMBER: usize = 8 << 10;
/// How a file begins that is compressed with gzip.
const GZIP: &[u8] = &[0x1f, 0x8b];

/// Whether a file at this path is taken for an archive.
pub(super) fn looks_like(path: &[u8]) -> bool {
    let name = file_name(path);
    let ends = |end: &&[u8]| {
        name.len().checked_sub(end.len()).is_some_and(|at| name[at..].eq_ignore_ascii_case(end))
    };
    [&b".tar"[..], b".tar.gz", b".tgz"].iter().any(ends)
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
    if let Some(members) = plain_members(bytes, budget) {
        return Ok(Archive { members, cut: None });
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

/// The members of an archive that is whole and in which the block in front of a member, or a long name of GNU's, says all about it.
/// Nearly every archive is like this, and the crate copies each block several times. `None` for every other archive; then nothing
/// is taken off the budget.
fn plain_members(bytes: &Bytes, budget: &mut u64) -> Option<Vec<Member>> {
    let mut members = Vec::with_capacity(bytes.len() / USUAL_MEMBER);
    let (mut left, mut at, mut long_name) = (*budget, 0, None);
    while at < bytes.len() {
        let begin = at + BLOCK as usize;
        let block = bytes.get(at..)?.first_chunk()?;
        let header = Header::from_byte_slice(block);
        let sum = sum(block);
        if sum == 0 {
            break;
        }
        // The field itself counts as blanks.
        let field: u64 = header.as_old().cksum.iter().map(|byte| u64::from(*byte)).sum();
        if octal(&header.as_old().cksum)? + field != sum + 8 * u64::from(b' ') {
            return None;
        }
        let size = octal(&header.as_old().size)?;
        let end = (begin as u64).checked_add(size.checked_next_multiple_of(BLOCK)?)?;
        at = usize::try_from(end).ok().filter(|end| *end <= bytes.len())?;
        let part = begin..begin + size as usize;
        let entry_type = header.entry_type();
        let kind = match entry_type {
            EntryType::GNULongName if header.as_gnu().is_some() && long_name.is_none() => {
                let name = &bytes[part];
                long_name = Some(name.strip_suffix(b"\0").unwrap_or(name));
                continue;
            }
            EntryType::Regular => MemberKind::File,
            EntryType::Directory => MemberKind::Directory,
            EntryType::Symlink => {
                MemberKind::Symlink(header.link_name_bytes().unwrap_or_default().into_owned())
            }
            _ => return None,
        };
        if members.len() == MAX_MEMBERS {
            return None;
        }
        let path = long_name.take().map_or_else(|| plain(&header.path_bytes()), plain);
        let (mut content, mut digest) = (None, None);
        if kind == MemberKind::File {
            if is_kept(&path, size, left) {
                left -= size;
                content = Some(bytes.slice(part));
            } else {
                digest = Some(Digest::of(&bytes[part]));
            }
        }
        members.push(Member { path, kind, size, content, digest });
    }
    if long_name.is_some() {
        return None;
    }
    *budget = left;
    Some(members)
}

/// The sum of the bytes of a block, eight at a time: 64 of them fit into 16 bits.
fn sum(block: &[u8; BLOCK as usize]) -> u64 {
    const EVEN: u64 = 0x00ff_00ff_00ff_00ff;
    let pairs = |eight: &[u8; 8]| {
        let eight = u64::from_ne_bytes(*eight);
        (eight & EVEN) + (eight >> 8 & EVEN)
    };
    let sums: u64 = block.as_chunks().0.iter().map(pairs).sum();
    (0..4).map(|place| sums >> (16 * place) & 0xffff).sum()
}

/// A number as nearly every archive writes it: octal digits, then nothing but blanks and zeros.
fn octal(field: &[u8]) -> Option<u64> {
    let end = field.iter().position(|byte| !(b'0'..=b'7').contains(byte)).unwrap_or(field.len());
    let (digits, rest) = field.split_at(end);
    let plain = !digits.is_empty() && rest.iter().all(|byte| matches!(byte, b' ' | 0));
    plain.then(|| digits.iter().fold(0, |number, digit| number << 3 | u64::from(digit - b'0')))
}

/// Whether the content of a member is kept when so many bytes may still be.
fn is_kept(path: &[u8], size: u64, budget: u64) -> bool {
    let packed = path.ends_with(b".pack") || path.ends_with(b".idx");
    size <= if packed { MAX_PACK } else { MAX_CONTENT } && size <= budget
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
            let kept = is_kept(&path, size, *budget);
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
    let parts = || path.split(|&b| b == b'/');
    let is_part = |part: &&[u8]| !matches!(*part, b"" | b".");
    if parts().all(|part| is_part(&part)) {
        return path.to_vec();
    }
    let mut plain = Vec::with_capacity(path.len());
    for part in parts().filter(is_part) {
        if !plain.is_empty() {
            plain.push(b'/');
        }
        plain.extend_from_slice(part);
    }
    plain
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
    fn paths_of_members_have_one_spelling() {
        for (path, expected) in
            [("./a//b/./c/", "a/b/c"), ("/a", "a"), (".", ""), ("", ""), ("../a/..", "../a/.."), ("a", "a")]
        {
            assert_eq!(super::plain(path.as_bytes()), expected.as_bytes(), "{path}");
        }
    }

    #[test]
    fn names_decide_what_an_archive_is() {
        for (name, wanted) in
            [("w.tar", true), ("w.TAR.GZ", true), ("w.tgz", true), ("w.tar.bz2", false), ("tar", false)]
        {
            assert_eq!(looks_like(format!("environment/{name}").as_bytes()), wanted, "{name}");
        }
    }

    #[test]
    fn members_of_every_kind_are_the_same_in_memory() {
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = |kind, size, path: &str, content: &[u8]| {
            let mut header = Header::new_ustar();
            header.set_entry_type(kind);
            header.set_size(size);
            if kind == EntryType::Symlink {
                header.set_link_name("../x").unwrap();
            }
            builder.append_data(&mut header, path, content).unwrap();
        };
        header(EntryType::Directory, 0, "dir/", b"");
        header(EntryType::Regular, 3, "dir/file", b"one");
        header(EntryType::Symlink, 0, "dir/link", b"");
        header(EntryType::Regular, 3, &format!("{}/file", "deep".repeat(30)), b"two");
        let simple = builder.get_ref().clone();
        let mut gnu = Header::new_gnu();
        gnu.set_size(0);
        let long = format!("{}/file", "long".repeat(100));
        builder.append_data(&mut gnu, &long, &b""[..]).unwrap();
        let named = builder.get_ref().clone();
        builder.append_pax_extensions([("path", b"other".as_slice())]).unwrap();
        builder.append_data(&mut gnu, "shadowed", &b""[..]).unwrap();
        let extended = builder.into_inner().unwrap();
        for (bytes, members, plain) in [(simple, 4, true), (named, 5, true), (extended, 6, false)] {
            let bytes = Bytes::from(bytes);
            let (mut one, mut other) = (1 << 20, 1 << 20);
            let memory = read_whole(&bytes, &mut one).unwrap();
            assert_eq!(memory, read(&bytes[..], &mut other).unwrap());
            assert_eq!((memory.members.len(), memory.cut, one), (members, None, other));
            assert_eq!(plain_members(&bytes, &mut 0).is_some(), plain);
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
