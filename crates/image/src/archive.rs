//! Finds out how a byte stream is compressed, and inflates it.

use std::io::{self, BufReader, Cursor, Read};

use flate2::read::MultiGzDecoder;

use crate::ImageError;

/// How many bytes [`inflate`] looks at.
const HEAD: usize = 512;

/// Compression found by the first bytes of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    Plain,
    Gzip,
    Zstd,
    Unsupported(&'static str),
}

impl Compression {
    /// Tells the compression from the first bytes.
    pub(crate) fn of(head: &[u8]) -> Self {
        const MAGICS: [(&[u8], Compression); 6] = [
            (b"\x1f\x8b", Compression::Gzip),
            (b"\x28\xb5\x2f\xfd", Compression::Zstd),
            (b"\xfd7zXZ\0", Compression::Unsupported("xz")),
            (b"BZh", Compression::Unsupported("bzip2")),
            (b"\x04\x22\x4d\x18", Compression::Unsupported("lz4")),
            (b"\x5d\0\0", Compression::Unsupported("lzma")),
        ];
        MAGICS.iter().find(|(magic, _)| head.starts_with(magic)).map_or(Self::Plain, |(_, found)| *found)
    }
}

/// Whether a block of 512 bytes is a tar header: its checksum is right.
pub(crate) fn is_tar_header(block: &[u8]) -> bool {
    let Some(block) = block.get(..512) else { return false };
    let stored = &block[148..156];
    let digits: String = stored
        .iter()
        .map(|b| char::from(*b))
        .skip_while(|c| *c == ' ')
        .take_while(char::is_ascii_digit)
        .collect();
    let Ok(stored) = u32::from_str_radix(&digits, 8) else { return false };
    let sum: u32 = block
        .iter()
        .enumerate()
        .map(|(at, b)| if (148..156).contains(&at) { 32 } else { u32::from(*b) })
        .sum();
    sum == stored
}

/// Reads up to `count` bytes, fewer only at the end of the stream.
pub(crate) fn read_head(reader: &mut dyn Read, count: usize) -> io::Result<Vec<u8>> {
    let mut head = Vec::with_capacity(count);
    reader.take(count as u64).read_to_end(&mut head)?;
    Ok(head)
}

/// Wraps a stream in the right decoder; `name` is for the message about compressions that are not supported.
pub(crate) fn inflate<'a>(
    name: &str,
    mut stream: Box<dyn Read + 'a>,
) -> Result<Box<dyn Read + 'a>, ImageError> {
    let head = read_head(&mut stream, HEAD).map_err(|e| ImageError::io(format!("reading {name}"), e))?;
    let compression = Compression::of(&head);
    let whole = Cursor::new(head).chain(stream);
    Ok(match compression {
        Compression::Plain => Box::new(whole),
        Compression::Gzip => Box::new(MultiGzDecoder::new(BufReader::with_capacity(64 * 1024, whole))),
        Compression::Zstd => Box::new(
            zstd::stream::read::Decoder::new(whole)
                .map_err(|e| ImageError::io(format!("reading {name}"), e))?,
        ),
        Compression::Unsupported(method) => {
            return Err(ImageError::Compression { name: name.to_owned(), method });
        }
    })
}

/// Whether a local file is a tar archive that `ADD` unpacks: plain or compressed, told by content.
pub(crate) fn is_archive(name: &str, file: std::fs::File) -> Result<bool, ImageError> {
    let mut stream: Box<dyn Read> = Box::new(file);
    let head = read_head(&mut stream, HEAD).map_err(|e| ImageError::io(format!("reading {name}"), e))?;
    match Compression::of(&head) {
        Compression::Plain => Ok(is_tar_header(&head)),
        Compression::Unsupported(method) => Err(ImageError::Compression { name: name.to_owned(), method }),
        // A compressed file that does not inflate to a tar header, or not at all, is copied as it is.
        Compression::Gzip | Compression::Zstd => {
            let mut inner = inflate(name, Box::new(Cursor::new(head).chain(stream)))?;
            Ok(read_head(&mut inner, HEAD).is_ok_and(|head| is_tar_header(&head)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressions_are_told_by_content() {
        assert_eq!(Compression::of(b"\x1f\x8b\x08"), Compression::Gzip);
        assert_eq!(Compression::of(b"BZh9"), Compression::Unsupported("bzip2"));
        assert_eq!(Compression::of(b""), Compression::Plain);
    }

    #[test]
    fn inflating_gives_the_bytes_back() {
        let zstd = zstd::encode_all(&b"content"[..], 1).unwrap();
        let mut out = String::new();
        inflate("x", Box::new(&zstd[..])).unwrap().read_to_string(&mut out).unwrap();
        assert_eq!(out, "content");
        let Err(refused) = inflate("x.xz", Box::new(&b"\xfd7zXZ\0"[..])) else { panic!("xz was accepted") };
        assert!(refused.to_string().contains("xz"));
    }

    #[test]
    fn tar_headers_are_told_by_their_checksum() {
        let mut header = tar::Header::new_ustar();
        header.set_path("a").unwrap();
        header.set_size(0);
        header.set_cksum();
        assert!(is_tar_header(header.as_bytes()));
        header.as_mut_bytes()[0] = b'b';
        assert!(!is_tar_header(header.as_bytes()));
        assert!(!is_tar_header(&[0; 512]));
    }
}
