//! What the parsers of recorded logs share: decoding, escape sequences, marks, the choice of a parser.
//!
//! Log parsers exist for recorded logs and for runners without a report. A log can be forged by the code under
//! test; [`crate::read_report`] is what a live run is graded by.

use std::sync::LazyLock;

use regex::Regex;
use serde::{Deserialize, Serialize};

use crate::{Completion, SuiteRun, lines, pytest, unittest};

/// Longest line looked at, in characters: no runner reports a result on a longer one.
const MAX_LINE_CHARS: usize = 32_768;

/// The runner whose output is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Framework {
    /// Pytest: verbose lines, the `-rA` summary, pytest-xdist's lines.
    Pytest,
    /// Python's unittest with `--verbose`, Django's runner included.
    Unittest,
    /// Lines that begin with a status, `PASSED name` or `[ok]: name (12 ms)`.
    Lines,
}

impl Framework {
    /// Gives the name used in configurations.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pytest => "pytest",
            Self::Unittest => "unittest",
            Self::Lines => "lines",
        }
    }
}

/// The two lines between which a log counts; choose them anew for every run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks<'a> {
    /// Stands before the suite's output.
    pub begin: &'a str,
    /// Stands after the suite's output.
    pub end: &'a str,
}

/// Reads a recorded log.
///
/// Bytes that are not UTF-8 become U+FFFD, escape sequences are removed. With marks only the lines between them
/// count, a missing one makes the run incomplete and a repeated one makes it forged; without marks every line
/// counts and the run is taken as complete.
pub fn parse_log(framework: Framework, log: &[u8], marks: Option<Marks<'_>>) -> SuiteRun {
    let text = String::from_utf8_lossy(log);
    let text = ESCAPES.replace_all(&text, "");
    let (lines, completion) = lines_between(&text, marks);
    let mut run = match framework {
        Framework::Pytest => pytest::parse(&lines),
        Framework::Unittest => unittest::parse(&lines),
        Framework::Lines => lines::parse(&lines),
    };
    run.completion = completion;
    run
}

/// Matches terminal escape sequences: colours and cursor moves, titles, two-character ones.
static ESCAPES: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\x1b\[[0-9;:?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\^_]")
        .expect("the pattern is fixed and valid")
});

fn lines_between<'t>(text: &'t str, marks: Option<Marks<'_>>) -> (Vec<&'t str>, Completion) {
    let mut lines: Vec<&str> = text
        .split('\n')
        .map(|line| line.trim_end_matches('\r'))
        .filter(|line| line.len() <= MAX_LINE_CHARS || line.chars().count() <= MAX_LINE_CHARS)
        .collect();
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
        let text = "\x1b[1;32mPASSED\x1b[0m \x1b]0;title\x07x\x1b[K";
        assert_eq!(ESCAPES.replace_all(text, ""), "PASSED x");
    }
}
