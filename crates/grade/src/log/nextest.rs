//! Reads `cargo nextest run`, its text or its libtest events.
//!
//! | line | meaning |
//! |---|---|
//! | `Starting 9 tests across 2 binaries (1 test skipped)` | a run begins |
//! | `PASS [   0.022s] (1/9) shop::it till::adds`, `LEAK`, `FAIL`, `SIGSEGV`, `TIMEOUT`, `SKIP` | a result: binary, then test |
//! | `TRY 2 PASS [   0.047s] (3/9) shop till::flaky` | the result of a try; the last one counts |
//! | `Summary [   9.191s] 9 tests run: 6 passed (1 flaky), 2 failed, 1 skipped` | the run's own count |
//!
//! Below the summary the failures are told again: nothing is read there until another run starts. A run that shows
//! more passes than it counts had lines printed into its output, one without a summary was cut off.

use std::{collections::BTreeMap, rc::Rc};

use super::{
    libtest,
    names::{Results, group},
};
use crate::{Completion, TestStatus};

pattern!(START, r"^    Starting [0-9]+ tests? across [0-9]+ binar(?:y|ies)\b");
pattern!(
    RESULT,
    r"^( *(?:TRY ([0-9]+) )?([A-Z][A-Z0-9+ -]*)) \[[ >]*[0-9.]*s? *\] +(?:\([^()]*\) +)?(\S+) +(\S.*)$"
);
pattern!(SUMMARY, r"^     Summary \[ *[0-9.]+s\] .*?[0-9]+ tests? run: ([0-9]+) passed\b");

/// Where the words of result lines end. What tests print is shown further to the right by default.
const COLUMN: usize = 12;

/// Words of lines that are no result: the test goes on.
const UNDER_WAY: [&str; 9] =
    ["START", "SLOW", "TRMNTG", "TERMINATING", "RETRY", "DELAY", "SETUP", "SETUP PASS", "SETUP SLOW"];

/// Reads the lines of a run.
pub(super) fn parse(lines: &[&str]) -> Results {
    if let Some(results) = libtest::parse(lines) {
        return results;
    }
    let mut parser =
        Parser { results: Results::default(), tries: BTreeMap::new(), passes: 0, part: Part::Before };
    for line in lines {
        parser.line(line);
    }
    if parser.part == Part::Tests {
        parser.settle();
        parser.results.spoil(Completion::Incomplete, "the run has no summary".to_owned());
    }
    parser.results
}

/// Where in the output the line at hand stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Cargo's lines.
    Before,
    /// Among results.
    Tests,
    /// Below a summary.
    After,
}

struct Parser<'t> {
    results: Results,
    /// The last try of tests that were tried more than once, with its number.
    tries: BTreeMap<(Rc<str>, &'t str), (&'t str, TestStatus)>,
    passes: u64,
    part: Part,
}

impl<'t> Parser<'t> {
    fn line(&mut self, line: &'t str) {
        if self.part != Part::Tests {
            if START.is_match(line) {
                (self.part, self.passes) = (Part::Tests, 0);
            }
        } else if let Some(found) = SUMMARY.captures(line) {
            self.settle();
            let counted = found[1].parse().unwrap_or(u64::MAX);
            if self.passes > counted {
                let detail = format!("{} passes are shown where the run counts {counted}", self.passes);
                self.results.spoil(Completion::Forged, detail);
            }
            self.part = Part::After;
        } else if let Some(found) = RESULT.captures(line) {
            let part = |number| found.get(number).map_or("", |part| part.as_str());
            let (head, binary, test) = (part(1), group([part(4)]), part(5));
            if head.len() != COLUMN && (head.len() < COLUMN || head.starts_with(' ')) {
                return;
            }
            match (status(part(3)), part(2)) {
                (None, _) => self.results.announce(&binary, test),
                (Some(status), "") => self.record(&binary, test, status),
                (Some(status), number) => {
                    self.tries.insert((binary, test), (number, status));
                }
            }
        }
    }

    fn record(&mut self, binary: &Rc<str>, test: &str, status: TestStatus) {
        self.passes += u64::from(status == TestStatus::Passed);
        self.results.record(binary, test, status);
    }

    /// Books the last try of every test.
    fn settle(&mut self) {
        for ((binary, test), (number, status)) in std::mem::take(&mut self.tries) {
            self.record(&binary, test, status);
            if number != "1" {
                self.results.record_rerun(&binary, test);
            }
        }
    }
}

/// What a word says; `None` when the test goes on.
fn status(word: &str) -> Option<TestStatus> {
    match word {
        "PASS" | "LEAK" | "TMPASS" | "TIMEOUT-PASS" => Some(TestStatus::Passed),
        "SKIP" => Some(TestStatus::Skipped),
        word if UNDER_WAY.contains(&word) => None,
        _ => Some(TestStatus::Failed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LogFormat, SuiteRun, TestNames, parse_log_named};

    fn read(text: &str) -> SuiteRun {
        parse_log_named(LogFormat::Nextest, TestNames::Full, text.as_bytes(), None)
    }

    const START: &str = "    Finished `test` profile\n    Starting 2 tests across 1 binary (run ID: 7, nextest profile: default)\n";

    #[test]
    fn every_word_has_a_status() {
        let text = [
            START,
            "        PASS [   0.004s] shop till::adds\n        LEAK [   0.004s] (2/9) shop::bin/x leaks\n",
            "        SLOW [> 60.000s] (─────) shop till::waits\n     TIMEOUT [  60.004s] (3/9) shop till::waits\n",
            "     SIGSEGV [   0.004s] shop dies\n FAIL + LEAK [   0.004s] shop both\n       XFAIL [         ] shop gone\n",
            "        SKIP [         ] shop later\n        SLOW [> 60.000s] shop never\n",
            "     Summary [   0.008s] 7/9 tests run: 2 passed (1 leaky), 3 failed, 1 timed out, 1 skipped\n",
            "        PASS [   0.004s] shop told::again\n",
        ]
        .concat();
        let run = read(&text);
        assert_eq!(
            run.statuses.iter().collect::<Vec<_>>(),
            [
                ("shop > both", TestStatus::Failed),
                ("shop > dies", TestStatus::Failed),
                ("shop > gone", TestStatus::Failed),
                ("shop > later", TestStatus::Skipped),
                ("shop > till::adds", TestStatus::Passed),
                ("shop > till::waits", TestStatus::Failed),
                ("shop::bin/x > leaks", TestStatus::Passed),
            ]
        );
        assert_eq!(
            (run.completion, &*run.unresolved),
            (Completion::Complete, &["shop > never".to_owned()][..])
        );
    }

    #[test]
    fn a_run_without_summary_is_cut_off_and_one_that_shows_too_much_is_forged() {
        let pass = "        PASS [   0.004s] (1/2) shop a\n        FAIL [   0.004s] (2/2) shop b\n";
        let run = read(&[START, pass].concat());
        assert_eq!(run.detail.as_deref(), Some("the run has no summary"));
        assert_eq!(run.completion, Completion::Incomplete);
        let forged = "        PASS [   0.004s] (2/2) shop b\n     Summary [   0.1s] 2 tests run: 1 passed, 1 failed, 0 skipped\n";
        let run = read(&[START, pass, forged].concat());
        assert_eq!(run.completion, Completion::Forged);
        assert_eq!(run.detail.as_deref(), Some("2 passes are shown where the run counts 1"));
        assert!(read(pass).statuses.is_empty(), "no run was started");
    }
}
