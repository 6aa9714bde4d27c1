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

/// Finds the files to take out of the workspace: those that a FAIL_TO_PASS id names in front of its first `::`, that
/// exist, and that belong to the tests.
///
/// Product code that carries doctests stays: it is where the fix is made. Ids without a path, as unittest writes them,
/// hide nothing. An absolute path below the workspace is taken as relative to it.
pub(super) fn hidden_tests(
    instance: &Instance,
    clean: &Tree,
    verifier: &dyn Verifier,
    workdir: &str,
) -> HiddenTests {
    let mut found = HiddenTests::default();
    for id in &instance.fail_to_pass {
        let Some((file, _)) = id.split_once("::") else { continue };
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
    found
}
