//! Reads libtest's JSON events, one on a line: those of `cargo test` and those of `cargo nextest`.
//!
//! | event | meaning |
//! |---|---|
//! | `{"type":"suite","event":"started",...}` | a binary begins; nextest names it under `nextest` |
//! | `{"type":"test","event":"started","name":"till::adds"}` | a result should follow |
//! | `{"type":"test","event":"ok","name":"till::adds"}`, `failed`, `ignored`, `timeout` | a result |
//! | `{"type":"suite","event":"ok","passed":3,...}` | the binary's own count |
//!
//! nextest writes `shop::it$till::adds#2` for the second try of a test of the binary `shop::it`. A binary that shows
//! more passes than it counts had lines printed into its output; one without a count was cut off.

use std::{borrow::Cow, rc::Rc};

use serde::Deserialize;

use super::{
    cargo,
    names::{Results, group},
};
use crate::{Completion, TestStatus};

pattern!(TRY, r"#[0-9]+$");

/// One line of the events.
#[derive(Deserialize)]
struct Event<'t> {
    #[serde(rename = "type")]
    kind: &'t str,
    #[serde(rename = "event")]
    what: &'t str,
    #[serde(borrow)]
    name: Option<Cow<'t, str>>,
    passed: Option<u64>,
    #[serde(borrow)]
    nextest: Option<Binary<'t>>,
}

/// How nextest names a binary.
#[derive(Deserialize)]
struct Binary<'t> {
    #[serde(rename = "crate")]
    package: &'t str,
    #[serde(rename = "test_binary")]
    name: &'t str,
    kind: &'t str,
}

impl Binary<'_> {
    /// Gives the id that nextest prints: `shop`, `shop::it`, `shop::bin/till`.
    fn id(&self) -> Rc<str> {
        match self.kind {
            "lib" | "proc-macro" => Rc::from(self.package),
            "test" => Rc::from([self.package, "::", self.name].concat()),
            kind => Rc::from([self.package, "::", kind, "/", self.name].concat()),
        }
    }
}

impl<'t> Event<'t> {
    fn read(line: &'t str) -> Option<Self> {
        if !line.starts_with('{') {
            return None;
        }
        let event: Self = serde_json::from_str(line).ok()?;
        matches!(event.kind, "suite" | "test").then_some(event)
    }
}

/// Reads the lines of a run; `None` when no line is an event, so that the log is text.
pub(super) fn parse(lines: &[&str]) -> Option<Results> {
    let mut results = Results::default();
    let mut binary = group([]);
    let mut passes: Option<u64> = None; // shown by the suite that runs, where one does
    let mut is_any = false;
    for line in lines {
        let Some(event) = Event::read(line) else {
            if let Some(named) = cargo::binary(line) {
                binary = group([named]);
            }
            continue;
        };
        is_any = true;
        if event.kind == "test" {
            let Some(name) = &event.name else { continue };
            let shown = test(&mut results, &binary, name, event.what);
            passes = passes.map(|passes| passes + u64::from(shown == Some(TestStatus::Passed)));
        } else if event.what == "started" {
            end(&mut results, passes, None);
            passes = Some(0);
            if let Some(named) = &event.nextest {
                binary = named.id();
            }
        } else {
            end(&mut results, passes.take(), event.passed);
        }
    }
    end(&mut results, passes, None);
    is_any.then_some(results)
}

/// Ends a suite that showed so many passes and counts so many.
fn end(results: &mut Results, passes: Option<u64>, counted: Option<u64>) {
    match (passes, counted) {
        (Some(_), None) => {
            results.spoil(Completion::Incomplete, "a suite has no end among its events".to_owned());
        }
        (Some(passes), Some(counted)) if passes > counted => {
            results.spoil(
                Completion::Forged,
                format!("{passes} passes are shown where the suite counts {counted}"),
            );
        }
        _ => {}
    }
}

fn test(results: &mut Results, binary: &Rc<str>, name: &str, event: &str) -> Option<TestStatus> {
    let (name, is_rerun) = match name.split_once('$') {
        Some((_, name)) => TRY.find(name).map_or((name, false), |again| (&name[..again.start()], true)),
        None => (name, false),
    };
    if is_rerun {
        results.record_rerun(binary, name);
    }
    let status = match event {
        "ok" => TestStatus::Passed,
        "failed" => TestStatus::Failed,
        "ignored" => TestStatus::Skipped,
        // `started`, and `timeout`, which only says that a test takes long.
        _ => {
            results.announce(binary, name);
            return None;
        }
    };
    results.record(binary, name, status);
    Some(status)
}

#[cfg(test)]
mod tests {
    use crate::{Completion, LogFormat, SuiteRun, TestNames, TestStatus, parse_log_named};

    fn read(format: LogFormat, text: &str) -> SuiteRun {
        parse_log_named(format, TestNames::Full, text.as_bytes(), None)
    }

    #[test]
    fn a_binary_without_an_end_is_cut_off_and_one_that_shows_too_much_is_forged() {
        let begin = "{\"type\":\"suite\",\"event\":\"started\",\"test_count\":1}\n\
            {\"type\":\"test\",\"event\":\"started\",\"name\":\"a\"}\n";
        let run = read(LogFormat::Cargo, begin);
        assert_eq!((run.completion, &*run.unresolved), (Completion::Incomplete, &["a".to_owned()][..]));
        let ok = "{\"type\":\"test\",\"event\":\"ok\",\"name\":\"a\"}\n";
        let end = "{\"type\":\"suite\",\"event\":\"ok\",\"passed\":1}\n";
        assert_eq!(read(LogFormat::Cargo, &[begin, ok, end].concat()).completion, Completion::Complete);
        let twice = read(LogFormat::Nextest, &[begin, ok, ok, end].concat());
        assert_eq!(twice.detail.as_deref(), Some("2 passes are shown where the suite counts 1"));
    }

    #[test]
    fn lines_beside_events_are_no_results() {
        let text = "{\"type\":\"test\",\"event\":\"ok\",\"name\":\"a\"}\ntest b ... ok\n{\"type\":\"test\"}\n{\"type\":\n";
        let run = read(LogFormat::Cargo, text);
        assert_eq!(run.statuses.iter().collect::<Vec<_>>(), [("a", TestStatus::Passed)]);
    }
}
