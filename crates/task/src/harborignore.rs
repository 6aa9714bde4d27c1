//! Which files Harbor leaves out of its digests and uploads: `.harborignore` and the root's `.gitignore`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::snapshot::{Node, Snapshot};

/// The name of Harbor's ignore files.
pub(crate) const HARBORIGNORE: &[u8] = b".harborignore";

/// Harbor's patterns for a task without a `.gitignore` of its own.
const DEFAULTS: &[u8] = b"__pycache__/\n*.pyc\n.DS_Store\n*.swp\n*.swo\n*~\n";

/// An ordered list of gitignore patterns in which the last match decides.
///
/// Harbor matches whole paths against a flat list, so a later negation takes back a file below an excluded directory,
/// which git itself would not do. One matcher a line keeps that order; the glob semantics are the `ignore` crate's.
#[derive(Debug, Default)]
pub(crate) struct Patterns(Vec<Gitignore>);

impl Patterns {
    /// Reads one pattern a line; lines that are no pattern are left out, as Harbor leaves them out.
    pub(crate) fn parse(text: &[u8]) -> Self {
        let text = String::from_utf8_lossy(text);
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let lines = text.lines().filter_map(|line| {
            let mut builder = GitignoreBuilder::new("");
            builder.add_line(None, line).ok()?;
            builder.build().ok().filter(|pattern| !pattern.is_empty())
        });
        Self(lines.collect())
    }

    /// What the last matching pattern says about the entry itself.
    fn says(&self, path: &Path, is_directory: bool) -> Option<bool> {
        self.0.iter().rev().find_map(|pattern| verdict(&pattern.matched(path, is_directory)))
    }

    /// What the last pattern says that matches the file or a directory above it.
    fn says_of_path(&self, path: &Path) -> Option<bool> {
        self.0.iter().rev().find_map(|pattern| verdict(&pattern.matched_path_or_any_parents(path, false)))
    }
}

fn verdict<T>(matched: &Match<T>) -> Option<bool> {
    match matched {
        Match::None => None,
        Match::Ignore(_) => Some(true),
        Match::Whitelist(_) => Some(false),
    }
}

fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// Harbor's second filter: the root `.gitignore`, or the defaults in its absence; an empty one switches them off.
pub(crate) struct ListFilter(Patterns);

impl ListFilter {
    pub(crate) fn of(snapshot: &Snapshot) -> Self {
        let name = [b".gitignore".to_vec()];
        let node = match snapshot.get(&name) {
            Some(Node::Link { ends_at, .. }) => snapshot.end_of(ends_at),
            other => other,
        };
        match node {
            Some(Node::File { rules: Some(text), .. }) => Self(Patterns::parse(text)),
            _ => Self(Patterns::parse(DEFAULTS)),
        }
    }

    /// Whether the file at `path` is left out.
    pub(crate) fn excludes(&self, path: &[u8]) -> bool {
        self.0.says_of_path(as_path(path)).unwrap_or(false)
    }
}

/// Harbor's first filter: `.harborignore` files in the folders that are uploaded.
pub(crate) struct WalkFilter<'a> {
    snapshot: &'a Snapshot,
}

impl<'a> WalkFilter<'a> {
    pub(crate) fn of(snapshot: &'a Snapshot) -> Self {
        Self { snapshot }
    }

    /// Whether the entry at `path` is left out; excluded directories are not entered by the caller, so directories
    /// above it need no second look. A link is also judged by what it ends at.
    pub(crate) fn excludes(&self, path: &[Vec<u8>], node: &Node) -> bool {
        if path.last().is_some_and(|name| name == HARBORIGNORE) {
            return true;
        }
        match node {
            Node::File { .. } => self.rules_exclude(path, false),
            Node::Directory(_) => self.rules_exclude(path, true),
            Node::Link { ends_at, .. } => {
                let is_directory = !matches!(self.snapshot.end_of(ends_at), Some(Node::File { .. }));
                self.rules_exclude(path, is_directory)
                    || (1..=ends_at.len()).any(|depth| {
                        let whole = depth == ends_at.len();
                        ends_at[depth - 1] == HARBORIGNORE
                            || self.rules_exclude(&ends_at[..depth], !whole || is_directory)
                    })
            }
        }
    }

    fn rules_exclude(&self, path: &[Vec<u8>], is_directory: bool) -> bool {
        let Some(first) = rules_begin(path) else { return false };
        // The innermost file that has anything to say decides.
        for depth in (first..path.len()).rev() {
            let mut file = path[..depth].to_vec();
            file.push(HARBORIGNORE.to_vec());
            if let Some(Node::File { rules: Some(text), .. }) = self.snapshot.get(&file) {
                let inside = path[depth..].join(&b'/');
                if let Some(excluded) = Patterns::parse(text).says(as_path(&inside), is_directory) {
                    return excluded;
                }
            }
        }
        false
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

    fn excludes(patterns: &str, path: &str) -> bool {
        Patterns::parse(patterns.as_bytes()).says_of_path(Path::new(path)).unwrap_or(false)
    }

    #[test]
    fn the_last_match_on_the_whole_path_decides() {
        assert!(excludes("build/\n", "tests/build/x"));
        assert!(!excludes("build/\n!keep.txt\n", "tests/build/keep.txt"));
        assert!(excludes("!keep.txt\nbuild/\n", "tests/build/keep.txt"));
        assert!(!excludes("__pycache__/\n", "environment/__pycache__"));
        assert!(excludes("\\#literal\n", "environment/#literal"));
        assert!(excludes("space\\ \n", "environment/space "));
    }

    #[test]
    fn broken_patterns_and_comments_match_nothing() {
        assert!(!excludes("# x\n\n[\n", "x"));
    }
}
