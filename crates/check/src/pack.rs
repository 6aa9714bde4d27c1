//! Commits in git's pack files.
//!
//! Only commits that are stored whole are taken; objects stored as differences to others are counted, because any of them
//! might be a commit.

use std::io::{BufRead, Read};

use flate2::bufread::ZlibDecoder;
use sha1::{Digest as _, Sha1};

/// No more than this is inflated of one pack.
const MAX_INFLATED: u64 = 512 << 20;
/// Commits are taken up to this size.
const MAX_COMMIT: usize = 1 << 20;

/// What a pack holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PackContent {
    /// Commits by their ids, each with the ids of its parents.
    pub(crate) commits: Vec<(String, Vec<String>)>,
    /// Objects that are stored as differences.
    pub(crate) deltas: usize,
}

/// Reads a pack of version 2 or 3 with SHA-1 names; `None` when it is none, or damaged, or too large.
///
/// Where `index` is the pack's own index, the kinds of the objects are read where it says that they begin and only
/// commits are inflated; otherwise the pack is walked from its first object to its last, which inflates everything.
pub(crate) fn read_pack(bytes: &[u8], index: Option<&[u8]>) -> Option<PackContent> {
    let mut rest = bytes.strip_prefix(b"PACK")?;
    let version = take_u32(&mut rest)?;
    let count = take_u32(&mut rest)?;
    if !matches!(version, 2 | 3) {
        return None;
    }
    match index.and_then(|index| offsets(index, bytes, count)) {
        Some(offsets) => read_at(bytes, &offsets),
        None => read_all(rest, count),
    }
}

/// Where the objects of a pack begin, by an index of version 2 that names this pack and as many objects as it has.
fn offsets(index: &[u8], pack: &[u8], count: u32) -> Option<Vec<u32>> {
    const HEAD: usize = 8 + 256 * 4;
    let count = count as usize;
    let fits =
        index.starts_with(b"\xfftOc\0\0\0\x02") && index.get(HEAD - 4..HEAD)? == (count as u32).to_be_bytes();
    let named = index.len().checked_sub(40).and_then(|at| index.get(at..at + 20))
        == pack.last_chunk::<20>().map(|sum| &sum[..]);
    // Names of 20 bytes and check sums of 4 stand in front of the offsets.
    let start = HEAD.checked_add(count.checked_mul(24)?)?;
    let table = index.get(start..start.checked_add(count.checked_mul(4)?)?)?;
    let mut offsets: Vec<u32> =
        table.as_chunks().0.iter().map(|offset: &[u8; 4]| u32::from_be_bytes(*offset)).collect();
    offsets.sort_unstable();
    offsets.dedup();
    // Offsets with the highest bit stand in a table of their own; packs of that size are not kept.
    let plain = offsets.last().is_none_or(|last| last >> 31 == 0);
    (fits && named && plain && offsets.len() == count && offsets.first().is_none_or(|first| *first == 12))
        .then_some(offsets)
}

fn read_at(pack: &[u8], offsets: &[u32]) -> Option<PackContent> {
    let mut content = PackContent::default();
    for offset in offsets {
        let mut rest = pack.get(*offset as usize..)?;
        match object_kind(&mut rest)? {
            1 => {
                let mut object = Vec::new();
                inflate(&mut ZlibDecoder::new(rest), MAX_COMMIT as u64, Some(&mut object))?;
                content.commits.push((commit_id(&object), parents(&object)));
            }
            2..=4 => {}
            6 | 7 => content.deltas += 1,
            _ => return None,
        }
    }
    Some(content)
}

fn read_all(mut rest: &[u8], count: u32) -> Option<PackContent> {
    let mut content = PackContent::default();
    let mut inflated = 0;
    for _ in 0..count {
        let kind = object_kind(&mut rest)?;
        match kind {
            6 => while *rest.split_off_first()? & 0x80 != 0 {},
            7 => rest = rest.get(20..)?,
            1..=4 => {}
            _ => return None,
        }
        let mut decoder = ZlibDecoder::new(rest);
        let mut object = Vec::new();
        inflated += inflate(&mut decoder, MAX_INFLATED - inflated, (kind == 1).then_some(&mut object))?;
        rest = decoder.into_inner();
        match kind {
            1 => content.commits.push((commit_id(&object), parents(&object))),
            6 | 7 => content.deltas += 1,
            _ => {}
        }
    }
    Some(content)
}

fn take_u32(rest: &mut &[u8]) -> Option<u32> {
    let (number, tail) = rest.split_first_chunk()?;
    *rest = tail;
    Some(u32::from_be_bytes(*number))
}

/// The kind of the next object; its stated size is read over.
fn object_kind(rest: &mut &[u8]) -> Option<u8> {
    let first = *rest.split_off_first()?;
    let mut byte = first;
    while byte & 0x80 != 0 {
        byte = *rest.split_off_first()?;
    }
    Some(first >> 4 & 7)
}

/// Inflates one object to its end and tells its size; keeps it when asked to.
fn inflate(
    decoder: &mut ZlibDecoder<impl BufRead>,
    limit: u64,
    mut keep: Option<&mut Vec<u8>>,
) -> Option<u64> {
    let mut size = 0;
    let mut buffer = [0; 8192];
    loop {
        let n = decoder.read(&mut buffer).ok()?;
        if n == 0 {
            return Some(size);
        }
        size += n as u64;
        if size > limit {
            return None;
        }
        if let Some(object) = &mut keep {
            if object.len() + n > MAX_COMMIT {
                return None;
            }
            object.extend_from_slice(&buffer[..n]);
        }
    }
}

fn commit_id(commit: &[u8]) -> String {
    let sha = Sha1::new().chain_update(format!("commit {}\0", commit.len())).chain_update(commit).finalize();
    sha.iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .filter_map(|half| char::from_digit(half.into(), 16))
        .collect()
}

/// The parents that the head of a commit names.
pub(crate) fn parents(commit: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(commit);
    let headers = text.lines().take_while(|line| !line.is_empty());
    headers.filter_map(|line| line.strip_prefix("parent ")).map(str::to_owned).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;

    use super::*;

    /// A pack of whole objects.
    pub(crate) fn pack_of(objects: &[(u8, &[u8])]) -> Vec<u8> {
        let mut pack = b"PACK\0\0\0\x02".to_vec();
        pack.extend((objects.len() as u32).to_be_bytes());
        for (kind, content) in objects {
            pack.extend([kind << 4 | 0x80 | (content.len() & 15) as u8, (content.len() >> 4) as u8]);
            if *kind == 7 {
                pack.extend([0; 20]);
            }
            let mut encoder = flate2::write::ZlibEncoder::new(&mut pack, flate2::Compression::fast());
            encoder.write_all(content).unwrap();
            encoder.finish().unwrap();
        }
        pack.extend([0; 20]);
        pack
    }

    #[test]
    fn commits_are_found_among_other_objects() {
        // The empty tree with a message: its id is known from git itself.
        let commit = b"tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor a <a@b.invalid> 0 +0000\n\
                       committer a <a@b.invalid> 0 +0000\n\nx\n";
        let content =
            read_pack(&pack_of(&[(3, b"blob"), (1, commit), (7, b"delta"), (2, b"")]), None).unwrap();
        assert_eq!(content.deltas, 1);
        assert_eq!(content.commits, [(GIT_SAYS.to_owned(), vec![])]);
    }

    const GIT_SAYS: &str = "c032c59a9adaefa5e44e038948231071b2e29ef2";

    /// An index of a pack of whole objects, with names that nobody looks at.
    fn index_of(pack: &[u8], offsets: &[u32]) -> Vec<u8> {
        let mut index = b"\xfftOc\0\0\0\x02".to_vec();
        index.extend((0..256).flat_map(|_| (offsets.len() as u32).to_be_bytes()));
        index.extend(vec![0; offsets.len() * 24]);
        index.extend(offsets.iter().flat_map(|offset| offset.to_be_bytes()));
        index.extend(&pack[pack.len() - 20..]);
        index.extend([0; 20]);
        index
    }

    #[test]
    fn an_index_tells_where_the_objects_are() {
        let commit: &[u8] = b"tree x\nparent y\n\nz\n";
        let mut pack = pack_of(&[(3, b"blob"), (1, commit), (2, b"")]);
        let end = pack.len() - 20;
        pack[end..].fill(7);
        let first = pack_of(&[(3, b"blob")]).len() as u32 - 20;
        let second = pack_of(&[(3, b"blob"), (1, commit)]).len() as u32 - 20;
        let whole = read_pack(&pack, None).unwrap();
        let index = index_of(&pack, &[second, 12, first]);
        assert_eq!(offsets(&index, &pack, 3), Some(vec![12, first, second]));
        assert_eq!(
            read_pack(&pack, Some(&index)),
            Some(PackContent { commits: whole.commits.clone(), deltas: 0 })
        );
        // An index of another pack, or of fewer objects, is not believed.
        assert_eq!(offsets(&index_of(&pack, &[12, first]), &pack, 3), None);
        assert_eq!(offsets(&index_of(&pack, &[12, 12, first]), &pack, 3), None);
        for end in 0..index.len() {
            assert_eq!(offsets(&index[..end], &pack, 3), None, "{end}");
        }
        *pack.last_mut().unwrap() = 1;
        assert_eq!(offsets(&index, &pack, 3), None);
        assert_eq!(read_pack(&pack, Some(&index)), Some(whole));
    }

    #[test]
    fn damage_is_no_pack() {
        let pack = pack_of(&[(1, b"tree x\n"), (3, b"blob")]);
        assert!(read_pack(&pack, None).is_some());
        for end in 0..pack.len() - 20 {
            assert_eq!(read_pack(&pack[..end], None), None, "{end}");
        }
        assert_eq!(read_pack(&pack_of(&[(5, b"")]), None), None);
        assert_eq!(read_pack(b"PACK\0\0\0\x02\xff\xff\xff\xff", None), None);
    }

    proptest::proptest! {
        /// Foreign bytes behind a good header do no harm.
        #[test]
        fn any_bytes_are_read(count in 0u32..9, bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            let pack = [b"PACK\0\0\0\x02", &count.to_be_bytes()[..], &bytes].concat();
            let commits = read_pack(&pack, None).map_or(0, |content| content.commits.len());
            proptest::prop_assert!(commits <= count as usize);
        }
    }
}
