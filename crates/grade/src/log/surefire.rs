//! Reads the console of Maven Surefire and Failsafe.
//!
//! | line | version |
//! |---|---|
//! | `[INFO] a.b.TillTest.adds -- Time elapsed: 0.001 s` | 3.x, with `reportFormat=plain` |
//! | `[ERROR] a.b.TillTest.takes -- Time elapsed: 0.01 s <<< FAILURE!` | 3.x |
//! | `[ERROR] a.b.TillTest.takes  Time elapsed: 0.01 s  <<< ERROR!` | 3.0-M |
//! | `takes(a.b.TillTest)  Time elapsed: 0.01 sec  <<< FAILURE!` | 2.x |
//! | `a.b.TillTest.later skipped` | all, with `reportFormat=plain` |
//!
//! A name is `class.method`, brackets of parameters included; the form `method(class)` is turned round. A class whose
//! set-up fails has a line of its own name. Lines that count (`Tests run: 3, ...`) are no results.

use std::borrow::Cow;

use super::names::{Results, group};
use crate::TestStatus;

pattern!(LEVEL, r"^\[(?:INFO|ERROR|WARNING)\] +");
pattern!(ELAPSED, r"^(\S.*?)(?: --|  ?) ?Time elapsed: [0-9.,]+ (?:s|sec|ms)(?: *<<< (FAILURE|ERROR)!)?\s*$");
/// What a word begins with, and what it goes on with: Java's own letters, and every one that ASCII lacks.
const FIRST: &str = r"[A-Za-z_$\u{80}-\u{10ffff}]";
const NEXT: &str = r"[0-9A-Za-z_$\u{80}-\u{10ffff}]";

pattern!(
    SKIPPED,
    r"^((?:",
    FIRST,
    NEXT,
    r"*\.)+",
    FIRST,
    NEXT,
    r"*|",
    NEXT,
    r"+\((?:",
    NEXT,
    r"|\.)+\)) +(?:skipped|SKIPPED)(?:[ :].*)?$"
);
pattern!(TURNED, r"^([^().]*(?:\[.*\])?)\(((?:", NEXT, r"+\.)*[A-Z$_]", NEXT, r"*)\)$");

/// Reads the lines of a run.
pub(super) fn parse(lines: &[&str]) -> Results {
    let mut results = Results::default();
    let top = group([]);
    for line in lines {
        let text = LEVEL.find(line).map_or(*line, |level| &line[level.end()..]);
        if text.starts_with("Tests run:") {
            continue;
        }
        if let Some(found) = ELAPSED.captures(text) {
            let status = match found.get(2).map(|word| word.as_str()) {
                None => TestStatus::Passed,
                Some("FAILURE") => TestStatus::Failed,
                Some(_) => TestStatus::Error,
            };
            results.record(&top, &class_first(&found[1]), status);
        } else if let Some(found) = SKIPPED.captures(text) {
            results.record(&top, &class_first(&found[1]), TestStatus::Skipped);
        }
    }
    results
}

/// Turns `method(class)` into `class.method`.
fn class_first(name: &str) -> Cow<'_, str> {
    match TURNED.captures(name) {
        Some(found) => Cow::Owned([&found[2], ".", &found[1]].concat()),
        None => Cow::Borrowed(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LogFormat, TestNames, parse_log_named};

    #[test]
    fn every_version_names_class_and_method() {
        let text = "[INFO] Running a.b.TillTest\n\
            [ERROR] Tests run: 5, Failures: 1, Errors: 1, Skipped: 1, Time elapsed: 0.05 s <<< FAILURE! -- in a.b.TillTest\n\
            [INFO] a.b.TillTest.adds -- Time elapsed: 0.001 s\n\
            [ERROR] a.b.TillTest.takes(int, String)[2] -- Time elapsed: 0.01 s <<< FAILURE!\n\
            java.lang.AssertionError: Time elapsed\n\
            [ERROR] a.b.OldTest.opens  Time elapsed: 0.01 s  <<< ERROR!\n\
            [ERROR] a.b.TillTest.takes(String) -- Time elapsed: 0.01 s <<< FAILURE!\n\
            closes(a.b.OlderTest)  Time elapsed: 0 sec\n\
            locks[1, 2](a.b.OlderTest)  Time elapsed: 0.002 sec  <<< FAILURE!\n\
            [WARNING] a.b.TillTest.later skipped\n\
            [INFO] Total time:  12 s\n";
        let run = parse_log_named(LogFormat::Surefire, TestNames::Collection, text.as_bytes(), None);
        assert_eq!(
            run.statuses.iter().collect::<Vec<_>>(),
            [
                ("a.b.OldTest.opens", TestStatus::Error),
                ("a.b.OlderTest.closes", TestStatus::Passed),
                ("a.b.OlderTest.locks[1, 2]", TestStatus::Failed),
                ("a.b.TillTest.adds", TestStatus::Passed),
                ("a.b.TillTest.later", TestStatus::Skipped),
                ("a.b.TillTest.takes(String)", TestStatus::Failed),
                ("a.b.TillTest.takes(int, String)[2]", TestStatus::Failed),
            ]
        );
    }
}
