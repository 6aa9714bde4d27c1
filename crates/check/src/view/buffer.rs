//! Large files in memory, in buffers that a thread uses again: the system hands out fresh memory page by page, which takes as
//! long as reading into it.

use std::cell::RefCell;
use std::fs::File;
use std::io;

use bytes::Bytes;
use rustix::buffer::spare_capacity;
use rustix::io::retry_on_intr;

/// Buffers that a thread keeps.
const MOST_SPARE: usize = 4;
/// A larger buffer is not kept.
const LARGEST_SPARE: usize = 8 << 20;

thread_local! {
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// What a file holds. The memory goes back to the thread that drops it.
struct Buffer(Vec<u8>);

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut bytes = std::mem::take(&mut self.0);
        bytes.clear();
        // A thread that is ending keeps nothing.
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < MOST_SPARE && bytes.capacity() <= LARGEST_SPARE {
                spare.push(bytes);
            }
        });
    }
}

/// Reads a file of this many bytes whole; none where it has others by now.
pub(super) fn read(file: &File, size: u64) -> io::Result<Option<Bytes>> {
    let mut buffer = Buffer(SPARE.with_borrow_mut(Vec::pop).unwrap_or_default());
    Ok(fill(file, size, &mut buffer.0)?.then(|| Bytes::from_owner(buffer)))
}

/// Reads a file of this many bytes into an empty buffer; whether it has as many. Where it has not, the rest may still be read.
pub(super) fn fill(file: &File, size: u64, bytes: &mut Vec<u8>) -> io::Result<bool> {
    let size = usize::try_from(size).map_err(io::Error::other)?;
    // There is room for one byte more: where that is left over, the file has ended.
    bytes.reserve_exact(size + 1);
    loop {
        let read = retry_on_intr(|| rustix::io::read(file, spare_capacity(bytes)))?;
        if read == 0 || bytes.len() >= size {
            return Ok(bytes.len() == size);
        }
    }
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
        let first = read(&file(b"a long content"), 14).unwrap().unwrap();
        assert_eq!(first.as_ref(), b"a long content");
        let at = first.as_ptr();
        drop(first);
        let second = read(&file(b"short"), 5).unwrap().unwrap();
        assert_eq!((second.as_ref(), second.as_ptr()), (&b"short"[..], at));

        let mut other = file(b"short");
        for size in [4, 6] {
            other.rewind().unwrap();
            assert_eq!(read(&other, size).unwrap(), None, "{size}");
        }
    }
}
