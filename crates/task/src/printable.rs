//! Paths and other foreign bytes, made fit for messages.

use std::fmt::Write as _;

/// Shows `bytes` as text: valid UTF-8 as it is with control characters escaped, every other byte as `\xNN`.
pub fn printable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c.is_control() { text.extend(c.escape_default()) } else { text.push(c) }
        }
        for byte in chunk.invalid() {
            write!(text, "\\x{byte:02x}").expect("a string takes everything");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_bytes_are_escaped_and_letters_are_kept() {
        assert_eq!(printable(b"foo\xff"), "foo\\xff");
        assert_eq!(printable("é/日本\n".as_bytes()), "é/日本\\n");
    }
}
