//! Which tests an agent does not get to see.

use std::collections::BTreeSet;

use record::Instance;

use super::settings::Verifier;
use crate::tree::Tree;

/// The test files named by tests that the fix must turn, and the named files that the clean tree lacks.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct HiddenTests {
    pub(super) hidden: BTreeSet<String>,
    pub(super) missing: BTreeSet<String>,
}

/// Finds the files to take out of the workspace: those that belong to the tests, exist, and are named by a FAIL_TO_PASS id
/// or, where ids name no file, define its test.
///
/// Product code that carries doctests stays: it is where the fix is made. An absolute path below the workspace is taken as
/// relative to it.
pub(super) fn hidden_tests(
    instance: &Instance,
    clean: &Tree,
    verifier: &dyn Verifier,
    workdir: &str,
) -> HiddenTests {
    let mut found = HiddenTests::default();
    let mut unplaced: Vec<&str> = Vec::new();
    for id in &instance.fail_to_pass {
        let Some(file) = verifier.file_of(id) else {
            unplaced.push(id);
            continue;
        };
        let inside = file.strip_prefix(workdir).map_or(file, |rest| rest.trim_start_matches('/'));
        match clean.get(inside.as_bytes()) {
            None => {
                found.missing.insert(file.to_owned());
            }
            Some(_) if verifier.owns(inside) => {
                found.hidden.insert(inside.to_owned());
            }
            Some(_) => {}
        }
    }
    if unplaced.is_empty() {
        return found;
    }
    for (path, entry) in clean.iter() {
        let Some(path) = std::str::from_utf8(path).ok().filter(|path| verifier.owns(path)) else { continue };
        let text = String::from_utf8_lossy(entry.bytes());
        if unplaced.iter().any(|id| verifier.defines(id, path, &text)) {
            found.hidden.insert(path.to_owned());
        }
    }
    found
}
