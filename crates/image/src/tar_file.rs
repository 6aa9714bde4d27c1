//! A tar archive on disk whose files are read in place, wherever they stand in it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom, Take};
use std::path::{Path, PathBuf};

use tar::EntryType;

use crate::ImageError;
use crate::archive::{Compression, read_head};
use crate::layer_path::LayerPath;
use crate::manifest::broken;
use crate::stack::open_file;

/// Most entries that are listed.
const MAX_ENTRIES: usize = 100_000;
/// Links followed in one resolution.
const MAX_LINKS: usize = 8;

/// Where the files of an archive stand.
#[derive(Debug)]
pub(crate) struct TarFile {
    path: PathBuf,
    entries: BTreeMap<LayerPath, Entry>,
}

#[derive(Debug)]
enum Entry {
    File {
        /// Where the content begins.
        at: u64,
        size: u64,
    },
    /// A link to another entry.
    Link(LayerPath),
}

impl TarFile {
    /// Lists an archive that is not compressed. Links out of it, and files with holes, are left out.
    pub(crate) fn open(path: &Path) -> Result<Self, ImageError> {
        let place = path.display().to_string();
        let reading = |e| ImageError::io(format!("reading {place}"), e);
        let mut file = open_file(path)?;
        if Compression::of(&read_head(&mut file, 8).map_err(reading)?) != Compression::Plain {
            return Err(broken(&place, "is compressed, and is read in place; decompress it first"));
        }
        file.rewind().map_err(reading)?;
        let mut entries = BTreeMap::new();
        let mut archive = tar::Archive::new(BufReader::new(file));
        for entry in archive.entries_with_seek().map_err(reading)? {
            let entry = entry.map_err(reading)?;
            if entries.len() == MAX_ENTRIES {
                return Err(broken(&place, format!("has more than {MAX_ENTRIES} entries")));
            }
            let Ok(name) = LayerPath::of_entry(&entry.path().map_err(reading)?) else { continue };
            let found = match entry.header().entry_type() {
                EntryType::Regular | EntryType::Continuous => {
                    Entry::File { at: entry.raw_file_position(), size: entry.size() }
                }
                kind @ (EntryType::Symlink | EntryType::Link) => {
                    let target = entry.link_name().map_err(reading)?.unwrap_or_default();
                    let above = match kind {
                        EntryType::Symlink => name.split().map(|(above, _)| above.relative()),
                        _ => None,
                    };
                    let target = above.unwrap_or_default().join(target);
                    match LayerPath::of_absolute(&target) {
                        Ok(target) => Entry::Link(target),
                        Err(_) => continue,
                    }
                }
                _ => continue,
            };
            entries.insert(name, found);
        }
        Ok(Self { path: path.to_owned(), entries })
    }

    /// The archive's own path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A file of the archive, ready to be read to its end; none where there is none of that name.
    pub(crate) fn file(&self, name: &str) -> Result<Option<Take<File>>, ImageError> {
        let Ok(mut name) = LayerPath::of_entry(Path::new(name)) else { return Ok(None) };
        for _ in 0..=MAX_LINKS {
            match self.entries.get(&name) {
                Some(Entry::Link(target)) => name = target.clone(),
                Some(Entry::File { at, size }) => {
                    let mut file = open_file(&self.path)?;
                    file.seek(SeekFrom::Start(*at)).map_err(|e| self.reading(e))?;
                    return Ok(Some(file.take(*size)));
                }
                None => return Ok(None),
            }
        }
        Ok(None)
    }

    /// The content of a small file of the archive; none where there is none of that name.
    pub(crate) fn small(&self, name: &str, limit: u64) -> Result<Option<Vec<u8>>, ImageError> {
        let Some(mut file) = self.file(name)? else { return Ok(None) };
        if file.limit() > limit {
            let what = format!("holds `{name}` with {} bytes; at most {limit} are read", file.limit());
            return Err(broken(&self.path.display().to_string(), what));
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|e| self.reading(e))?;
        Ok(Some(bytes))
    }

    fn reading(&self, e: io::Error) -> ImageError {
        ImageError::io(format!("reading {}", self.path.display()), e)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(kind: EntryType, size: u64) -> tar::Header {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(size);
        header.set_mode(0o644);
        header
    }

    #[test]
    fn files_are_found_by_name_and_through_links_inside() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.tar");
        let mut tar = tar::Builder::new(File::create(&path).unwrap());
        let long = format!("deep/{}/file", "x".repeat(120));
        for (name, content) in [("./one/layer", "first"), (&long, "second")] {
            tar.append_data(&mut header(EntryType::Regular, content.len() as u64), name, content.as_bytes())
                .unwrap();
        }
        for (name, target) in
            [("two/layer", "../one/layer"), ("out", "../../etc/passwd"), ("a", "b"), ("b", "a")]
        {
            tar.append_link(&mut header(EntryType::Symlink, 0), name, target).unwrap();
        }
        tar.append_link(&mut header(EntryType::Link, 0), "three", "one/layer").unwrap();
        tar.into_inner().unwrap();

        let tar = TarFile::open(&path).unwrap();
        let text = |name: &str| tar.small(name, 100).unwrap().map(|bytes| String::from_utf8(bytes).unwrap());
        for name in ["one/layer", "two/layer", "three"] {
            assert_eq!(text(name).as_deref(), Some("first"), "{name}");
        }
        assert_eq!(text(&long).as_deref(), Some("second"));
        for name in ["out", "a", "absent", "../one/layer"] {
            assert_eq!(text(name), None, "{name}");
        }
        assert!(tar.small("one/layer", 4).unwrap_err().to_string().contains("at most 4"));
    }

    #[test]
    fn what_cannot_be_read_in_place_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let refused = |bytes: &[u8]| {
            let path = directory.path().join("x.tar");
            std::fs::write(&path, bytes).unwrap();
            TarFile::open(&path).unwrap_err().to_string()
        };
        assert!(refused(b"\x1f\x8b\x08aaaa").contains("decompress it first"));
        assert!(refused(&[b'x'; 700]).contains("x.tar"));
        assert!(TarFile::open(directory.path()).unwrap_err().to_string().contains("not a regular file"));
        assert!(TarFile::open(&directory.path().join("absent")).is_err());
    }
}
