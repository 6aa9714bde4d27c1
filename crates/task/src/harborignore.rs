//! Which files Harbor leaves out of its digests and uploads: `.harborignore` and the root's `.gitignore`.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::TaskError;

use crate::glob::{Dialect, Patterns};
use crate::snapshot::{Entries, Node, Snapshot};

/// The name of Harbor's ignore files.
const HARBORIGNORE: &[u8] = b".harborignore";

/// Harbor's patterns for a task without a `.gitignore` of its own.
const DEFAULTS: &[u8] = b"__pycache__/\n*.pyc\n.DS_Store\n*.swp\n*.swo\n*~\n";

/// Harbor's second filter: the root `.gitignore`, or the defaults in its absence; an empty one switches them off.
pub(crate) struct ListFilter(Patterns);

impl ListFilter {
    pub(crate) fn of(snapshot: &Snapshot) -> Self {
        let text = match snapshot.follow(&[b".gitignore".to_vec()]) {
            Some((Node::File { rules: Some(text), .. }, _)) => text,
            _ => DEFAULTS,
        };
        Self(Patterns::parse(text, Dialect::List))
    }

    /// Whether the file at `path` is left out.
    pub(crate) fn excludes(&self, path: &[u8]) -> bool {
        self.0.says(path).unwrap_or(false)
    }
}

/// Lists what Harbor leaves out when it brings `tests/` and `solution/` of the task at `path`, or of its steps, into a sandbox:
/// the files and topmost directories that `.harborignore` files name, and these files themselves. Paths are relative to the task.
pub fn not_uploaded(path: &Path) -> Result<BTreeSet<PathBuf>, TaskError> {
    let snapshot = Snapshot::outline(path)?;
    let filter = WalkFilter::of(&snapshot);
    let mut left_out = BTreeSet::new();
    for folder in [&b"tests"[..], b"solution", b"steps"] {
        let at = vec![folder.to_vec()];
        if let Some(Node::Directory(entries)) = snapshot.get(&at) {
            collect_excluded(&filter, entries, &at, &mut left_out);
        }
    }
    Ok(left_out)
}

fn collect_excluded(
    filter: &WalkFilter<'_>,
    entries: &Entries,
    at: &[Vec<u8>],
    into: &mut BTreeSet<PathBuf>,
) {
    for (name, node) in entries {
        let path = [at, std::slice::from_ref(name)].concat();
        if filter.excludes(&path) {
            into.insert(path.into_iter().map(OsString::from_vec).collect());
        } else if let Node::Directory(children) = node {
            collect_excluded(filter, children, &path, into);
        }
    }
}

/// The rules of the directories that were asked for; `None` for one without an ignore file.
type RulesByDirectory = BTreeMap<Vec<Vec<u8>>, Option<Rc<Patterns>>>;

/// Harbor's first filter: `.harborignore` files in the folders that are uploaded.
pub(crate) struct WalkFilter<'a> {
    snapshot: &'a Snapshot,
    /// Whether there is an ignore file at all.
    ignoring: bool,
    read: RefCell<RulesByDirectory>,
}

impl<'a> WalkFilter<'a> {
    pub(crate) fn of(snapshot: &'a Snapshot) -> Self {
        Self { snapshot, ignoring: snapshot.holds(HARBORIGNORE), read: RefCell::default() }
    }

    /// Whether the entry at `path` is left out. The caller does not enter excluded directories, so those above need no
    /// second look; what is reached through a link is also judged by where it really stands.
    pub(crate) fn excludes(&self, path: &[Vec<u8>]) -> bool {
        if !self.ignoring {
            return false;
        }
        let ignore_file = |path: &[Vec<u8>]| path.last().is_some_and(|name| name == HARBORIGNORE);
        let Some((node, stands_at)) = self.snapshot.follow(path) else { return ignore_file(path) };
        let is_directory = matches!(node, Node::Directory(_));
        if ignore_file(path) || self.rules_exclude(path, is_directory) {
            return true;
        }
        stands_at != path
            && (ignore_file(&stands_at)
                || (1..=stands_at.len()).any(|depth| {
                    self.rules_exclude(&stands_at[..depth], depth < stands_at.len() || is_directory)
                }))
    }

    fn rules_exclude(&self, path: &[Vec<u8>], is_directory: bool) -> bool {
        let Some(first) = rules_begin(path) else { return false };
        // The innermost file that has anything to say decides.
        (first..path.len())
            .rev()
            .find_map(|depth| {
                let patterns = self.patterns_of(&path[..depth])?;
                let mut inside = path[depth..].join(&b'/');
                if is_directory {
                    inside.push(b'/');
                }
                patterns.says(&inside)
            })
            .unwrap_or(false)
    }

    fn patterns_of(&self, directory: &[Vec<u8>]) -> Option<Rc<Patterns>> {
        if let Some(known) = self.read.borrow().get(directory) {
            return known.clone();
        }
        let mut file = directory.to_vec();
        file.push(HARBORIGNORE.to_vec());
        let patterns = match self.snapshot.follow(&file) {
            Some((Node::File { rules: Some(text), .. }, _)) => {
                Some(Rc::new(Patterns::parse(text, Dialect::Walk)))
            }
            _ => None,
        };
        self.read.borrow_mut().insert(directory.to_vec(), patterns.clone());
        patterns
    }
}

/// The depth of the folder whose rules are honoured: `tests`, `solution`, or the same inside a step.
fn rules_begin(path: &[Vec<u8>]) -> Option<usize> {
    let uploaded = |name: &Vec<u8>| matches!(name.as_slice(), b"tests" | b"solution");
    match path {
        [first, _, ..] if uploaded(first) => Some(1),
        [steps, _, third, _, ..] if steps == b"steps" && uploaded(third) => Some(3),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_uploaded_is_listed_with_its_topmost_directory() {
        let directory = tempfile::tempdir().unwrap();
        let file = |path: &str, text: &str| {
            let path = directory.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        file("tests/.harborignore", "cache/\n*.log\n!keep.log\n");
        for path in ["tests/cache/a", "tests/cache/b", "tests/x.log", "tests/keep.log", "tests/test.sh"] {
            file(path, "");
        }
        file("steps/one/tests/.harborignore", "secret\n");
        file("steps/one/tests/secret", "");
        file("environment/x.log", "");
        let left_out: Vec<_> = not_uploaded(directory.path()).unwrap().into_iter().collect();
        let expected = [
            "steps/one/tests/.harborignore",
            "steps/one/tests/secret",
            "tests/.harborignore",
            "tests/cache",
            "tests/x.log",
        ];
        assert_eq!(left_out, expected.map(PathBuf::from));
    }
}
