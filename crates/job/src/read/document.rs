//! Files of a directory that somebody else wrote: bounded, no link followed, read as far as they can be.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rustix::fs::{Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use serde::de::DeserializeOwned;
use serde_json::error::Category;

use super::oddity::{Odd, What};
use super::python_json::to_plain;

/// No document is read beyond this many bytes. Token records make the results of long trials this large.
const DOCUMENT_LIMIT: u64 = 256 << 20;

/// A directory that stays the same one whatever happens to its name. Nothing is read through a link in it.
#[derive(Debug)]
pub struct Directory {
    handle: File,
}

/// What a directory holds, by name.
#[derive(Debug, Default)]
pub struct Entries {
    /// Directories.
    pub directories: Vec<std::ffi::OsString>,
    /// Regular files.
    pub files: Vec<std::ffi::OsString>,
    /// Links and whatever else there is.
    pub others: Vec<std::ffi::OsString>,
}

/// What became of reading a file.
#[derive(Debug)]
pub(super) enum Document<T> {
    /// There is no such file.
    Missing,
    /// It was read.
    Whole(T),
    /// It was not, for the reason that was reported last.
    Refused(What),
}

const OPEN: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC);

impl Directory {
    /// Opens a directory that the user named; the name itself may be a link.
    pub fn open(path: &Path) -> io::Result<Self> {
        let handle = rustix::fs::open(path, OPEN | OFlags::DIRECTORY, Mode::empty())?;
        Ok(Self { handle: handle.into() })
    }

    /// Opens a directory in this one; a link is an error.
    pub fn child(&self, name: &OsStr) -> io::Result<Self> {
        let flags = OPEN | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let handle = rustix::fs::openat(&self.handle, name, flags, Mode::empty())?;
        Ok(Self { handle: handle.into() })
    }

    /// Lists what is in the directory, each list sorted.
    pub fn entries(&self) -> io::Result<Entries> {
        let mut entries = Entries::default();
        for entry in Dir::read_from(&self.handle)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let mut kind = entry.file_type();
            if kind == FileType::Unknown {
                let status = rustix::fs::statat(&self.handle, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)?;
                kind = FileType::from_raw_mode(status.st_mode);
            }
            let name = <OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(name.to_bytes()).to_owned();
            match kind {
                FileType::Directory => entries.directories.push(name),
                FileType::RegularFile => entries.files.push(name),
                _ => entries.others.push(name),
            }
        }
        for list in [&mut entries.directories, &mut entries.files, &mut entries.others] {
            list.sort_unstable();
        }
        Ok(entries)
    }

    /// Says whether there is anything under a name, without following a link.
    pub fn has(&self, name: &str) -> bool {
        rustix::fs::statat(&self.handle, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Reads a JSON object. `buffer` is working space.
    pub(super) fn document<T: DeserializeOwned>(
        &self,
        name: &str,
        buffer: &mut Vec<u8>,
        odd: &mut Odd,
    ) -> Document<T> {
        let read = match self.read(name, buffer) {
            Ok(false) => return Document::Missing,
            Ok(true) => parse(buffer, odd),
            Err(what) => Err(what),
        };
        match read {
            Ok(value) => Document::Whole(value),
            Err(what) => {
                odd.add(what.clone());
                Document::Refused(what)
            }
        }
    }

    /// Reads a regular file of at most 256 MiB into `buffer`; says whether it is there.
    pub fn read(&self, name: &str, buffer: &mut Vec<u8>) -> Result<bool, What> {
        let unreadable = |error: &dyn std::fmt::Display| What::Unreadable(error.to_string());
        // A pipe must not block, and a link must not lead anywhere.
        let flags = OPEN | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file: File = match rustix::fs::openat(&self.handle, name, flags, Mode::empty()) {
            Ok(handle) => handle.into(),
            Err(Errno::NOENT) => return Ok(false),
            Err(Errno::LOOP | Errno::NXIO) => return Err(What::NotPlain),
            Err(error) => return Err(unreadable(&error)),
        };
        let metadata = file.metadata().map_err(|error| unreadable(&error))?;
        if !metadata.is_file() {
            return Err(What::NotPlain);
        }
        let too_large = |size| What::TooLarge { size, limit: DOCUMENT_LIMIT };
        if metadata.len() > DOCUMENT_LIMIT {
            return Err(too_large(metadata.len()));
        }
        buffer.clear();
        // One byte more than there should be, so that the end is seen without another look for room.
        buffer.reserve(usize::try_from(metadata.len()).unwrap_or(0) + 1);
        file.take(DOCUMENT_LIMIT + 1).read_to_end(buffer).map_err(|error| unreadable(&error))?;
        if buffer.len() as u64 > DOCUMENT_LIMIT { Err(too_large(buffer.len() as u64)) } else { Ok(true) }
    }
}

/// Reads an object from JSON, or from what Python takes for it.
fn parse<T: DeserializeOwned>(bytes: &[u8], odd: &mut Odd) -> Result<T, What> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(What::Empty);
    }
    if let Ok(value) = object(bytes) {
        return Ok(value);
    }
    let plain = to_plain(bytes, odd);
    match object(&plain) {
        Ok(value) => Ok(value),
        Err(error) => {
            // A repeated key is an error to a struct; in a map the last one stays, as it does in Python.
            let value: serde_json::Value = serde_json::from_slice(&plain).map_err(|error| fault(&error))?;
            if !value.is_object() {
                return Err(What::NotAnObject(kind(&value)));
            }
            serde_json::from_value(value).map_err(|_| fault(&error))
        }
    }
}

/// A struct would be read from a list as well, which no document means.
fn object<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, serde_json::Error> {
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    if first == Some(&b'[') {
        return Err(serde::de::Error::custom("a list"));
    }
    serde_json::from_slice(bytes)
}

fn fault(error: &serde_json::Error) -> What {
    let detail = error.to_string();
    match error.classify() {
        Category::Eof => What::Cut(detail),
        Category::Data => What::Invalid(detail),
        Category::Syntax | Category::Io => What::NotJson(detail),
    }
}

fn kind(value: &serde_json::Value) -> &'static str {
    match value {
        serde_json::Value::Null => "null",
        serde_json::Value::Bool(_) => "a truth value",
        serde_json::Value::Number(_) => "a number",
        serde_json::Value::String(_) => "a text",
        serde_json::Value::Array(_) => "a list",
        serde_json::Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    type Any = BTreeMap<String, serde_json::Value>;

    fn read(bytes: &[u8]) -> Result<Any, What> {
        parse(bytes, &mut Odd::default())
    }

    #[test]
    fn what_is_no_document_is_named() {
        assert_eq!(read(b""), Err(What::Empty));
        assert_eq!(read(b" \n"), Err(What::Empty));
        assert!(matches!(read(b"{\"a\": 1"), Err(What::Cut(_))));
        assert!(matches!(read(b"{\"a\": \"x"), Err(What::Cut(_))));
        assert!(matches!(read(b"{\"a\": 1}}"), Err(What::NotJson(_))));
        assert!(matches!(read(b"garbage"), Err(What::NotJson(_))));
        assert_eq!(read(b"[{\"a\": 1}]"), Err(What::NotAnObject("a list")));
        assert_eq!(read(b"NaN"), Err(What::NotAnObject("null")));
        assert!(matches!(read("[".repeat(1000).as_bytes()), Err(What::NotJson(_) | What::Cut(_))));
        assert_eq!(read(b"{\"a\": NaN}").unwrap()["a"], serde_json::Value::Null);
        assert_eq!(read(b"{\"a\": 1, \"a\": 2}").unwrap()["a"], 2);
    }

    #[test]
    fn links_pipes_and_large_files_are_refused_by_name() {
        let temporary = tempfile::tempdir().unwrap();
        let root = temporary.path();
        std::fs::write(root.join("good"), "{}").unwrap();
        std::os::unix::fs::symlink(root.join("good"), root.join("link")).unwrap();
        std::fs::create_dir(root.join("directory")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, root.join("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        // Two gigabytes with holes, none of which may be read.
        File::create(root.join("large")).unwrap().set_len(2 << 30).unwrap();
        let directory = Directory::open(root).unwrap();
        let mut buffer = Vec::new();
        let mut read = |name: &str| directory.document::<Any>(name, &mut buffer, &mut Odd::default());
        assert!(matches!(read("good"), Document::Whole(_)));
        assert!(matches!(read("nothing"), Document::Missing));
        for name in ["link", "directory", "pipe"] {
            assert!(matches!(read(name), Document::Refused(What::NotPlain)), "{name}");
        }
        assert!(matches!(read("large"), Document::Refused(What::TooLarge { .. })));
        let entries = directory.entries().unwrap();
        assert_eq!(entries.directories, ["directory"]);
        assert_eq!(entries.files, ["good", "large"]);
        assert_eq!(entries.others, ["link", "pipe"]);
        std::os::unix::fs::symlink(root.join("directory"), root.join("other")).unwrap();
        assert!(directory.child(OsStr::new("other")).is_err());
        assert!(directory.child(OsStr::new("directory")).is_ok());
    }
}
