//! Reads a tree from a source distribution: a tar archive, compressed with gzip or not.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use flate2::read::MultiGzDecoder;

use super::model::{Entry, Tree, TreeError};
use super::path::{PathFault, check_path};
use crate::printable;

/// Bounds for what is read from an archive or a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeLimits {
    /// The most entries, directories included.
    pub entries: u64,
    /// The most bytes of content, after decompression.
    pub bytes: u64,
}

impl Default for TreeLimits {
    /// 200,000 entries and 2 GiB, above any source tree that is worth a task.
    fn default() -> Self {
        Self { entries: 200_000, bytes: 2 << 30 }
    }
}

impl Tree {
    /// Reads the source distribution at `path`: `.tar` or `.tar.gz`, told apart by their first bytes.
    ///
    /// The one top directory that all entries share is stripped. Entries that climb out, links that lead out, devices
    /// and a second top directory are errors, hard links become files of their own, and everything inside a `.git` is
    /// left out.
    pub fn from_sdist(path: &Path, limits: TreeLimits) -> Result<Self, TreeError> {
        let io = |source| TreeError::Io { path: path.to_owned(), source };
        let mut file = BufReader::new(std::fs::File::open(path).map_err(io)?);
        let gzip = io::BufRead::fill_buf(&mut file).map_err(io)?.starts_with(&[0x1f, 0x8b]);
        let reader: Box<dyn Read> = if gzip { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
        let mut tree = Self::from_tar(reader, path, limits)?;
        tree.strip_top(path)?;
        Ok(tree)
    }

    /// Reads an uncompressed tar stream without stripping anything; `name` is for messages.
    pub fn from_tar(reader: impl Read, name: &Path, limits: TreeLimits) -> Result<Self, TreeError> {
        let io = |source| TreeError::Io { path: name.to_owned(), source };
        // Headers and padding count as well: a stream of nothing but headers ends too.
        let whole = limits.bytes.saturating_add(limits.entries.saturating_mul(4096)).saturating_add(1 << 20);
        let mut archive = tar::Archive::new(reader.take(whole));
        let mut entries: BTreeMap<Vec<u8>, Entry> = BTreeMap::new();
        let (mut count, mut bytes) = (0, 0);
        for entry in archive.entries().map_err(io)? {
            let mut entry = entry.map_err(io)?;
            count += 1;
            if count > limits.entries {
                return Err(TreeError::TooLarge {
                    path: name.to_owned(),
                    limit: limits.entries,
                    what: "entries",
                });
            }
            let raw = entry.path_bytes().into_owned();
            let Some(path) = plain(&raw)? else { continue };
            let kind = entry.header().entry_type();
            let read = match kind {
                _ if kind.is_file() || kind.is_contiguous() || kind.is_gnu_sparse() => {
                    bytes = entry.size().saturating_add(bytes);
                    if bytes > limits.bytes {
                        return Err(TreeError::TooLarge {
                            path: name.to_owned(),
                            limit: limits.bytes,
                            what: "bytes",
                        });
                    }
                    let mut content = Vec::new();
                    entry.read_to_end(&mut content).map_err(io)?;
                    let executable = entry.header().mode().map_err(io)? & 0o100 != 0;
                    Entry::File { content: content.into(), executable }
                }
                _ if kind.is_symlink() => {
                    Entry::Link { target: entry.link_name_bytes().unwrap_or_default().into_owned() }
                }
                _ if kind.is_hard_link() => {
                    let target = entry.link_name_bytes().unwrap_or_default().into_owned();
                    let named = plain(&target)?.and_then(|target| entries.get(&target));
                    match named {
                        Some(Entry::File { content, executable }) => {
                            Entry::File { content: Arc::clone(content), executable: *executable }
                        }
                        _ => {
                            return Err(TreeError::HardLink {
                                link: printable(&path),
                                target: printable(&target),
                            });
                        }
                    }
                }
                _ if kind.is_dir() || kind.is_pax_global_extensions() || kind.is_pax_local_extensions() => {
                    continue;
                }
                _ => return Err(TreeError::Special { path: printable(&path) }),
            };
            // As in unpacking, a later entry of the same name replaces an earlier one.
            entries.insert(path, read);
        }
        let mut tree = Self::new();
        for (path, entry) in entries {
            match check_path(&path) {
                Err(PathFault::Git) => {}
                _ => tree.insert(path, entry)?,
            }
        }
        Ok(tree)
    }

    fn strip_top(&mut self, archive: &Path) -> Result<(), TreeError> {
        let mut stripped = Self::new();
        let mut top: Option<Vec<u8>> = None;
        for (path, entry) in self.iter() {
            let cut = path.iter().position(|&b| b == b'/');
            let (first, rest) = match cut {
                Some(cut) => (&path[..cut], &path[cut + 1..]),
                None => (&b""[..], path),
            };
            let known = top.get_or_insert_with(|| first.to_vec());
            if cut.is_none() || known != first {
                return Err(TreeError::SeveralTops {
                    path: archive.to_owned(),
                    top: printable(known),
                    entry: printable(path),
                });
            }
            stripped.insert(rest, entry.clone())?;
        }
        *self = stripped;
        Ok(())
    }
}

/// An archive's path without `./` and trailing slashes; `None` for the root itself. Paths that climb out or are
/// absolute are errors even for entries that would be left out.
fn plain(raw: &[u8]) -> Result<Option<Vec<u8>>, TreeError> {
    let refuse = |fault| TreeError::Path { path: printable(raw), fault };
    if raw.starts_with(b"/") {
        return Err(refuse(PathFault::Absolute));
    }
    let parts: Vec<&[u8]> = raw.split(|&b| b == b'/').filter(|part| !matches!(*part, b"" | b".")).collect();
    let path = parts.join(&b'/');
    match check_path(&path) {
        Ok(()) | Err(PathFault::Git) => Ok(Some(path)),
        Err(PathFault::Empty) => Ok(None),
        Err(fault) => Err(refuse(fault)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(entries: &[(&str, tar::EntryType, &str)]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (name, kind, text) in entries {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(*kind);
            header.set_mode(0o755);
            let bytes = name.as_bytes();
            header.as_old_mut().name[..bytes.len()].copy_from_slice(bytes);
            let linked = kind.is_symlink() || kind.is_hard_link();
            if linked {
                header.as_old_mut().linkname[..text.len()].copy_from_slice(text.as_bytes());
            }
            let data = if linked || kind.is_dir() { "" } else { text };
            header.set_size(data.len() as u64);
            header.set_cksum();
            builder.append(&header, data.as_bytes()).unwrap();
        }
        builder.into_inner().unwrap()
    }

    fn read(entries: &[(&str, tar::EntryType, &str)]) -> Result<Tree, TreeError> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.tar");
        std::fs::write(&path, archive(entries)).unwrap();
        Tree::from_sdist(&path, TreeLimits { entries: 8, bytes: 100 })
    }

    use tar::EntryType::{Directory, Fifo, Link, Regular, Symlink};

    #[test]
    fn one_top_directory_is_stripped_and_hard_links_are_resolved() {
        let tree = read(&[
            ("x-1/", Directory, ""),
            ("x-1/a", Regular, "one"),
            ("./x-1/b", Link, "x-1/a"),
            ("x-1/sub/c", Symlink, "../a"),
            ("x-1/.git/HEAD", Regular, "ref"),
        ])
        .unwrap();
        let paths: Vec<_> = tree.iter().map(|(path, _)| path.to_vec()).collect();
        assert_eq!(paths, [&b"a"[..], b"b", b"sub/c"]);
        assert_eq!(tree.get(b"b"), tree.get(b"a"));
    }

    #[test]
    fn hostile_archives_are_refused() {
        for (entries, word) in [
            (&[("x/../../y", Regular, "")][..], "holds `..`"),
            (&[("/etc/x", Regular, "")], "absolute"),
            (&[("x/l", Symlink, "/etc/passwd")], "leads out"),
            (&[("x/l", Symlink, "../y")], "leads out"),
            (&[("x/l", Symlink, "sub"), ("x/l/f", Regular, "")], "no directory"),
            (&[("x/p", Fifo, "")], "neither file"),
            (&[("x/h", Link, "x/none")], "hard link"),
            (&[("x/a", Regular, ""), ("y/a", Regular, "")], "beside its top"),
            (&[("a", Regular, "")], "beside its top"),
        ] {
            let error = read(entries).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
        let long = "x".repeat(101);
        assert!(matches!(read(&[("x/a", Regular, &long)]), Err(TreeError::TooLarge { what: "bytes", .. })));
        let many = [("x/a", Regular, ""); 9];
        assert!(matches!(read(&many), Err(TreeError::TooLarge { what: "entries", .. })));
    }
}
