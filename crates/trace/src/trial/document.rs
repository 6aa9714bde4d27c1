//! One JSON file of a directory that somebody else wrote.

use job::Directory;

use crate::json::{Json, Mended, parse};

/// Why a file could not be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file} {detail}")]
pub(crate) struct Fault {
    /// The file, relative to the trial.
    pub(crate) file: String,
    /// What is wrong with it.
    pub(crate) detail: String,
}

/// Reads a file and hands its value over. `None` when there is no such file.
pub(crate) fn load<T>(
    directory: &Directory,
    name: &str,
    mended: &mut Mended,
    with: impl FnOnce(Json<'_>) -> Result<T, String>,
) -> Result<Option<T>, Fault> {
    load_text(directory, name, mended, |text, mended| {
        with(parse(text, mended).map_err(|error| error.to_string())?)
    })
}

/// Reads a file and hands its text over. `None` when there is no such file.
pub(crate) fn load_text<T>(
    directory: &Directory,
    name: &str,
    mended: &mut Mended,
    with: impl FnOnce(&str, &mut Mended) -> Result<T, String>,
) -> Result<Option<T>, Fault> {
    let fault = |detail: String| Fault { file: name.to_owned(), detail };
    let mut bytes = Vec::new();
    if !directory.read(name, &mut bytes).map_err(|what| fault(what.to_string()))? {
        return Ok(None);
    }
    let text = text(&bytes, mended);
    with(&text, mended).map(Some).map_err(fault)
}

/// The bytes as text; what is not UTF-8 becomes U+FFFD and is counted.
pub(crate) fn text<'a>(bytes: &'a [u8], mended: &mut Mended) -> std::borrow::Cow<'a, str> {
    // Most documents are whole, and seeing that is quicker than looking for what to mend.
    std::str::from_utf8(bytes).map_or_else(
        |_| {
            mended.not_utf8 += 1;
            String::from_utf8_lossy(bytes)
        },
        std::borrow::Cow::Borrowed,
    )
}
