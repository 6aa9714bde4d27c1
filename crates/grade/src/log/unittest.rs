//! Reads the verbose output of Python's unittest, Django's runner included.
//!
//! A result is `name (class) ... word`. Other output may stand between the dots and the word; the word then has a
//! line of its own. A docstring moves the dots to the line after the name. A subtest's line counts for its test.

use std::collections::BTreeSet;

use crate::{SuiteRun, TestStatus};

pattern!(NAME, r"^ *([A-Za-z_][A-Za-z0-9_]* \([A-Za-z0-9_.<>]+\))(.*)$");
pattern!(STATUS, r#"^(ok|FAIL|ERROR|skipped|expected failure|unexpected success)(?: ['"].*)?$"#);

/// Stands between a name and its status.
const DOTS: &str = " ... ";

fn status(text: &str) -> Option<TestStatus> {
    let found = STATUS.captures(text.trim_end_matches(' '))?;
    Some(match found.extract::<1>().1[0] {
        "ok" => TestStatus::Passed,
        "FAIL" => TestStatus::Failed,
        "ERROR" => TestStatus::Error,
        "skipped" => TestStatus::Skipped,
        "expected failure" => TestStatus::Xfail,
        _ => TestStatus::Xpass,
    })
}

/// Reads the lines of a unittest run.
pub(crate) fn parse(lines: &[&str]) -> SuiteRun {
    let mut run = SuiteRun::default();
    let mut named = BTreeSet::new();
    let mut pending: Option<&str> = None; // the dots were seen, the status not yet
    let mut described: Option<&str> = None; // the name was seen, the dots not yet
    for &line in lines {
        let mut text = line;
        if let Some(found) = NAME.captures(line) {
            let (_, [name, rest]) = found.extract();
            if rest.is_empty() {
                described = Some(name);
                continue;
            }
            let found = if rest.starts_with(DOTS) { Some(0) } else { rest.rfind(DOTS) };
            let Some(dots) = found else { continue };
            if dots != 0 && !rest.starts_with(" [") && !rest.starts_with(" (") {
                continue;
            }
            (pending, described) = (Some(name), None);
            named.insert(name);
            text = &rest[dots + DOTS.len()..];
        } else if let (Some(name), Some(dots)) = (described, line.rfind(DOTS)) {
            (pending, described) = (Some(name), None);
            named.insert(name);
            text = &line[dots + DOTS.len()..];
        }
        if let (Some(name), Some(status)) = (pending, status(text)) {
            run.statuses.record(name, status);
            pending = None;
        }
    }
    run.unresolved =
        named.into_iter().filter(|name| !run.statuses.contains(name)).map(str::to_owned).collect();
    run
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_may_stand_on_a_later_line() {
        let run = parse(&[
            "test_a (m.T) ... System check identified no issues (0 silenced).",
            "ok",
            "test_b (m.T) ... FAIL",
            "test_c (m.T)",
            "Does a thing. ... skipped 'no net'",
            "test_d (m.T) ... it is ok",
            "  test_e (m.T.test_e) [msg] (i=1) ... ERROR",
            "FAIL: test_b (m.T)",
            "test_f (m.T) ... test_x (m.T) ... ok",
            "ok",
        ]);
        let found: Vec<_> = run.statuses.iter().collect();
        assert_eq!(
            found,
            [
                ("test_a (m.T)", TestStatus::Passed),
                ("test_b (m.T)", TestStatus::Failed),
                ("test_c (m.T)", TestStatus::Skipped),
                ("test_e (m.T.test_e)", TestStatus::Error),
                ("test_f (m.T)", TestStatus::Passed),
            ]
        );
        assert_eq!(run.unresolved, ["test_d (m.T)"]);
    }
}
