//! The indented trees that JavaScript runners print: suites, and tests two blanks deeper.

use std::rc::Rc;

use super::{names::group, pattern::before};

/// Longest title of a suite, in bytes; longer lines are printed text.
const MAX_TITLE_BYTES: usize = 400;

/// Deepest nesting of suites that is followed.
const MAX_DEPTH: usize = 24;

pattern!(
    /// Matches run times and counts of retries at the end of a title: `(12 ms)`, `(1.5s)`, ` 12ms`, ` (retry x1)`.
    TIMINGS,
    r"(?: \([0-9]+(?:\.[0-9]+)? ?(?:ms|s|m|h)\))+$"
);

/// Cuts run times off: they vary between runs. Several are cut, so that a title that ends like one is the same
/// whether or not the runner adds its own.
pub(super) fn without_timing(title: &str) -> &str {
    before(&TIMINGS, title)
}

/// Counts the blanks at the beginning of a line and gives the rest.
pub(super) fn indentation(line: &str) -> (usize, &str) {
    let rest = line.trim_start_matches(' ');
    (line.len() - rest.len(), rest)
}

/// The suites above the line at hand.
///
/// What tests print may look like the title of a suite. So a line becomes a suite only when a result stands right
/// below it, one level deeper; until then it waits.
#[derive(Default)]
pub(super) struct Tree<'t> {
    suites: Vec<&'t str>,
    waiting: Vec<(usize, &'t str)>,
    joined: Option<Rc<str>>,
}

impl<'t> Tree<'t> {
    /// Forgets all suites.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Takes a line that may be the title of a suite. Suites stand two, four, six blanks deep; whatever is indented
    /// otherwise is printed text.
    pub(super) fn suite(&mut self, indent: usize, title: &'t str) {
        let depth = indent / 2;
        let fits = (1..=MAX_DEPTH).contains(&depth) && (1..=MAX_TITLE_BYTES).contains(&title.len());
        if fits && indent.is_multiple_of(2) {
            self.waiting.push((depth, title));
        }
    }

    /// Gives the path of the suites above a result that stands `indent` blanks deep, behind `file`.
    pub(super) fn group(&mut self, file: &str, indent: usize) -> Rc<str> {
        let depth = (indent / 2).saturating_sub(1).min(MAX_DEPTH);
        let mut new = Vec::new();
        for (at, title) in self.waiting.drain(..).rev() {
            if at + new.len() == depth {
                new.push(title);
            }
        }
        let kept = depth - new.len();
        if kept < self.suites.len() || !new.is_empty() {
            self.suites.truncate(kept);
            self.suites.extend(new.into_iter().rev());
            self.joined = None;
        }
        let join = || group(std::iter::once(file).chain(self.suites.iter().copied()));
        Rc::clone(self.joined.get_or_insert_with(join))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_are_those_above_and_less_indented() {
        let mut tree = Tree::default();
        tree.suite(2, "a");
        tree.suite(4, "b");
        assert_eq!(&*tree.group("", 6), "a > b");
        assert_eq!(&*tree.group("f", 4), "f > a");
        tree.clear();
        assert_eq!(&*tree.group("", 4), "");
    }

    #[test]
    fn printed_lines_are_no_suites() {
        let mut tree = Tree::default();
        tree.suite(2, "a");
        tree.suite(4, "b");
        assert_eq!(&*tree.group("", 6), "a > b");
        tree.suite(2, "printed");
        tree.suite(0, "printed");
        tree.suite(3, "printed");
        assert_eq!(&*tree.group("", 6), "a > b");
        tree.suite(2, "empty suite");
        tree.suite(2, "c");
        tree.suite(4, "empty suite");
        tree.suite(4, "d");
        assert_eq!(&*tree.group("", 6), "c > d");
        assert_eq!(&*tree.group("", 4), "c");
    }

    #[test]
    fn run_times_are_cut_however_many() {
        for (title, bare) in [
            ("adds (12 ms)", "adds"),
            ("adds (1.5s)", "adds"),
            ("waits (5ms) (7ms)", "waits"),
            ("adds (twice)", "adds (twice)"),
            ("adds(5ms)", "adds(5ms)"),
            ("adds ", "adds "),
        ] {
            assert_eq!(without_timing(title), bare);
        }
    }
}
