//! Patches: whether they can be read, stay inside the workspace, and leave the tests alone.

use grade::Surface;
use record::{Finding, Severity};
use task::patch::{Note, Patch, PatchProblem};
use task::printable;

use crate::facts::Facts;
use crate::instance::{self, Direction, PYTEST};
use crate::options::CheckOptions;
use crate::report::{Place, Report, quoted};
use crate::rule::{Family, Rule};

pub(super) const RULES: &[&Rule] = &[
    &PATCH_EMPTY,
    &PATCH_ESCAPES,
    &PATCH_DAMAGED,
    &PATCH_UNSUPPORTED,
    &PATCH_CRLF,
    &PATCH_END_LOST,
    &PATCH_TOUCHES_TESTS,
    &PATCH_IN_HIDDEN_TEST,
];

const PATCH_EMPTY: Rule = Rule {
    name: "patch-empty",
    family: Family::Patches,
    severity: Severity::Warning,
    materialized: Severity::Error,
    summary: "A patch holds nothing but white space.",
    explanation: "It changes nothing: as a solution it solves nothing, as a model's answer it scores 0 without a run. \
                  A pure rename or a change of mode has no hunks and is not empty.",
    fix: "write the change again, or leave the patch out",
};

const PATCH_ESCAPES: Rule = Rule {
    name: "patch-escapes",
    family: Family::Patches,
    severity: Severity::Error,
    materialized: Severity::Error,
    summary: "A patch names a path outside the workspace, or inside a repository's own files.",
    explanation: "Absolute paths, `..` and `.git` are refused before anything is applied, whatever the tool that \
                  applies it would do.",
    fix: "make the patch from the root of the workspace",
};

const PATCH_DAMAGED: Rule = Rule {
    name: "patch-damaged",
    family: Family::Patches,
    severity: Severity::Warning,
    materialized: Severity::Error,
    summary: "A patch cannot be read.",
    explanation: "Headers are missing or contradict each other, or the counts of a hunk do not fit its lines, as after \
                  a copy that lost lines or blanks. Bytes that are not UTF-8 are kept and are no damage; neither is \
                  the marker for a missing newline.",
    fix: "make the patch anew",
};

const PATCH_UNSUPPORTED: Rule = Rule {
    name: "patch-unsupported",
    family: Family::Patches,
    severity: Severity::Warning,
    materialized: Severity::Error,
    summary: "A patch makes a change that this program cannot carry out.",
    explanation: "Binary changes and submodules. One such change makes the whole patch fail, so a task that rests on it \
                  cannot be materialized here.",
    fix: "leave the change out, or put the file into the image",
};

const PATCH_CRLF: Rule = Rule {
    name: "patch-crlf",
    family: Family::Patches,
    severity: Severity::Warning,
    materialized: Severity::Error,
    summary: "Every line of a patch ends in CRLF, its headers included.",
    explanation: "A transport changed the line ends, and `git apply` refuses the result on files with LF. Carriage \
                  returns in the content alone belong to a file with CRLF and are right. This program takes the line \
                  ends back when it applies the patch.",
    fix: "convert the patch to LF line ends",
};

const PATCH_END_LOST: Rule = Rule {
    name: "patch-end-lost",
    family: Family::Patches,
    severity: Severity::Warning,
    materialized: Severity::Error,
    summary: "The last line of a patch has no newline.",
    explanation: "`git apply` calls such a patch corrupt; it is the mark of a program that strips white space. This \
                  program repairs it when it applies the patch. Rows inside JSON are left out, because scripts that \
                  write them to a file usually add the newline.",
    fix: "add the newline",
};

const PATCH_TOUCHES_TESTS: Rule = Rule {
    name: "patch-touches-tests",
    family: Family::Patches,
    severity: Severity::Warning,
    materialized: Severity::Warning,
    summary: "A patch changes tests or files that steer the test runner.",
    explanation: "Tests and settings such as `conftest.py`, `pytest.ini` or `setup.cfg` are restored before grading, so \
                  a solution must not rest on such a change, and an agent's change there is suspicious. The files are \
                  those of the test surface that the task names, else of pytest's.",
    fix: "leave tests and their settings out of the patch",
};

const PATCH_IN_HIDDEN_TEST: Rule = Rule {
    name: "patch-in-hidden-test",
    family: Family::Patches,
    severity: Severity::Error,
    materialized: Severity::Error,
    summary: "The bug lies in a test file that the agent never sees.",
    explanation: "The files of the failing tests are taken from the workspace and come back for grading, so a bug that \
                  was put into one of them cannot be repaired: the task is unsolvable. Judged are patches that bring a bug in.",
    fix: "leave the task out",
};

pub(super) fn check(facts: &Facts<'_>, report: &mut Report<'_>) {
    for patch in &facts.gold.patches {
        // A place inside JSON has no line that anybody could go to.
        let line = (patch.line > 0).then_some(patch.line);
        let row = patch.file == instance::PATH;
        match facts.instance() {
            Some(instance) => judge(&patch.file, line, &patch.parsed, row, &instance.surface, report),
            None => judge(&patch.file, line, &patch.parsed, row, &PYTEST, report),
        }
        let (Ok(parsed), Some(instance)) = (&patch.parsed, facts.instance()) else { continue };
        if patch.direction == Direction::Breaks {
            for path in parsed
                .paths()
                .iter()
                .filter(|path| instance.hidden_files().iter().any(|file| file.as_bytes() == path.as_slice()))
            {
                let message = format!("it changes {}, which holds tests that decide", quoted(path));
                report.add(&PATCH_IN_HIDDEN_TEST, place(&patch.file, line), message);
            }
        }
    }
}

/// Checks a patch by itself, such as one that a model wrote; `name` is the file that findings name.
pub fn check_patch(name: &str, bytes: &[u8], options: &CheckOptions) -> Vec<Finding> {
    let mut report = Report::new(options);
    judge(name.as_bytes(), None, &Patch::parse(bytes), false, &PYTEST, &mut report);
    report.finish()
}

fn place(file: &[u8], line: Option<u32>) -> Place<'_> {
    line.map_or(Place::file(file), |line| Place::line(file, line))
}

fn judge(
    file: &[u8],
    first: Option<u32>,
    parsed: &Result<Patch, PatchProblem>,
    row: bool,
    surface: &Surface,
    report: &mut Report<'_>,
) {
    let whole = place(file, first);
    match parsed {
        Err(PatchProblem::Empty) => report.add(&PATCH_EMPTY, whole, PatchProblem::Empty.to_string()),
        Err(problem @ PatchProblem::PathEscape { .. }) => {
            report.add(&PATCH_ESCAPES, whole, problem.to_string());
        }
        Err(PatchProblem::Malformed { line, message }) => {
            let line = match (row, u32::try_from(*line)) {
                (false, Ok(line)) => Some(first.unwrap_or(1) + line.saturating_sub(1)),
                _ => None,
            };
            report.add(
                &PATCH_DAMAGED,
                place(file, line),
                format!("line {} of the patch: {message}", line.unwrap_or(0)),
            );
        }
        Err(problem) => report.add(&PATCH_UNSUPPORTED, whole, problem.to_string()),
        Ok(patch) => {
            for note in &patch.notes {
                match note {
                    Note::LineEndsRepaired => report.add(&PATCH_CRLF, whole, "its header lines end in CRLF"),
                    Note::FinalNewlineRepaired if !row => {
                        report.add(&PATCH_END_LOST, whole, "it ends in the middle of a line");
                    }
                    Note::FinalNewlineRepaired | Note::Offset { .. } => {}
                }
            }
            let touched: Vec<String> = patch
                .paths()
                .iter()
                .map(|path| printable(path))
                .filter(|path| surface.contains(path))
                .map(quoted)
                .collect();
            if !touched.is_empty() {
                report.add(&PATCH_TOUCHES_TESTS, whole, format!("it changes {}", touched.join(", ")));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{found_with, places};
    use super::*;

    fn found(patch: impl AsRef<[u8]>) -> Vec<String> {
        places(&check_patch("p", patch.as_ref(), &CheckOptions::default()))
    }

    const FIX: &str = "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n";

    #[test]
    fn sound_patches_give_no_finding() {
        assert_eq!(found(FIX), [""; 0]);
        let rename = "diff --git a/x.sh b/y.sh\nsimilarity index 100%\nrename from x.sh\nrename to y.sh\n";
        assert_eq!(found(rename), [""; 0]);
        let content_crlf = FIX.replace(" a\n", " a\r\n").replace("-b\n", "-b\r\n").replace("+c\n", "+c\r\n");
        assert_eq!(found(content_crlf), [""; 0]);
        let marker = "--- a/n\n+++ b/n\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n";
        assert_eq!(found(marker), [""; 0]);
        assert_eq!(found(b"--- a/l\n+++ b/l\n@@ -1 +1 @@\n-caf\xe9\n+caf\xe9s\n"), [""; 0]);
    }

    #[test]
    fn each_kind_of_damage_has_its_name() {
        assert_eq!(found(""), ["patch-empty p"]);
        assert_eq!(found(" \n\t\n"), ["patch-empty p"]);
        assert_eq!(found(FIX.trim_end()), ["patch-end-lost p"]);
        assert_eq!(found(FIX.replace('\n', "\r\n")), ["patch-crlf p"]);
        assert_eq!(found(FIX.replace("x.py", "../../etc/x")), ["patch-escapes p"]);
        assert_eq!(found(FIX.replace("x.py", ".git/config")), ["patch-escapes p"]);
        assert_eq!(found("--- /etc/x\n+++ /etc/x\n@@ -1 +1 @@\n-a\n+b\n"), ["patch-escapes p"]);
        assert_eq!(found("nothing of the kind\n").len(), 1);
        let binary = "diff --git a/x b/x\nindex 1..2 100644\nBinary files a/x and b/x differ\n";
        assert_eq!(found(binary), ["patch-unsupported p"]);
    }

    #[test]
    fn changes_to_the_test_surface_are_listed() {
        let new = |path: &str| {
            format!(
                "diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n"
            )
        };
        let patch =
            ["tests/test_calc.py", "conftest.py", "pytest.ini", "setup.cfg", "src/a.py"].map(new).concat();
        let found = check_patch("p", patch.as_bytes(), &CheckOptions::default());
        assert_eq!(places(&found), ["patch-touches-tests p"]);
        assert_eq!(
            found[0].message,
            "it changes `conftest.py`, `pytest.ini`, `setup.cfg`, `tests/test_calc.py`"
        );
    }

    #[test]
    fn patches_of_the_task_are_judged_where_they_stand() {
        let script =
            format!("#!/bin/sh\ngit apply --reverse <<'EOF'\n{}EOF\n", FIX.replace("@@ -1,2", "@@ -1,9"));
        assert_eq!(
            found_with(&[("solution/solve.sh", &script)])[0][.."patch-damaged solution/solve.sh:".len()],
            *"patch-damaged solution/solve.sh:"
        );
        let row = |ids: &str| {
            let patch = FIX.replace("x.py", "test_x.py");
            serde_json::json!({ "patch": patch, "FAIL_TO_PASS": [ids], "PASS_TO_PASS": ["b"] }).to_string()
        };
        assert_eq!(
            found_with(&[("tests/config.json", &row("test_x.py::a"))]),
            ["patch-in-hidden-test tests/config.json", "patch-touches-tests tests/config.json"]
        );
        assert_eq!(
            found_with(&[("tests/config.json", &row("test_y.py::a"))]),
            ["patch-touches-tests tests/config.json"]
        );
    }
}
