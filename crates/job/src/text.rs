//! The layout of the documents on disk.

use serde::Serialize;
use serde::ser::Error as _;
use serde_json::ser::{PrettyFormatter, Serializer};

/// Serialises a document as Harbor does: four spaces of indent, no final newline.
pub fn to_text<T: Serialize>(document: &T) -> Result<String, serde_json::Error> {
    let mut bytes = Vec::new();
    document.serialize(&mut Serializer::with_formatter(&mut bytes, PrettyFormatter::with_indent(b"    ")))?;
    String::from_utf8(bytes).map_err(serde_json::Error::custom)
}
