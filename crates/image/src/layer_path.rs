//! Paths inside a root file system: relative, clean, without `..`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

const MAX_COMPONENT: usize = 255;
const MAX_DEPTH: usize = 200;
const MAX_BYTES: usize = 4000;

/// A path below the root of a layer: zero or more ordinary names. The empty path is the root itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct LayerPath(Vec<OsString>);

impl LayerPath {
    /// The root.
    pub(crate) fn root() -> Self {
        Self::default()
    }

    /// Reads the name of an archive entry. `.` components and the bare root are fine; an absolute path, `..`, an
    /// oversized path or component is an error that states the rule.
    pub(crate) fn of_entry(path: &Path) -> Result<Self, &'static str> {
        let bytes = path.as_os_str().as_bytes();
        if bytes.starts_with(b"/") && bytes.iter().any(|b| !matches!(b, b'/' | b'.')) {
            return Err("is an absolute path; entries are relative to the layer's root");
        }
        Self::collect(bytes, false)
    }

    /// Reads an absolute path inside an image, or one relative to its root. `..` goes up and stops at the root.
    pub(crate) fn of_absolute(path: &Path) -> Result<Self, &'static str> {
        Self::collect(path.as_os_str().as_bytes(), true)
    }

    fn collect(bytes: &[u8], clamp: bool) -> Result<Self, &'static str> {
        if bytes.len() > MAX_BYTES {
            return Err("is longer than 4000 bytes");
        }
        if bytes.contains(&0) {
            return Err("contains a zero byte");
        }
        let mut names = Vec::new();
        for name in bytes.split(|b| *b == b'/') {
            match name {
                b"" | b"." => {}
                b".." if clamp => {
                    names.pop();
                }
                b".." => return Err("contains `..`; entries stay below the layer's root"),
                _ if name.len() > MAX_COMPONENT => return Err("has a component longer than 255 bytes"),
                _ => names.push(OsStr::from_bytes(name).to_owned()),
            }
        }
        if names.len() > MAX_DEPTH {
            return Err("is more than 200 directories deep");
        }
        Ok(Self(names))
    }

    /// Appends one name.
    pub(crate) fn join(&self, name: &OsStr) -> Self {
        let mut names = self.0.clone();
        names.push(name.to_owned());
        Self(names)
    }

    /// Appends all names of another path.
    pub(crate) fn join_all(&self, other: &Self) -> Self {
        Self(self.0.iter().chain(&other.0).cloned().collect())
    }

    /// Splits into the parent and the last name; nothing for the root.
    pub(crate) fn split(&self) -> Option<(Self, &OsStr)> {
        let (last, names) = self.0.split_last()?;
        Some((Self(names.to_vec()), last))
    }

    /// The names from the root down.
    pub(crate) fn names(&self) -> &[OsString] {
        &self.0
    }

    /// Whether this is the root.
    pub(crate) fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `self` is `other` or lies below it.
    pub(crate) fn is_within(&self, other: &Self) -> bool {
        self.0.starts_with(&other.0)
    }

    /// The path with the first `count` names.
    pub(crate) fn prefix(&self, count: usize) -> Self {
        Self(self.0[..count.min(self.0.len())].to_vec())
    }

    /// The relative path, without a leading slash.
    pub(crate) fn relative(&self) -> PathBuf {
        self.0.iter().collect()
    }

    /// The absolute path as seen inside the image.
    pub(crate) fn absolute(&self) -> PathBuf {
        Path::new("/").join(self.relative())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_stay_below_the_root() {
        let of = |text: &str| LayerPath::of_entry(Path::new(text)).map(|p| p.relative());
        assert_eq!(of("./a//b/").unwrap(), Path::new("a/b"));
        assert_eq!(of("/").unwrap(), Path::new(""));
        assert_eq!(of("./").unwrap(), Path::new(""));
        assert!(of("/etc/passwd").unwrap_err().contains("absolute"));
        assert!(of("a/../b").unwrap_err().contains(".."));
        assert!(of(&"a/".repeat(300)).unwrap_err().contains("200"));
        assert!(of(&"a".repeat(256)).unwrap_err().contains("255"));
    }

    #[test]
    fn image_paths_are_clamped_at_the_root() {
        let of = |text: &str| LayerPath::of_absolute(Path::new(text)).unwrap().absolute();
        assert_eq!(of("/a/../../b"), Path::new("/b"));
        assert_eq!(of("../.."), Path::new("/"));
    }
}
