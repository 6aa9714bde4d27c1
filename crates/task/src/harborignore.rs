//! Which files Harbor leaves out of its digests and uploads: `.harborignore` and the root's `.gitignore`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::glob::{Dialect, Patterns};
use crate::snapshot::{Node, Snapshot};

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

/// The rules of the directories that were asked for; `None` for one without an ignore file.
type RulesByDirectory = BTreeMap<Vec<Vec<u8>>, Option<Rc<Patterns>>>;

/// Harbor's first filter: `.harborignore` files in the folders that are uploaded.
pub(crate) struct WalkFilter<'a> {
    snapshot: &'a Snapshot,
    read: RefCell<RulesByDirectory>,
}

impl<'a> WalkFilter<'a> {
    pub(crate) fn of(snapshot: &'a Snapshot) -> Self {
        Self { snapshot, read: RefCell::default() }
    }

    /// Whether the entry at `path` is left out. The caller does not enter excluded directories, so those above need no
    /// second look; what is reached through a link is also judged by where it really stands.
    pub(crate) fn excludes(&self, path: &[Vec<u8>]) -> bool {
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
