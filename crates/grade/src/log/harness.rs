//! The logs that SWE-smith's harness leaves behind.

use super::{LogFormat, Marks, TestNames, read};
use crate::{Completion, SuiteRun};

/// The lines that SWE-smith's harness puts around a suite's output. They are the same in every run, so code under
/// test can print them; a repeated one makes the run forged.
pub const SWE_SMITH_MARKS: Marks<'static> =
    Marks { begin: ">>>>> Start Test Output", end: ">>>>> End Test Output" };

/// What stands before and after the seconds on the last line of a suite that was stopped.
const TIMED_OUT: (&str, &str) = (">>>>> Tests Timed Out: ", " seconds exceeded");

/// Reads a `test_output.txt` of SWE-smith's harness.
///
/// The harness appends its line about the time limit to a log that has no end mark. Only there it counts: the same
/// words elsewhere were printed by the suite.
pub fn parse_harness_log(format: impl Into<LogFormat>, names: TestNames, log: &[u8]) -> SuiteRun {
    let text = read::decode(log);
    let (lines, completion) = read::lines_between(&text, Some(SWE_SMITH_MARKS));
    let mut run = read::parse_lines(format.into(), names, &lines, completion);
    if run.completion == Completion::Incomplete && is_time_out(&text) {
        run.completion = Completion::TimedOut;
    }
    run
}

fn is_time_out(text: &str) -> bool {
    let last = text.trim_end().rsplit('\n').next().unwrap_or_default();
    let seconds = last.strip_prefix(TIMED_OUT.0).and_then(|rest| rest.strip_suffix(TIMED_OUT.1));
    seconds.is_some_and(|seconds| {
        !seconds.is_empty() && seconds.bytes().all(|b| b.is_ascii_digit() || b == b'.')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completion(log: &str) -> Completion {
        parse_harness_log(LogFormat::Pytest, TestNames::Collection, log.as_bytes()).completion
    }

    #[test]
    fn a_time_limit_counts_only_on_the_last_line_of_a_cut_log() {
        let begin = "+ : '>>>>> Start Test Output'\na.py::t PASSED\n";
        let end = "+ : '>>>>> End Test Output'\n";
        let limit = ">>>>> Tests Timed Out: 90 seconds exceeded";
        assert_eq!(completion(&format!("{begin}{end}")), Completion::Complete);
        assert_eq!(completion(&format!("{begin}\n\n{limit}")), Completion::TimedOut);
        assert_eq!(completion(&format!("{begin}{limit}\nmore\n")), Completion::Incomplete);
        assert_eq!(completion(&format!("{begin}{limit}\n{end}")), Completion::Complete);
        assert_eq!(completion(&format!("{begin}x{limit}")), Completion::Incomplete);
        assert_eq!(completion(begin), Completion::Incomplete);
    }
}
