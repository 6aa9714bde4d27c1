//! The bytes of requests and answers, kept as they went over the wire.

use std::io;
use std::path::PathBuf;

/// Where the bytes of one conversation are kept: `0001.1.request.json` and `0001.1.answer` for the first try of the first turn.
#[derive(Debug)]
pub struct Wire {
    directory: PathBuf,
}

impl Wire {
    /// Keeps them in a directory, which is made.
    pub fn new(directory: PathBuf) -> io::Result<Self> {
        fs_err::create_dir_all(&directory)?;
        Ok(Self { directory })
    }

    pub(super) fn request(&self, turn: usize, tried: u32, bytes: &[u8]) -> io::Result<()> {
        fs_err::write(self.directory.join(format!("{turn:04}.{tried}.request.json")), bytes)
    }

    pub(super) fn answer(&self, turn: usize, tried: u32, bytes: &[u8]) -> io::Result<()> {
        fs_err::write(self.directory.join(format!("{turn:04}.{tried}.answer")), bytes)
    }
}
