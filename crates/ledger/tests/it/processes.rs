//! Two processes with one ledger.

use std::path::{Path, PathBuf};
use std::process::Command;

use ledger::{Filter, Ledger};
use record::TrialKind;

use crate::sample::observation;

const LEDGER: &str = "LEDGER_OF_THE_OTHER_PROCESS";
const ROWS: usize = 50;

fn append_rows(path: &Path, task: &str) {
    let mut ledger = Ledger::open(path).unwrap();
    for _ in 0..ROWS {
        ledger
            .append(&[observation(task, TrialKind::Nop, 0.0), observation(task, TrialKind::Oracle, 1.0)])
            .unwrap();
    }
}

/// Runs as the other process of the test below; on its own it has nothing to do but to open a ledger.
#[test]
fn the_other_process() {
    if let Some(path) = std::env::var_os(LEDGER) {
        append_rows(&PathBuf::from(path), &format!("process.{}", std::process::id()));
    } else {
        let directory = tempfile::tempdir().unwrap();
        append_rows(&directory.path().join("ledger.db"), "alone.1");
    }
}

#[test]
fn several_processes_create_and_fill_one_ledger() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ledger.db");
    let mut others: Vec<_> = (0..3)
        .map(|_| {
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "processes::the_other_process"])
                .env(LEDGER, &path)
                .spawn()
                .unwrap()
        })
        .collect();
    append_rows(&path, "this.1");
    for other in &mut others {
        assert!(other.wait().unwrap().success());
    }
    let all = Ledger::open(&path).unwrap().observations(&Filter::default()).unwrap();
    assert_eq!(all.len(), 4 * ROWS * 2);
    // Each append is one transaction: the two rows of one are never torn apart by another writer's.
    let of_task = |task: &str| all.iter().filter(|row| row.task_id.as_str() == task).count();
    assert_eq!(of_task("this.1"), ROWS * 2);
    for pair in all.chunks(2) {
        assert_eq!((&pair[0].kind, &pair[1].kind), (&TrialKind::Nop, &TrialKind::Oracle));
        assert_eq!(pair[0].task_id, pair[1].task_id);
    }
}
