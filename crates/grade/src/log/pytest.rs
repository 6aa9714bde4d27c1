//! Reads pytest's terminal output: verbose lines, the `-rA` summary and pytest-xdist's lines.
//!
//! Recognised, in this order (`vendored/verify.py` holds the same rules):
//!
//! | line | meaning |
//! |---|---|
//! | `[gw0] [ 5%] PASSED id` | a worker's result |
//! | `SUBFAIL id - reason`, also after `[message] (i=1)` | a failed subtest fails its test |
//! | `PASSED`, `PASSED [ 50%]` | the status of the last id that had none; a progress mark is never a name |
//! | `FAILED id - reason` | summary; the reason begins at ` - ` outside the id's brackets |
//! | `SKIPPED [1] file:3: reason` | a skip that names a place, not a test |
//! | `ERROR file.py` | a file that was not collected |
//! | `text PASSED [ 50%]` | text printed by the test, then the status of the last id |
//! | `id PASSED [ 50%]`, `id SKIPPED (reason)` | the plain verbose line |
//! | `id text that was printedPASSED` | the same with printed text in between |
//! | `id`, `id printed text` | an id whose status may follow |
//!
//! An id begins with a path without blanks followed by `::`. It is taken whole, blanks included, when it ends with
//! a bracket; blanks after a Python function name begin printed text.

use std::{collections::BTreeSet, iter};

use crate::{StatusMap, SuiteRun, TestStatus};

/// Alternatives of a status word in patterns.
pub(crate) const WORD: &str = "PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS|RERUN";

pattern!(PROGRESS, r"(?:^| ) *\[ *[0-9]+(?:%|/[0-9]+)\] *$");
pattern!(GLUED, "(", WORD, r")([A-Za-z0-9_./-]+\.py::)");
pattern!(XDIST, r"^\[gw[0-9]+\] (?:\[ *[0-9]+%\] )?(", WORD, ") (.+)$");
pattern!(SUMMARY, "^(", WORD, ") ([^ ].*)$");
pattern!(
    SUB_SUMMARY,
    r"^(?:\[gw[0-9]+\] (?:\[ *[0-9]+%\] )?)?(?:\[[^\]]*\] )?(?:\([^)]*\) )?",
    r"SUBFAIL(?:ED)?(?:\[[^\]]*\])?(?: \([^)]*\))? ([^ ].*)$"
);
pattern!(
    SUB_LINE,
    r"^ (?:\[[^\]]*\] )?(?:\([^)]*\) )?",
    r"(SUBFAIL|SUBFAILED|SUBPASS|SUBPASSED|SUBSKIP|SUBSKIPPED)(?:\[| |\(|$)"
);
pattern!(PLACE, r"^\[[0-9]+\] [^ ].*$");
pattern!(TAIL_WORD, "^(.*)(", WORD, ")$");
pattern!(REASON_WORD, r"^(.*?) (SKIPPED|XFAIL|XPASS) \(.*\)$");

/// What a status word stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    Status(TestStatus),
    Rerun,
}

/// Reads a status word.
pub(crate) fn word(text: &str) -> Option<Word> {
    Some(Word::Status(match text {
        "PASSED" => TestStatus::Passed,
        "FAILED" => TestStatus::Failed,
        "ERROR" => TestStatus::Error,
        "SKIPPED" => TestStatus::Skipped,
        "XFAIL" => TestStatus::Xfail,
        "XPASS" => TestStatus::Xpass,
        "RERUN" => return Some(Word::Rerun),
        _ => return None,
    }))
}

/// Reads the lines of a pytest run.
pub(crate) fn parse(lines: &[&str]) -> SuiteRun {
    let mut parser = Parser::default();
    for line in lines {
        let apart = GLUED.replace_all(line, "$1\n$2");
        apart.split('\n').for_each(|line| parser.line(line));
    }
    let Parser { mut run, named, .. } = parser;
    run.unresolved = named.into_iter().filter(|name| !run.statuses.contains(name)).collect();
    run
}

#[derive(Default)]
struct Parser {
    run: SuiteRun,
    pending: Option<String>,
    named: BTreeSet<String>,
}

impl Parser {
    fn record(&mut self, id: &str, text: &str) {
        match word(text) {
            Some(Word::Status(status)) => self.run.statuses.record(id, status),
            Some(Word::Rerun) => self.run.statuses.record_rerun(id),
            None => {}
        }
    }

    fn resolve_pending(&mut self, text: &str) {
        if let Some(id) = self.pending.take() {
            self.record(&id, text);
        }
    }

    fn line(&mut self, line: &str) {
        if let Some(found) = XDIST.captures(line) {
            let (_, [status, id]) = found.extract();
            let id = id.strip_suffix(' ').unwrap_or(id); // pytest-xdist prints a blank after the id
            if starts_with_id(id) {
                self.record(id, status);
            }
            return;
        }
        if let Some(found) = SUB_SUMMARY.captures(line) {
            let (_, [rest]) = found.extract();
            if let Some(id) = summary_id(rest, &self.run.statuses) {
                self.run.statuses.record_failed_part(id.strip_suffix(' ').unwrap_or(id));
            }
            return;
        }
        let progress = PROGRESS.find(line);
        let body = progress.map_or(line, |found| &line[..found.start()]);
        let bare = body.trim_matches(' ');
        if word(bare).is_some() {
            self.resolve_pending(bare);
            return;
        }
        if let Some(found) = SUMMARY.captures(line) {
            let (_, [status, rest]) = found.extract();
            self.summary_line(status, rest);
            return;
        }
        let body_end = body.trim_end_matches(' ');
        let tail = TAIL_WORD.captures(body_end).map(|found| found.extract::<2>().1);
        if !starts_with_id(body) {
            if let (Some([_, status]), Some(_)) = (tail, progress) {
                self.resolve_pending(status);
            }
            return;
        }
        if let Some([before, status]) = tail
            && let Some(before) = before.strip_suffix(' ')
        {
            self.record(whole_id(before), status);
        } else if let Some(found) = REASON_WORD.captures(body_end) {
            let (_, [before, status]) = found.extract();
            self.record(whole_id(before), status);
        } else if let Some([before, status]) = tail
            && let (id, rest) = split_id(before)
            && !rest.is_empty()
        {
            self.record(id, status);
        } else {
            self.name_line(body);
        }
    }

    fn summary_line(&mut self, status: &str, rest: &str) {
        // Before pytest 8 nothing but a blank stands between the id and the reason of an unexpected pass.
        let rest = if status == "XPASS" { split_id(rest).0 } else { rest };
        if status == "SKIPPED" && PLACE.is_match(rest) {
            self.run.placed_skips += 1;
        } else if let Some(id) = summary_id(rest, &self.run.statuses) {
            self.record(id, status);
        } else if status == "ERROR" {
            let file = rest.split(" - ").next().unwrap_or_default();
            if !file.contains(' ') && file.strip_suffix(".py").is_some() {
                self.record(file, status);
            }
        }
    }

    fn name_line(&mut self, body: &str) {
        let (id, rest) = split_id(body);
        if let Some(found) = SUB_LINE.captures(&format!(" {rest}")) {
            if found.extract::<1>().1[0].starts_with("SUBFAIL") {
                self.run.statuses.record_failed_part(id);
            }
        } else {
            self.pending = Some(id.to_owned());
            self.named.insert(id.to_owned());
        }
    }
}

/// Says whether a line begins with `path::name`, the path without blanks.
fn starts_with_id(text: &str) -> bool {
    text.find("::")
        .is_some_and(|at| at > 0 && text.find(' ').is_none_or(|blank| at < blank) && text.len() > at + 2)
}

/// Splits `id rest`: the id ends at the first blank outside its square brackets.
fn split_id(text: &str) -> (&str, &str) {
    let Some(blank) = text.find(' ') else { return (text, "") };
    let bracket = match text.find('[') {
        Some(bracket) if bracket < blank => bracket,
        _ => return (&text[..blank], &text[blank + 1..]),
    };
    let split_after = |at: usize| (&text[..=at], text.get(at + 2..).unwrap_or_default());
    let mut depth = 0_i64;
    let mut last = None;
    for (at, byte) in text.bytes().enumerate().skip(bracket) {
        match byte {
            b'[' => depth += 1,
            b']' => {
                depth -= 1;
                if matches!(text.as_bytes().get(at + 1), None | Some(b' ')) {
                    if depth == 0 {
                        return split_after(at);
                    }
                    last = Some(at);
                }
            }
            _ => {}
        }
    }
    last.map_or((text, ""), split_after)
}

/// Gives the id in the text before a status word: whole, unless printed text follows a Python name.
fn whole_id(text: &str) -> &str {
    if !text.contains(' ') || text.ends_with(']') && text.contains('[') {
        return text;
    }
    let (id, rest) = split_id(text);
    if rest.is_empty() || id.contains(".py::") { id } else { text }
}

/// Gives the id of a summary line, `id - reason`; `None` when the text names no test.
///
/// A cut that gives an id already known is preferred; else the reason begins at the first ` - ` outside brackets.
fn summary_id<'t>(rest: &'t str, known: &StatusMap) -> Option<&'t str> {
    let cuts = rest.match_indices(" - ").map(|(dash, _)| &rest[..dash]);
    if let Some(id) = iter::once(rest).chain(cuts).find(|id| known.contains(id)) {
        return Some(id);
    }
    let id = match (rest.find(" - "), rest.find('[')) {
        (None, _) => rest,
        (Some(dash), Some(bracket)) if bracket < dash => match rest.find("] - ") {
            Some(close) => &rest[..=close],
            None if rest.ends_with(']') => rest,
            None => &rest[..dash],
        },
        (Some(dash), _) => &rest[..dash],
    };
    starts_with_id(id).then_some(id)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn statuses(text: &str) -> Vec<(String, TestStatus)> {
        let lines: Vec<&str> = text.lines().collect();
        parse(&lines).statuses.iter().map(|(id, status)| (id.to_owned(), status)).collect()
    }

    fn one(line: &str) -> (String, TestStatus) {
        let mut found = statuses(line);
        assert_eq!(found.len(), 1, "{line:?} gave {found:?}");
        found.remove(0)
    }

    #[test]
    fn verbose_lines_keep_ids_whole() {
        for id in [
            "t/test_a.py::test_x",
            "t/test_a.py::C::test_x[a b]",
            "t/test_a.py::test_x[a - b]",
            "t/test_a.py::test_x[PASSED]",
            "t/test_a.py::test_x[a] b]",
            "t/test_a.py::test_x[50%]",
            "case.yml::a name with blanks",
        ] {
            assert_eq!(one(&format!("{id} PASSED")), (id.to_owned(), TestStatus::Passed));
            assert_eq!(one(&format!("{id} FAILED      [ 50%]")), (id.to_owned(), TestStatus::Failed));
            assert_eq!(one(&format!("[gw1] [  5%] ERROR {id} ")), (id.to_owned(), TestStatus::Error));
            assert_eq!(one(&format!("{id} SKIPPED (no net) [3/7]")), (id.to_owned(), TestStatus::Skipped));
        }
    }

    #[test]
    fn summary_lines_end_the_id_at_the_reason() {
        assert_eq!(one("FAILED a.py::t - assert 1 == 2").0, "a.py::t");
        assert_eq!(one("FAILED a.py::t[x - y] - assert [1] == [2]").0, "a.py::t[x - y]");
        assert_eq!(one("XFAIL a.py::t[x - y]").0, "a.py::t[x - y]");
        assert_eq!(one("ERROR a.py - ImportError: no").0, "a.py");
        assert_eq!(one("XPASS a.py::t ").0, "a.py::t");
        assert_eq!(one("a.py::t[] - x] FAILED\nFAILED a.py::t[] - x] - assert 0").0, "a.py::t[] - x]");
    }

    #[test]
    fn other_text_is_no_test() {
        for line in [
            "PASSED [100%]",
            "FAILED (failures=1)",
            "ERROR    root:a.py:3 message",
            "ERROR in file.py",
            "see a.py::t PASSED",
            "=== 1 passed in 0.1s ===",
            "::x PASSED",
            "",
        ] {
            assert_eq!(statuses(line), [], "{line:?}");
        }
    }

    #[test]
    fn a_status_may_follow_later() {
        assert_eq!(one("a.py::t \nlog line\nPASSED [ 50%]").1, TestStatus::Passed);
        assert_eq!(one("a.py::t hello\nworldFAILED   [ 50%]").1, TestStatus::Failed);
        assert_eq!(one("a.py::t helloPASSED"), ("a.py::t".to_owned(), TestStatus::Passed));
        assert_eq!(one("a.py::t hello there PASSED").0, "a.py::t");
        let found = statuses("a.py::t PASSEDb.py::u FAILED");
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn a_name_without_a_status_is_unresolved() {
        let run = parse(&["a.py::test_PASSED", "b.py::u PASSED"]);
        assert_eq!(run.unresolved, ["a.py::test_PASSED"]);
        assert_eq!(run.statuses.len(), 1);
    }

    #[test]
    fn failing_subtests_fail_their_test() {
        assert_eq!(one("a.py::t [msg] (i=1) SUBFAIL [ 5%]\na.py::t PASSED").1, TestStatus::Failed);
        assert_eq!(one("[msg] (i=1) SUBFAIL a.py::t - assert 0").1, TestStatus::Failed);
        assert_eq!(
            one("[gw0] [ 5%] [msg] (i=1) SUBFAIL a.py::t \n[gw0] [ 9%] PASSED a.py::t ").1,
            TestStatus::Failed
        );
        assert_eq!(one("a.py::t SUBPASS\na.py::t PASSED").1, TestStatus::Passed);
        assert_eq!(one("SUBFAILED[msg] (i=1) a.py::t - assert 0").1, TestStatus::Failed);
    }

    #[test]
    fn a_rerun_marks_the_test_as_flaky() {
        let run = parse(&["a.py::t RERUN [ 50%]", "a.py::t PASSED [ 50%]"]);
        assert_eq!(run.statuses.get("a.py::t"), Some(TestStatus::Passed));
        assert!(run.statuses.is_flaky("a.py::t"));
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(lines in proptest::collection::vec("(?s).{0,60}", 0..8)) {
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            parse(&lines);
        }

        #[test]
        fn bracketed_ids_come_back_whole(parameter in "[ -Z^-~]{0,20}") {
            let id = format!("dir/test_a.py::test_x[{parameter}]");
            prop_assert_eq!(one(&format!("{id} PASSED   [ 50%]")).0, id);
        }
    }
}
