//! Reads the `spec` reporters of Mocha and of `node --test`.
//!
//! | line | Mocha | node |
//! |---|---|---|
//! | `✔ title (5ms)`, `✓ title` | passed | passed, a suite as well |
//! | `✖ title (5ms)` | failed | failed, a suite as well |
//! | `2) title` | failed, when 2 is the next number | |
//! | `- title`, `﹣ title (1ms) # SKIP` | pending | skipped |
//! | `title`, `▶ title` | a suite | a suite |
//! | `12 passing (3s)`, `✖ failing tests:` | the tree is over | the tree is over |
//!
//! Below the tree the failures are told again, with differences whose lines begin with `-`: nothing is read there. A
//! passing test begins the tree of a further run.

use super::{
    names::Results,
    tree::{Tree, indentation, without_timing},
};
use crate::TestStatus;

/// Reads the lines of Mocha runs.
pub(super) fn parse_mocha(lines: &[&str]) -> Results {
    let mut results = Results::default();
    let mut tree = Tree::default();
    let mut failures = 0_u64;
    let mut is_over = false;
    for &line in lines {
        let (indent, text) = indentation(line);
        if let Some(title) = after_mark(text, &["✔ ", "✓ ", "√ "]) {
            is_over = false;
            results.record(&tree.group("", indent), without_timing(title), TestStatus::Passed);
        } else if is_summary(text) {
            (is_over, failures) = (true, 0);
            tree.clear();
        } else if is_over || indent < 2 {
            // Differences below the tree, and what tests print.
        } else if let Some(title) = after_mark(text, &["✖ ", "× "]) {
            results.record(&tree.group("", indent), without_timing(title), TestStatus::Failed);
        } else if let Some(title) = numbered(text, failures + 1) {
            failures += 1;
            let title = without_timing(title);
            let is_hook = title.starts_with("\"before ") || title.starts_with("\"after ");
            let status = if is_hook { TestStatus::Error } else { TestStatus::Failed };
            results.record(&tree.group("", indent), title, status);
        } else if let Some(title) = after_mark(text, &["- "]) {
            results.record(&tree.group("", indent), title, TestStatus::Skipped);
        } else {
            tree.suite(indent, text);
        }
    }
    results
}

/// Reads the lines of a `node --test` run.
pub(super) fn parse_node(lines: &[&str]) -> Results {
    let mut results = Results::default();
    let mut tree = Tree::default();
    let mut is_over = false;
    for &line in lines {
        let (indent, text) = indentation(line);
        // Tests of the top stand at the margin here.
        let depth = indent + 2;
        if text == "✖ failing tests:" {
            is_over = true;
        } else if let Some(suite) = text.strip_prefix("▶ ") {
            is_over = false;
            tree.suite(depth, node_title(suite).unwrap_or(suite));
        } else if is_over {
            // Failures are told again, without what they belong to.
        } else if let Some((title, status)) =
            [("✔ ", TestStatus::Passed), ("✖ ", TestStatus::Failed), ("﹣ ", TestStatus::Skipped)]
                .into_iter()
                .find_map(|(mark, status)| Some((node_title(text.strip_prefix(mark)?)?, status)))
        {
            let status = match status {
                TestStatus::Passed if text.ends_with(" # SKIP") || text.contains(") # SKIP ") => {
                    TestStatus::Skipped
                }
                other => other,
            };
            results.record(&tree.group("", depth), title, status);
        }
    }
    results
}

/// Gives the title of `title (1.5ms)`, `title (1.5ms) # SKIP`; a result always has a run time.
fn node_title(text: &str) -> Option<&str> {
    let text = ["SKIP", "TODO"]
        .iter()
        .find_map(|word| {
            let at = text.rfind(&[") # ", word].concat())?;
            Some(&text[..=at])
        })
        .unwrap_or(text);
    let title = without_timing(text);
    (title.len() < text.len()).then_some(title)
}

fn after_mark<'t>(text: &'t str, marks: &[&str]) -> Option<&'t str> {
    marks.iter().find_map(|mark| text.strip_prefix(mark)).filter(|title| !title.trim().is_empty())
}

/// Gives the title of `2) title` when the number is the wanted one.
fn numbered(text: &str, wanted: u64) -> Option<&str> {
    let (number, title) = text.split_once(") ")?;
    (number.parse() == Ok(wanted) && !title.trim().is_empty()).then_some(title)
}

/// Says whether a line counts the passing tests of a run, `12 passing (3s)`.
fn is_summary(text: &str) -> bool {
    let Some((number, rest)) = text.split_once(" passing (") else { return false };
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) && rest.ends_with(')')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LogFormat, SuiteRun, TestNames, parse_log_named};

    fn read(format: LogFormat, names: TestNames, text: &str) -> SuiteRun {
        parse_log_named(format, names, text.as_bytes(), None)
    }

    const MOCHA: &str = "\n  till\n    ✔ adds (12ms)\nprinted text\n    deep\n      ✓ takes 1) from 2\n      1) gives change\n\
        \x20     - knows dollars\n    ✔ closes\n\n  door\n    ✔ closes\n    3) printed by a test\n\n\n  4 passing (1m)\n\
        \x20 1 pending\n  1 failing\n\n  1) till\n       deep\n         gives change:\n\n      AssertionError: no\n      + expected - actual\n\n\
        \x20     - 3\n      + 4\n\n> next@1.0 test\n\n  gate\n    1) opens\n\n  0 passing (5ms)\n";

    #[test]
    fn mocha_trees_are_read_and_what_is_below_is_not() {
        let run = read(LogFormat::Mocha, TestNames::Full, MOCHA);
        assert_eq!(
            run.statuses.iter().collect::<Vec<_>>(),
            [
                ("door > closes", TestStatus::Passed),
                ("till > adds", TestStatus::Passed),
                ("till > closes", TestStatus::Passed),
                ("till > deep > gives change", TestStatus::Failed),
                ("till > deep > knows dollars", TestStatus::Skipped),
                ("till > deep > takes 1) from 2", TestStatus::Passed),
            ]
        );
        let run = read(LogFormat::Mocha, TestNames::Collection, MOCHA);
        assert_eq!(run.statuses.len(), 5);
        assert!(!run.statuses.contains("printed by a test"));
    }

    #[test]
    fn a_hook_that_fails_is_an_error() {
        let run = read(
            LogFormat::Mocha,
            TestNames::Collection,
            "  till\n    1) \"before each\" hook for \"adds\"\n",
        );
        assert_eq!(run.statuses.get("\"before each\" hook for \"adds\""), Some(TestStatus::Error));
    }

    #[test]
    fn node_results_have_a_run_time() {
        let text = "▶ till\n  ✔ adds (1.25ms)\n  ✖ takes (0.5ms)\n  ﹣ later (0.1ms) # SKIP needs net\n  ✔ waits (5ms) (7.1ms)\n\
            ▶ till (12.5ms)\n✔ alone (0.4ms)\n✔ printed\nℹ tests 5\n✖ failing tests:\n\ntest at a.js:1:1\n✖ takes (0.5ms)\n";
        let run = read(LogFormat::Node, TestNames::Full, text);
        assert_eq!(
            run.statuses.iter().collect::<Vec<_>>(),
            [
                ("alone", TestStatus::Passed),
                ("till > adds", TestStatus::Passed),
                ("till > later", TestStatus::Skipped),
                ("till > takes", TestStatus::Failed),
                ("till > waits", TestStatus::Passed),
            ]
        );
    }
}
