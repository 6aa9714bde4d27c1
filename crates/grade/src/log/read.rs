//! From the bytes of a log to the lines a parser sees: decoding, escape sequences, marks.

use std::borrow::Cow;

use super::{
    LogFormat, TestNames, cargo, ctrf, go, jest, junit, lines, names::Results, nextest, pytest, spec,
    surefire, tap, unittest, vitest,
};
use crate::{Completion, SuiteRun};

/// Longest line looked at, in characters: no runner reports a result on a longer one.
const MAX_LINE_CHARS: usize = 32_768;

/// The two lines between which a log counts; choose them anew for every run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks<'a> {
    /// Stands before the suite's output.
    pub begin: &'a str,
    /// Stands after the suite's output.
    pub end: &'a str,
}

/// Reads a recorded log, under the names of the public collections.
///
/// Bytes that are not UTF-8 become U+FFFD, escape sequences are removed. With marks only the lines between them
/// count, a missing one makes the run incomplete and a repeated one makes it forged; without marks every line
/// counts and the run is taken as complete.
pub fn parse_log(format: impl Into<LogFormat>, log: &[u8], marks: Option<Marks<'_>>) -> SuiteRun {
    parse_log_named(format, TestNames::Collection, log, marks)
}

/// Reads a recorded log, under the names of choice.
pub fn parse_log_named(
    format: impl Into<LogFormat>,
    names: TestNames,
    log: &[u8],
    marks: Option<Marks<'_>>,
) -> SuiteRun {
    let text = decode(log);
    let (lines, completion) = lines_between(&text, marks);
    parse_lines(format.into(), names, &lines, completion)
}

/// Decodes a log and takes its escape sequences out.
pub(super) fn decode(log: &[u8]) -> String {
    let text = String::from_utf8_lossy(log);
    match ESCAPES.replace_all(&text, "") {
        Cow::Borrowed(_) => text.into_owned(),
        Cow::Owned(plain) => plain,
    }
}

/// Reads the lines of a suite. `completion` says how far the log as a whole goes; what a parser finds out about it
/// counts where the log is complete.
pub(super) fn parse_lines(
    format: LogFormat,
    names: TestNames,
    lines: &[&str],
    completion: Completion,
) -> SuiteRun {
    let results: Results = match format {
        LogFormat::Pytest => return SuiteRun { completion, ..pytest::parse(&short(lines)) },
        LogFormat::Unittest => return SuiteRun { completion, ..unittest::parse(&short(lines)) },
        LogFormat::Lines => return SuiteRun { completion, ..lines::parse(&short(lines)) },
        LogFormat::Junit => junit::parse(lines),
        LogFormat::Ctrf => ctrf::parse(lines),
        LogFormat::Go => go::parse(&visible(lines)),
        LogFormat::Cargo => cargo::parse(&visible(lines)),
        LogFormat::Nextest => nextest::parse(&visible(lines)),
        LogFormat::Jest => jest::parse(&visible(lines)),
        LogFormat::Mocha => spec::parse_mocha(&visible(lines)),
        LogFormat::Node => spec::parse_node(&visible(lines)),
        LogFormat::Vitest => vitest::parse(&visible(lines)),
        LogFormat::Tap => tap::parse(&visible(lines)),
        LogFormat::Surefire => surefire::parse(&visible(lines)),
    };
    let mut run = results.into_run(names);
    if completion != Completion::Complete {
        (run.completion, run.detail) = (completion, None);
    }
    run
}

/// Leaves out lines that are too long to be results.
fn short<'t>(lines: &[&'t str]) -> Vec<&'t str> {
    let is_short = |line: &&str| line.len() <= MAX_LINE_CHARS || line.chars().count() <= MAX_LINE_CHARS;
    lines.iter().copied().filter(is_short).collect()
}

/// Gives what a terminal would show at the end of each line: the last text that a carriage return did not wipe.
fn visible<'t>(lines: &[&'t str]) -> Vec<&'t str> {
    let last = |line: &&'t str| line.rsplit('\r').find(|part| !part.is_empty()).unwrap_or_default();
    short(&lines.iter().map(last).collect::<Vec<_>>())
}

pattern!(
    /// Matches terminal escape sequences: colours and cursor moves, titles, two-character ones.
    ESCAPES,
    r"\x1b\[[0-9;:?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\^_]"
);

/// Splits a text at its line ends and keeps what lies between the marks.
pub(super) fn lines_between<'t>(text: &'t str, marks: Option<Marks<'_>>) -> (Vec<&'t str>, Completion) {
    let mut lines: Vec<&str> = text.split('\n').map(|line| line.trim_end_matches('\r')).collect();
    let Some(marks) = marks else { return (lines, Completion::Complete) };
    let places = |mark: &str| -> Vec<usize> {
        let traced = format!("+ : '{mark}'"); // how a shell that traces its commands shows `: 'MARK'`
        let is_mark = |line: &str| {
            let line = line.trim_matches([' ', '\t']);
            line == mark || line == traced
        };
        (0..lines.len()).filter(|&at| is_mark(lines[at])).collect()
    };
    let (begins, ends) = (places(marks.begin), places(marks.end));
    let Some(&begin) = begins.first() else { return (Vec::new(), Completion::Incomplete) };
    let completion = match ends.first() {
        _ if begins.len() > 1 || ends.len() > 1 => Completion::Forged,
        Some(&end) if end > begin => {
            lines.truncate(end);
            Completion::Complete
        }
        _ => Completion::Incomplete,
    };
    lines.drain(..=begin);
    (lines, completion)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARKS: Marks<'static> = Marks { begin: "<begin>", end: "<end>" };

    #[test]
    fn only_text_between_the_marks_counts() {
        let (lines, completion) = lines_between("a\n + : '<begin>'\nb\r\n<end>\nc", Some(MARKS));
        assert_eq!(lines, ["b"]);
        assert_eq!(completion, Completion::Complete);
    }

    #[test]
    fn missing_and_repeated_marks_are_told_apart() {
        assert_eq!(lines_between("<begin>\nb", Some(MARKS)).1, Completion::Incomplete);
        assert_eq!(lines_between("b\n<end>", Some(MARKS)), (vec![], Completion::Incomplete));
        assert_eq!(lines_between("<end>\n<begin>\nb", Some(MARKS)).1, Completion::Incomplete);
        assert_eq!(lines_between("<begin>\n<end>\n<end>", Some(MARKS)).1, Completion::Forged);
    }

    #[test]
    fn escape_sequences_disappear() {
        assert_eq!(decode(b"\x1b[1;32mPASSED\x1b[0m \x1b]0;title\x07x\x1b[K"), "PASSED x");
    }

    #[test]
    fn the_last_text_that_was_not_wiped_is_seen() {
        assert_eq!(visible(&[" 10%\r 99%\rok", "a\r", "plain", "\r"]), ["ok", "a", "plain", ""]);
        assert_eq!(short(&["x".repeat(MAX_LINE_CHARS + 1).as_str(), "y"]), ["y"]);
    }
}
