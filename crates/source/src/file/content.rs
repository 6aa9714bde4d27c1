//! A file's content as a stream: compression undone, the bytes of the file itself hashed.

use std::io::{self, BufReader, Read, Write};
use std::path::PathBuf;

use flate2::read::MultiGzDecoder;
use fs_err as fs;
use ident::{Digest, Sha256Writer};

use super::{Compression, FileForm};

/// A regular file that rows are read from.
#[derive(Debug, Clone)]
pub(crate) struct FileInput {
    /// Where it lies.
    pub path: PathBuf,
    /// How messages call it: the path of the recipe, or the path in its repository.
    pub shown: PathBuf,
    /// What its name tells.
    pub form: FileForm,
    /// Its digest, where the very file has just been held against it; nothing is hashed again then.
    pub verified: Option<Digest>,
}

/// The largest file that is unpacked to disk, in bytes: a form that is read out of order cannot be read as a stream.
const UNPACKED_LIMIT: u64 = 64 << 30;

impl FileInput {
    /// A file whose form its shown name tells.
    pub(crate) fn new(path: PathBuf, shown: PathBuf) -> Self {
        let form = FileForm::of(&shown.to_string_lossy());
        Self { path, shown, form, verified: None }
    }

    /// A file that has just been verified.
    pub(crate) fn of_verified(path: PathBuf, shown: PathBuf, digest: Digest) -> Self {
        Self { verified: Some(digest), ..Self::new(path, shown) }
    }

    /// Opens the file as a stream of its plain content. None: something else than a regular file is there.
    pub(crate) fn open(&self) -> io::Result<Option<Content>> {
        let Some(file) = self.open_raw()? else { return Ok(None) };
        let digest = match self.verified {
            Some(digest) => Known::Before(digest),
            None => Known::AtTheEnd(Sha256Writer::new(io::sink())),
        };
        let raw = Hashing { reader: file, digest };
        Ok(Some(match self.form.compression {
            Compression::None => Content::Plain(raw),
            Compression::Gzip => Content::Gzip(MultiGzDecoder::new(BufReader::with_capacity(BUFFER, raw))),
            Compression::Zstd => Content::Zstd(zstd::stream::read::Decoder::with_buffer(
                BufReader::with_capacity(BUFFER, raw),
            )?),
        }))
    }

    /// Opens the plain content as a file that can be read at any place, and tells the digest of the file itself.
    /// A compressed one is unpacked into a file without a name first. None: something else than a regular file is there.
    pub(crate) fn open_seekable(&self) -> io::Result<Option<(std::fs::File, Digest)>> {
        if self.form.compression == Compression::None {
            let Some(mut file) = self.open_raw()? else { return Ok(None) };
            let digest = match self.verified {
                Some(digest) => digest,
                None => Digest::of_reader(&mut file)?,
            };
            io::Seek::rewind(&mut file)?;
            return Ok(Some((file.into_parts().0, digest)));
        }
        let Some(mut content) = self.open()? else { return Ok(None) };
        let mut plain = tempfile::tempfile()?;
        let copied = io::copy(&mut (&mut content).take(UNPACKED_LIMIT + 1), &mut plain)?;
        if copied > UNPACKED_LIMIT {
            return Err(invalid(format!("unpacks to more than {UNPACKED_LIMIT} bytes")));
        }
        io::Seek::rewind(&mut plain)?;
        Ok(Some((plain, content.finish()?)))
    }

    fn open_raw(&self) -> io::Result<Option<fs::File>> {
        // Asked before opening: opening a pipe would wait for its writer.
        if !fs::metadata(&self.path)?.is_file() {
            return Ok(None);
        }
        fs::File::open(&self.path).map(Some)
    }
}

const BUFFER: usize = 1 << 18;

/// Plain content that is read from a file.
pub(crate) enum Content {
    Plain(Hashing),
    Gzip(MultiGzDecoder<BufReader<Hashing>>),
    Zstd(zstd::stream::read::Decoder<'static, BufReader<Hashing>>),
}

impl Content {
    /// The digest of the whole file, what has not been read yet included.
    pub(crate) fn finish(self) -> io::Result<Digest> {
        let mut raw = match self {
            Self::Plain(raw) => raw,
            Self::Gzip(decoder) => decoder.into_inner().into_inner(),
            Self::Zstd(decoder) => decoder.finish().into_inner(),
        };
        if let Known::Before(digest) = raw.digest {
            return Ok(digest);
        }
        io::copy(&mut raw, &mut io::sink())?;
        Ok(match raw.digest {
            Known::Before(digest) => digest,
            Known::AtTheEnd(hash) => hash.finish().0,
        })
    }
}

impl Read for Content {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(raw) => raw.read(buffer),
            Self::Gzip(decoder) => decoder.read(buffer).map_err(|error| unpacking("gzip", &error)),
            Self::Zstd(decoder) => decoder.read(buffer).map_err(|error| unpacking("zstd", &error)),
        }
    }
}

/// Says that the wrapping is damaged, which the decoders' own words do not.
fn unpacking(form: &str, error: &io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => invalid(format!("is cut: it ends inside its {form} data")),
        _ => invalid(format!("cannot be unpacked as {form}, which its name says it is: {error}")),
    }
}

fn invalid(detail: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, detail)
}

/// Hashes what is read through it, where the digest is not known.
pub(crate) struct Hashing {
    reader: fs::File,
    digest: Known,
}

/// When a digest is known.
enum Known {
    Before(Digest),
    AtTheEnd(Sha256Writer<io::Sink>),
}

impl Read for Hashing {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        if let Known::AtTheEnd(hash) = &mut self.digest {
            hash.write_all(&buffer[..read])?;
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn written(name: &str, bytes: &[u8]) -> (tempfile::TempDir, FileInput) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(name);
        fs::write(&path, bytes).unwrap();
        (directory, FileInput::new(path, name.into()))
    }

    fn read(input: &FileInput) -> io::Result<(Vec<u8>, Digest)> {
        let mut content = input.open()?.unwrap();
        let mut plain = Vec::new();
        content.read_to_end(&mut plain)?;
        Ok((plain, content.finish()?))
    }

    #[test]
    fn compression_is_undone_and_the_digest_is_that_of_the_file() {
        let plain = b"one\ntwo\n".repeat(100_000);
        // Several members and frames after each other are one content.
        let gzipped = [gzip(&plain[..9]), gzip(&plain[9..])].concat();
        let zstd = |bytes: &[u8]| zstd::stream::encode_all(bytes, 1).unwrap();
        let zipped = [zstd(&plain[..9]), zstd(&plain[9..])].concat();
        for (name, bytes) in [("x.txt", &plain), ("x.txt.gz", &gzipped), ("x.jsonl.zst", &zipped)] {
            let (_directory, input) = written(name, bytes);
            assert_eq!(read(&input).unwrap(), (plain.clone(), Digest::of(bytes)), "{name}");
            let (mut file, digest) = input.open_seekable().unwrap().unwrap();
            let mut seekable = Vec::new();
            file.read_to_end(&mut seekable).unwrap();
            assert!(seekable == plain && digest == Digest::of(bytes), "{name}");
            // What nobody reads counts for the digest all the same.
            assert_eq!(input.open().unwrap().unwrap().finish().unwrap(), Digest::of(bytes), "{name}");
        }
    }

    #[test]
    fn a_verified_file_is_not_hashed_again() {
        let (_directory, mut input) = written("x.txt", b"content");
        input.verified = Some(Digest::of("known before"));
        assert_eq!(read(&input).unwrap(), (b"content".to_vec(), Digest::of("known before")));
        assert_eq!(input.open_seekable().unwrap().unwrap().1, Digest::of("known before"));
    }

    #[test]
    fn damaged_and_misnamed_files_say_so() {
        let plain: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
        let gzipped = gzip(&plain);
        let zipped = zstd::stream::encode_all(&plain[..], 1).unwrap();
        for (name, bytes, expected) in [
            ("x.gz", &gzipped[..gzipped.len() / 2], "ends inside its gzip data"),
            ("x.zst", &zipped[..zipped.len() / 2], "ends inside its zstd data"),
            ("x.gz", &plain[..], "cannot be unpacked as gzip"),
            ("x.zst", &plain[..], "cannot be unpacked as zstd"),
        ] {
            let (_directory, input) = written(name, bytes);
            let message = read(&input).unwrap_err().to_string();
            assert!(message.contains(expected), "{name}: {message}");
        }
        let (directory, _) = written("x", b"");
        let input = FileInput::new(directory.path().to_owned(), "x".into());
        assert!(input.open().unwrap().is_none() && input.open_seekable().unwrap().is_none());
    }
}
