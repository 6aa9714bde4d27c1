//! Differences between objects, as packs store them.

use super::object::{Budget, Unread};

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
pub(super) fn applied(base: &[u8], delta: &[u8], budget: &mut Budget) -> Result<Vec<u8>, Unread> {
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
        let mut budget = Budget::new(1 << 20);
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
}
