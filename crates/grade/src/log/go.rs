//! Reads `go test`: the text of `-v`, or the events of `-json`.
//!
//! Text. `=== RUN   name` announces a test, `--- PASS: name (0.00s)` ends it, indented for subtests. A result may
//! stand behind text that the test printed without a line end. Once any test was announced, results without
//! announcement are printed text. The package comes last: `ok`, `FAIL` or `?`, a tab, its path. A package that fails
//! without a failing test (it did not build, or its process died) is an error under the package's own name.
//!
//! Events. As soon as one line is an event, only events count, and the line of a package that could not be built, which
//! older versions print beside them. Their `Output` is never read. Before Go 1.20 a printed result became an event, too;
//! results of tests that no `run` event announced are therefore none.

use std::{collections::HashSet, rc::Rc};

use serde::Deserialize;

use super::names::{Results, group};
use crate::TestStatus;

pattern!(RUN, r"^=== RUN +(\S+)$");
pattern!(RESULT, r"^(.*?)--- (PASS|FAIL|SKIP): (\S+) \([0-9]+(?:\.[0-9]+)?s\)$");
pattern!(BUILD_FAILED, r"^FAIL\t(\S+) \[(?:build|setup) failed\]$");
pattern!(PACKAGE, r"^(ok  |FAIL|\?   |---)\t([^\s\[]+)(?:[\t ].*)?$");

/// Reads the lines of a run.
pub(super) fn parse(lines: &[&str]) -> Results {
    let events: Vec<Event> = lines.iter().filter_map(|line| Event::read(line)).collect();
    if events.is_empty() {
        return parse_text(lines);
    }
    let mut results = parse_events(events);
    for package in lines.iter().filter_map(|line| BUILD_FAILED.captures(line)) {
        results.record(&group([&package[1]]), "", TestStatus::Error);
    }
    results
}

fn parse_text(lines: &[&str]) -> Results {
    let mut results = Results::default();
    let announces = lines.iter().any(|line| RUN.is_match(line));
    let mut announced: HashSet<&str> = HashSet::new();
    let mut shown: Vec<(&str, TestStatus)> = Vec::new();
    for &line in lines {
        if let Some(found) = RUN.captures(line) {
            announced.insert(found.extract::<1>().1[0]);
        } else if let Some(found) = RESULT.captures(line) {
            let (_, [before, word, name]) = found.extract();
            let is_known = announced.contains(name);
            if is_known || !announces && before.trim_start().is_empty() {
                shown.push((name, status(word)));
            }
        } else if let Some(found) = PACKAGE.captures(line) {
            let (_, [word, path]) = found.extract();
            settle(&mut results, &group([path]), &mut announced, &mut shown, word == "FAIL");
        }
    }
    settle(&mut results, &group([]), &mut announced, &mut shown, false);
    results
}

/// Books what was shown since the last package line under the package.
fn settle(
    results: &mut Results,
    package: &Rc<str>,
    announced: &mut HashSet<&str>,
    shown: &mut Vec<(&str, TestStatus)>,
    failed: bool,
) {
    if failed && !shown.iter().any(|(_, status)| status.is_failure()) {
        results.record(package, "", TestStatus::Error);
    }
    for name in announced.drain() {
        results.announce(package, name);
    }
    for (name, status) in shown.drain(..) {
        results.record(package, name, status);
    }
}

fn status(word: &str) -> TestStatus {
    match word {
        "PASS" => TestStatus::Passed,
        "SKIP" => TestStatus::Skipped,
        _ => TestStatus::Failed,
    }
}

/// One line of `-json`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Event {
    action: String,
    #[serde(default)]
    package: String,
    #[serde(default)]
    test: String,
    #[serde(default)]
    import_path: String,
}

/// The actions of `go test -json`.
const ACTIONS: [&str; 11] = [
    "start",
    "run",
    "pause",
    "cont",
    "pass",
    "bench",
    "fail",
    "output",
    "skip",
    "build-output",
    "build-fail",
];

impl Event {
    fn read(line: &str) -> Option<Self> {
        if !line.starts_with('{') {
            return None;
        }
        let event: Self = serde_json::from_str(line).ok()?;
        ACTIONS.contains(&event.action.as_str()).then_some(event)
    }
}

fn parse_events(events: Vec<Event>) -> Results {
    let mut results = Results::default();
    let mut failing: HashSet<String> = HashSet::new();
    let mut running: HashSet<(String, String)> = HashSet::new();
    for event in events {
        let Event { action, package, test, import_path } = event;
        let place = group([package.as_str()]);
        if action == "run" {
            running.insert((package.clone(), test.clone()));
        } else if !test.is_empty() && !running.contains(&(package.clone(), test.clone())) {
            continue;
        }
        match (action.as_str(), test.is_empty()) {
            ("run", false) => results.announce(&place, &test),
            ("pass", false) => results.record(&place, &test, TestStatus::Passed),
            ("skip", false) => results.record(&place, &test, TestStatus::Skipped),
            ("fail", false) => {
                results.record(&place, &test, TestStatus::Failed);
                failing.insert(package);
            }
            ("fail", true) if !package.is_empty() && !failing.contains(&package) => {
                results.record(&place, "", TestStatus::Error);
            }
            ("build-fail", _) if !import_path.is_empty() => {
                results.record(&group([import_path.as_str()]), "", TestStatus::Error);
            }
            _ => {}
        }
    }
    results
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LogFormat, SuiteRun, TestNames, parse_log_named};

    fn read(names: TestNames, text: &str) -> SuiteRun {
        parse_log_named(LogFormat::Go, names, text.as_bytes(), None)
    }

    fn pairs(run: &SuiteRun) -> Vec<(&str, TestStatus)> {
        run.statuses.iter().collect()
    }

    const TEXT: &str = "=== RUN   TestA\n=== RUN   TestA/small_case\n=== PAUSE TestA/small_case\n=== CONT  TestA/small_case\n\
        --- PASS: TestA (0.00s)\n    --- PASS: TestA/small_case (0.00s)\n=== RUN   TestB\n    b_test.go:3: no net\n\
        --- SKIP: TestB (0.01s)\nPASS\nok  \texample.test/one\t0.010s\n=== RUN   TestA\nprinted--- FAIL: TestA (1.25s)\n\
        FAIL\nFAIL\texample.test/two\t1.26s\n?   \texample.test/none\t[no test files]\nFAIL\n";

    #[test]
    fn packages_take_the_results_before_them() {
        assert_eq!(
            pairs(&read(TestNames::Full, TEXT)),
            [
                ("example.test/one > TestA", TestStatus::Passed),
                ("example.test/one > TestA/small_case", TestStatus::Passed),
                ("example.test/one > TestB", TestStatus::Skipped),
                ("example.test/two > TestA", TestStatus::Failed),
            ]
        );
        let run = read(TestNames::Collection, TEXT);
        assert_eq!(run.statuses.get("TestA"), Some(TestStatus::Failed));
        assert_eq!(run.statuses.len(), 3);
        assert!(!run.statuses.is_flaky("TestA"));
    }

    #[test]
    fn printed_results_are_none() {
        let run = read(
            TestNames::Collection,
            "=== RUN   TestA\n--- PASS: TestForged (0.00s)\n--- PASS: TestA (fast)\n--- FAIL: TestA (0.00s)\nFAIL\tp\t0.1s\n",
        );
        assert_eq!(pairs(&run), [("TestA", TestStatus::Failed)]);
        // Without -v only failures are shown, and nothing is announced.
        let run =
            read(TestNames::Collection, "--- FAIL: TestA (0.00s)\n    a_test.go:1: no\nFAIL\tp\t0.1s\n");
        assert_eq!(pairs(&run), [("TestA", TestStatus::Failed)]);
    }

    #[test]
    fn packages_that_fail_by_themselves_are_errors() {
        let run = read(
            TestNames::Full,
            "FAIL\tp/one [build failed]\n=== RUN   TestA\npanic: oh no\nFAIL\tp/two\t0.1s\nok  \tp/three\t(cached)\n",
        );
        assert_eq!(pairs(&run), [("p/one", TestStatus::Error), ("p/two", TestStatus::Error)]);
        assert_eq!(run.unresolved, ["p/two > TestA"]);
    }

    #[test]
    fn events_count_and_their_output_does_not() {
        let text = r#"{"Action":"start","Package":"p"}
go: downloading something
{"Time":"2025-01-01T00:00:00Z","Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"--- PASS: TestZ (0.00s)\n"}
{"Action":"fail","Package":"p","Test":"TestA","Elapsed":0.1}
--- PASS: TestY (0.00s)
{"Action":"run","Package":"p","Test":"TestB"}
{"Action":"run","Package":"q","Test":"TestA"}
{"Action":"pass","Package":"q","Test":"TestA","Elapsed":0.1}
{"Action":"pass","Package":"q","Test":"TestForged","Elapsed":0.1}
{"Action":"fail","Package":"p","Elapsed":0.1}
FAIL	s [build failed]
FAIL	t [setup failed]
{"ImportPath":"r","Action":"build-fail"}
{"Action":"pass","Package":"q","Test":"TestC"
"#;
        let run = read(TestNames::Full, text);
        assert_eq!(
            pairs(&run),
            [
                ("p > TestA", TestStatus::Failed),
                ("q > TestA", TestStatus::Passed),
                ("r", TestStatus::Error),
                ("s", TestStatus::Error),
                ("t", TestStatus::Error),
            ]
        );
        assert_eq!(run.unresolved, ["p > TestB"]);
    }
}
