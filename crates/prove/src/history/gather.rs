//! The repositories of a working directory, out of its tar stream.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};

/// Most bytes of repositories that are kept.
const MAX_KEPT: u64 = 1 << 30;
/// Most entries of a stream.
const MAX_ENTRIES: usize = 4_000_000;

/// What lies in a working directory.
#[derive(Debug, Default)]
pub struct Gathered {
    /// Git directories by the path of the directory that they belong to, empty for the working directory itself.
    pub(super) repositories: BTreeMap<Vec<u8>, GitDirectory>,
    /// Things called `.git` that are no directories, with where they lead.
    pub(super) pointers: BTreeMap<Vec<u8>, String>,
    /// Directories that look like a repository without a working directory.
    pub(super) bare: BTreeSet<Vec<u8>>,
    /// Whether not everything could be kept.
    pub(super) is_cut: bool,
}

/// One `.git`: its files and links by their path in it.
#[derive(Debug, Default)]
pub(super) struct GitDirectory {
    pub(super) files: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(super) links: BTreeSet<Vec<u8>>,
}

impl Gathered {
    /// Whether there is no trace of git at all.
    pub fn is_empty(&self) -> bool {
        self.repositories.is_empty() && self.pointers.is_empty() && self.bare.is_empty() && !self.is_cut
    }
}

/// Reads a tar stream whose names are relative to `within`, a path in the working directory or nothing. Only repositories are
/// kept, up to 1 GiB.
///
/// # Errors
/// The stream's own, and streams that are no tar.
pub fn gather(stream: impl Read, within: &str) -> io::Result<Gathered> {
    let mut gathered = Gathered::default();
    let mut kept = 0_u64;
    let mut parts: BTreeMap<Vec<u8>, u8> = BTreeMap::new();
    let mut archive = tar::Archive::new(stream);
    for (number, entry) in archive.entries()?.enumerate() {
        if number >= MAX_ENTRIES {
            gathered.is_cut = true;
            break;
        }
        let mut entry = entry?;
        let path = plain(&[within.as_bytes(), b"/", &entry.path_bytes()].concat());
        let kind = entry.header().entry_type();
        let Some((owner, inside)) = split_at_git(&path) else {
            note_bare(&mut parts, &path, kind.is_dir());
            continue;
        };
        let (owner, inside) = (owner.to_vec(), inside.to_vec());
        if inside.is_empty() && !kind.is_dir() {
            let target = match entry.link_name_bytes() {
                Some(target) => String::from_utf8_lossy(&target).into_owned(),
                None => {
                    let mut text = String::new();
                    let _ = (&mut entry).take(4096).read_to_string(&mut text);
                    text.trim().to_owned()
                }
            };
            gathered.pointers.insert(path, target);
            continue;
        }
        let repository = gathered.repositories.entry(owner).or_default();
        if kind.is_hard_link() || kind.is_symlink() {
            repository.links.insert(inside);
        } else if kind.is_file() {
            let size = entry.size();
            if size > MAX_KEPT - kept {
                gathered.is_cut = true;
                continue;
            }
            kept += size;
            let mut content = Vec::new();
            entry.read_to_end(&mut content)?;
            repository.files.insert(inside, content);
        }
    }
    gathered.bare = parts.into_iter().filter(|(_, parts)| *parts == 7).map(|(path, _)| path).collect();
    Ok(gathered)
}

/// Notes the three things by which git knows a repository: `HEAD`, `objects/` and `refs/`.
fn note_bare(parts: &mut BTreeMap<Vec<u8>, u8>, path: &[u8], is_directory: bool) {
    let cut = path.iter().rposition(|&byte| byte == b'/');
    let (owner, name) = cut.map_or((&[][..], path), |cut| (&path[..cut], &path[cut + 1..]));
    let part = match (name, is_directory) {
        (b"HEAD", false) => 1,
        (b"objects", true) => 2,
        (b"refs", true) => 4,
        _ => return,
    };
    *parts.entry(owner.to_vec()).or_default() |= part;
}

/// Takes `./` in front and slashes at the end off.
fn plain(path: &[u8]) -> Vec<u8> {
    let parts = path.split(|&byte| byte == b'/').filter(|part| !part.is_empty() && *part != b".");
    parts.collect::<Vec<_>>().join(&b'/')
}

/// Parts a path at its first `.git`: what it belongs to, and the path inside it.
fn split_at_git(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut start = 0;
    for part in path.split(|&byte| byte == b'/') {
        let end = start + part.len();
        if part == b".git" {
            return Some((&path[..start.saturating_sub(1)], path.get(end + 1..).unwrap_or_default()));
        }
        start = end + 1;
    }
    None
}
