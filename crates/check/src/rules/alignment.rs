//! Whether the lists of tests, the verifier and its archive belong together.

use std::collections::BTreeSet;

use record::Severity;

use crate::facts::Facts;
use crate::instance::{self, Instance};
use crate::report::{Place, Report, quoted};
use crate::rule::{Family, Rule};

pub(super) const RULES: &[&Rule] = &[
    &FAIL_TO_PASS_EMPTY,
    &PASS_TO_PASS_EMPTY,
    &TEST_IN_BOTH_LISTS,
    &TEST_ID_DAMAGED,
    &VERIFIER_CONFIG_BROKEN,
    &VERIFIER_ALTERED,
    &HIDDEN_TEST_MISSING,
    &TEST_IN_PRODUCT_CODE,
];

const FAIL_TO_PASS_EMPTY: Rule = Rule {
    name: "fail-to-pass-empty",
    family: Family::Alignment,
    severity: Severity::Error,
    materialized: Severity::Error,
    summary: "No test has to change from failing to passing.",
    explanation: "There is nothing to prove: the untouched workspace would already count as solved, and graders exist \
                  that take an empty list for complete success. Judged where `tests/config.json` lists tests at all; \
                  a verifier that says that it looks for regressions only is let off.",
    fix: "leave the task out",
};

const PASS_TO_PASS_EMPTY: Rule = Rule {
    name: "pass-to-pass-empty",
    family: Family::Alignment,
    severity: Severity::Note,
    materialized: Severity::Warning,
    summary: "No test has to keep passing.",
    explanation: "A change that breaks everything else would not be noticed. Instances made from pull requests may be \
                  like this on purpose.",
    fix: "add the tests that pass before and after the fix",
};

const TEST_IN_BOTH_LISTS: Rule = Rule {
    name: "test-in-both-lists",
    family: Family::Alignment,
    severity: Severity::Warning,
    materialized: Severity::Error,
    summary: "A test is said to fail and to pass before the fix.",
    explanation: "Both cannot be true of one test; either the lists were merged wrongly or the test changes its mind by \
                  itself.",
    fix: "run the suite without the fix and keep the test in the list that is right",
};

const TEST_ID_DAMAGED: Rule = Rule {
    name: "test-id-damaged",
    family: Family::Alignment,
    severity: Severity::Warning,
    materialized: Severity::Warning,
    summary: "The id of a required test is not one that a runner prints.",
    explanation: "Ids that were cut at a blank inside their parameters, or carry white space at an end or control \
                  characters, never equal what the runner prints, and the task can never be solved. Found are white \
                  space at the ends, control characters, an empty id, and an opening bracket that is never closed.",
    fix: "take the ids from a run of the suite",
};

const VERIFIER_CONFIG_BROKEN: Rule = Rule {
    name: "verifier-config-broken",
    family: Family::Alignment,
    severity: Severity::Warning,
    materialized: Severity::Error,
    summary: "The file `tests/config.json` cannot be used.",
    explanation: "It is no JSON, or its lists of tests are no lists. In a task of this program's own it has to have the \
                  schema of the vendored verifier.",
    fix: "materialize the task again, or correct the file",
};

const VERIFIER_ALTERED: Rule = Rule {
    name: "verifier-altered",
    family: Family::Alignment,
    severity: Severity::Error,
    materialized: Severity::Error,
    summary: "A file of the vendored verifier is missing or not what this program writes.",
    explanation: "Verdicts are comparable only when all tasks are graded by the same code, and the gates against cheats \
                  were tried on that code. Reported for this program's own tasks alone.",
    fix: "materialize the task again",
};

const HIDDEN_TEST_MISSING: Rule = Rule {
    name: "hidden-test-missing",
    family: Family::Alignment,
    severity: Severity::Error,
    materialized: Severity::Error,
    summary: "The verifier's archive lacks a file with tests that decide the reward.",
    explanation: "A required test that is not there can never pass. The files in front of `::` are looked for in the \
                  archives of `tests/`. Reported for this program's own tasks alone; others bring their tests in \
                  ways that cannot be told from outside.",
    fix: "materialize the task again from the healthy source tree",
};

const TEST_IN_PRODUCT_CODE: Rule = Rule {
    name: "test-in-product-code",
    family: Family::Alignment,
    severity: Severity::Warning,
    materialized: Severity::Warning,
    summary: "A test that decides the reward stands in a file that the agent is meant to change.",
    explanation: "Examples in the documentation of a function are tests to some runners. They cannot be hidden, and \
                  are not restored before grading: an agent that changes the example changes the test. Found are \
                  files in front of `::` that are Python or text and do not belong to the test surface.",
    fix: "take the test out of the list of failing tests",
};

pub(super) fn check(facts: &Facts<'_>, report: &mut Report<'_>) {
    let place = Place::file(instance::PATH);
    match &facts.instance {
        Err(why) => report.add(&VERIFIER_CONFIG_BROKEN, place, why.clone()),
        Ok(None) => {}
        Ok(Some(instance)) => lists(instance, report),
    }
    if report.materialized() {
        own_verifier(facts, report);
    }
}

fn lists(instance: &Instance<'_>, report: &mut Report<'_>) {
    let place = Place::file(instance::PATH);
    let failing = || instance.fail_to_pass.iter().flatten().map(|id| &**id);
    let passing = || instance.pass_to_pass.iter().flatten().map(|id| &**id);
    if failing().next().is_none() && !instance.regressions_only {
        report.add(&FAIL_TO_PASS_EMPTY, place, "the list of failing tests is empty");
    }
    if passing().next().is_none() {
        report.add(&PASS_TO_PASS_EMPTY, place, "the list of passing tests is empty");
    }
    // By length first: most ids need not be compared letter by letter.
    let mut sorted: Vec<(usize, &str)> = failing().map(|id| (id.len(), id)).collect();
    sorted.sort_unstable();
    let both: BTreeSet<&str> = passing().filter(|id| sorted.binary_search(&(id.len(), id)).is_ok()).collect();
    for id in both {
        report.add(&TEST_IN_BOTH_LISTS, place, format!("{} is in both lists", quoted(id)));
    }
    let damaged: BTreeSet<(&str, &str)> =
        failing().chain(passing()).filter_map(|id| Some((id, damage(id)?))).collect();
    for (id, what) in damaged {
        report.add(&TEST_ID_DAMAGED, place, format!("the test id {} {what}", quoted(id)));
    }
    product_code(instance, report);
}

fn product_code(instance: &Instance<'_>, report: &mut Report<'_>) {
    for file in instance.open_files() {
        let ending = file.rsplit('.').next().unwrap_or_default();
        if matches!(ending, "py" | "pyx" | "rst" | "txt" | "md") {
            let message =
                format!("tests in {} decide the reward, and the agent may change them", quoted(file));
            report.add(&TEST_IN_PRODUCT_CODE, Place::file(instance::PATH), message);
        }
    }
}

fn damage(id: &str) -> Option<&'static str> {
    // Nearly every id is plain, which is told without looking at it character by character.
    let bytes = id.as_bytes();
    // Sums of bytes, which the compiler looks at many at once.
    let odd = |byte: u8| u8::from(byte.wrapping_sub(b' ') > b'~' - b' ') | u8::from(byte == b'[');
    let plain = bytes.iter().fold(0, |found, byte| found | odd(*byte)) == 0;
    let bare = |byte: Option<&u8>| byte.is_some_and(|byte| *byte != b' ');
    if plain && bare(bytes.first()) && bare(bytes.last()) {
        return None;
    }
    if id.trim().is_empty() {
        return Some("is empty");
    }
    if id.trim() != id {
        return Some("has white space at an end");
    }
    if id.chars().any(char::is_control) {
        return Some("holds control characters");
    }
    let parameters = id.rsplit_once("::").and_then(|(_, name)| name.split_once('['));
    let open = id.contains("::") && parameters.is_some_and(|(_, rest)| !rest.contains(']'));
    open.then_some("opens a bracket that is never closed")
}

fn own_verifier(facts: &Facts<'_>, report: &mut Report<'_>) {
    let view = facts.view;
    for vendored in grade::vendored::FILES {
        let path = format!("tests/{}", vendored.name);
        let content = view.file(path.as_bytes()).and_then(|file| file.content.as_deref());
        if content != Some(vendored.text.as_bytes()) {
            let what = if content.is_some() { "is not what this program writes" } else { "is missing" };
            report.add(&VERIFIER_ALTERED, Place::file(&path), format!("the verifier's file {what}"));
        }
    }
    match view.text(instance::PATH).map(|text| grade::VerifierConfig::from_json(&text)) {
        Some(Ok(_)) => {}
        Some(Err(error)) => {
            report.add(&VERIFIER_CONFIG_BROKEN, Place::file(instance::PATH), error.to_string());
        }
        None => report.add(&VERIFIER_CONFIG_BROKEN, Place::file(instance::PATH), "it is missing"),
    }
    let Some(instance) = facts.instance() else { return };
    let archives = view.files_below(b"tests").filter_map(|(_, file)| file.archive.as_ref());
    let held: BTreeSet<&[u8]> =
        archives.flat_map(|archive| &archive.members).map(|member| member.path.as_slice()).collect();
    for file in instance.hidden_files() {
        if !held.contains(file.as_bytes()) {
            let message = format!("no archive in `tests/` holds {}", quoted(file));
            report.add(&HIDDEN_TEST_MISSING, Place::file(instance::PATH), message);
        }
    }
}

#[cfg(test)]
mod tests {
    use grade::{CONFIG_SCHEMA, Framework, Surface, VerifierConfig};

    use super::super::testing::{changed_task, found_with, own_findings, places, tar_of, write};

    fn found(config: &str) -> Vec<String> {
        found_with(&[("tests/config.json", config)])
    }

    #[test]
    fn nothing_to_prove_is_refused_in_every_spelling() {
        for config in [
            r#"{"FAIL_TO_PASS": [], "PASS_TO_PASS": ["a"]}"#,
            r#"{"FAIL_TO_PASS": "[]", "PASS_TO_PASS": "['a']"}"#,
            r#"{"fail_to_pass": [], "pass_to_pass": ["a"]}"#,
            r#"{"PASS_TO_PASS": ["a"]}"#,
        ] {
            assert_eq!(found(config), ["fail-to-pass-empty tests/config.json"], "{config}");
        }
        assert_eq!(found(r#"{"fail_to_pass": [], "pass_to_pass": ["a"], "p2p_only": true}"#), [""; 0]);
        assert_eq!(
            found(r#"{"FAIL_TO_PASS": ["a"], "PASS_TO_PASS": []}"#),
            ["pass-to-pass-empty tests/config.json"]
        );
        let examples =
            r#"{"fail_to_pass": ["pkg/sum.py::pkg.sum", "README.rst::README.rst"], "pass_to_pass": ["a"]}"#;
        assert_eq!(found(examples), ["test-in-product-code tests/config.json"; 2]);
        assert_eq!(found(r#"{"threshold": 1}"#), [""; 0]);
        assert_eq!(found("{"), ["verifier-config-broken tests/config.json"]);
    }

    #[test]
    fn contradictions_and_damaged_ids_are_named() {
        let config = r#"{"FAIL_TO_PASS": ["a", "t.py::b[x y", "c "], "PASS_TO_PASS": ["a", "t.py::d[x-]]", "", "e\n"]}"#;
        let found = found(config);
        assert_eq!(found.iter().filter(|place| place.starts_with("test-id-damaged")).count(), 4, "{found:?}");
        assert_eq!(found.iter().filter(|place| place.starts_with("test-in-both-lists")).count(), 1);
    }

    fn own_task(change: impl FnOnce(&std::path::Path)) -> Vec<String> {
        let config = VerifierConfig {
            schema: CONFIG_SCHEMA.to_owned(),
            instance_id: "add".to_owned(),
            workdir: "/testbed".to_owned(),
            framework: Framework::Pytest,
            command: vec!["pytest".to_owned()],
            env: std::collections::BTreeMap::new(),
            python: None,
            timeout_sec: 60,
            p2p_only: false,
            fail_to_pass: vec!["t/test_a.py::test_one".to_owned()],
            pass_to_pass: vec!["t/test_b.py::test_two".to_owned()],
            surface: Surface::pytest(),
        };
        let view = changed_task(|root| {
            let files = grade::vendored::FILES.map(|file| (format!("tests/{}", file.name), file.text));
            write(root, &files.each_ref().map(|(path, text)| (path.as_str(), *text)));
            write(root, &[("tests/config.json", &config.to_json().unwrap())]);
            write(
                root,
                &[("environment/Dockerfile", "FROM seatrial.local/host\nADD workspace.tar /testbed\n")],
            );
            std::fs::write(root.join("environment/workspace.tar"), tar_of(&[("src/a.py", b"x")])).unwrap();
            std::fs::write(
                root.join("tests/surface.tar"),
                tar_of(&[("t/test_a.py", b"def test_one(): 1"), ("t/test_b.py", b"def test_two(): 2")]),
            )
            .unwrap();
            change(root);
        });
        places(&own_findings(&view))
    }

    #[test]
    fn an_own_task_is_held_to_its_own_verifier() {
        assert_eq!(own_task(|_| ()), [""; 0]);
        assert_eq!(
            own_task(|root| {
                std::fs::write(root.join("tests/verify.py"), "print('reward')\n").unwrap();
                std::fs::remove_file(root.join("tests/seatrial_report.py")).unwrap();
                std::fs::write(root.join("tests/surface.tar"), tar_of(&[("t/a.py", b"test_one test_two")]))
                    .unwrap();
            }),
            [
                "hidden-test-missing tests/config.json",
                "verifier-altered tests/seatrial_report.py",
                "verifier-altered tests/verify.py",
            ]
        );
        let broken = own_task(|root| std::fs::write(root.join("tests/config.json"), "{}").unwrap());
        assert_eq!(broken, ["verifier-config-broken tests/config.json"]);
    }
}
