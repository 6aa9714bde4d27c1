//! Files that are no ledgers, and ledgers that are damaged.

use std::fs;

use ledger::{Filter, Ledger, LedgerError};
use record::TrialKind;
use rusqlite::Connection;

use crate::sample::observation;

#[test]
fn a_missing_ledger_is_created_only_when_that_is_wanted() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ledger.db");
    assert!(Ledger::open_existing(&path).unwrap().is_none());
    assert!(!path.exists());
    fs::write(&path, "").unwrap();
    Ledger::open(&path).unwrap();
    assert!(Ledger::open_existing(&path).unwrap().is_some());
}

#[test]
fn other_files_are_left_as_they_are() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notes.db");
    let text = "these are notes, and no database at all\n".repeat(100);
    fs::write(&path, &text).unwrap();
    let error = Ledger::open(&path).unwrap_err();
    assert!(matches!(error, LedgerError::NotALedger { .. }), "{error}");
    assert!(error.to_string().contains("notes.db is not a ledger"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), text);

    let path = directory.path().join("other.db");
    Connection::open(&path)
        .unwrap()
        .execute_batch("CREATE TABLE theirs (x); PRAGMA user_version = 1")
        .unwrap();
    let before = fs::read(&path).unwrap();
    assert!(matches!(Ledger::open(&path), Err(LedgerError::NotALedger { .. })));
    assert_eq!(fs::read(&path).unwrap(), before);
    for place in [directory.path(), std::path::Path::new("/dev/null")] {
        let error = Ledger::open(place).unwrap_err();
        assert!(error.to_string().contains("it is a directory or a special file"), "{error}");
    }
}

#[test]
fn a_later_layout_is_refused_by_version() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ledger.db");
    Ledger::open(&path).unwrap();
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    assert!(matches!(Ledger::open(&path), Err(LedgerError::Newer { found: 99, .. })));
}

#[test]
fn damage_is_named_with_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ledger.db");
    let rows: Vec<_> =
        (0..500).map(|number| observation(&format!("a.{number}"), TrialKind::Nop, 0.0)).collect();
    Ledger::open(&path).unwrap().append(&rows).unwrap();
    // Fold the write-ahead log into the file, then break the pages in the middle of it.
    Connection::open(&path).unwrap().execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 20_000].fill(0xa5);
    fs::write(&path, bytes).unwrap();
    let ledger = Ledger::open(&path).unwrap();
    for error in [ledger.observations(&Filter::default()).unwrap_err(), ledger.verify().unwrap_err()] {
        assert!(matches!(error, LedgerError::Damaged { .. }), "{error}");
        assert!(error.to_string().contains("ledger.db is damaged"), "{error}");
    }
}
