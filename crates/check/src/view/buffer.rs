//! Large files in memory, in buffers that a thread uses again: the system hands out fresh memory page by page, which takes as
//! long as reading into it.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read as _};

use bytes::Bytes;

/// Buffers that a thread keeps.
const MOST_SPARE: usize = 4;
/// A larger buffer is not kept.
const LARGEST_SPARE: usize = 8 << 20;

thread_local! {
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// A buffer of which the first bytes are in use. It goes back to the thread that drops it.
struct Buffer {
    bytes: Vec<u8>,
    used: usize,
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.used]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        // A thread that is ending keeps nothing.
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < MOST_SPARE && bytes.len() <= LARGEST_SPARE {
                spare.push(bytes);
            }
        });
    }
}

/// Reads a file of this many bytes whole; none where it has others by now.
pub(super) fn read(file: &mut File, size: u64) -> io::Result<Option<Bytes>> {
    let Ok(used) = usize::try_from(size) else { return Ok(None) };
    let mut buffer = Buffer { bytes: SPARE.with_borrow_mut(Vec::pop).unwrap_or_default(), used };
    // There is room for one byte more: where that is left over, the file has ended.
    if buffer.bytes.len() <= used {
        buffer.bytes.resize(used + 1, 0);
    }
    let mut done = 0;
    while done < used {
        match file.read(&mut buffer.bytes[done..=used]) {
            Ok(0) => return Ok(None),
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok((done == used).then(|| Bytes::from_owner(buffer)))
}

#[cfg(test)]
mod tests {
    use std::io::Seek as _;

    use super::*;

    #[test]
    fn a_buffer_is_used_again_and_shows_only_its_own_file() {
        let file = |content: &[u8]| {
            let path = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(path.path(), content).unwrap();
            File::open(path.path()).unwrap()
        };
        let first = read(&mut file(b"a long content"), 14).unwrap().unwrap();
        assert_eq!(first.as_ref(), b"a long content");
        let at = first.as_ptr();
        drop(first);
        let second = read(&mut file(b"short"), 5).unwrap().unwrap();
        assert_eq!((second.as_ref(), second.as_ptr()), (&b"short"[..], at));

        let mut other = file(b"short");
        for size in [4, 6] {
            other.rewind().unwrap();
            assert_eq!(read(&mut other, size).unwrap(), None, "{size}");
        }
    }
}
