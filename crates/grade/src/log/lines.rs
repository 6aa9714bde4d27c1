//! Reads lines that begin with a status and go on with a free name: `PASSED name`, `[ok]: name (12 ms)`.
//!
//! A run time in brackets at the end varies between runs and is cut off; trailing blanks belong to the name.

use std::sync::LazyLock;

use regex::Regex;

use crate::{
    SuiteRun, TestStatus,
    log::pytest::{self, WORD, Word},
};

static LINE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(&[r"^(?:(", WORD, r") |\[(ok|fail|skip)\]: )([^ \[].*)$"].concat())
        .expect("the pattern is fixed and valid")
});
static TIMING: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r" \([0-9]+(?:\.[0-9]+)? ?(?:ms|s|m)\)$").expect("the pattern is fixed and valid")
});

/// Reads the lines of a run.
pub(crate) fn parse(lines: &[&str]) -> SuiteRun {
    let mut run = SuiteRun::default();
    for line in lines {
        let Some(found) = LINE.captures(line) else { continue };
        let name = &found[3];
        let name = TIMING.find(name).map_or(name, |timing| &name[..timing.start()]);
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
