//! Finds the corpus of real and made-up inputs, which is not part of this project.

use std::path::{Path, PathBuf};

/// The directory `part` of the corpus; says so on stderr when there is none.
pub fn corpus(part: &str) -> Option<PathBuf> {
    let root = std::env::var_os("SEATRIAL_CORPUS")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    let path = root.join(part);
    if path.exists() {
        return Some(path);
    }
    eprintln!("skipped: the corpus has no {part} at {}; set SEATRIAL_CORPUS", root.display());
    None
}

/// The case called `name`, whatever number stands in front.
pub fn case(name: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(corpus("cases")?).unwrap();
    let found = entries.map(|entry| entry.unwrap().path()).find(|path| {
        let file = path.file_name().unwrap().to_string_lossy();
        file.split_once('-').is_some_and(|(_, rest)| rest == name)
    });
    if found.is_none() {
        eprintln!("skipped: the corpus has no case called {name}");
    }
    found
}

/// Copies a directory with its links as links; everything in the copy may be changed.
pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            copy(&entry.path(), &target);
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(std::fs::read_link(entry.path()).unwrap(), target).unwrap();
        } else {
            std::fs::write(target, std::fs::read(entry.path()).unwrap()).unwrap();
        }
    }
}
