//! Real configuration files and task directories.

use task::TaskDir;
use task::config::{ConfigError, ProblemKind, read_config};

#[test]
fn every_known_configuration_is_read_or_refused_with_a_place() {
    let Some(path) = corpus::find("data/task-toml-corpus.jsonl") else { return };
    let (mut read, mut refused, mut unknown, mut invalid) = (0, 0, 0, 0);
    for line in std::fs::read_to_string(path).unwrap().lines() {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        match read_config(row["text"].as_str().unwrap().as_bytes()) {
            Ok(reading) => {
                read += 1;
                unknown += u32::from(reading.problems.iter().any(|p| p.kind == ProblemKind::UnknownKey));
                invalid += u32::from(reading.problems.iter().any(|p| p.kind.refuses()));
            }
            Err(ConfigError::Syntax { line, column, .. }) => {
                assert!(line > 0 && column > 0);
                refused += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!((read, refused), (2216, 10));
    eprintln!("{unknown} with unknown keys, {invalid} that Harbor refuses");
    assert!(unknown > 0 && invalid > 0);
}

#[test]
fn task_directories_load_where_harbor_loads_them() {
    let Some(golden) = corpus::find("data/harbor-0.26-golden") else { return };
    let tasks = golden.join("../tasks");
    let table = |name: &str| std::fs::read_to_string(golden.join(name)).unwrap();
    let (loads, fails) = (table("task-hashes-all.tsv"), table("task-load-errors.tsv"));
    let mut wrong = Vec::new();
    for line in loads.lines().skip(1) {
        let row: Vec<_> = line.split('\t').collect();
        let valid = !row[5].contains("not-valid");
        let opened = TaskDir::open(&tasks.join(row[0]));
        if opened.is_ok() != valid {
            wrong.push(format!("{}: {:?}", row[0], opened.err().map(|error| error.to_string())));
        }
    }
    for line in fails.lines().skip(1) {
        let name = line.split('\t').next().unwrap();
        if TaskDir::open(&tasks.join(name)).is_ok() {
            wrong.push(format!("{line}: opens"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn all_task_directories_open_or_say_why_not() {
    let Some(index) = corpus::find("data/tasks/INDEX.tsv") else { return };
    let data = index.parent().unwrap().parent().unwrap().to_owned();
    let text = std::fs::read_to_string(index).unwrap();
    let (mut opened, mut refused) = (0, 0);
    for line in text.lines().skip(1) {
        match TaskDir::open(&data.join(line.split('\t').next().unwrap())) {
            Ok(_) => opened += 1,
            Err(task::TaskError::Invalid { defects, .. }) => {
                assert!(!defects.is_empty());
                refused += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    eprintln!("{opened} open, {refused} refused");
    assert_eq!(opened + refused, text.lines().count() - 1);
    assert!(opened > refused);
}
