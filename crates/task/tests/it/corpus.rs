//! Where the shared corpus lies, for the tests that read it.

use std::path::PathBuf;

/// The corpus directory, or `None` with a line that says so.
pub fn corpus(what: &str) -> Option<PathBuf> {
    let root = std::env::var_os("SEATRIAL_CORPUS")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    let path = root.join(what);
    if path.exists() {
        return Some(path);
    }
    eprintln!("skipped: {} is not there", path.display());
    None
}
