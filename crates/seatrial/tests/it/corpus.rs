//! Where real data lies, for the tests that read it.

use std::path::{Path, PathBuf};

/// A path below the corpus; says what is skipped when it is not there.
pub fn corpus(name: &str) -> Option<PathBuf> {
    let root = match std::env::var_os("SEATRIAL_CORPUS") {
        Some(root) => PathBuf::from(root),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
    };
    let path = root.join(name);
    if path.exists() {
        return Some(path.canonicalize().expect("a path that exists"));
    }
    eprintln!("skipped: no {name} in the corpus at {}", root.display());
    None
}
