//! Reads Jest, with `--verbose` or without.
//!
//! `PASS file (5.2 s)` or `FAIL file` stands in front of a file's results. With `--verbose` the tree of its tests
//! follows, up to the first empty line or message (`●`): marks further down are printed text.
//! Without the tree only failures have names, as headings `● suite › title`. A file that failed to run is an error
//! under its own name.

use std::rc::Rc;

use super::{
    names::{Results, group},
    tree::{Tree, indentation, without_timing},
};
use crate::TestStatus;

pattern!(
    HEADING,
    r"^ ?(PASS|FAIL) +(?:\S+ +)??(\S+\.[A-Za-z]+)(?: \([0-9.]+ ?m?s\))?(?: +\([0-9.]+ [kKMG]B heap size\))? *$"
);
pattern!(SKIPPED, r"^○ skipped ([0-9]+) tests?$");

/// Headings of messages that are no test.
const MESSAGES: [&str; 6] = [
    "Console",
    "Test suite failed to run",
    "Cannot log after tests are done",
    "process.exit called with",
    "Deprecation Warning",
    "Validation ",
];

/// Reads the lines of a run.
pub(super) fn parse(lines: &[&str]) -> Results {
    let mut parser = Parser {
        results: Results::default(),
        tree: Tree::default(),
        file: "",
        failed: false,
        part: Part::Outside,
    };
    for line in lines {
        parser.line(line);
    }
    parser.results
}

/// Where in the output of a file the line at hand stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Before the first file, or below the last one's summary.
    Outside,
    /// Behind the heading; no test has been shown.
    Heading,
    /// In the tree.
    Tree,
    /// Among messages, with a tree before them.
    Messages,
    /// Among messages, without a tree before them.
    OnlyMessages,
}

struct Parser<'t> {
    results: Results,
    tree: Tree<'t>,
    file: &'t str,
    failed: bool,
    part: Part,
}

impl<'t> Parser<'t> {
    fn line(&mut self, line: &'t str) {
        if let Some(found) = HEADING.captures(line) {
            let (_, [word, file]) = found.extract();
            (self.file, self.failed, self.part) = (file, word == "FAIL", Part::Heading);
            self.tree.clear();
            return;
        }
        let (indent, text) = indentation(line);
        if indent == 0 && text.starts_with("Tests: ") {
            (self.file, self.failed, self.part) = ("", false, Part::Outside);
        } else if let Some(heading) = text.strip_prefix("● ") {
            self.heading(heading);
        } else if matches!(self.part, Part::Heading | Part::Tree) {
            if text.is_empty() {
                self.enter_messages();
            } else if indent >= 2 && self.result(indent, text) {
                self.part = Part::Tree;
            } else {
                self.tree.suite(indent, text);
            }
        }
    }

    fn enter_messages(&mut self) {
        self.part = match self.part {
            Part::Heading | Part::OnlyMessages => Part::OnlyMessages,
            Part::Tree | Part::Messages => Part::Messages,
            Part::Outside => Part::Outside,
        };
    }

    /// Reads `✓ title (5 ms)` and its like.
    fn result(&mut self, indent: usize, text: &str) -> bool {
        if let Some(found) = SKIPPED.captures(text) {
            self.results.placed_skips += found[1].parse().unwrap_or(0);
            return true;
        }
        let Some((mark, title)) = text.split_once(' ') else { return false };
        let (title, status) = match mark {
            "✓" | "√" => (title, TestStatus::Passed),
            "✕" | "×" => (title, TestStatus::Failed),
            "○" => (title.strip_prefix("skipped ").unwrap_or(title), TestStatus::Skipped),
            "✎" => (title.strip_prefix("todo ").unwrap_or(title), TestStatus::Skipped),
            _ => return false,
        };
        let title = without_timing(title);
        if title.is_empty() {
            return false;
        }
        self.results.record(&self.tree.group(self.file, indent), title, status);
        true
    }

    /// Reads what follows `● `.
    fn heading(&mut self, heading: &str) {
        self.enter_messages();
        if self.file.is_empty() {
            return;
        }
        if heading == "Test suite failed to run" {
            self.results.record(&group([self.file]), "", TestStatus::Error);
        } else if self.failed
            && self.part == Part::OnlyMessages
            && !MESSAGES.iter().any(|message| heading.starts_with(message))
        {
            let mut parts: Vec<&str> = heading.split(" › ").collect();
            let title = parts.pop().unwrap_or_default();
            let suites: Rc<str> = group(std::iter::once(self.file).chain(parts));
            if !title.is_empty() && !self.results.has(&suites, title) {
                self.results.record(&suites, title, TestStatus::Failed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LogFormat, SuiteRun, TestNames, parse_log_named};

    fn read(names: TestNames, text: &str) -> SuiteRun {
        parse_log_named(LogFormat::Jest, names, text.as_bytes(), None)
    }

    const VERBOSE: &str = "PASS test/till.test.js (6.249s)\n  ✓ opens (31 ms)\n  till\n    ✓ adds\n    deep\n      ✕ takes (1.2 s)\n\
        \x20     ○ skipped knows dollars\n      ✎ todo knows pounds\n\n  ● till › deep › takes\n\n    ✓ printed by a test\n\
        \x1b[7m\x1b[1m FAIL \x1b[22m\x1b[27m \x1b[2mtest/\x1b[22m\x1b[1mdoor.test.js\x1b[22m\n  ● Test suite failed to run\n\n    Cannot find module\n\
        PASS test/quiet.test.js\n  console.log\n    ✓ is a suite\n\n  console.log\n    ✓ printed by a test\n\n\
        PASS test/noise.test.js\n  ● Console\n\n    console.log test/noise.test.js:3\n      ✓ printed by a test\n\n\
        Test Suites: 1 failed, 2 passed, 3 total\nTests:       1 failed, 5 total\n    ✓ printed after the end\n";

    #[test]
    fn trees_are_read_and_messages_are_not() {
        let run = read(TestNames::Full, VERBOSE);
        assert_eq!(
            run.statuses.iter().collect::<Vec<_>>(),
            [
                ("test/door.test.js", TestStatus::Error),
                ("test/quiet.test.js > console.log > is a suite", TestStatus::Passed),
                ("test/till.test.js > opens", TestStatus::Passed),
                ("test/till.test.js > till > adds", TestStatus::Passed),
                ("test/till.test.js > till > deep > knows dollars", TestStatus::Skipped),
                ("test/till.test.js > till > deep > knows pounds", TestStatus::Skipped),
                ("test/till.test.js > till > deep > takes", TestStatus::Failed),
            ]
        );
        let run = read(TestNames::Collection, VERBOSE);
        assert_eq!(run.statuses.get("takes"), Some(TestStatus::Failed));
        assert_eq!(run.statuses.len(), 7);
    }

    #[test]
    fn without_trees_only_failures_have_names() {
        let text = "PASS test/a.test.js\nFAIL test/b.test.js\n  ● till › adds\n\n    expect(1)\n\n  ● Console\n\n    console.log x\n\n\
            Summary of all failing tests\nFAIL test/b.test.js\n  ● till › adds\n";
        let run = read(TestNames::Full, text);
        assert_eq!(
            run.statuses.iter().collect::<Vec<_>>(),
            [("test/b.test.js > till > adds", TestStatus::Failed)]
        );
        assert!(!run.statuses.is_flaky("test/b.test.js > till > adds"));
    }

    #[test]
    fn a_file_that_runs_again_and_differs_is_flaky() {
        let run =
            read(TestNames::Collection, "PASS a.test.js\n  ✓ adds (1ms)\nFAIL a.test.js\n  ✕ adds (2ms)\n");
        assert!(run.statuses.is_flaky("adds"));
        assert_eq!(run.statuses.get("adds"), Some(TestStatus::Failed));
    }

    #[test]
    fn skips_without_a_name_are_counted() {
        assert_eq!(
            read(TestNames::Collection, "PASS a.test.js\n  ✓ adds\n  ○ skipped 3 tests\n").placed_skips,
            3
        );
    }
}
