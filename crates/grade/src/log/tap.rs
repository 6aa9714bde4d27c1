//! Reads the Test Anything Protocol, versions 12 to 14.
//!
//! `ok 1 - name`, `not ok 2 name # TODO reason`, `ok 3 name # SKIP reason`. Subtests are indented by four blanks and
//! come before the line of the test they belong to, which `# Subtest: name` announces. `Bail out!` ends the run.

use super::{
    names::{Results, group},
    tree::{Tree, indentation},
};
use crate::{Completion, TestStatus};

pattern!(RESULT, r"^(ok|not ok)(?: [0-9]+)?(?: - | )(\S.*?)(?: # (?i:(SKIP|TODO))(?:PED|:|\s.*)?)?$");

/// Reads the lines of a run.
pub(super) fn parse(lines: &[&str]) -> Results {
    let mut results = Results::default();
    let mut tree = Tree::default();
    for &line in lines {
        let (indent, text) = indentation(line);
        if !indent.is_multiple_of(4) {
            continue;
        }
        let depth = indent / 2 + 2;
        if let Some(subtest) = text.strip_prefix("# Subtest: ") {
            // `depth` grows by two a level, as the tree wants it.
            tree.suite(depth, subtest);
        } else if indent == 0 && text.starts_with("Bail out!") {
            results.spoil(Completion::Incomplete, text.to_owned());
        } else if let Some(found) = RESULT.captures(text) {
            let status = match (&found[1], found.get(3).map(|word| word.as_str().to_ascii_uppercase())) {
                (_, Some(word)) if word == "SKIP" => TestStatus::Skipped,
                ("ok", Some(_)) => TestStatus::Xpass,
                (_, Some(_)) => TestStatus::Xfail,
                ("ok", None) => TestStatus::Passed,
                _ => TestStatus::Failed,
            };
            let place = if indent == 0 { group([]) } else { tree.group("", depth) };
            results.record(&place, &found[2], status);
        }
    }
    results
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LogFormat, TestNames, parse_log_named};

    #[test]
    fn results_directives_and_subtests() {
        let text = "TAP version 13\n# Subtest: till\n    # Subtest: adds\n    ok 1 - adds\n      ---\n      duration_ms: 1.5\n      ...\n    1..1\n\
            ok 1 - till\nok 2 opens # SKIP no key\nnot ok 3 - closes # TODO\nnot ok 4 - locks\nok\n1..4\n";
        let run = parse_log_named(LogFormat::Tap, TestNames::Full, text.as_bytes(), None);
        assert_eq!(
            run.statuses.iter().collect::<Vec<_>>(),
            [
                ("closes", TestStatus::Xfail),
                ("locks", TestStatus::Failed),
                ("opens", TestStatus::Skipped),
                ("till", TestStatus::Passed),
                ("till > adds", TestStatus::Passed),
            ]
        );
        let run = parse_log_named(LogFormat::Tap, TestNames::Full, b"ok 1 a\nBail out! no disk\n", None);
        assert_eq!(run.completion, Completion::Incomplete);
    }
}
