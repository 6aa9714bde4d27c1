//! Cases of the corpus about splits.

use std::collections::BTreeMap;

use dataset::{Leak, Placed, leaks};
use ident::{AliasTable, RepoKey, TaskId};
use record::Split;
use serde_json::Value;

fn json(case: &str, file: &str) -> Option<Value> {
    let path = corpus::case(case)?.join(file);
    Some(serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap())
}

fn placed(task: &Value, split: Split) -> Placed {
    Placed {
        task_id: TaskId::new(task["task_id"].as_str().unwrap()).unwrap(),
        split,
        repo: RepoKey::parse(task["repo"].as_str().unwrap()).unwrap(),
        content: None,
    }
}

#[test]
fn every_spelling_of_a_project_is_one_repository() {
    let Some(tasks) = json("split-repo-alias", "tasks.json") else { return };
    let names = json("split-repo-alias", "aliases.json").unwrap();
    let names: BTreeMap<&str, &str> = ["renamed", "forks"]
        .iter()
        .flat_map(|kind| names[*kind].as_object().unwrap())
        .map(|(old, new)| (old.as_str(), new.as_str().unwrap()))
        .collect();
    let aliases = AliasTable::new(names).unwrap();
    let tasks = tasks["tasks"].as_array().unwrap();
    assert_eq!(tasks.len(), 10);
    let found = |first: &Value, second: &Value, split| {
        leaks(&[placed(first, Split::Train), placed(second, split)], &aliases, &[])
    };
    for (n, first) in tasks.iter().enumerate() {
        for second in &tasks[n + 1..] {
            let leaks = found(first, second, Split::Test);
            assert!(matches!(&leaks[..], [Leak::Repository { .. }]), "{first} {second}: {leaks:?}");
            assert_eq!(found(first, second, Split::Train), []);
        }
    }
}

/// The leaks between the splits of a case.
fn of_splits(case: &str) -> Option<Vec<Leak>> {
    let splits = json(case, "splits.json")?;
    let tasks = [("train", Split::Train), ("validation", Split::Validation), ("test", Split::Test)]
        .iter()
        .flat_map(|(name, split)| splits[*name].as_array().unwrap().iter().map(|task| placed(task, *split)))
        .collect::<Vec<_>>();
    Some(leaks(&tasks, &AliasTable::default(), &[]))
}

#[test]
fn a_repository_in_train_and_test_is_found_with_both_tasks() {
    let Some(found) = of_splits("split-leak-in-frozen") else { return };
    let [leak] = &found[..] else { panic!("{found:?}") };
    let text = leak.to_string();
    assert!(text.contains("`t1`") && text.contains("`t2`"), "{text}");
}

#[test]
fn a_task_in_two_splits_is_found() {
    let Some(found) = of_splits("split-task-in-two-splits") else { return };
    assert!(found.iter().any(|leak| matches!(leak, Leak::TaskTwice { .. })), "{found:?}");
}
