//! Digests computed by Harbor 0.26 itself.

use std::path::Path;

use task::digest_task;

/// Compares a table of golden digests with the trees below `root` and returns how many rows it has.
fn compare(table: &Path, root: &Path) -> usize {
    let text = std::fs::read_to_string(table).unwrap();
    let mut wrong = Vec::new();
    let rows: Vec<_> = text.lines().skip(1).map(|line| line.split('\t').collect::<Vec<_>>()).collect();
    for row in &rows {
        let digests = digest_task(&root.join(row[0])).unwrap();
        if digests.content_hash.hex() != row[1] || digests.task_checksum.hex() != row[2] {
            wrong.push(row[0]);
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ: {wrong:?}", wrong.len(), rows.len());
    rows.len()
}

#[test]
fn real_tasks_have_harbors_digests() {
    let Some(golden) = corpus::find("data/harbor-0.26-golden") else { return };
    let rows = compare(&golden.join("task-hashes-all.tsv"), &golden.join("../tasks"));
    assert!(rows > 50, "only {rows} rows");
}

#[test]
fn made_tasks_have_harbors_digests() {
    let Some(golden) = corpus::find("data/harbor-0.26-golden") else { return };
    let directory = tempfile::tempdir().unwrap();
    let archive = std::fs::File::open(golden.join("synthetic-tasks.tar")).unwrap();
    tar::Archive::new(archive).unpack(directory.path()).unwrap();
    assert_eq!(compare(&golden.join("synthetic-task-hashes.tsv"), directory.path()), 10);
}
