//! `SHA256SUMS`: the digest of every file below a directory, in the form that `sha256sum -c` reads.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ident::Digest;
use rayon::prelude::*;
use task::{FileDigests, printable};
use walkdir::WalkDir;

use crate::DatasetError;

/// Name of the file with the sums.
pub(crate) const SUMS: &str = "SHA256SUMS";

/// More files than any set holds.
const MAX_FILES: usize = 10_000_000;

/// Digests by the bytes of the path below the directory.
pub(crate) type Sums = BTreeMap<Vec<u8>, Digest>;

/// Everything that is not a directory below some directory.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// Regular files.
    pub(crate) files: Vec<PathBuf>,
    /// Links and special files.
    pub(crate) others: Vec<PathBuf>,
}

/// Lists what lies below `root`, relative to it and sorted; links are not followed.
pub(crate) fn list(root: &Path) -> Result<Listing, DatasetError> {
    let mut listing = Listing::default();
    for entry in WalkDir::new(root).min_depth(1).follow_links(false).sort_by_file_name() {
        let entry = entry.map_err(|error| DatasetError::Io {
            path: error.path().unwrap_or(root).to_owned(),
            source: error.into(),
        })?;
        let kind = entry.file_type();
        if kind.is_dir() {
            continue;
        }
        // The walk stays below its root.
        let Ok(relative) = entry.path().strip_prefix(root) else { continue };
        let list = if kind.is_file() { &mut listing.files } else { &mut listing.others };
        list.push(relative.to_owned());
        if listing.files.len() + listing.others.len() > MAX_FILES {
            return Err(DatasetError::TooManyFiles { path: root.to_owned(), limit: MAX_FILES });
        }
    }
    Ok(listing)
}

/// Hashes `files` below `root`, several at a time and each in pieces; the sums themselves are left out.
pub(crate) fn hash(root: &Path, files: &[PathBuf]) -> Result<Sums, DatasetError> {
    let hashed = files.par_iter().filter(|file| file.as_os_str() != SUMS).map(|file| {
        let path = root.join(file);
        let digest =
            std::fs::File::open(&path).and_then(Digest::of_reader).map_err(DatasetError::io(&path))?;
        Ok((file.as_os_str().as_bytes().to_vec(), digest))
    });
    hashed.collect()
}

/// As [`hash`], where the digests of some files are known: only the others are read.
pub(crate) fn complete(root: &Path, files: &[PathBuf], mut known: Sums) -> Result<Sums, DatasetError> {
    let is_known = |file: &&PathBuf| known.contains_key(file.as_os_str().as_bytes());
    let left: Vec<PathBuf> = files.iter().filter(|file| !is_known(file)).cloned().collect();
    known.extend(hash(root, &left)?);
    Ok(known)
}

/// Puts digests of files below a directory under their paths from further up.
pub(crate) fn below(above: &str, files: FileDigests) -> impl Iterator<Item = (Vec<u8>, Digest)> {
    files.into_iter().map(move |(path, digest)| ([above.as_bytes(), b"/", &path].concat(), digest))
}

/// Writes the sums, one file a line in ascending order of path bytes, names escaped as coreutils does.
pub(crate) fn write(sums: &Sums) -> Vec<u8> {
    let mut text = Vec::new();
    for (path, digest) in sums {
        let odd = path.iter().any(|byte| matches!(byte, b'\\' | b'\n' | b'\r'));
        if odd {
            text.push(b'\\');
        }
        text.extend_from_slice(digest.hex().as_bytes());
        text.extend_from_slice(b"  ");
        for byte in path {
            match byte {
                b'\\' => text.extend_from_slice(b"\\\\"),
                b'\n' => text.extend_from_slice(b"\\n"),
                b'\r' => text.extend_from_slice(b"\\r"),
                other => text.push(*other),
            }
        }
        text.push(b'\n');
    }
    text
}

/// Reads sums. Lines that are none, that name a path twice, or whose path is not plainly below the directory come
/// back as messages; nothing is opened.
pub(crate) fn parse(text: &[u8]) -> (Sums, Vec<String>) {
    let mut sums = Sums::new();
    let mut faults = Vec::new();
    let body = text.strip_suffix(b"\n").unwrap_or(text);
    let lines = body.split(|byte| *byte == b'\n').filter(|_| !body.is_empty());
    for (n, line) in lines.enumerate() {
        match parse_line(line) {
            Ok((path, digest)) => {
                if let Some(problem) = path_fault(&path) {
                    faults.push(format!("line {}: the path `{}` {problem}", n + 1, printable(&path)));
                } else if sums.insert(path.clone(), digest).is_some() {
                    faults.push(format!("line {}: `{}` is listed twice", n + 1, printable(&path)));
                }
            }
            Err(problem) => faults.push(format!("line {}: {problem}", n + 1)),
        }
    }
    (sums, faults)
}

fn parse_line(line: &[u8]) -> Result<(Vec<u8>, Digest), String> {
    let (escaped, line) = match line.strip_prefix(b"\\") {
        Some(rest) => (true, rest),
        None => (false, line),
    };
    let (hex, rest) = line.split_at_checked(64).ok_or("it is too short for a digest and a path")?;
    let digest = std::str::from_utf8(hex).map_err(|_| "it begins with no digest".to_owned())?;
    let digest = Digest::parse(digest).map_err(|error| error.to_string())?;
    let written = rest
        .strip_prefix(b"  ")
        .or_else(|| rest.strip_prefix(b" *"))
        .ok_or("two spaces are missing between digest and path")?;
    if !escaped {
        return Ok((written.to_vec(), digest));
    }
    let mut path = Vec::with_capacity(written.len());
    let mut bytes = written.iter();
    while let Some(byte) = bytes.next() {
        path.push(match byte {
            b'\\' => match bytes.next() {
                Some(b'\\') => b'\\',
                Some(b'n') => b'\n',
                Some(b'r') => b'\r',
                _ => return Err("its path ends or goes on with an unknown escape".into()),
            },
            other => *other,
        });
    }
    Ok((path, digest))
}

/// Why a path is not plainly one below its directory, if it is not.
pub(crate) fn path_fault(path: &[u8]) -> Option<&'static str> {
    if path.is_empty() {
        return Some("is empty");
    }
    if path.starts_with(b"/") {
        return Some("is absolute");
    }
    if path.contains(&b'\\') {
        return Some("holds a backslash, which other systems read as a separator");
    }
    if path.contains(&0) {
        return Some("holds a NUL character");
    }
    path.split(|byte| *byte == b'/').find_map(|component| match component {
        b"" => Some("has an empty component"),
        b"." | b".." => Some("has a component that is a direction"),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn paths_that_leave_or_disguise_are_refused() {
        let digest = Digest::of("");
        for path in ["../x", "/abs", "a//b", "./a", "a/..", "a\\b", ""] {
            let (sums, faults) = parse(format!("{digest}  {path}\n").as_bytes());
            assert_eq!((sums.len(), faults.len()), (0, 1), "{path}");
        }
        let (sums, faults) = parse(format!("{digest}  a\n\n{digest} a\n{digest}  a\nx\n").as_bytes());
        assert_eq!((sums.len(), faults.len()), (1, 4), "{faults:?}");
        assert_eq!(parse(b""), (Sums::new(), vec![]));
    }

    #[test]
    fn coreutils_reads_what_is_written() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["plain", "with space", "new\nline", "-dash", "*star", "caf\u{e9}"] {
            std::fs::write(directory.path().join(name), name).unwrap();
        }
        let listing = list(directory.path()).unwrap();
        let sums = hash(directory.path(), &listing.files).unwrap();
        assert_eq!(sums.len(), 6);
        std::fs::write(directory.path().join(SUMS), write(&sums)).unwrap();
        let check = std::process::Command::new("sha256sum")
            .args(["--check", "--strict", "--quiet", SUMS])
            .current_dir(directory.path())
            .output();
        match check {
            Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
            Err(error) => eprintln!("skipped: sha256sum cannot be run: {error}"),
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(paths in prop::collection::btree_set("[a-z\n\r é/.]{1,12}", 0..6)) {
            let fine = paths.iter().filter(|path| path_fault(path.as_bytes()).is_none());
            let sums: Sums = fine.map(|path| (path.clone().into_bytes(), Digest::of(path))).collect();
            prop_assert_eq!(parse(&write(&sums)), (sums, vec![]));
        }

        #[test]
        fn reading_never_panics(text in prop::collection::vec(any::<u8>(), 0..200)) {
            parse(&text);
        }
    }
}
