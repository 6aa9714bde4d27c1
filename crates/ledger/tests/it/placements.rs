//! Where images were put.

use ident::Digest;
use ledger::Ledger;
use record::{ImageKind, PlacedImage};

fn placed(kind: ImageKind, key: &str, shard: &str) -> PlacedImage {
    PlacedImage {
        kind,
        key: key.into(),
        repository: format!("registry.invalid/swe/{shard}"),
        tag: key.into(),
        digest: Digest::of(key).prefixed(),
    }
}

#[test]
fn the_last_place_of_an_image_counts_and_none_is_forgotten() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ledger.db");
    let (first, later) = (placed(ImageKind::Task, "a", "task-00"), placed(ImageKind::Task, "a", "task-07"));
    // A base and a task may have the same key.
    let base = placed(ImageKind::Baseanchor, "a", "task-01");
    let mut ledger = Ledger::open(&path).unwrap();
    assert_eq!(ledger.placements().unwrap(), []);
    ledger.record_placements(Digest::of("plan"), &[first.clone(), base.clone()]).unwrap();
    ledger.record_placements(Digest::of("plan"), &[first.clone(), base.clone()]).unwrap();
    assert_eq!(ledger.placements().unwrap(), [base.clone(), first]);
    ledger.record_placements(Digest::of("another"), std::slice::from_ref(&later)).unwrap();
    drop(ledger);
    assert_eq!(Ledger::open(&path).unwrap().placements().unwrap(), [base, later]);

    let raw = rusqlite::Connection::open(&path).unwrap();
    let rows: i64 = raw.query_row("SELECT count(*) FROM placements", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 3, "what is known is not kept twice");
    for statement in [
        "UPDATE placements SET tag = ''",
        "DELETE FROM placements",
        "REPLACE INTO placements SELECT * FROM placements",
    ] {
        assert!(raw.execute_batch(statement).is_err(), "{statement}");
    }
}
