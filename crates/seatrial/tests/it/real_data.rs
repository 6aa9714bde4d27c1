//! Real task directories through the binary.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::project::{binary, children, ended};

/// Digests all paths below `root` in one go, by path.
fn digests(root: &Path, paths: &[&str]) -> BTreeMap<String, Value> {
    let ended = ended(binary().current_dir(root).args(["digest", "--json"]).args(paths));
    let lines = ended.json_lines();
    assert_eq!(lines.iter().map(|line| line["path"].as_str().unwrap()).collect::<Vec<_>>(), paths);
    lines.into_iter().map(|line| (line["path"].as_str().unwrap().to_owned(), line)).collect()
}

/// Holds the digests of a table against those of the binary and returns the number of rows.
fn compare(table: &Path, root: &Path) -> usize {
    let text = std::fs::read_to_string(table).unwrap();
    let rows: Vec<Vec<&str>> = text.lines().skip(1).map(|line| line.split('\t').collect()).collect();
    let found = digests(root, &rows.iter().map(|row| row[0]).collect::<Vec<_>>());
    let wrong: Vec<_> = rows
        .iter()
        .filter(|row| found[row[0]]["content_hash"] != row[1] || found[row[0]]["task_checksum"] != row[2])
        .map(|row| &found[row[0]])
        .collect();
    assert!(wrong.is_empty(), "{} of {} differ: {wrong:#?}", wrong.len(), rows.len());
    rows.len()
}

#[test]
fn digests_are_harbors() {
    let Some(golden) = corpus::find("data/harbor-0.26-golden") else { return };
    let tasks = golden.join("../tasks");
    assert!(compare(&golden.join("task-hashes-all.tsv"), &tasks) > 50);
    assert!(compare(&golden.join("task-hashes.tsv"), &tasks) > 5);
    let temp = tempfile::tempdir().unwrap();
    let archive = std::fs::File::open(golden.join("synthetic-tasks.tar")).unwrap();
    tar::Archive::new(archive).unpack(temp.path()).unwrap();
    assert_eq!(compare(&golden.join("synthetic-task-hashes.tsv"), temp.path()), 10);
}

#[test]
fn every_real_task_has_digests() {
    let Some(tasks) = corpus::find("data/tasks") else { return };
    let data = tasks.parent().unwrap();
    let index = std::fs::read_to_string(tasks.join("INDEX.tsv")).unwrap();
    let paths: Vec<&str> = index.lines().skip(1).map(|line| line.split('\t').next().unwrap()).collect();
    assert!(paths.len() > 100);
    for (path, line) in digests(data, &paths) {
        assert!(line["error"].is_null(), "{path}: {line}");
    }
}

/// Checks directories one by one and returns how many had findings of severity error.
fn check_all(directories: &[PathBuf]) -> usize {
    let mut rejected = 0;
    for directory in directories {
        let ended = ended(binary().args(["check", "--json"]).arg(directory));
        if ended.code == Some(2) {
            // Nothing of a task is there.
            assert!(ended.stderr.contains("is no task directory"), "{}: {ended:?}", directory.display());
            continue;
        }
        assert!(matches!(ended.code, Some(0 | 1)), "{}: {ended:?}", directory.display());
        let errors = ended
            .json_lines()
            .iter()
            .flat_map(|line| line["findings"].as_array().expect("findings").clone())
            .filter(|finding| finding["severity"] == "error")
            .count();
        assert_eq!(ended.code, Some(i32::from(errors > 0)), "{}: {ended:?}", directory.display());
        rejected += usize::from(errors > 0);
    }
    rejected
}

#[test]
fn every_real_task_can_be_checked() {
    let Some(tasks) = corpus::find("data/tasks") else { return };
    let data = tasks.parent().unwrap();
    let index = std::fs::read_to_string(tasks.join("INDEX.tsv")).unwrap();
    let directories: Vec<PathBuf> =
        index.lines().skip(1).map(|line| data.join(line.split('\t').next().unwrap())).collect();
    let rejected = check_all(&directories);
    eprintln!("{rejected} of {} real tasks have errors", directories.len());
    assert!(rejected < directories.len());
}

#[test]
fn every_case_can_be_checked_and_digested() {
    let Some(cases) = corpus::find("cases") else { return };
    let directories: Vec<PathBuf> = children(&cases)
        .iter()
        .filter(|case| case.is_dir())
        .flat_map(|case| {
            std::iter::once(case.clone()).chain(children(case).into_iter().filter(|path| path.is_dir()))
        })
        .collect();
    assert!(directories.len() > 100);
    check_all(&directories);
    for (case, rejected) in [
        ("valid-baseline", false),
        ("solve-crlf", true),
        ("mixed-eol-data-file", false),
        ("toml-unknown-key", true),
        ("toml-misspelt-section", true),
        ("toml-utf8-bom", false),
        ("toml-limits-zero-negative", true),
        ("missing-parts", true),
        ("symlink-inside", false),
        ("tests-copied-into-image", true),
        ("solution-in-instruction", true),
    ] {
        let directory = children(&cases).into_iter().find(|path| {
            path.file_name().is_some_and(|name| {
                name.to_string_lossy().trim_start_matches(char::is_numeric) == format!("-{case}")
            })
        });
        let found = check_all(&[directory.expect("the case")]);
        assert_eq!(found, usize::from(rejected), "{case}");
    }
    let ended = ended(binary().args(["digest", "--json"]).args(&directories));
    assert!(matches!(ended.code, Some(0 | 1)));
    assert_eq!(ended.json_lines().len(), directories.len());
}
