//! The staging area, version 2, of a fresh checkout.

use sha1::{Digest as _, Sha1};

use crate::git::ObjectId;
use crate::tree::Tree;

/// Writes an index in which every file of the tree is staged with its blob.
///
/// The stat data are zero but for mode and size: nobody knows yet when and where the files will be unpacked, and git
/// compares contents the first time it looks.
pub(super) fn index(tree: &Tree, blobs: &[ObjectId]) -> Vec<u8> {
    let mut bytes = b"DIRC\0\0\0\x02".to_vec();
    bytes.extend((tree.len() as u32).to_be_bytes());
    for ((path, entry), blob) in tree.iter().zip(blobs) {
        let start = bytes.len();
        // ctime, mtime, device and inode.
        bytes.extend([0; 24]);
        bytes.extend(entry.git_mode().to_be_bytes());
        // User and group.
        bytes.extend([0; 8]);
        bytes.extend((entry.bytes().len() as u32).to_be_bytes());
        bytes.extend(blob.0);
        bytes.extend((path.len().min(0xfff) as u16).to_be_bytes());
        bytes.extend_from_slice(path);
        let length = bytes.len() - start;
        let padded = (length + 1).next_multiple_of(8);
        bytes.extend(std::iter::repeat_n(0, padded - length));
    }
    let sum = Sha1::digest(&bytes);
    bytes.extend(sum);
    bytes
}
