//! SHA-256 digests.

use std::fmt;
use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// A SHA-256 digest, written as 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest([u8; 32]);

/// Why a text is no digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a SHA-256 digest: 64 lower-case hexadecimal digits, with or without `sha256:` in front"
)]
pub struct DigestError(String);

impl Digest {
    /// The digest of `bytes`.
    pub fn of(bytes: impl AsRef<[u8]>) -> Self {
        Self(Sha256::digest(bytes.as_ref()).into())
    }

    /// The digest of everything `reader` gives, read in pieces.
    pub fn of_reader(mut reader: impl Read) -> io::Result<Self> {
        let mut writer = Sha256Writer::new(io::sink());
        io::copy(&mut reader, &mut writer)?;
        Ok(writer.finish().0)
    }

    /// Reads 64 hexadecimal digits, with or without `sha256:` in front.
    pub fn parse(text: &str) -> Result<Self, DigestError> {
        let wrong = || DigestError(text.chars().take(100).collect());
        let hex = text.strip_prefix("sha256:").unwrap_or(text).as_bytes();
        if hex.len() != 64 {
            return Err(wrong());
        }
        let nibble = |c: u8| match c {
            b'0'..=b'9' => Some(c - b'0'),
            b'a'..=b'f' => Some(c - b'a' + 10),
            _ => None,
        };
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(hex.chunks_exact(2)) {
            let (high, low) = nibble(pair[0]).zip(nibble(pair[1])).ok_or_else(wrong)?;
            *byte = high << 4 | low;
        }
        Ok(Self(bytes))
    }

    /// The 64 hexadecimal digits.
    pub fn hex(&self) -> String {
        self.to_string()
    }

    /// `sha256:` and the 64 hexadecimal digits.
    pub fn prefixed(&self) -> String {
        format!("sha256:{self}")
    }

    /// The raw bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl TryFrom<String> for Digest {
    type Error = DigestError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text)
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

/// Hashes and counts what passes through to another writer.
#[derive(Debug)]
pub struct Sha256Writer<W> {
    inner: W,
    hasher: Sha256,
    written: u64,
}

impl<W: Write> Sha256Writer<W> {
    /// Wraps `inner`.
    pub fn new(inner: W) -> Self {
        Self { inner, hasher: Sha256::new(), written: 0 }
    }

    /// How many bytes have passed.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// The digest of what passed, and the wrapped writer.
    pub fn finish(self) -> (Digest, W) {
        (Digest(self.hasher.finalize().into()), self.inner)
    }
}

impl<W: Write> Write for Sha256Writer<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let n = self.inner.write(buffer)?;
        self.hasher.update(&buffer[..n]);
        self.written += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn text_form_goes_both_ways() {
        assert_eq!(Digest::of("").hex(), EMPTY);
        assert_eq!(Digest::parse(EMPTY).unwrap(), Digest::of(""));
        assert_eq!(Digest::parse(&format!("sha256:{EMPTY}")).unwrap(), Digest::of(""));
        assert_eq!(Digest::of_reader(&b"abc"[..]).unwrap(), Digest::of("abc"));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "sha256:", &EMPTY[1..], &EMPTY.to_uppercase(), &format!("sha512:{EMPTY}")] {
            assert!(Digest::parse(text).is_err(), "{text}");
        }
    }
}
