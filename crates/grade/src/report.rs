//! Reads the machine-readable report that the pytest plugin writes during a run.
//!
//! JSON lines, each with the nonce of the run and a number that counts from 0 without gaps. The first is `start`,
//! the last `end`, which repeats the counts of all statuses and names the exit status pytest is about to end with.
//! Reading is strict: a line that the plugin cannot have written makes the whole run forged.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::{Completion, SuiteRun, TestStatus};

/// Names the schema of the report's first line.
pub const REPORT_SCHEMA: &str = "seatrial.report/2";

/// Largest report that is read, in bytes.
pub const MAX_REPORT_BYTES: usize = 64 << 20;

/// Longest test id in a report, in characters.
const MAX_ID_CHARS: usize = 16_384;

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
#[expect(dead_code, reason = "versions are there for people, and the line must hold them")]
enum Line {
    Start { nonce: String, n: u64, schema: String, runner: String, python: String },
    Test { nonce: String, n: u64, id: String, when: String, status: String },
    Collect { nonce: String, n: u64, id: String, status: String },
    Tamper { nonce: String, n: u64 },
    End { nonce: String, n: u64, exit: i32, counts: BTreeMap<String, u64> },
}

/// Reads a report; `None` when not one byte was written, which is the harness's fault and not a result.
pub fn read_report(report: &[u8], nonce: &str) -> Option<SuiteRun> {
    if report.is_empty() {
        return None;
    }
    let mut reader = Reader { nonce, run: SuiteRun::default(), counts: BTreeMap::new(), tampered: false };
    if let Err(detail) = reader.read(report) {
        reader.run.completion = Completion::Forged;
        reader.run.detail = Some(detail);
    }
    Some(reader.run)
}

/// What a result line speaks of.
#[derive(Clone, Copy)]
enum Source {
    Test,
    Subtest,
    Collection,
}

struct Reader<'a> {
    nonce: &'a str,
    run: SuiteRun,
    counts: BTreeMap<String, u64>,
    tampered: bool,
}

impl Reader<'_> {
    fn read(&mut self, report: &[u8]) -> Result<(), String> {
        if report.len() > MAX_REPORT_BYTES {
            return Err(format!("the report is larger than {MAX_REPORT_BYTES} bytes"));
        }
        let mut lines: Vec<&[u8]> = report.split(|&byte| byte == b'\n').collect();
        let cut = lines.pop().unwrap_or_default(); // empty when the last line is whole
        for (number, raw) in lines.into_iter().enumerate() {
            if self.run.completion == Completion::Complete {
                return Err(format!("line {number} follows the end"));
            }
            self.line(number, raw)?;
        }
        if !cut.is_empty() && self.run.completion == Completion::Complete {
            return Err("text follows the end".to_owned());
        }
        if self.tampered {
            return Err("parts of the runner were replaced during the run".to_owned());
        }
        Ok(())
    }

    fn line(&mut self, number: usize, raw: &[u8]) -> Result<(), String> {
        let strange = || format!("line {number} has an unknown shape");
        let value: crate::json::Strict =
            serde_json::from_slice(raw).map_err(|_| format!("line {number} is not JSON"))?;
        let line: Line = serde_json::from_value(value.0).map_err(|_| strange())?;
        let (Line::Start { nonce, n, .. }
        | Line::Test { nonce, n, .. }
        | Line::Collect { nonce, n, .. }
        | Line::Tamper { nonce, n }
        | Line::End { nonce, n, .. }) = &line;
        if nonce != self.nonce {
            return Err(format!("line {number} has another nonce"));
        }
        if *n != number as u64 || (number == 0) != matches!(line, Line::Start { .. }) {
            return Err(format!("line {number} is out of order"));
        }
        match line {
            Line::Start { schema, .. } => {
                if schema != REPORT_SCHEMA {
                    return Err(format!("line 0 names schema another than {REPORT_SCHEMA}"));
                }
            }
            Line::Tamper { .. } => self.tampered = true,
            Line::End { exit, counts, .. } => {
                if counts != self.counts {
                    return Err("the counts of the end record do not agree with the lines".to_owned());
                }
                self.run.completion = Completion::Complete;
                self.run.end_exit = Some(exit);
            }
            Line::Test { id, when, status, .. } => {
                let source = if when == "subtest" { Source::Subtest } else { Source::Test };
                self.result(&id, &status, source).ok_or_else(strange)?;
            }
            Line::Collect { id, status, .. } => {
                self.result(&id, &status, Source::Collection).ok_or_else(strange)?;
            }
        }
        Ok(())
    }

    fn result(&mut self, id: &str, word: &str, source: Source) -> Option<()> {
        if id.chars().count() > MAX_ID_CHARS {
            return None;
        }
        let status = match word {
            "passed" => Some(TestStatus::Passed),
            "xpass" => Some(TestStatus::Xpass),
            "xfail" => Some(TestStatus::Xfail),
            "skipped" => Some(TestStatus::Skipped),
            "failed" => Some(TestStatus::Failed),
            "error" => Some(TestStatus::Error),
            "rerun" => None,
            _ => return None,
        };
        *self.counts.entry(word.to_owned()).or_default() += 1;
        match (status, source) {
            (None, _) => self.run.statuses.record_rerun(id),
            (Some(TestStatus::Failed), Source::Subtest) => self.run.statuses.record_failed_part(id),
            // A skipped file or class has no test id.
            (Some(TestStatus::Skipped), Source::Collection) => self.run.placed_skips += 1,
            (Some(status), _) => self.run.statuses.record(id, status),
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const START: &str =
        r#"{"nonce":"x","n":0,"kind":"start","schema":"seatrial.report/2","runner":"9.0","python":"3.12"}"#;
    const TEST: &str = r#"{"nonce":"x","n":1,"kind":"test","id":"a.py::t","when":"call","status":"passed"}"#;
    const END: &str = r#"{"nonce":"x","n":2,"kind":"end","exit":0,"counts":{"passed":1}}"#;

    fn read(lines: &[&str]) -> SuiteRun {
        read_report((lines.join("\n") + "\n").as_bytes(), "x").unwrap()
    }

    fn forged(lines: &[&str]) -> String {
        let run = read(lines);
        assert_eq!(run.completion, Completion::Forged, "{lines:?}");
        run.detail.unwrap()
    }

    #[test]
    fn a_whole_report_is_complete() {
        let run = read(&[START, TEST, END]);
        assert_eq!(run.completion, Completion::Complete);
        assert_eq!(run.end_exit, Some(0));
        assert_eq!(run.statuses.get("a.py::t"), Some(TestStatus::Passed));
    }

    #[test]
    fn a_cut_report_is_incomplete() {
        assert_eq!(read(&[START, TEST]).completion, Completion::Incomplete);
        let run = read_report(format!("{START}\n{{\"non").as_bytes(), "x").unwrap();
        assert_eq!(run.completion, Completion::Incomplete);
        assert_eq!(read_report(b"", "x"), None);
    }

    #[test]
    fn whatever_the_plugin_cannot_have_written_is_forged() {
        assert!(forged(&[START, &TEST.replace(r#""nonce":"x""#, r#""nonce":"y""#), END]).contains("nonce"));
        assert!(forged(&[START, END]).contains("order"));
        assert!(forged(&[START, TEST, &END.replace(":1}", ":2}")]).contains("counts"));
        assert!(forged(&[START, TEST, END, END]).contains("follows the end"));
        assert!(forged(&[TEST, END]).contains("order"));
        assert!(forged(&[START, "PASSED a.py::t"]).contains("not JSON"));
        assert!(forged(&[START, &TEST.replace("passed", "fine"), END]).contains("unknown shape"));
        assert!(forged(&[START, &TEST.replace(r#""n":1"#, r#""n":1,"n":1"#), END]).contains("not JSON"));
        assert!(forged(&[START, &TEST.replace(r#""n":1"#, r#""n":1,"m":1"#), END]).contains("unknown shape"));
        assert!(forged(&[START, r#"{"nonce":"x","n":1,"kind":"tamper"}"#]).contains("replaced"));
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_strange(bytes in proptest::collection::vec(any::<u8>(), 1..200)) {
            prop_assert!(read_report(&bytes, "x").is_some());
        }
    }
}
