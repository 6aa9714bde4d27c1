//! The two layouts of the documents on disk.

use std::fmt::Write as _;

use serde::Serialize;
use serde::ser::Error as _;
use serde_json::ser::{PrettyFormatter, Serializer};

/// Serialises a document as Harbor does: four spaces of indent, no final newline.
pub fn to_text<T: Serialize>(document: &T) -> Result<String, serde_json::Error> {
    with_indent(document, b"    ")
}

/// Serialises a document as Python's `json` does by default with an indent of two: only ASCII, no final newline.
pub(crate) fn to_python_text<T: Serialize>(document: &T) -> Result<String, serde_json::Error> {
    let text = with_indent(document, b"  ")?;
    let mut ascii = String::with_capacity(text.len());
    let mut units = [0; 2];
    for character in text.chars() {
        if matches!(character, '\n' | ' '..='~') {
            ascii.push(character);
            continue;
        }
        // Only text between quotes holds such characters, so that an escape is right wherever one is met.
        for unit in character.encode_utf16(&mut units) {
            write!(ascii, "\\u{unit:04x}").map_err(serde_json::Error::custom)?;
        }
    }
    Ok(ascii)
}

fn with_indent<T: Serialize>(document: &T, indent: &[u8]) -> Result<String, serde_json::Error> {
    let mut bytes = Vec::new();
    document.serialize(&mut Serializer::with_formatter(&mut bytes, PrettyFormatter::with_indent(indent)))?;
    String::from_utf8(bytes).map_err(serde_json::Error::custom)
}
