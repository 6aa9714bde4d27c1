//! Reads lines that begin with a status and go on with a free name: `PASSED name`, `[ok]: name (12 ms)`.
//!
//! A run time in brackets at the end varies between runs and is cut off; trailing blanks belong to the name.

use crate::{
    SuiteRun, TestStatus,
    log::{
        pattern::before,
        pytest::{self, WORD, Word},
    },
};

pattern!(LINE, r"^(?:(", WORD, r") |\[(ok|fail|skip)\]: )([^ \[].*)$");
pattern!(TIMING, r" \([0-9]+(?:\.[0-9]+)? ?(?:ms|s|m)\)$");

/// Reads the lines of a run.
pub(crate) fn parse(lines: &[&str]) -> SuiteRun {
    let mut run = SuiteRun::default();
    for line in lines {
        let Some(found) = LINE.captures(line) else { continue };
        let name = &found[3];
        let name = before(&TIMING, name);
        let word = match (found.get(1), found.get(2)) {
            (Some(word), _) => pytest::word(word.as_str()),
            (None, Some(mark)) => Some(Word::Status(match mark.as_str() {
                "ok" => TestStatus::Passed,
                "fail" => TestStatus::Failed,
                _ => TestStatus::Skipped,
            })),
            (None, None) => None,
        };
        match word {
            Some(Word::Status(status)) => run.statuses.record(name, status),
            Some(Word::Rerun) => run.statuses.record_rerun(name),
            None => {}
        }
    }
    run
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_times_are_cut_off_and_blanks_kept() {
        let run =
            parse(&["[ok]: adds (12 ms)", "PASSED a | b (n > 1) ", "PASSED [100%]", "[fail]: x (1.5s)"]);
        let names: Vec<_> = run.statuses.iter().map(|(name, _)| name.to_owned()).collect();
        assert_eq!(names, ["a | b (n > 1) ", "adds", "x"]);
    }
}
