//! Whether the solution, the tests and the workspace of this program's own tasks fit together.

use std::collections::{BTreeMap, BTreeSet};

use record::Severity;
use task::patch::{Patch, PatchProblem};
use task::printable;
use task::tree::{Entry, Tree};

use crate::facts::Facts;
use crate::instance::{self, Instance};
use crate::lines::{alike, beginning, is_distinctive, solid};
use crate::report::{Place, Report, quoted};
use crate::rule::{Family, Rule};
use crate::view::{Archive, Member, MemberKind};

pub(super) const RULES: &[&Rule] = &[&PATCH_DOES_NOT_APPLY, &FIX_IN_WORKSPACE, &TEST_NAME_MISSING];

const PATCH_DOES_NOT_APPLY: Rule = Rule {
    name: "patch-does-not-apply",
    family: Family::Alignment,
    severity: Severity::Error,
    materialized: Severity::Error,
    summary: "The patch of the solution does not fit the workspace.",
    explanation: "The oracle would fail, and the task would be taken for one that cannot be solved. The patches below \
                  `solution/` are applied to the files of the workspace archive by the rules of `git apply`: context \
                  has to match exactly, at the stated line or the nearest other place. Files that are too large to \
                  be kept are not judged. Reported for this program's own tasks alone; where the workspace of other \
                  tasks lies cannot be told from outside.",
    fix: "materialize the task again",
};

const FIX_IN_WORKSPACE: Rule = Rule {
    name: "fix-in-workspace",
    family: Family::Leaks,
    severity: Severity::Error,
    materialized: Severity::Error,
    summary: "The workspace holds a repaired copy of a file that the agent has to repair.",
    explanation: "Build directories and backups keep what a file was before the bug was put in; a copy of it is the \
                  solution. The files that the patch of the solution changes are worked out and looked for by content \
                  among all files of the workspace archive, without regard to line ends, line-end blanks and empty \
                  lines. Those of fewer than 64 characters are left out. Reported for this program's own tasks alone.",
    fix: "take the copy out of the source tree that the task is made from",
};

const TEST_NAME_MISSING: Rule = Rule {
    name: "test-name-missing",
    family: Family::Alignment,
    severity: Severity::Note,
    materialized: Severity::Warning,
    summary: "Required tests are named nowhere in the tests.",
    explanation: "A test that does not exist can never pass. The name behind the last `::`, without parameters, is \
                  looked for in the file in front of the first `::` and then in every Python file of the archives of \
                  `tests/` and of the workspace. Programs can give tests their names: files with a metaclass, \
                  `setattr`, `globals` or `exec` are left out, and what is left is a warning. Reported once a file, \
                  and for this program's own tasks alone.",
    fix: "take the test out of the lists, or the tests from the right commit",
};

pub(super) fn check(facts: &Facts<'_>, report: &mut Report<'_>) {
    if !report.materialized() {
        return;
    }
    let workspace = facts.context_archives().next();
    if let Some((path, archive)) = workspace {
        solution(facts, path, archive, report);
    }
    if let Some(instance) = facts.instance() {
        names(facts, instance, workspace.map(|(_, archive)| archive), report);
    }
}

fn solution(facts: &Facts<'_>, path: &[u8], workspace: &Archive, report: &mut Report<'_>) {
    let members: BTreeMap<&[u8], &Member> =
        workspace.members.iter().map(|member| (member.path.as_slice(), member)).collect();
    for gold in facts.gold.patches.iter().filter(|patch| patch.file.starts_with(b"solution/")) {
        let Ok(patch) = &gold.parsed else { continue };
        let Some(mut tree) = touched(patch, &members) else { continue };
        match patch.apply_to_tree(&mut tree) {
            Ok(applied) => {
                let repaired =
                    applied.changed.iter().filter_map(|path| Some((path, tree.get(path)?.bytes())));
                for (changed, content) in repaired {
                    copies(changed, content, path, workspace, report);
                }
            }
            Err(problem @ PatchProblem::DoesNotApply { .. }) => {
                report.add(&PATCH_DOES_NOT_APPLY, Place::file(&gold.file), problem.to_string());
            }
            // What cannot be read or carried out has rules of its own.
            Err(_) => {}
        }
    }
}

/// The files that a patch touches, as the workspace holds them; `None` when one of them was too large to be kept.
fn touched(patch: &Patch, members: &BTreeMap<&[u8], &Member>) -> Option<Tree> {
    let mut tree = Tree::new();
    for path in patch.paths() {
        let Some(member) = members.get(path.as_slice()) else { continue };
        let entry = match &member.kind {
            MemberKind::File => Entry::file(member.content.as_deref()?),
            MemberKind::Symlink(target) => Entry::Link { target: target.clone() },
            _ => return None,
        };
        tree.insert(path, entry).ok()?;
    }
    Some(tree)
}

fn copies(changed: &[u8], repaired: &[u8], path: &[u8], workspace: &Archive, report: &mut Report<'_>) {
    if !is_distinctive(repaired) {
        return;
    }
    let (first, weight) = (beginning(repaired), solid(repaired));
    let like =
        |content: &[u8]| beginning(content) == first && solid(content) == weight && alike(content, repaired);
    let is_copy = |member: &&Member| member.path != changed && member.content.as_deref().is_some_and(like);
    for copy in workspace.members.iter().filter(is_copy) {
        let message =
            format!("its member `{}` is {} as it is after the fix", printable(&copy.path), quoted(changed));
        report.add(&FIX_IN_WORKSPACE, Place::file(path), message);
    }
}

fn names(facts: &Facts<'_>, instance: &Instance<'_>, workspace: Option<&Archive>, report: &mut Report<'_>) {
    let hidden = facts.view.files_below(b"tests").filter_map(|(_, file)| file.archive.as_ref());
    let members: Vec<&Member> = hidden.chain(workspace).flat_map(|archive| &archive.members).collect();
    let mut words: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    let mut missing: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for id in instance.fail_to_pass.iter().chain(&instance.pass_to_pass).flatten() {
        let Some(file) = instance.file_of(id) else { continue };
        let name = instance::test_name(id);
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        if name.is_empty() || !name.chars().all(is_word) {
            continue;
        }
        let known = words.entry(file).or_insert_with(|| {
            let own = members.iter().filter(|member| member.path == file.as_bytes());
            let texts = own.filter_map(|member| text(member));
            texts
                .flat_map(|text| text.split(|c| !is_word(c)).map(str::to_owned).collect::<Vec<_>>())
                .collect()
        });
        let made = || ["metaclass", "setattr", "globals", "exec"].iter().any(|word| known.contains(*word));
        let anywhere = || {
            let python = members.iter().filter(|member| member.path.ends_with(b".py"));
            python.filter_map(|member| text(member)).any(|text| text.contains(name))
        };
        if !known.contains(name) && !made() && !anywhere() {
            missing.entry(file).or_default().push(id);
        }
    }
    for ids in missing.values() {
        let others = if ids.len() > 1 { format!(" and {} others", ids.len() - 1) } else { String::new() };
        let message =
            format!("no Python file of the tests or the workspace names {}{others}", quoted(ids[0]));
        report.add(&TEST_NAME_MISSING, Place::file(instance::PATH), message);
    }
}

fn text(member: &Member) -> Option<std::borrow::Cow<'_, str>> {
    member.content.as_deref().map(crate::lines::text)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{changed_task, findings, own_findings, places, tar_of, write};

    const BROKEN: &str = "def total(values):\n    result = 0\n    for value in values:\n        result -= value\n    return result\n";
    const FIX: &str = "--- a/src/sum.py\n+++ b/src/sum.py\n@@ -3,3 +3,3 @@\n     for value in values:\n-        result -= value\n+        result += value\n     return result\n";

    /// The findings of this file on a task of this program's own with these members.
    fn found(workspace: &[(&str, &str)], tests: &[(&str, &str)], failing: &str) -> Vec<String> {
        let archive = |members: &[(&str, &str)]| {
            tar_of(&members.iter().map(|(path, text)| (*path, text.as_bytes())).collect::<Vec<_>>())
        };
        let row = serde_json::json!({ "fail_to_pass": [failing], "pass_to_pass": ["src/sum.py::src.sum"] });
        let view = changed_task(|root| {
            write(root, &[("solution/fix.patch", FIX), ("tests/config.json", &row.to_string())]);
            std::fs::write(root.join("environment/workspace.tar"), archive(workspace)).unwrap();
            std::fs::write(root.join("tests/surface.tar"), archive(tests)).unwrap();
        });
        assert!(!places(&findings(&view)).iter().any(|place| is_ours(place)), "reported for a foreign task");
        places(&own_findings(&view)).into_iter().filter(|place| is_ours(place)).collect()
    }

    fn is_ours(place: &str) -> bool {
        ["patch-does-not-apply", "fix-in-workspace", "test-name-missing"]
            .iter()
            .any(|rule| place.starts_with(rule))
    }

    const TESTS: &[(&str, &str)] = &[("t/test_sum.py", "class TestSum:\n    def test_total(self): pass\n")];
    const TEST: &str = "t/test_sum.py::TestSum::test_total[1-2]";

    #[test]
    fn a_task_that_fits_has_no_finding() {
        assert_eq!(found(&[("src/sum.py", BROKEN)], TESTS, TEST), [""; 0]);
    }

    #[test]
    fn a_patch_that_does_not_fit_is_named() {
        let place = ["patch-does-not-apply solution/fix.patch"];
        assert_eq!(found(&[("src/sum.py", &BROKEN.replace("result -=", "result *="))], TESTS, TEST), place);
        assert_eq!(found(&[("src/other.py", BROKEN)], TESTS, TEST), place);
        let large = BROKEN.to_owned() + &"# more\n".repeat(100_000);
        assert_eq!(found(&[("src/sum.py", &large)], TESTS, TEST), [""; 0]);
    }

    #[test]
    fn repaired_copies_are_found_by_content() {
        let healthy = BROKEN.replace("-=", "+=");
        let spread = healthy.replace('\n', "  \r\n\r\n");
        let workspace =
            [("src/sum.py", BROKEN), ("build/lib/total.py", &healthy), ("old/sum.py.orig", &spread)];
        assert_eq!(found(&workspace, TESTS, TEST), ["fix-in-workspace environment/workspace.tar"; 2]);
        assert_eq!(found(&[("src/sum.py", BROKEN), ("build/lib/sum.py", BROKEN)], TESTS, TEST), [""; 0]);
    }

    #[test]
    fn tests_that_are_named_nowhere_are_reported() {
        let broken = [("src/sum.py", BROKEN)];
        let missing = ["test-name-missing tests/config.json"];
        assert_eq!(found(&broken, TESTS, "t/test_sum.py::TestSum::test_totals"), missing);
        assert_eq!(found(&broken, TESTS, "t/test_gone.py::test_gone"), missing);
        // Inherited from another file, or named by words that are no test's name.
        let base = [("t/base.py", "def test_totals(): pass\n"), TESTS[0]];
        assert_eq!(found(&broken, &base, "t/test_sum.py::test_totals"), [""; 0]);
        assert_eq!(found(&broken, TESTS, "t/test_sum.py::README.rst"), [""; 0]);
        let made = [("t/test_sum.py", "class TestSum(Base, metaclass=Examples): pass\n")];
        assert_eq!(found(&broken, &made, "t/test_sum.py::TestSum::test_level_one"), [""; 0]);
    }
}
