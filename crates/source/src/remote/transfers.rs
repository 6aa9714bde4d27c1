//! How much is to come, and how much has come.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of all downloads of one command. Others may read it at any time.
#[derive(Debug, Default)]
pub struct Transfers {
    wanted: AtomicU64,
    received: AtomicU64,
}

impl Transfers {
    /// Bytes of the files that were not here, those that have come included.
    pub fn wanted(&self) -> u64 {
        self.wanted.load(Ordering::Relaxed)
    }

    /// Bytes of them that are here. A file that begins anew takes its own away again.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Begins a file, and gives the count of its bytes.
    pub(super) fn begin(&self, size: u64) -> FileCount<'_> {
        self.wanted.fetch_add(size, Ordering::Relaxed);
        FileCount { transfers: self, counted: 0 }
    }
}

/// The bytes of one file.
pub(super) struct FileCount<'t> {
    transfers: &'t Transfers,
    counted: u64,
}

impl FileCount<'_> {
    /// So many bytes of the file are here now.
    pub(super) fn is_at(&mut self, bytes: u64) {
        let received = &self.transfers.received;
        if bytes >= self.counted {
            received.fetch_add(bytes - self.counted, Ordering::Relaxed);
        } else {
            received.fetch_sub(self.counted - bytes, Ordering::Relaxed);
        }
        self.counted = bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_add_up_and_may_begin_anew() {
        let transfers = Transfers::default();
        let (mut first, mut second) = (transfers.begin(10), transfers.begin(5));
        first.is_at(7);
        second.is_at(5);
        assert_eq!((transfers.received(), transfers.wanted()), (12, 15));
        first.is_at(0);
        first.is_at(10);
        assert_eq!((transfers.received(), transfers.wanted()), (15, 15));
    }
}
