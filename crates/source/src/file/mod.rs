//! Files as rows are read from them: their form told by their names, compression undone, every byte hashed.

mod content;
mod form;

pub(crate) use content::FileInput;
pub(crate) use form::{Compression, FileForm, Format};
