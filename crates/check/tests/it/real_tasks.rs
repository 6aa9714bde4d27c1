//! Real task directories and configurations: the rules do not fall over, and the book's counts are true.

use std::collections::BTreeMap;
use std::path::PathBuf;

use check::{CheckOptions, Checked, SetOptions, TaskView, check_set, check_task, explain, rules};
use rayon::prelude::*;
use record::{Finding, Severity};

/// The real task directories with the names that they have where they come from.
fn tasks() -> Option<Vec<(PathBuf, String)>> {
    let root = corpus::find("data/tasks")?;
    let index = std::fs::read_to_string(root.join("INDEX.tsv")).unwrap();
    let rows = index.lines().skip(1).map(|line| line.split('\t').collect::<Vec<_>>());
    let task = |row: Vec<&str>| {
        let directory = root.parent().unwrap().join(row[0]);
        let name =
            row[3].rsplit('/').next().filter(|name| !name.is_empty() && *name != ".").unwrap_or(row[1]);
        (directory, name.rsplit('/').next().unwrap_or(name).to_owned())
    };
    Some(rows.map(task).collect())
}

/// How many findings of each rule the book states for real tasks.
fn stated() -> BTreeMap<String, usize> {
    let page = include_str!("../../../../docs/rules.md");
    let rows =
        page.lines().filter_map(|line| line.strip_prefix("| `")).map(|row| row.split('|').map(str::trim));
    rows.map(|mut row| {
        let name = row.next().unwrap().trim_end_matches('`').to_owned();
        let count = row.nth(2).unwrap();
        (name, count.parse().unwrap_or_else(|_| panic!("`{count}` is no count")))
    })
    .collect()
}

#[test]
fn the_counts_in_the_book_are_those_of_real_tasks() {
    let Some(tasks) = tasks() else { return };
    let options = CheckOptions::default();
    let check = |(path, name): &(PathBuf, String)| {
        check_task(&TaskView::read(path).unwrap().named(name.as_bytes()), &options)
    };
    let mut checked: Vec<Checked> = tasks.par_iter().map(check).collect();
    check_set(&mut checked, &SetOptions::default(), &options);
    let found: Vec<(&PathBuf, Vec<Finding>)> =
        tasks.iter().zip(checked).map(|((path, _), checked)| (path, checked.findings)).collect();
    let mut counts: BTreeMap<String, usize> = rules().iter().map(|rule| (rule.name.to_owned(), 0)).collect();
    for (path, findings) in &found {
        for finding in findings {
            let line = finding.line.map(|line| format!(":{line}")).unwrap_or_default();
            let severity = format!("{:?}", finding.severity).to_lowercase();
            eprintln!(
                "{severity} {} {}/{}{line} {}",
                finding.rule,
                path.display(),
                finding.file,
                finding.message
            );
            *counts.get_mut(&finding.rule).unwrap() += 1;
        }
    }
    let differing: Vec<_> = counts
        .iter()
        .filter(|(rule, count)| stated().get(*rule) != Some(*count))
        .map(|(rule, count)| format!("{rule}: {count}, stated {:?}", stated().get(rule)))
        .collect();
    assert!(differing.is_empty(), "docs/rules.md is out of date:\n{}", differing.join("\n"));
}

#[test]
fn findings_are_the_same_every_time_and_in_order() {
    let Some(tasks) = tasks() else { return };
    for (path, _) in tasks.iter().step_by(7) {
        let read = || check_task(&TaskView::read(path).unwrap(), &CheckOptions::default()).findings;
        let findings = read();
        assert_eq!(findings, read());
        assert!(findings.is_sorted());
        assert!(
            findings
                .iter()
                .all(|found| explain(&found.rule).is_some_and(|rule| rule.severity == found.severity))
        );
    }
}

/// Configurations alone: what is refused is refused by Harbor too, or could not run; what is misplaced is counted too.
#[test]
fn real_configurations_are_read() {
    let Some(file) = corpus::find("data/task-toml-corpus.jsonl") else { return };
    let directory = tempfile::tempdir().unwrap();
    let task = directory.path().join("x");
    std::fs::create_dir(&task).unwrap();
    let mut refused = BTreeMap::<String, usize>::new();
    for line in std::fs::read_to_string(file).unwrap().lines() {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        std::fs::write(task.join("task.toml"), row["text"].as_str().unwrap()).unwrap();
        let findings = check::check_path(&task, &CheckOptions::default()).unwrap().findings;
        for found in findings.iter().filter(|found| found.file == "task.toml") {
            if found.severity < Severity::Error && found.rule != "config-key-misplaced" {
                continue;
            }
            eprintln!("{} {} {}", found.rule, found.message, found.fix);
            *refused.entry(found.rule.clone()).or_default() += 1;
            // What Harbor's own loader refuses in these files.
            let known = ["`task.name` is missing", "must have the form `org/name`", "it must be a table"];
            let invalid = found.rule == "config-invalid";
            assert!(!invalid || known.iter().any(|words| found.message.contains(words)), "{}", found.message);
        }
    }
    // The texts that do not parse are templates with placeholders.
    let expected = [("config-invalid", 564), ("config-key-misplaced", 3), ("config-syntax", 10)];
    assert_eq!(refused, expected.into_iter().map(|(rule, count)| (rule.to_owned(), count)).collect());
}

/// Instances with injected bugs as tasks: the gold lines and the patches of real projects.
#[test]
fn real_instances_are_read() {
    let Some(file) = corpus::find("data/minismith/instances.jsonl") else { return };
    let directory = tempfile::tempdir().unwrap();
    let mut counts = BTreeMap::<String, usize>::new();
    let mut checked = Vec::new();
    for line in std::fs::read_to_string(file).unwrap().lines() {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        let id = row["instance_id"].as_str().unwrap();
        let task = directory.path().join(id);
        std::fs::create_dir_all(task.join("tests")).unwrap();
        std::fs::write(task.join("instruction.md"), row["problem_statement"].as_str().unwrap()).unwrap();
        std::fs::write(task.join("tests/config.json"), line).unwrap();
        checked.push(check::check_path(&task, &CheckOptions::default()).unwrap());
        std::fs::remove_dir_all(&task).unwrap();
    }
    check_set(&mut checked, &SetOptions::default(), &CheckOptions::default());
    for task in checked {
        for found in task.findings.into_iter().filter(|found| !found.rule.ends_with("-missing")) {
            eprintln!("{} {} {}", found.rule, task.digest.id, found.message);
            *counts.entry(found.rule).or_default() += 1;
        }
    }
    // Seven of the instances have no statement, none of the others gives its fix away, and two are decided by examples
    // in the documentation of the product.
    // The instruction of one says word for word what that of another says, about another bug.
    let expected = [("instruction-empty", 7), ("similar-instruction", 1), ("test-in-product-code", 2)];
    assert_eq!(counts, expected.into_iter().map(|(rule, count)| (rule.to_owned(), count)).collect());
}
