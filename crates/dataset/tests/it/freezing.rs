//! Freezing and what is refused.

use dataset::{DatasetError, ImageForm, verify};
use ident::{AliasTable, Digest};
use record::{Shortage, Split, Status};

use crate::project::{Project, contents, write};

#[test]
fn a_frozen_set_verifies_and_describes_itself() {
    let mut project = Project::sample();
    project.materialized.tasks[3].base_image = "seatrial.local/host".into();
    project.selection.shortages = vec![Shortage { what: "split:test".into(), wanted: 2, have: 1 }];
    let frozen = project.freeze().unwrap();
    assert!(frozen.path.ends_with("frozen/sample-4-v1"));
    assert!(!frozen.existed);
    let verified = verify(&frozen.path, &AliasTable::default()).unwrap();
    assert_eq!(verified.problems, []);
    assert_eq!(verified.manifest.as_ref(), Some(&frozen.manifest));

    let manifest = &frozen.manifest;
    assert_eq!(manifest.rules, ["plan/1", "resolve/1"]);
    assert_eq!((manifest.counts.tasks, manifest.counts.repositories), (4, 3));
    assert_eq!(manifest.counts.splits[&Split::Train], 2);
    assert_eq!(manifest.sources["swesmith"].revision.as_deref(), Some("0123"));
    assert_eq!(manifest.proof_rule.flake_bound_permille, 632);
    let task = &manifest.tasks[0];
    assert_eq!((task.image.form, task.image.verified), (ImageForm::Base, false));
    assert_eq!(task.image.reference.as_deref(), Some("registry.invalid/base:1"));
    assert_eq!(task.executable, ["solution/solve.sh", "tests/test.sh"]);
    assert_eq!(task.links["tests/again.sh"], "test.sh");
    assert_eq!((task.proof.oracle_runs, task.proof.verifier_sec), (3, 181));
    assert_eq!(manifest.tasks.iter().filter(|task| !task.portable).count(), 1);
    assert!(frozen.path.join("tasks").join(task.task_id.as_str()).join("environment/empty").is_dir());

    let card = std::fs::read_to_string(frozen.path.join("README.md")).unwrap();
    for words in [
        "pretty_name: \"sample v1\"",
        "| pool | 2 | 1 | 1 | 4 |",
        "| acme/widgets | train | 2 |",
        "| split:test | 2 | 1 |",
        "1 task starts",
        "63.2 %",
        "| base | a base in a registry, on which the environment is built | 3 | 0 |",
        &manifest.semantic_digest.to_string(),
    ] {
        assert!(card.contains(words), "{words} is missing in:\n{card}");
    }
}

#[test]
fn two_runs_in_two_places_give_the_same_bytes() {
    let (one, other) = (Project::sample(), Project::sample());
    // What editors and systems leave behind does not travel, and neither does the group's write bit.
    write(&other.task(1).join("tests/.DS_Store"), "junk");
    crate::project::set_mode(&other.task(2).join("instruction.md"), 0o664);
    let (one, other) = (one.freeze().unwrap(), other.freeze().unwrap());
    assert_eq!(contents(&one.path), contents(&other.path));
}

#[test]
fn what_proofs_say_beside_their_verdicts_does_not_reach_the_manifest() {
    let (one, mut other) = (Project::sample(), Project::sample());
    other.selection.inputs.insert("proofs.json".into(), Digest::of("of another run"));
    other.proofs.inputs.insert("ledger".into(), Digest::of("of another run"));
    for task in &mut other.proofs.tasks {
        task.flaky_tests.insert("test_clock".into(), record::FlakyTest::default());
    }
    let (one, other) = (one.freeze().unwrap(), other.freeze().unwrap());
    assert_eq!(contents(&one.path), contents(&other.path));
}

#[test]
fn freezing_again_changes_nothing() {
    let mut project = Project::sample();
    let first = project.freeze().unwrap();
    let before = contents(&first.path);
    let again = project.freeze().unwrap();
    assert!(again.existed);
    // More proofs make no other set, and neither does another way to the same plan.
    project.proofs.tasks[0].oracle_runs = 10;
    project.inputs.insert("plan.json".into(), Digest::of("more"));
    let proved = project.freeze().unwrap();
    assert!(proved.existed);
    assert_eq!(proved.manifest, first.manifest);
    assert_eq!(contents(&first.path), before);
    let siblings = std::fs::read_dir(first.path.parent().unwrap()).unwrap().count();
    assert_eq!(siblings, 1, "temporary directories are left");
}

#[test]
fn another_content_under_the_same_name_is_a_conflict() {
    let mut project = Project::sample();
    let first = project.freeze().unwrap();
    let before = contents(&first.path);
    project.selection.tasks[3].split = Split::Validation;
    let error = project.freeze().unwrap_err();
    assert!(
        matches!(&error, DatasetError::Conflict { differing, .. } if differing.contains(&"manifest.json".to_owned())),
        "{error}"
    );
    assert_eq!(contents(&first.path), before);
}

#[test]
fn a_tampered_set_is_not_taken_for_the_same() {
    let project = Project::sample();
    let first = project.freeze().unwrap();
    write(&first.path.join("README.md"), "nothing\n");
    let error = project.freeze().unwrap_err();
    assert!(
        matches!(&error, DatasetError::Unsound { problems, .. } if problems[0].file == "README.md"),
        "{error}"
    );
}

#[test]
fn what_was_not_proved_as_it_is_now_is_refused() {
    let changed = |change: fn(&mut Project)| {
        let mut project = Project::sample();
        change(&mut project);
        let error = project.freeze().unwrap_err();
        assert!(!project.directory.path().join("frozen/sample-4-v1").exists());
        match error {
            DatasetError::Stale { stage, .. } => stage,
            other => panic!("expected a stale document, got {other}"),
        }
    };
    assert_eq!(changed(|project| write(&project.task(0).join("tests/test.sh"), "exit 0\n")), "materialize");
    assert_eq!(changed(|project| project.selection.tasks[0].tree_digest = Digest::of("")), "resolve");
    assert_eq!(changed(|project| project.proofs.tasks[0].verifier_digest = Digest::of("")), "prove");
    assert_eq!(changed(|project| project.proofs.tasks[1].verdict = Status::Pending), "prove");
    assert_eq!(
        changed(|project| {
            let again = project.selection.tasks[0].clone();
            project.selection.tasks.push(again);
        }),
        "resolve"
    );
}

#[test]
fn leaks_names_and_empty_sets_are_refused() {
    let mut project = Project::sample();
    project.selection.tasks[1].split = Split::Test;
    let error = project.freeze().unwrap_err();
    assert!(
        matches!(&error, DatasetError::Leaks(_)) && error.to_string().contains("acme/widgets"),
        "{error}"
    );

    let mut project = Project::sample();
    project.aliases.insert("other/x".into(), "acme/gears".into());
    assert!(matches!(project.freeze(), Err(DatasetError::Leaks(_))));

    project.selection.tasks.clear();
    assert!(matches!(project.freeze(), Err(DatasetError::Empty)));

    let project = Project::new(&[("acme/widgets", Split::Train)]);
    write(&project.task(0).join("environment/a\\b"), "x");
    let error = project.freeze().unwrap_err();
    assert!(matches!(&error, DatasetError::OddName { file, .. } if file == "environment/a\\b"), "{error}");
}
