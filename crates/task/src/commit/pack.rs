//! Pack files, version 2, and their indexes, version 2.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use sha1::{Digest as _, Sha1};

use super::object::Objects;
use crate::git::ObjectId;

/// A pack and its index.
pub(super) struct Pack {
    pub(super) id: ObjectId,
    pub(super) bytes: Vec<u8>,
    pub(super) index: Vec<u8>,
}

/// Offsets in the plain part of an index have 31 bits.
const MAX_OFFSET: usize = 0x7fff_ffff;

/// Packs all objects in ascending order of name, whole and without deltas; `None` when the pack grows over 2 GiB.
pub(super) fn pack(objects: &Objects) -> Option<Pack> {
    let count = u32::try_from(objects.0.len()).ok()?;
    let mut pack = b"PACK\0\0\0\x02".to_vec();
    pack.extend(count.to_be_bytes());
    let (mut offsets, mut sums) = (Vec::new(), Vec::new());
    for (kind, content) in objects.0.values() {
        let start = pack.len();
        if start > MAX_OFFSET {
            return None;
        }
        let mut size = content.len();
        let mut byte = kind.code() << 4 | (size & 0x0f) as u8;
        size >>= 4;
        while size > 0 {
            pack.push(byte | 0x80);
            byte = (size & 0x7f) as u8;
            size >>= 7;
        }
        pack.push(byte);
        let mut encoder = ZlibEncoder::new(&mut pack, Compression::new(6));
        encoder.write_all(content).expect("a vector takes everything");
        encoder.finish().expect("a vector takes everything");
        offsets.push(start as u32);
        sums.push(crc32fast::hash(&pack[start..]));
    }
    let id = ObjectId(Sha1::digest(&pack).into());
    pack.extend(id.0);

    let mut index = b"\xfftOc\0\0\0\x02".to_vec();
    let mut names = objects.0.keys().peekable();
    let mut below = 0_u32;
    for first in 0..=255 {
        while names.next_if(|name| name.0[0] <= first).is_some() {
            below += 1;
        }
        index.extend(below.to_be_bytes());
    }
    index.extend(objects.0.keys().flat_map(|name| name.0));
    index.extend(sums.into_iter().flat_map(u32::to_be_bytes));
    index.extend(offsets.into_iter().flat_map(u32::to_be_bytes));
    index.extend(id.0);
    let sum = Sha1::digest(&index);
    index.extend(sum);
    Some(Pack { id, bytes: pack, index })
}
