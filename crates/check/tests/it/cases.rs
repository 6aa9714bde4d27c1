//! Every made-up case of the corpus that static rules can decide, against what is expected of it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

use check::{CheckOptions, SetOptions, TaskView, accepted, check_patch, check_path, check_set, check_task};
use record::Finding;

use crate::copy::copy;

/// `rule file:line` of each finding.
fn places(findings: &[Finding]) -> Vec<String> {
    let line = |found: &Finding| found.line.map(|line| format!(":{line}")).unwrap_or_default();
    findings.iter().map(|found| format!("{} {}{}", found.rule, found.file, line(found))).collect()
}

/// Checks the task of a case after `prepare` has added what the corpus cannot store.
fn check_case(name: &str, prepare: impl FnOnce(&Path)) -> Option<Vec<Finding>> {
    let case = corpus::case(name)?;
    let directory = tempfile::tempdir().unwrap();
    let task = directory.path().join("tiny-add");
    copy(&case.join("tiny-add"), &task);
    prepare(&task);
    Some(check_path(&task, &CheckOptions::default()).unwrap().findings)
}

#[track_caller]
fn expect(name: &str, accept: bool, expected: &[&str]) {
    if let Some(findings) = check_case(name, |_| ()) {
        assert_eq!(places(&findings), expected, "{name}");
        assert_eq!(accepted(&findings), accept, "{name}");
    }
}

#[test]
fn sound_tasks_have_no_finding() {
    expect("valid-baseline", true, &[]);
    expect("mixed-eol-data-file", true, &[]);
    expect("toml-utf8-bom", true, &[]);
    expect("symlink-inside", true, &[]);
}

#[test]
fn a_script_with_crlf_is_refused() {
    expect("solve-crlf", false, &["script-crlf solution/solve.sh:1"]);
}

#[test]
fn misspelt_keys_and_tables_are_refused_with_the_near_name() {
    expect(
        "toml-unknown-key",
        false,
        &["config-key-misspelt task.toml:15", "config-key-misspelt task.toml:19"],
    );
    expect("toml-misspelt-section", false, &["config-key-misspelt task.toml:14"]);
    if let Some(findings) = check_case("toml-unknown-key", |_| ()) {
        assert!(
            findings[0].message.contains("`verifier.timeout_secs`")
                && findings[0].fix.contains("`timeout_sec`")
        );
        assert!(findings[1].message.contains("`environment.cpu`") && findings[1].fix.contains("`cpus`"));
    }
}

#[test]
fn impossible_limits_are_refused_in_one_pass() {
    let expected = ["15", "19", "20"].map(|line| format!("limit-impossible task.toml:{line}"));
    expect("toml-limits-zero-negative", false, &expected.each_ref().map(String::as_str));
}

#[test]
fn another_name_is_reported() {
    expect("toml-name-differs-from-dir", true, &["name-differs-from-directory task.toml:4"]);
}

#[test]
fn missing_parts_are_listed_at_once() {
    let expected =
        ["part-missing instruction.md", "solution-missing solution/solve.sh", "part-missing tests/test.sh"];
    expect("missing-parts", false, &expected);
}

#[test]
fn links_that_escape_are_refused_and_not_followed() {
    let findings = check_case("symlink-escape", |task| {
        symlink("/etc/passwd", task.join("environment/host-passwd")).unwrap();
        if !task.join("tests/shared").is_symlink() {
            // Where the corpus was stored without links, the file holds the text of the link.
            let text = std::fs::read(task.join("tests/shared")).unwrap();
            std::fs::remove_file(task.join("tests/shared")).unwrap();
            symlink(OsStr::from_bytes(text.trim_ascii()), task.join("tests/shared")).unwrap();
        }
    });
    let Some(findings) = findings else { return };
    assert_eq!(places(&findings), ["link-escapes environment/host-passwd", "link-escapes tests/shared"]);
}

#[test]
fn junk_is_reported() {
    let findings = check_case("junk-files", |task| {
        std::fs::create_dir(task.join("environment/.git")).unwrap();
        std::fs::write(task.join("environment/.git/HEAD"), "ref: refs/heads/main\n").unwrap();
    });
    let Some(findings) = findings else { return };
    let expected = [
        "extraneous-file .DS_Store",
        "nested-repository environment/.git",
        "extraneous-file environment/calc.sh~",
        "extraneous-file tests/__pycache__",
    ];
    assert_eq!(places(&findings), expected);
}

#[test]
fn a_bug_that_nobody_puts_in_is_named() {
    expect("shared-image-bug-not-applied", true, &["bug-not-applied environment/bug.patch"]);
}

#[test]
fn a_name_that_is_not_utf8_is_shown_escaped() {
    let findings = check_case("non-utf8-file-name", |task| {
        std::fs::write(task.join("environment").join(OsStr::from_bytes(b"foo\xff")), "x").unwrap();
    });
    let Some(findings) = findings else { return };
    assert_eq!(places(&findings), ["file-name-not-utf8 environment/foo\\xff"]);
}

#[test]
fn answers_in_the_image_or_the_prompt_are_refused() {
    let copied = ["4", "5"].map(|line| format!("answer-copied-into-image environment/Dockerfile:{line}"));
    expect("tests-copied-into-image", false, &copied.each_ref().map(String::as_str));
    expect("solution-in-instruction", false, &["solution-in-instruction instruction.md:2"]);
}

#[test]
fn what_a_verifier_fetches_is_reported() {
    let expected = [
        "verifier-network tests/test.sh:2",
        "verifier-network tests/test.sh:3",
        "verifier-unpinned-install tests/test.sh:3",
    ];
    expect("verifier-network", true, &expected);
}

#[test]
fn floating_images_are_reported() {
    let expected = ["1", "2"].map(|line| format!("base-image-floating environment/Dockerfile:{line}"));
    expect("floating-base-image", true, &expected.each_ref().map(String::as_str));
}

#[test]
fn ids_that_differ_in_case_are_both_kept_and_named() {
    let Some(case) = corpus::case("uppercase-task-id") else { return };
    let entries = std::fs::read_dir(&case).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = entries.filter(|path| path.is_dir()).collect();
    paths.sort();
    let checked = paths.iter().map(|path| check_path(path, &CheckOptions::default()).unwrap());
    let mut checked: Vec<_> = checked.collect();
    check_set(&mut checked, &SetOptions::default(), &CheckOptions::default());
    assert!(checked.iter().all(|task| accepted(&task.findings)), "{checked:?}");
    assert!(places(&checked[1].findings).contains(&"task-ids-collide ".to_owned()), "{checked:?}");
}

#[test]
fn near_duplicates_are_named_and_one_of_them_is_kept() {
    let Some(case) = corpus::case("near-duplicate-tasks") else { return };
    let base = corpus::case("valid-baseline").expect("the cases come together");
    let set: serde_json::Value =
        serde_json::from_slice(&std::fs::read(case.join("tasks.json")).unwrap()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let checked = set["tasks"].as_array().unwrap().iter().map(|row| {
        let task = directory.path().join(row["task_id"].as_str().unwrap());
        copy(&base.join("tiny-add"), &task);
        let patch = format!("--- a/calc.sh\n+++ b/calc.sh\n@@ -2 +2 @@\n{}", row["patch"].as_str().unwrap());
        std::fs::write(task.join("solution/fix.patch"), patch).unwrap();
        std::fs::write(task.join("instruction.md"), row["instruction"].as_str().unwrap()).unwrap();
        check_path(&task, &CheckOptions::default()).unwrap()
    });
    let mut checked: Vec<_> = checked.collect();
    let similar = check_set(&mut checked, &SetOptions::default(), &CheckOptions::default());
    let pairs: Vec<_> =
        similar.iter().map(|pair| format!("{} {} {:?}", pair.kept, pair.other, pair.by)).collect();
    assert_eq!(pairs, ["t1 t2 Solution", "t1 t3 Instruction"]);
}

#[test]
fn hostile_ids_are_refused() {
    let (Some(case), Some(base)) = (corpus::case("hostile-task-ids"), corpus::case("valid-baseline")) else {
        return;
    };
    let ids: Vec<String> = serde_json::from_slice(&std::fs::read(case.join("ids.json")).unwrap()).unwrap();
    for id in &ids {
        let view = TaskView::read(&base.join("tiny-add")).unwrap().named(id.as_bytes());
        let found = check_task(&view, &CheckOptions::default()).findings;
        assert!(found.iter().any(|found| found.rule == "task-id-refused"), "{id:?} passes");
    }
}

#[test]
fn a_future_commit_is_named_on_every_way_to_it() {
    let Some(case) = corpus::case("git-future-commit-leak") else { return };
    let base = corpus::case("valid-baseline").expect("the cases come together");
    let directory = tempfile::tempdir().unwrap();
    let task = directory.path().join("tiny-add");
    copy(&base.join("tiny-add"), &task);
    std::fs::copy(case.join("repo.tar"), task.join("environment/workspace.tar")).unwrap();
    let findings = check_path(&task, &CheckOptions::default()).unwrap().findings;
    let messages: Vec<_> = findings.iter().map(|found| found.message.as_str()).collect();
    assert!(findings.iter().all(|found| found.rule == "history-leak"), "{messages:#?}");
    for way in ["`refs/tags/v9.9`", "`refs/remotes/origin/main`", "reflog", "is no ancestor"] {
        assert!(messages.iter().any(|message| message.contains(way)), "{way}: {messages:#?}");
    }
}

#[test]
fn patches_are_judged() {
    for (name, file, expected) in [
        ("patch-no-trailing-newline", "model.patch", &["patch-end-lost p"][..]),
        ("patch-crlf-target", "model.patch", &[]),
        ("patch-all-crlf-on-lf-target", "model.patch", &["patch-crlf p"]),
        ("patch-rename-only", "model.patch", &[]),
        ("patch-empty", "model.patch", &["patch-empty p"]),
        ("patch-empty", "blank.patch", &["patch-empty p"]),
        ("patch-path-escape", "model.patch", &["patch-escapes p"]),
        ("patch-touches-tests", "model.patch", &["patch-touches-tests p"]),
        ("patch-no-newline-marker", "model.patch", &[]),
        ("patch-latin1-bytes", "model.patch", &[]),
    ] {
        let Some(case) = corpus::case(name) else { return };
        let bytes = std::fs::read(case.join(file)).unwrap();
        assert_eq!(places(&check_patch("p", &bytes, &CheckOptions::default())), expected, "{name}");
    }
}

#[test]
fn empty_required_lists_are_refused() {
    let Some(case) = corpus::case("log-empty-required-lists") else { return };
    let lists = std::fs::read_to_string(case.join("expected.json")).unwrap();
    let findings =
        check_case("valid-baseline", |task| std::fs::write(task.join("tests/config.json"), lists).unwrap());
    assert_eq!(places(&findings.unwrap()), ["fail-to-pass-empty tests/config.json"]);
}
