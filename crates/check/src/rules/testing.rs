//! Small tasks for the tests of the rules.

use std::path::Path;

use record::Finding;

use crate::check::check_task;
use crate::options::{CheckOptions, Profile};
use crate::view::TaskView;

/// A task without a single finding.
pub(crate) const CLEAN: &[(&str, &str)] = &[
    ("task.toml", "[task]\nname = \"demo/add\"\n[agent]\ntimeout_sec = 60\n[verifier]\ntimeout_sec = 60\n"),
    ("instruction.md", "The sum that `/app/sum.sh` prints is wrong. Repair it.\n"),
    ("environment/Dockerfile", "FROM debian:bookworm\nCOPY sum.sh /app/sum.sh\n"),
    ("environment/sum.sh", "#!/bin/sh\necho $(( $1 - $2 ))\n"),
    ("solution/solve.sh", "#!/bin/sh\nsed -i 's/-/+/' /app/sum.sh\n"),
    ("tests/test.sh", "#!/bin/sh\n[ \"$(/app/sum.sh 2 3)\" = 5 ] && echo 1 > /logs/verifier/reward.txt\n"),
];

/// Writes files below `root`.
pub(crate) fn write(root: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

/// The view of a directory of that name with these files alone.
pub(crate) fn view_of(name: &str, files: &[(&str, &str)]) -> TaskView {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), files);
    TaskView::read(directory.path()).unwrap().named(name)
}

/// The clean task with some files added or replaced; a file whose text is `-` is left out.
pub(crate) fn task_with(files: &[(&str, &str)]) -> TaskView {
    let replaced = |path: &str| files.iter().any(|(other, _)| *other == path);
    let kept = CLEAN.iter().filter(|(path, _)| !replaced(path));
    let all: Vec<_> = kept.chain(files).filter(|(_, text)| *text != "-").copied().collect();
    view_of("add", &all)
}

/// The clean task after `change` has been at its directory.
pub(crate) fn changed_task(change: impl FnOnce(&Path)) -> TaskView {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), CLEAN);
    change(directory.path());
    TaskView::read(directory.path()).unwrap().named("add")
}

/// A tar archive of these files.
pub(crate) fn tar_of(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, path, *content).unwrap();
    }
    builder.into_inner().unwrap()
}

/// The findings on a foreign task.
pub(crate) fn findings(view: &TaskView) -> Vec<Finding> {
    check_task(view, &CheckOptions::default()).findings
}

/// The findings on a task of this program's own.
pub(crate) fn own_findings(view: &TaskView) -> Vec<Finding> {
    check_task(view, &CheckOptions::of(Profile::Materialized)).findings
}

/// `rule file:line` of each finding.
pub(crate) fn places(findings: &[Finding]) -> Vec<String> {
    let place = |found: &Finding| match found.line {
        Some(line) => format!("{} {}:{line}", found.rule, found.file),
        None => format!("{} {}", found.rule, found.file),
    };
    findings.iter().map(place).collect()
}

/// `rule file:line` of each finding on a foreign task made from the clean one.
pub(crate) fn found_with(files: &[(&str, &str)]) -> Vec<String> {
    places(&findings(&task_with(files)))
}

#[test]
fn the_clean_task_is_clean() {
    assert_eq!(found_with(&[]), Vec::<String>::new());
}
