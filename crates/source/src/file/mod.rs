//! Files as rows are read from them: their form told by their names, compression undone, every byte hashed, once.

mod content;
mod form;
mod known;

pub(crate) use content::{FileIdentity, FileInput};
pub(crate) use form::{Compression, FileForm, Format};
pub(crate) use known::{KnownDigest, KnownDigests, Stamp};
