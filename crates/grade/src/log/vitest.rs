//! Reads Vitest's default and verbose reporters.
//!
//! | line | meaning |
//! |---|---|
//! | `✓ file > suite > title 5ms` | a test of the verbose reporter |
//! | `✓ file (3 tests) 12ms`, `❯ file (3 tests \| 1 failed)` | a file; what is indented below belongs to it |
//! | `× title 5ms`, `↓ title`, `□ title` indented | a test of the file above |
//! | `FAIL  file > suite > title` | the heading of a failure; `FAIL  file [ file ]` of a file that did not run |
//!
//! A file counts under its own name as well, since the default reporter names no test of a file that passes. That
//! reporter leaves out the suites of late (version 4): its names are then the file's and the title's.

use super::{
    names::{Results, SEPARATOR, group},
    pattern::before,
    tree::{Tree, indentation},
};
use crate::TestStatus;

pattern!(
    TIMINGS,
    r"(?: \(?[0-9]+(?:\.[0-9]+)? ?(?:ms|s|m)\)?| \((?:retry|repeat) x[0-9]+\)| [0-9]+ MB heap used| \[skipped\])+$"
);
pattern!(COUNT, r"^(.+?) \([0-9]+(?: tests?)?(?: \| [^()]*)?\)$");
pattern!(PROJECT, r"^\|[^|]+\| +");
pattern!(BROKEN, r"^(\S+) \[ \S+ \]$");

/// Reads the lines of a run.
pub(super) fn parse(lines: &[&str]) -> Results {
    let mut results = Results::default();
    let mut tree = Tree::default();
    let mut file = "";
    for &line in lines {
        let (indent, text) = indentation(line);
        if let Some(heading) = text.strip_prefix("FAIL  ") {
            failure(&mut results, without_project(heading));
            continue;
        }
        if text.starts_with("stdout | ") || text.starts_with("stderr | ") {
            file = ""; // what a test printed follows
            continue;
        }
        let Some((mark, title)) = text.split_once(' ') else { continue };
        let status = match mark {
            "✓" | "√" => TestStatus::Passed,
            "×" | "✗" | "✖" | "❯" => TestStatus::Failed,
            "↓" | "○" | "□" => TestStatus::Skipped,
            _ => continue,
        };
        let title = without_project(title.trim_start());
        let title = before(&TIMINGS, title);
        let counted = COUNT.captures(title).map(|found| found.extract::<1>().1[0]);
        // A top line stands at the margin or one blank deep, what belongs to a file three or more.
        match counted {
            Some(name) if indent < 2 && !name.contains(SEPARATOR) => {
                (file, tree) = (name, Tree::default());
                results.record(&group([name]), "", status);
            }
            Some(suite) if mark == "❯" && !file.is_empty() => tree.suite(indent.saturating_sub(1), suite),
            _ if mark == "❯" || title.is_empty() => {}
            _ if indent < 2 => record(&mut results, title, status),
            _ if !file.is_empty() => {
                // Behind the title of a slow test stands a blank more.
                let title = before(&TIMINGS, title.trim_end_matches(' '));
                let place = tree.group(file, indent - 1);
                record(&mut results, &[&*place, SEPARATOR, title].concat(), status);
            }
            _ => {}
        }
    }
    results
}

/// Records a test under its whole name, `file > suite > title`.
fn record(results: &mut Results, name: &str, status: TestStatus) {
    results.record(&group([]), name, status);
}

fn failure(results: &mut Results, heading: &str) {
    if let Some(found) = BROKEN.captures(heading) {
        results.record(&group([found.extract::<1>().1[0]]), "", TestStatus::Error);
    } else if heading.contains(SEPARATOR) {
        let name = before(&TIMINGS, heading);
        if !results.has(&group([]), name) {
            record(results, name, TestStatus::Failed);
        }
    }
}

fn without_project(title: &str) -> &str {
    PROJECT.find(title).map_or(title, |project| &title[project.end()..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LogFormat, SuiteRun, TestNames, parse_log_named};

    fn read(text: &str) -> SuiteRun {
        parse_log_named(LogFormat::Vitest, TestNames::Collection, text.as_bytes(), None)
    }

    #[test]
    fn verbose_lines_name_everything() {
        let run = read(
            " RUN  v3.0.0 /w\n ✓ test/a.test.ts > till > adds 5ms\n ✓ |unit| test/a.test.ts > till > waits 5ms 301ms (retry x1)\n\
             \x1b[31m × \x1b[39mtest/a.test.ts > till > takes 1.20s\n   → expected 1 to be 2\n ↓ test/a.test.ts > till > later [skipped]\n □ test/a.test.ts > till > some day\n ✓ test/a.test.ts > till > adds (1)\n\n\
             ⎯⎯ Failed Tests 1 ⎯⎯\n\n FAIL  test/a.test.ts > till > takes\n FAIL  test/b.test.ts [ test/b.test.ts ]\n",
        );
        assert_eq!(
            run.statuses.iter().collect::<Vec<_>>(),
            [
                ("test/a.test.ts > till > adds", TestStatus::Passed),
                ("test/a.test.ts > till > adds (1)", TestStatus::Passed),
                ("test/a.test.ts > till > later", TestStatus::Skipped),
                ("test/a.test.ts > till > some day", TestStatus::Skipped),
                ("test/a.test.ts > till > takes", TestStatus::Failed),
                ("test/a.test.ts > till > waits", TestStatus::Passed),
                ("test/b.test.ts", TestStatus::Error),
            ]
        );
    }

    #[test]
    fn files_count_and_their_failing_tests_belong_to_them() {
        let run = read(
            " ✓ test/a.test.ts (9 tests) 22ms\n ❯ test/b.test.ts (3 tests | 1 failed) 10ms\n   ✓ till > adds  301ms\n   × till > takes 5ms\n\
             \x20    → expected 1 to be 2\n ↓ test/c.test.ts (2 tests | 2 skipped)\n ✓ test/d.test.ts (1)\n\
             stdout | test/e.test.ts > till\n    ✓ printed by a test\n",
        );
        assert_eq!(
            run.statuses.iter().collect::<Vec<_>>(),
            [
                ("test/a.test.ts", TestStatus::Passed),
                ("test/b.test.ts", TestStatus::Failed),
                ("test/b.test.ts > till > adds", TestStatus::Passed),
                ("test/b.test.ts > till > takes", TestStatus::Failed),
                ("test/c.test.ts", TestStatus::Skipped),
                ("test/d.test.ts", TestStatus::Passed),
            ]
        );
    }
}
