//! Where tests find what is real and not part of the project: data, and a registry.
//!
//! The corpus lies in the directory that `SEATRIAL_CORPUS` names, or beside the checkout in `shared`. A test that needs a part
//! of it asks here, and returns when the answer is `None`; the reason has then been printed, and the test script gathers such lines.
//! Nothing but tests depends on this crate.

mod registry;

use std::path::{Path, PathBuf};

pub use registry::{RegistryServer, Settings};

/// The file or directory `part` of the corpus; says on standard error what is skipped when it is not there.
pub fn find(part: &str) -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let root = std::env::var_os("SEATRIAL_CORPUS").map_or_else(beside, PathBuf::from);
    // Absolute, since programs that are handed the path run in other directories.
    if let Ok(path) = root.join(part).canonicalize() {
        return Some(path);
    }
    skipped(&format!("the corpus has no {part}; SEATRIAL_CORPUS names another place"));
    None
}

/// The directory of the case called `name`, whatever number stands in front of it.
pub fn case(name: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(find("cases")?).ok()?;
    let found = entries.filter_map(Result::ok).map(|entry| entry.path()).find(|path| {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        file.split_once('-').is_some_and(|(_, rest)| rest == name)
    });
    if found.is_none() {
        skipped(&format!("the corpus has no case called {name}"));
    }
    found
}

/// Prints the line by which the test script finds what was skipped and why.
#[expect(clippy::print_stderr, reason = "the one thing that this crate says")]
pub fn skipped(why: &str) {
    eprintln!("skipped: {why}");
}
