//! What a caller relies on.

use std::path::PathBuf;

use check::{CheckError, CheckOptions, Profile, check_all, check_path, explain, rules};
use record::Severity;

fn task(files: &[(&str, &str)]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = directory.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    directory
}

#[test]
fn many_tasks_are_answered_in_the_order_asked() {
    let empty = task(&[("instruction.md", " \n")]);
    let broken = task(&[("task.toml", "[")]);
    let gone = PathBuf::from("/no/such/directory");
    let paths = [broken.path().to_owned(), gone.clone(), empty.path().to_owned(), broken.path().to_owned()];
    let answers = check_all(&paths, &CheckOptions::default());
    let has =
        |at: usize, rule: &str| answers[at].as_ref().unwrap().findings.iter().any(|found| found.rule == rule);
    assert_eq!(answers.len(), paths.len());
    assert!(has(0, "config-syntax") && has(2, "instruction-empty") && has(3, "config-syntax"));
    assert!(matches!(answers[1], Err(CheckError::Io { .. })));
}

#[test]
fn the_profile_decides_how_much_a_finding_weighs() {
    let task = task(&[("task.toml", "colour = 1\n")]);
    let severity = |profile| {
        let findings = check_path(task.path(), &CheckOptions::of(profile)).unwrap().findings;
        findings.into_iter().find(|found| found.rule == "config-key-unknown").unwrap().severity
    };
    assert_eq!(severity(Profile::Foreign), Severity::Warning);
    assert_eq!(severity(Profile::Materialized), Severity::Error);
    let mut options = CheckOptions::default();
    options.skip.insert("config-key-unknown".to_owned());
    let findings = check_path(task.path(), &options).unwrap().findings;
    assert!(findings.iter().all(|found| found.rule != "config-key-unknown"));
}

#[test]
fn every_finding_can_be_explained() {
    assert!(rules().is_sorted_by_key(|rule| rule.name));
    assert!(rules().len() > 40);
    let rule = explain("script-crlf").unwrap();
    assert_eq!((rule.family.to_string().as_str(), rule.severity), ("scripts", Severity::Error));
}
