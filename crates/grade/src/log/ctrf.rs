//! Reads reports in the Common Test Report Format (CTRF 1.0), alone or printed into a log.
//!
//! A report is a JSON object that begins on a line of its own and names `CTRF` as its `reportFormat`, or, in reports
//! from before the version was written down, holds `results` with `summary` and `tests`. Lines outside of reports are
//! not read. An object that does not end leaves the log incomplete.
//!
//! `passed`, `failed` and `skipped` are what they say and `pending` is a skip. `other` is no result: such a test
//! counts as not shown. A report that lists more passes than its summary counts is forged.

use serde::Deserialize;

use super::names::{Results, group};
use crate::{Completion, TestStatus};

#[derive(Deserialize)]
struct Document {
    #[serde(rename = "reportFormat")]
    format: Option<String>,
    results: Report,
}

#[derive(Deserialize)]
struct Report {
    summary: Summary,
    tests: Vec<Test>,
}

#[derive(Deserialize)]
struct Summary {
    passed: u64,
}

#[derive(Deserialize)]
struct Test {
    name: String,
    status: String,
    #[serde(default)]
    suite: Suite,
    #[serde(default)]
    retries: u64,
    #[serde(default)]
    flaky: bool,
}

/// What a test belongs to: a list of names from version 1.0 on, one text before.
#[derive(Default)]
struct Suite(Vec<String>);

impl<'de> Deserialize<'de> for Suite {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let names = match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::String(name) => vec![name],
            serde_json::Value::Array(names) => {
                names.into_iter().filter_map(|name| name.as_str().map(str::to_owned)).collect()
            }
            _ => Vec::new(),
        };
        Ok(Self(names))
    }
}

/// Reads the lines of a log.
pub(super) fn parse(lines: &[&str]) -> Results {
    let text = lines.join("\n");
    let mut results = Results::default();
    let mut at = 0;
    // Objects are at most 128 deep, so no byte is read more often than that.
    while let Some(begin) = next_object(&text, at) {
        let mut objects = serde_json::Deserializer::from_str(&text[begin..]).into_iter::<serde_json::Value>();
        let value = objects.next();
        let end = begin + objects.byte_offset();
        match value {
            Some(Ok(value)) => {
                at = end;
                if let Ok(document) = serde_json::from_value::<Document>(value)
                    && document.format.as_deref().is_none_or(|format| format == "CTRF")
                {
                    record(&mut results, document.results);
                }
            }
            Some(Err(error)) if error.is_eof() => {
                results.spoil(Completion::Incomplete, "a JSON object has no end".to_owned());
                return results;
            }
            // No object: what follows on later lines may be one.
            _ => at = text[begin..].find('\n').map_or(text.len(), |line| begin + line),
        }
    }
    results
}

/// Finds the next line that begins with a brace.
fn next_object(text: &str, from: usize) -> Option<usize> {
    if from == 0 && text.starts_with('{') {
        return Some(0);
    }
    text[from..].find("\n{").map(|at| from + at + 1)
}

fn record(results: &mut Results, report: Report) {
    let mut passes = 0_u64;
    for test in report.tests {
        let suite = group(test.suite.0.iter().map(String::as_str));
        let status = match test.status.as_str() {
            "passed" => TestStatus::Passed,
            "failed" => TestStatus::Failed,
            "skipped" | "pending" => TestStatus::Skipped,
            _ => {
                results.announce(&suite, &test.name);
                continue;
            }
        };
        passes += u64::from(status == TestStatus::Passed);
        results.record(&suite, &test.name, status);
        if test.flaky || test.retries > 0 {
            results.record_rerun(&suite, &test.name);
        }
    }
    if passes > report.summary.passed {
        let detail = format!("{passes} passes are listed where the summary counts {}", report.summary.passed);
        results.spoil(Completion::Forged, detail);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LogFormat, SuiteRun, TestNames, parse_log_named};

    fn read(text: &str) -> SuiteRun {
        parse_log_named(LogFormat::Ctrf, TestNames::Full, text.as_bytes(), None)
    }

    const REPORT: &str = r#"{"reportFormat": "CTRF", "results": {"summary": {"passed": 2}, "tests": [
{"name": "adds", "status": "passed", "suite": ["a.js", "till"]},
{"name": "takes", "status": "failed", "suite": "a.js > till"},
{"name": "again", "status": "passed", "retries": 1},
{"name": "later", "status": "pending"},
{"name": "odd", "status": "other"}]}}"#;

    #[test]
    fn reports_are_read_and_lines_around_them_are_not() {
        let noise = "{not json\n{\"name\": \"forged\", \"status\": \"passed\"}\n{\"reportFormat\": \"X\", \"results\": 1}\n";
        let run = read(&[noise, REPORT, "\nPASSED forged\n"].concat());
        assert_eq!(
            run.statuses.iter().collect::<Vec<_>>(),
            [
                ("a.js > till > adds", TestStatus::Passed),
                ("a.js > till > takes", TestStatus::Failed),
                ("again", TestStatus::Passed),
                ("later", TestStatus::Skipped),
            ]
        );
        assert_eq!(run.unresolved, ["odd"]);
        assert_eq!(run.statuses.flaky().collect::<Vec<_>>(), ["again"]);
        assert_eq!(run.completion, Completion::Complete);
    }

    #[test]
    fn a_cut_report_counts_for_nothing_and_a_padded_one_is_forged() {
        let run = read(&REPORT[..REPORT.len() - 2]);
        assert_eq!((run.completion, run.statuses.len()), (Completion::Incomplete, 0));
        let run = read(&REPORT.replace("\"passed\": 2", "\"passed\": 1"));
        assert_eq!(run.detail.as_deref(), Some("2 passes are listed where the summary counts 1"));
        assert_eq!(run.completion, Completion::Forged);
    }
}
