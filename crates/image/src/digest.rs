//! SHA-256 over bytes, streams and lists of fields.

use std::io::{self, Read, Write as _};

use ident::{Digest, Sha256Writer};

/// Returns the digest of `bytes` as 64 hexadecimal digits.
pub(crate) fn hex_of(bytes: &[u8]) -> String {
    Digest::of(bytes).hex()
}

/// Whether `text` is 64 lower-case hexadecimal digits.
pub(crate) fn is_hex64(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// Hashes a sequence of fields so that no two different sequences share their bytes: every field is preceded by
/// its length.
pub(crate) struct Fields(Sha256Writer<io::Sink>);

impl Fields {
    /// Starts a hash for one purpose; hashes for different purposes never collide.
    pub(crate) fn new(purpose: &str) -> Self {
        let mut fields = Self(Sha256Writer::new(io::sink()));
        fields.add(purpose.as_bytes());
        fields
    }

    /// Adds one field.
    pub(crate) fn add(&mut self, field: &[u8]) -> &mut Self {
        for part in [&(field.len() as u64).to_be_bytes()[..], field] {
            self.0.write_all(part).expect("a sink takes everything");
        }
        self
    }

    /// Adds one number.
    pub(crate) fn number(&mut self, number: u64) -> &mut Self {
        self.add(&number.to_be_bytes())
    }

    /// Ends the hash: 64 hexadecimal digits.
    pub(crate) fn finish(self) -> String {
        self.digest().hex()
    }

    /// Ends the hash.
    pub(crate) fn digest(self) -> Digest {
        self.0.finish().0
    }
}

/// Passes bytes through and hashes and counts them.
pub(crate) struct HashingReader<R> {
    inner: R,
    hash: Sha256Writer<io::Sink>,
}

impl<R: Read> HashingReader<R> {
    /// Wraps a reader.
    pub(crate) fn new(inner: R) -> Self {
        Self { inner, hash: Sha256Writer::new(io::sink()) }
    }

    /// Reads what is left, at most `limit` bytes, and returns the digest as hexadecimal digits and the number of
    /// bytes that went through in total.
    pub(crate) fn finish(mut self, limit: u64) -> io::Result<(String, u64)> {
        let copied = io::copy(&mut self.by_ref().take(limit.saturating_add(1)), &mut io::sink())?;
        if copied > limit {
            return Err(io::Error::other(format!("more than {limit} bytes follow the archive's end")));
        }
        let bytes = self.hash.written();
        Ok((self.hash.finish().0.hex(), bytes))
    }
}

impl<R: Read> Read for HashingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.hash.write_all(&buffer[..count])?;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_plain_hexadecimal() {
        assert_eq!(hex_of(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert!(is_hex64(&hex_of(b"x")));
        assert!(!is_hex64("E3"));
    }

    #[test]
    fn fields_do_not_run_into_each_other() {
        let of = |fields: &[&str]| {
            let mut hash = Fields::new("test");
            for field in fields {
                hash.add(field.as_bytes());
            }
            hash.finish()
        };
        assert_ne!(of(&["ab", "c"]), of(&["a", "bc"]));
        assert_ne!(of(&["a", ""]), of(&["a"]));
    }

    #[test]
    fn a_hashing_reader_counts_what_follows() {
        let mut reader = HashingReader::new(&b"hello world"[..]);
        let mut head = [0; 5];
        reader.read_exact(&mut head).unwrap();
        assert_eq!(reader.finish(100).unwrap(), (hex_of(b"hello world"), 11));
        assert!(HashingReader::new(&b"hello"[..]).finish(3).is_err());
    }
}
