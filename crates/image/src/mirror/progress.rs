//! How far a mirror is, for whoever looks while it runs.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of bytes and images that grow while a mirror runs.
#[derive(Debug, Default)]
pub struct Progress {
    bytes: AtomicU64,
    bytes_wanted: AtomicU64,
    images: AtomicU64,
    images_wanted: AtomicU64,
}

impl Progress {
    /// Bytes of blobs that are at the registry, and those that are to be there in the end.
    pub fn bytes(&self) -> (u64, u64) {
        (self.bytes.load(Ordering::Relaxed), self.bytes_wanted.load(Ordering::Relaxed))
    }

    /// Images that are at the registry, and those that are to be there in the end.
    pub fn images(&self) -> (u64, u64) {
        (self.images.load(Ordering::Relaxed), self.images_wanted.load(Ordering::Relaxed))
    }

    pub(super) fn add_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn take_bytes(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(super) fn want(&self, images: u64, bytes: u64) {
        self.images_wanted.fetch_add(images, Ordering::Relaxed);
        self.bytes_wanted.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn add_image(&self) {
        self.images.fetch_add(1, Ordering::Relaxed);
    }
}
