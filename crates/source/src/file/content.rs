//! A file's content as a stream: compression undone, the bytes of the file itself hashed.

use std::io::{self, BufReader, Read, Seek, Write};
use std::path::PathBuf;
use std::sync::Arc;

use flate2::read::MultiGzDecoder;
use fs_err as fs;
use ident::{Digest, Sha256Writer};

use super::{Compression, FileForm, KnownDigest, KnownDigests, Stamp};

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
    /// Digests of files that were hashed before, where such may be taken.
    pub known: Option<Arc<KnownDigests>>,
}

/// The largest file that is unpacked to disk, in bytes: a form that is read out of order cannot be read as a stream.
const UNPACKED_LIMIT: u64 = 64 << 30;

/// What a file is once it has been read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileIdentity {
    /// Digest of the file as it lies there.
    pub sha256: Digest,
    /// Its size in bytes.
    pub size: u64,
}

impl FileInput {
    /// A file whose form its shown name tells.
    pub(crate) fn new(path: PathBuf, shown: PathBuf) -> Self {
        let form = FileForm::of(&shown.to_string_lossy());
        Self { path, shown, form, verified: None, known: None }
    }

    /// A file that has just been verified.
    pub(crate) fn of_verified(path: PathBuf, shown: PathBuf, digest: Digest) -> Self {
        Self { verified: Some(digest), ..Self::new(path, shown) }
    }

    /// Opens the file as a stream of its plain content. None: something else than a regular file is there.
    pub(crate) fn open(&self) -> io::Result<Option<Content>> {
        let Some(raw) = self.open_raw()? else { return Ok(None) };
        Ok(Some(match self.form.compression {
            Compression::None => Content::Plain(raw),
            Compression::Gzip => Content::Gzip(MultiGzDecoder::new(BufReader::with_capacity(BUFFER, raw))),
            Compression::Zstd => Content::Zstd(zstd::stream::read::Decoder::with_buffer(
                BufReader::with_capacity(BUFFER, raw),
            )?),
        }))
    }

    /// Opens the plain content as a file that can be read at any place, and gives what tells the identity of the file
    /// itself in the end. A compressed one is unpacked into a file without a name first. None: something else than a
    /// regular file is there.
    pub(crate) fn open_seekable(&self) -> io::Result<Option<(std::fs::File, Content)>> {
        if self.form.compression == Compression::None {
            let Some(mut raw) = self.open_raw()? else { return Ok(None) };
            raw.digest()?;
            // Both have one place in the file, which nobody reads from any more through the first one.
            let mut file = raw.file.file().try_clone()?;
            file.rewind()?;
            return Ok(Some((file, Content::Plain(raw))));
        }
        let Some(mut content) = self.open()? else { return Ok(None) };
        let mut plain = tempfile::tempfile()?;
        let copied = io::copy(&mut (&mut content).take(UNPACKED_LIMIT + 1), &mut plain)?;
        if copied > UNPACKED_LIMIT {
            return Err(invalid(format!("unpacks to more than {UNPACKED_LIMIT} bytes")));
        }
        plain.rewind()?;
        Ok(Some((plain, content)))
    }

    fn open_raw(&self) -> io::Result<Option<Raw>> {
        // Asked before opening: opening a pipe would wait for its writer.
        if !fs::metadata(&self.path)?.is_file() {
            return Ok(None);
        }
        let file = fs::File::open(&self.path)?;
        let metadata = file.metadata()?;
        let stamp = Stamp::of(&metadata);
        let noted = self.known.as_ref().and_then(|known| known.recall(&self.path, &stamp));
        let digest = self.verified.or(noted.map(|noted| noted.sha256));
        let note = self.known.clone().filter(|_| digest.is_none()).map(|known| (known, self.path.clone()));
        let hash = Sha256Writer::new(io::sink());
        Ok(Some(Raw { file, size: metadata.len(), stamp, digest, hash, note }))
    }
}

const BUFFER: usize = 1 << 18;

/// Plain content that is read from a file.
pub(crate) enum Content {
    Plain(Raw),
    Gzip(MultiGzDecoder<BufReader<Raw>>),
    Zstd(zstd::stream::read::Decoder<'static, BufReader<Raw>>),
}

impl Content {
    /// The identity of the whole file, what has not been read yet included. Refused when the file has changed since it
    /// was opened: what was read is then of no single file.
    pub(crate) fn finish(self) -> io::Result<FileIdentity> {
        match self {
            Self::Plain(raw) => raw.finish(),
            Self::Gzip(decoder) => decoder.into_inner().into_inner().finish(),
            Self::Zstd(decoder) => decoder.finish().into_inner().finish(),
        }
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

/// The bytes of the file itself, hashed while they are read where their digest is not known.
pub(crate) struct Raw {
    file: fs::File,
    size: u64,
    /// What the file was like when it was opened.
    stamp: Stamp,
    /// The digest, as soon as it is known.
    digest: Option<Digest>,
    /// Of what has been read while it is not.
    hash: Sha256Writer<io::Sink>,
    /// Where it is noted for the next reader, when it was not known before.
    note: Option<(Arc<KnownDigests>, PathBuf)>,
}

impl Raw {
    /// The digest of the whole file; what has not been read yet is read where it has to be.
    fn digest(&mut self) -> io::Result<Digest> {
        if let Some(digest) = self.digest {
            return Ok(digest);
        }
        io::copy(self, &mut io::sink())?;
        let hash = std::mem::replace(&mut self.hash, Sha256Writer::new(io::sink()));
        Ok(*self.digest.insert(hash.finish().0))
    }

    fn finish(mut self) -> io::Result<FileIdentity> {
        let sha256 = self.digest()?;
        if !self.stamp.is_still(&self.file.metadata()?) {
            return Err(invalid(
                "has changed while it was read; run the command again when nobody writes to it".into(),
            ));
        }
        if let Some((known, path)) = self.note {
            known.note(&path, &self.stamp, &KnownDigest { sha256, git: None });
        }
        Ok(FileIdentity { sha256, size: self.size })
    }
}

impl Read for Raw {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        if self.digest.is_none() {
            self.hash.write_all(&buffer[..read])?;
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
        Ok((plain, content.finish()?.sha256))
    }

    fn read_seekable(input: &FileInput) -> io::Result<(Vec<u8>, Digest)> {
        let (mut file, content) = input.open_seekable()?.unwrap();
        let mut plain = Vec::new();
        file.read_to_end(&mut plain)?;
        Ok((plain, content.finish()?.sha256))
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
            assert!(read_seekable(&input).unwrap() == (plain.clone(), Digest::of(bytes)), "{name}");
            // What nobody reads counts for the digest all the same.
            let identity = input.open().unwrap().unwrap().finish().unwrap();
            assert_eq!((identity.sha256, identity.size), (Digest::of(bytes), bytes.len() as u64), "{name}");
        }
    }

    #[test]
    fn a_verified_file_is_not_hashed_again() {
        let (_directory, mut input) = written("x.txt", b"content");
        input.verified = Some(Digest::of("known before"));
        assert_eq!(read(&input).unwrap(), (b"content".to_vec(), Digest::of("known before")));
        assert_eq!(read_seekable(&input).unwrap(), (b"content".to_vec(), Digest::of("known before")));
    }

    #[test]
    fn a_file_that_changes_while_it_is_read_is_refused() {
        for name in ["x.txt", "x.parquet"] {
            let (_directory, mut input) = written(name, b"content");
            for verified in [None, Some(Digest::of("content"))] {
                input.verified = verified;
                let (_, content) = input.open_seekable().unwrap().unwrap();
                fs::write(&input.path, "another content").unwrap();
                let message = content.finish().unwrap_err().to_string();
                assert!(message.contains("has changed while it was read"), "{message}");
            }
        }
    }

    #[test]
    fn a_file_that_has_not_changed_since_it_was_hashed_is_not_hashed_again() {
        let (directory, mut input) = written("x.txt", b"content");
        let known = Arc::new(KnownDigests::new(directory.path().join("notes"), false));
        let stamp = Stamp::long_ago(&std::fs::metadata(&input.path).unwrap());
        // Another digest than the true one shows where the answer comes from.
        known.note(&input.path, &stamp, &KnownDigest { sha256: Digest::of("noted"), git: None });
        assert_eq!(read(&input).unwrap().1, Digest::of("content"));
        input.known = Some(known);
        assert_eq!(read(&input).unwrap(), (b"content".to_vec(), Digest::of("noted")));
        assert_eq!(read_seekable(&input).unwrap(), (b"content".to_vec(), Digest::of("noted")));
        fs::write(&input.path, "CONTENT").unwrap();
        assert_eq!(read(&input).unwrap(), (b"CONTENT".to_vec(), Digest::of("CONTENT")));
        assert_eq!(read_seekable(&input).unwrap().1, Digest::of("CONTENT"));
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
