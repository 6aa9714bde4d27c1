//! Packs of objects, version 2 and 3.

use std::collections::HashMap;

use super::delta::applied;
use super::object::{Budget, Kind, ObjectId, Objects, Unread, parents};

/// Bytes in front of the first object.
const HEAD: usize = 12;
/// Length of the sum at the end.
const TRAILER: usize = 20;
/// Most bytes of bases that are kept at once.
const MAX_KEPT: usize = 2 << 30;
/// Commits are taken alone up to this size, in bytes.
const MAX_COMMIT: u64 = 1 << 20;

/// Where the base of a difference is.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Base {
    /// At this place in the same pack.
    At(usize),
    /// Under this name.
    Named(ObjectId),
}

/// How an object lies in a pack.
enum Form {
    Whole(Kind),
    Difference(Base),
}

/// An object as it lies in a pack.
struct Entry<'b> {
    /// Where it begins.
    at: usize,
    form: Form,
    /// Its stated size, or that of the difference.
    size: u64,
    /// Its deflated bytes, and everything behind them.
    bytes: &'b [u8],
}

/// An object whose content is known.
struct Whole {
    at: usize,
    kind: Kind,
    content: Vec<u8>,
    id: ObjectId,
}

/// Differences by what they are to.
type Differences<'b> = HashMap<Base, Vec<Entry<'b>>>;

impl Objects {
    /// Adds all objects of a pack.
    ///
    /// The pack is read from its first object to its last, without its index, which might leave some out. Differences are applied
    /// to their bases, so that every object gets its own name; only the bases of the differences at hand are kept meanwhile.
    ///
    /// # Errors
    /// Packs that are damaged, that differ from objects of other packs, or that go beyond a bound. What was read before that stays.
    pub fn add_pack(&mut self, pack: &[u8], budget: &mut Budget) -> Result<(), Unread> {
        let mut differences = Differences::new();
        let mut bases = Vec::new();
        for_each(pack, budget, |entry| {
            match entry.form {
                Form::Whole(kind) => bases.push((kind, entry)),
                Form::Difference(base) => differences.entry(base).or_default().push(entry),
            }
            Ok(())
        })?;
        for (kind, Entry { at, size, bytes, .. }) in bases {
            let content = budget.inflate(bytes, size)?;
            let id = self.add(kind, &content)?;
            self.add_differing(Whole { at, kind, content, id }, &mut differences, budget)?;
        }
        if differences.is_empty() { Ok(()) } else { Err(Unread::NoBase) }
    }

    /// Adds everything that differs from an object, from what differs from it, and so on. Only the bases of the difference at hand
    /// are kept.
    fn add_differing(
        &mut self,
        root: Whole,
        differences: &mut Differences<'_>,
        budget: &mut Budget,
    ) -> Result<(), Unread> {
        let mut children_of = |whole: &Whole| {
            let mut children = differences.remove(&Base::At(whole.at)).unwrap_or_default();
            children.extend(differences.remove(&Base::Named(whole.id)).unwrap_or_default());
            children.into_iter()
        };
        let mut kept = root.content.len();
        let mut open = vec![(children_of(&root), root)];
        while let Some((children, base)) = open.last_mut() {
            let Some(Entry { at, size, bytes, .. }) = children.next() else {
                kept -= base.content.len();
                open.pop();
                continue;
            };
            let difference = budget.inflate(bytes, size)?;
            let content = applied(&base.content, &difference, budget)?;
            let kind = base.kind;
            let id = self.add(kind, &content)?;
            kept += content.len();
            if kept > MAX_KEPT {
                return Err(Unread::TooLarge);
            }
            let whole = Whole { at, kind, content, id };
            open.push((children_of(&whole), whole));
        }
        Ok(())
    }
}

/// The commits of a pack.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Commits {
    /// Those that are stored whole, each with its parents.
    pub whole: Vec<(ObjectId, Vec<ObjectId>)>,
    /// Objects that are stored as differences: any of them might be a commit.
    pub differences: usize,
}

/// Reads the commits of a pack and nothing else.
///
/// Where `index` is the pack's own index, only the objects' heads are looked at where it says that they begin, and commits are
/// inflated; otherwise the pack is read from its first object to its last.
///
/// # Errors
/// Packs that are damaged or go beyond a bound.
pub fn commits(pack: &[u8], index: Option<&[u8]>, budget: &mut Budget) -> Result<Commits, Unread> {
    let mut entries = Vec::new();
    match index.and_then(|index| offsets(index, pack)) {
        Some(offsets) => {
            for at in offsets {
                entries.push(Entry::read(pack, at as usize)?);
            }
        }
        None => for_each(pack, budget, |entry| {
            entries.push(entry);
            Ok(())
        })?,
    }
    let mut commits = Commits::default();
    for entry in entries {
        match entry.form {
            Form::Whole(Kind::Commit) if entry.size > MAX_COMMIT => return Err(Unread::TooLarge),
            Form::Whole(Kind::Commit) => {
                let content = budget.inflate(entry.bytes, entry.size)?;
                commits.whole.push((ObjectId::of(Kind::Commit, &content), parents(&content)));
            }
            Form::Whole(_) => {}
            Form::Difference(_) => commits.differences += 1,
        }
    }
    Ok(commits)
}

impl<'b> Entry<'b> {
    /// Reads what stands in front of the deflated bytes of the object at `at`.
    fn read(pack: &'b [u8], at: usize) -> Result<Self, Unread> {
        let mut rest = pack.get(at..).ok_or(Unread::Damaged)?;
        let (code, size) = head(&mut rest).ok_or(Unread::Damaged)?;
        let form = match code {
            6 => {
                let back = distance(&mut rest).ok_or(Unread::Damaged)?;
                Form::Difference(Base::At(at.checked_sub(back).ok_or(Unread::Damaged)?))
            }
            7 => {
                let (id, tail) = rest.split_first_chunk().ok_or(Unread::Damaged)?;
                rest = tail;
                Form::Difference(Base::Named(ObjectId(*id)))
            }
            code => Form::Whole(Kind::of_code(code).ok_or(Unread::Damaged)?),
        };
        Ok(Self { at, form, size, bytes: rest })
    }
}

/// Goes through a pack from its first object to its last.
fn for_each<'b>(
    pack: &'b [u8],
    budget: &mut Budget,
    mut each: impl FnMut(Entry<'b>) -> Result<(), Unread>,
) -> Result<(), Unread> {
    let mut rest = pack.get(HEAD..).ok_or(Unread::Damaged)?;
    for _ in 0..count(pack).ok_or(Unread::Damaged)? {
        let entry = Entry::read(pack, pack.len() - rest.len())?;
        rest = budget.pass(entry.bytes, entry.size)?;
        each(entry)?;
    }
    if rest.len() == TRAILER { Ok(()) } else { Err(Unread::Damaged) }
}

/// How many objects a pack says that it has; `None` when it is none.
fn count(pack: &[u8]) -> Option<u32> {
    let mut rest = pack.strip_prefix(b"PACK")?;
    matches!(number(&mut rest)?, 2 | 3).then(|| number(&mut rest))?
}

/// Where the objects of a pack begin, by an index of version 2 that names this pack and as many objects as it has.
fn offsets(index: &[u8], pack: &[u8]) -> Option<Vec<u32>> {
    const NAMES: usize = 8 + 256 * 4;
    let count = count(pack)? as usize;
    let fits = index.starts_with(b"\xfftOc\0\0\0\x02")
        && index.get(NAMES - 4..NAMES)? == (count as u32).to_be_bytes();
    let named = index.len().checked_sub(2 * TRAILER).and_then(|at| index.get(at..at + TRAILER))
        == pack.last_chunk::<TRAILER>().map(|sum| &sum[..]);
    // Names of 20 bytes and check sums of 4 stand in front of the offsets.
    let start = NAMES.checked_add(count.checked_mul(24)?)?;
    let table = index.get(start..start.checked_add(count.checked_mul(4)?)?)?;
    let mut offsets: Vec<u32> =
        table.as_chunks().0.iter().map(|offset: &[u8; 4]| u32::from_be_bytes(*offset)).collect();
    offsets.sort_unstable();
    offsets.dedup();
    // Offsets with the highest bit stand in a table of their own; nobody keeps packs of that size in memory.
    let plain = offsets.last().is_none_or(|last| last >> 31 == 0);
    let whole = offsets.len() == count && offsets.first().is_none_or(|first| *first as usize == HEAD);
    (fits && named && plain && whole).then_some(offsets)
}

fn number(rest: &mut &[u8]) -> Option<u32> {
    let (number, tail) = rest.split_first_chunk()?;
    *rest = tail;
    Some(u32::from_be_bytes(*number))
}

/// The number of the kind and the inflated size of the next object.
fn head(rest: &mut &[u8]) -> Option<(u8, u64)> {
    let first = *rest.split_off_first()?;
    let (mut size, mut shift, mut byte) = (u64::from(first & 15), 4_u32, first);
    while byte & 0x80 != 0 {
        byte = *rest.split_off_first()?;
        if shift > 57 {
            return None;
        }
        size |= u64::from(byte & 0x7f) << shift;
        shift += 7;
    }
    Some((first >> 4 & 7, size))
}

/// How far back in the pack the base of a difference begins.
fn distance(rest: &mut &[u8]) -> Option<usize> {
    let mut byte = *rest.split_off_first()?;
    let mut distance = usize::from(byte & 0x7f);
    while byte & 0x80 != 0 {
        byte = *rest.split_off_first()?;
        distance = distance.checked_add(1)?.checked_mul(128)? | usize::from(byte & 0x7f);
    }
    Some(distance)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::git::Links;

    /// What git itself says of [`COMMIT`], a commit of the empty tree.
    const GIT_SAYS: &str = "c032c59a9adaefa5e44e038948231071b2e29ef2";
    const COMMIT: &[u8] = b"tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor a <a@b.invalid> 0 +0000\n\
                            committer a <a@b.invalid> 0 +0000\n\nx\n";

    /// A pack of objects by the numbers of their forms.
    fn pack_of(objects: &[(u8, &[u8])]) -> Vec<u8> {
        let mut pack = b"PACK\0\0\0\x02".to_vec();
        pack.extend((objects.len() as u32).to_be_bytes());
        for (form, content) in objects {
            pack.extend([form << 4 | 0x80 | (content.len() & 15) as u8, (content.len() >> 4) as u8]);
            if *form == 7 {
                pack.extend([0; 20]);
            }
            let mut encoder = flate2::write::ZlibEncoder::new(&mut pack, flate2::Compression::fast());
            encoder.write_all(content).unwrap();
            encoder.finish().unwrap();
        }
        pack.extend([7; TRAILER]);
        pack
    }

    /// An index of a pack, with names that nobody looks at.
    fn index_of(pack: &[u8], offsets: &[usize]) -> Vec<u8> {
        let mut index = b"\xfftOc\0\0\0\x02".to_vec();
        index.extend((0..256).flat_map(|_| (offsets.len() as u32).to_be_bytes()));
        index.extend(vec![0; offsets.len() * 24]);
        index.extend(offsets.iter().flat_map(|offset| (*offset as u32).to_be_bytes()));
        index.extend(&pack[pack.len() - TRAILER..]);
        index.extend([0; TRAILER]);
        index
    }

    fn commits_of(pack: &[u8], index: Option<&[u8]>) -> Result<Commits, Unread> {
        commits(pack, index, &mut Budget::new(1 << 20))
    }

    fn objects_of(pack: &[u8]) -> Result<Objects, Unread> {
        let mut objects = Objects::default();
        objects.add_pack(pack, &mut Budget::new(1 << 20)).map(|()| objects)
    }

    #[test]
    fn commits_are_found_among_other_objects() {
        let id = ObjectId::parse(GIT_SAYS).unwrap();
        let pack = pack_of(&[(3, b"blob"), (1, COMMIT), (7, b"delta"), (2, b"")]);
        assert_eq!(commits_of(&pack, None), Ok(Commits { whole: vec![(id, vec![])], differences: 1 }));
        assert_eq!(objects_of(&pack).map(|_| ()), Err(Unread::NoBase));
        let objects = objects_of(&pack_of(&[(3, b"blob"), (1, COMMIT), (2, b"")])).unwrap();
        assert!(matches!(&objects.all[&id], Links::Commit { parents, .. } if parents.is_empty()));
        assert_eq!(objects.all.len(), 3);
    }

    #[test]
    fn an_index_tells_where_the_objects_are() {
        let objects: [(u8, &[u8]); 3] = [(3, b"blob"), (1, COMMIT), (2, b"")];
        let mut pack = pack_of(&objects);
        let [first, second] = [1, 2].map(|count| pack_of(&objects[..count]).len() - TRAILER);
        let whole = commits_of(&pack, None);
        let index = index_of(&pack, &[second, HEAD, first]);
        assert_eq!(offsets(&index, &pack), Some(vec![HEAD as u32, first as u32, second as u32]));
        assert_eq!(commits_of(&pack, Some(&index)), whole);
        // An index of another pack, or of fewer objects, is not believed.
        assert_eq!(offsets(&index_of(&pack, &[HEAD, first]), &pack), None);
        assert_eq!(offsets(&index_of(&pack, &[HEAD, HEAD, first]), &pack), None);
        for end in 0..index.len() {
            assert_eq!(offsets(&index[..end], &pack), None, "{end}");
        }
        *pack.last_mut().unwrap() = 1;
        assert_eq!(offsets(&index, &pack), None);
        assert_eq!(commits_of(&pack, Some(&index)), whole);
    }

    #[test]
    fn damage_is_no_pack() {
        let pack = pack_of(&[(1, COMMIT), (3, b"blob")]);
        assert!(commits_of(&pack, None).is_ok() && objects_of(&pack).is_ok());
        let cut = (0..pack.len()).map(|end| &pack[..end]);
        let strange: [&[u8]; 3] =
            [b"PACK\0\0\0\x09\0\0\0\0", b"PACK\0\0\0\x02\xff\xff\xff\xff\x96", &pack_of(&[(5, b"")])];
        for bytes in cut.chain(strange) {
            assert_eq!(commits_of(bytes, None), Err(Unread::Damaged), "{bytes:?}");
            assert_eq!(objects_of(bytes).map(|_| ()), Err(Unread::Damaged), "{bytes:?}");
        }
    }

    #[test]
    fn bounds_hold_for_what_is_inflated() {
        let pack = pack_of(&[(1, COMMIT), (3, &[7; 2000])]);
        let within = |bytes| commits(&pack, None, &mut Budget::new(bytes)).map(|found| found.whole.len());
        assert_eq!(within(5000), Ok(1));
        assert_eq!(within(2000), Err(Unread::TooLarge));
        let objects = |bytes| Objects::default().add_pack(&pack, &mut Budget::new(bytes));
        assert_eq!((objects(5000), objects(3000)), (Ok(()), Err(Unread::TooLarge)));
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_are_too_strange(count in 0_u8..4, bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            let pack = [b"PACK\0\0\0\x02\0\0\0", &[count][..], &bytes].concat();
            if let Ok(commits) = commits_of(&pack, None) {
                proptest::prop_assert!(commits.whole.len() <= usize::from(count));
            }
            let _ = objects_of(&pack);
            let _ = commits_of(&pack, Some(&bytes));
            let mut budget = Budget::new(1 << 20);
            let _ = Objects::default().add_loose(ObjectId([0; 20]), &bytes, &mut budget);
            for kind in [Kind::Commit, Kind::Tag, Kind::Tree] {
                let _ = Objects::default().add(kind, &bytes);
            }
            let _ = applied(&bytes, &bytes, &mut budget);
        }
    }
}
