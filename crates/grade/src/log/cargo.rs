//! Reads `cargo test`: libtest's lines, and which binary they are from.
//!
//! | line | meaning |
//! |---|---|
//! | `Running unittests src/lib.rs (target/debug/deps/shop-0123)`, `Doc-tests shop` | the binary that follows |
//! | `test name ... ok`, `FAILED`, `ignored`, `ignored, reason`, `ok <0.01s>` | a result |
//! | `test name ... printed text`, later `ok` alone | a result behind printed text (`--nocapture`) |
//! | `test result: ok. 3 passed; 0 failed; 1 ignored; ...` | the binary's own count |
//!
//! As soon as one line is a JSON event, only events count (see [`libtest`]).
//!
//! A binary that shows more passes than it counts had lines printed into its output: the log is forged. A word that
//! stands alone while several names wait for theirs cannot be given to any of them.

use std::{collections::BTreeSet, rc::Rc};

use super::{
    libtest,
    names::{Results, group},
};
use crate::{Completion, TestStatus};

pattern!(
    BINARY,
    r"^ *Running (?:[^`(]*\(|`)?[^ ()`]*deps/([^ /()`]+?)(?:-[0-9a-f]{16})?(?:\.exe)?(?:[ `)].*)?$"
);
pattern!(DOC_TESTS, r"^ *Doc-tests (\S+)$");
pattern!(TEST, r"^test (.+?) \.\.\. ?(.*)$");
pattern!(WORD, r"^(ok|FAILED|ignored)(?:, .*| <[0-9.]+s>)?$");
pattern!(SUMMARY, r"^test result: (?:ok|FAILED)\. ([0-9]+) passed; ([0-9]+) failed; ([0-9]+) ignored;");

/// Reads the lines of a run.
pub(super) fn parse(lines: &[&str]) -> Results {
    if let Some(results) = libtest::parse(lines) {
        return results;
    }
    let mut parser =
        Parser { results: Results::default(), binary: group([]), passes: 0, waiting: BTreeSet::new() };
    for line in lines {
        parser.line(line);
    }
    parser.results
}

struct Parser<'t> {
    results: Results,
    binary: Rc<str>,
    passes: u64,
    waiting: BTreeSet<&'t str>,
}

impl<'t> Parser<'t> {
    fn line(&mut self, line: &'t str) {
        if let Some(found) = TEST.captures(line) {
            let (_, [name, rest]) = found.extract();
            self.results.announce(&self.binary, name);
            match status(rest) {
                Some(status) => self.record(name, status),
                None => {
                    self.waiting.insert(name);
                }
            }
        } else if let Some(status) = status(line) {
            if self.waiting.len() == 1
                && let Some(name) = self.waiting.pop_first()
            {
                self.record(name, status);
            }
        } else if let Some(found) = SUMMARY.captures(line) {
            let counted = found[1].parse().unwrap_or(u64::MAX);
            if self.passes > counted {
                let detail = format!(
                    "{} passes are shown where {} counts {counted}",
                    self.passes,
                    if self.binary.is_empty() { "the binary" } else { &*self.binary }
                );
                self.results.spoil(Completion::Forged, detail);
            }
            (self.passes, self.waiting) = (0, BTreeSet::new());
        } else if let Some(named) = binary(line) {
            self.binary = group([named]);
            (self.passes, self.waiting) = (0, BTreeSet::new());
        }
    }

    fn record(&mut self, name: &str, status: TestStatus) {
        self.passes += u64::from(status == TestStatus::Passed);
        self.results.record(&self.binary, name, status);
    }
}

/// The binary that a line says follows.
pub(super) fn binary(line: &str) -> Option<&str> {
    DOC_TESTS.captures(line).or_else(|| BINARY.captures(line)).map(|found| found.extract::<1>().1[0])
}

fn status(text: &str) -> Option<TestStatus> {
    let found = WORD.captures(text.trim_end_matches(' '))?;
    Some(match found.extract::<1>().1[0] {
        "ok" => TestStatus::Passed,
        "ignored" => TestStatus::Skipped,
        _ => TestStatus::Failed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LogFormat, SuiteRun, TestNames, parse_log_named};

    fn read(names: TestNames, text: &str) -> SuiteRun {
        parse_log_named(LogFormat::Cargo, names, text.as_bytes(), None)
    }

    const TEXT: &str = "     Running unittests src/lib.rs (target/debug/deps/shop-0123456789abcdef)\n\nrunning 3 tests\n\
        test till::adds ... ok\ntest till::has been running for over 60 seconds\ntest till::odd - should panic ... ok\n\
        test till::slow ... ignored, needs an hour\n\nfailures:\n\n---- till::x stdout ----\nok\n\n\
        test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\n\
        \x20    Running `/w/target/debug/deps/it-0123456789abcdef`\ntest till::adds ... FAILED\n\
        test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n\
        \x20  Doc-tests shop\ntest src/lib.rs - Till (line 3) - compile ... ok\n\
        test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n";

    #[test]
    fn binaries_keep_their_tests_apart() {
        let run = read(TestNames::Full, TEXT);
        assert_eq!(
            run.statuses.iter().collect::<Vec<_>>(),
            [
                ("it > till::adds", TestStatus::Failed),
                ("shop > src/lib.rs - Till (line 3) - compile", TestStatus::Passed),
                ("shop > till::adds", TestStatus::Passed),
                ("shop > till::odd - should panic", TestStatus::Passed),
                ("shop > till::slow", TestStatus::Skipped),
            ]
        );
        assert_eq!(run.completion, Completion::Complete);
        assert_eq!(read(TestNames::Collection, TEXT).statuses.get("till::adds"), Some(TestStatus::Failed));
    }

    #[test]
    fn a_binary_that_shows_more_than_it_counts_is_forged() {
        let run = read(
            TestNames::Collection,
            "test a ... ok\ntest b ... ok\ntest b ... FAILED\ntest result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured\n",
        );
        assert_eq!(run.completion, Completion::Forged);
        assert_eq!(run.detail.as_deref(), Some("2 passes are shown where the binary counts 1"));
        assert_eq!(run.statuses.get("b"), Some(TestStatus::Failed));
    }

    #[test]
    fn a_word_may_follow_printed_text() {
        let run =
            read(TestNames::Collection, "test a ... hello\nworld\nok\ntest b ... \ntest c ... \nok\nok\n");
        assert_eq!(run.statuses.iter().collect::<Vec<_>>(), [("a", TestStatus::Passed)]);
        assert_eq!(run.unresolved, ["b", "c"]);
        let run = read(
            TestNames::Collection,
            "test a ... ok <0.012s>\r\ntest \x1b[32mb\x1b[0m ... \x1b[31mFAILED\x1b[0m\n",
        );
        assert_eq!(run.statuses.len(), 2);
    }

    #[test]
    fn binaries_are_named_in_every_form() {
        for line in [
            "     Running unittests src/lib.rs (target/debug/deps/shop-0123456789abcdef)",
            "     Running tests/it.rs (/w/target/debug/deps/shop-0123456789abcdef)",
            "     Running target/debug/deps/shop-0123456789abcdef",
            "     Running `/w/target/debug/deps/shop-0123456789abcdef --nocapture`",
            "   Doc-tests shop",
        ] {
            let built =
                "     Running `rustdoc --test src/lib.rs --extern shop=/w/target/debug/deps/libshop-0.rlib`";
            let run = read(TestNames::Full, &format!("{line}\n{built}\ntest a ... ok\n"));
            assert_eq!(run.statuses.get("shop > a"), Some(TestStatus::Passed), "{line}: {run:?}");
        }
    }
}
