//! Objects of packs.
//!
//! A pack is read from its first object to its last, without its index, which might leave some out. Differences are applied
//! to their bases, so that every object gets its own name. Each is inflated once; only the bases of the differences at hand
//! are kept meanwhile.

use std::collections::HashMap;

use super::object::{Budget, Kind, ObjectId, Objects, Unread};

/// Length of the sum at the end of a pack.
const TRAILER: usize = 20;

/// Most bytes of bases that are kept at once.
const MAX_KEPT: usize = 2 << 30;

/// Where the base of a difference is.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Base {
    /// At this place in the same pack.
    At(usize),
    /// Under this name.
    Named(ObjectId),
}

/// A difference, inflated when its base is known.
struct Delta<'b> {
    at: usize,
    size: u64,
    bytes: &'b [u8],
}

/// An object whose content is known.
struct Whole {
    at: usize,
    kind: Kind,
    content: Vec<u8>,
    id: ObjectId,
}

/// Adds the objects of a pack of version 2 or 3.
pub(super) fn add_pack(objects: &mut Objects, pack: &[u8], budget: &mut Budget) -> Result<(), Unread> {
    let mut rest = pack.strip_prefix(b"PACK").ok_or(Unread::Damaged)?;
    if !matches!(number(&mut rest), Some(2 | 3)) {
        return Err(Unread::Damaged);
    }
    let count = number(&mut rest).ok_or(Unread::Damaged)?;
    let mut deltas: HashMap<Base, Vec<Delta<'_>>> = HashMap::new();
    let mut bases: Vec<(usize, Kind, u64, &[u8])> = Vec::new();
    for _ in 0..count {
        let at = pack.len() - rest.len();
        let (code, size) = head(&mut rest).ok_or(Unread::Damaged)?;
        let base = match code {
            1..=4 => None,
            6 => {
                let back = distance(&mut rest).ok_or(Unread::Damaged)?;
                Some(Base::At(at.checked_sub(back).ok_or(Unread::Damaged)?))
            }
            7 => {
                let (id, tail) = rest.split_first_chunk().ok_or(Unread::Damaged)?;
                rest = tail;
                Some(Base::Named(ObjectId(*id)))
            }
            _ => return Err(Unread::Damaged),
        };
        let bytes = rest;
        rest = passed(rest, size, budget)?;
        match base {
            Some(base) => deltas.entry(base).or_default().push(Delta { at, size, bytes }),
            None => bases.push((at, kind(code), size, bytes)),
        }
    }
    if rest.len() != TRAILER {
        return Err(Unread::Damaged);
    }
    for (at, kind, size, bytes) in bases {
        let content = budget.inflate(bytes, size)?.0;
        let id = objects.add(kind, &content)?;
        resolve(objects, Whole { at, kind, content, id }, &mut deltas, budget)?;
    }
    if deltas.is_empty() { Ok(()) } else { Err(Unread::NoBase) }
}

/// Adds everything that differs from an object, from what differs from it, and so on. Only the bases of the difference at hand
/// are kept.
fn resolve(
    objects: &mut Objects,
    root: Whole,
    deltas: &mut HashMap<Base, Vec<Delta<'_>>>,
    budget: &mut Budget,
) -> Result<(), Unread> {
    let mut children_of = |whole: &Whole| {
        let mut children = deltas.remove(&Base::At(whole.at)).unwrap_or_default();
        children.extend(deltas.remove(&Base::Named(whole.id)).unwrap_or_default());
        children.into_iter()
    };
    let mut kept = root.content.len();
    let mut open = vec![(children_of(&root), root)];
    while let Some((children, base)) = open.last_mut() {
        let Some(Delta { at, size, bytes }) = children.next() else {
            kept -= base.content.len();
            open.pop();
            continue;
        };
        let delta = budget.inflate(bytes, size)?.0;
        let content = applied(&base.content, &delta, budget)?;
        let kind = base.kind;
        let id = objects.add(kind, &content)?;
        kept += content.len();
        if kept > MAX_KEPT {
            return Err(Unread::TooLarge);
        }
        let whole = Whole { at, kind, content, id };
        open.push((children_of(&whole), whole));
    }
    Ok(())
}

/// Passes over one deflated stream.
fn passed<'b>(bytes: &'b [u8], size: u64, budget: &mut Budget) -> Result<&'b [u8], Unread> {
    budget.take(size)?;
    let mut decoder = flate2::bufread::ZlibDecoder::new(bytes);
    let copied = std::io::copy(&mut std::io::Read::take(&mut decoder, size + 1), &mut std::io::sink());
    if copied.ok() != Some(size) {
        return Err(Unread::Damaged);
    }
    Ok(decoder.into_inner())
}

fn kind(code: u8) -> Kind {
    match code {
        1 => Kind::Commit,
        2 => Kind::Tree,
        4 => Kind::Tag,
        _ => Kind::Blob,
    }
}

fn number(rest: &mut &[u8]) -> Option<u32> {
    let (number, tail) = rest.split_first_chunk()?;
    *rest = tail;
    Some(u32::from_be_bytes(*number))
}

/// The kind and the inflated size of the next object.
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

/// A number of a difference, seven bits a byte, the lowest first.
fn varint(rest: &mut &[u8]) -> Option<u64> {
    let (mut value, mut shift) = (0_u64, 0_u32);
    loop {
        let byte = *rest.split_off_first()?;
        if shift > 56 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
        shift += 7;
    }
}

/// Applies a difference.
fn applied(base: &[u8], delta: &[u8], budget: &mut Budget) -> Result<Vec<u8>, Unread> {
    let mut rest = delta;
    let sizes = varint(&mut rest).zip(varint(&mut rest)).ok_or(Unread::Damaged)?;
    if sizes.0 != base.len() as u64 {
        return Err(Unread::Damaged);
    }
    budget.take(sizes.1)?;
    let mut content = Vec::new();
    while let Some(&code) = rest.split_off_first() {
        let part = if code & 0x80 != 0 {
            copied(base, code, &mut rest)
        } else {
            // Zero is no length.
            rest.split_off(..usize::from(code)).filter(|part| !part.is_empty())
        };
        content.extend_from_slice(part.ok_or(Unread::Damaged)?);
        if content.len() as u64 > sizes.1 {
            return Err(Unread::Damaged);
        }
    }
    if content.len() as u64 == sizes.1 { Ok(content) } else { Err(Unread::Damaged) }
}

/// The part of the base that an instruction copies: its lower bits say which bytes of place and length follow.
fn copied<'b>(base: &'b [u8], code: u8, rest: &mut &[u8]) -> Option<&'b [u8]> {
    let mut number = |bits: std::ops::Range<u32>| {
        let mut number = 0_usize;
        for (place, bit) in bits.enumerate() {
            if code >> bit & 1 == 1 {
                number |= usize::from(*rest.split_off_first()?) << (8 * place);
            }
        }
        Some(number)
    };
    let at = number(0..4)?;
    let length = match number(4..7)? {
        0 => 0x1_0000,
        length => length,
    };
    base.get(at..at.checked_add(length)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_copy_and_insert() {
        let mut budget = Budget::default();
        let base = b"the till is open";
        // Copy 4..8, insert " shut".
        let delta = [16, 9, 0x91, 4, 4, 5, b' ', b's', b'h', b'u', b't'];
        assert_eq!(applied(base, &delta, &mut budget).unwrap(), b"till shut");
        for wrong in
            [&delta[..10], &[15, 9, 0x91, 4, 4], &[16, 9, 0x91, 14, 4], &[16, 1, 0], &[16, 1, 2, b'a', b'b']]
        {
            assert_eq!(applied(base, wrong, &mut budget), Err(Unread::Damaged), "{wrong:?}");
        }
    }

    #[test]
    fn strange_bytes_are_no_pack() {
        let mut objects = Objects::default();
        for bytes in [
            &b""[..],
            b"PACK",
            b"PACK\0\0\0\x02\0\0\0\x01",
            b"PACK\0\0\0\x09\0\0\0\0",
            b"PACK\0\0\0\x02\xff\xff\xff\xff\x96",
        ] {
            assert_eq!(add_pack(&mut objects, bytes, &mut Budget::default()), Err(Unread::Damaged));
        }
        assert!(objects.all.is_empty());
    }
    proptest::proptest! {
        #[test]
        fn no_bytes_are_too_strange(count in 0_u8..4, bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            let pack = [b"PACK\0\0\0\x02\0\0\0", &[count][..], &bytes].concat();
            let _ = add_pack(&mut Objects::default(), &pack, &mut Budget::default());
            let _ = Objects::default().add_loose(ObjectId([0; 20]), &bytes, &mut Budget::default());
            for kind in [Kind::Commit, Kind::Tag, Kind::Tree] {
                let _ = Objects::default().add(kind, &bytes);
            }
            let _ = applied(&bytes, &bytes, &mut Budget::default());
        }
    }
}
