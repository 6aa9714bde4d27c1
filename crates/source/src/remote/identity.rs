//! What a repository says its files are.

use std::io::{self, Read};
use std::path::Path;

use ident::Digest;
use sha1::Digest as _;

use super::RemoteError;

/// The name of a file's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ContentId {
    /// SHA-256 of the content, as Git LFS and the lock have it.
    Sha256(Digest),
    /// Git's id of the blob: 40 lower-case hexadecimal digits.
    Git(String),
}

/// One file of a repository at a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RepoFile {
    /// Its path, checked to lead nowhere else.
    pub path: String,
    /// Its size in bytes.
    pub size: u64,
    /// Its content.
    pub id: ContentId,
}

impl ContentId {
    /// The id as text.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Sha256(digest) => digest.hex(),
            Self::Git(id) => id.clone(),
        }
    }

    /// What kind of id it is, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Sha256(_) => "sha256",
            Self::Git(_) => "git blob id",
        }
    }

    /// An id of 64 or 40 hexadecimal digits.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text.len() {
            64 => Digest::parse(text).ok().map(Self::Sha256),
            40 if is_commit(text) => Some(Self::Git(text.to_owned())),
            _ => None,
        }
    }
}

/// Whether a revision is a commit and so can never mean anything else.
pub(crate) fn is_commit(revision: &str) -> bool {
    revision.len() == 40 && revision.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'))
}

/// Size, SHA-256 and Git's blob id of a file, in one pass.
#[derive(Debug, Clone)]
pub(super) struct Measured {
    pub size: u64,
    pub sha256: Digest,
    pub git: String,
}

/// Measures a file.
pub(super) fn measure(path: &Path) -> io::Result<Measured> {
    use std::io::Write as _;
    let mut file = fs_err::File::open(path)?;
    let size = file.metadata()?.len();
    let mut git = sha1::Sha1::new();
    git.update(format!("blob {size}\0"));
    let mut sha256 = ident::Sha256Writer::new(io::sink());
    let mut buffer = vec![0; 1 << 18];
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        git.update(&buffer[..read]);
        sha256.write_all(&buffer[..read])?;
    }
    let mut hex = String::with_capacity(40);
    for byte in git.finalize() {
        hex.extend([byte >> 4, byte & 15].map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)])));
    }
    Ok(Measured { size, sha256: sha256.finish().0, git: hex })
}

/// Holds a path of a listing against what a path below a directory may be.
pub(super) fn checked_path(what: &str, path: &str) -> Result<(), RemoteError> {
    let plain = !path.is_empty()
        && path.len() <= 4096
        && !path.contains(['\\', '\0'])
        && path.split('/').all(|part| !matches!(part, "" | "." | ".."));
    if plain { Ok(()) } else { Err(RemoteError::Path { what: what.to_owned(), path: path.to_owned() }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_measured_in_both_ways() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x");
        std::fs::write(&path, "hello\n").unwrap();
        let measured = measure(&path).unwrap();
        assert_eq!(measured.git, "ce013625030ba8dba906f756967f9e9ca394464a");
        assert_eq!((measured.size, measured.sha256), (6, Digest::of("hello\n")));
        assert_eq!(ContentId::parse(&measured.git), Some(ContentId::Git(measured.git.clone())));
        assert_eq!(ContentId::parse(&measured.sha256.hex()), Some(ContentId::Sha256(measured.sha256)));
        assert_eq!(ContentId::parse("main"), None);
        assert_eq!(ContentId::parse(&"é".repeat(20)), None);
    }

    #[test]
    fn paths_lead_nowhere_else() {
        for path in ["", "/a", "a/", "a//b", "a/../b", "..", "./a", "a\\b", "a\0"] {
            assert!(checked_path("r", path).is_err(), "{path:?}");
        }
        assert!(checked_path("r", "a/b..c/.d").is_ok());
    }
}
