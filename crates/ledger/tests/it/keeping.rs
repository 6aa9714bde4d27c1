//! What goes in comes out, and stays.

use ident::Digest;
use ledger::{Filter, Ledger, LedgerError, ProofKey};
use record::{FailureClass, Outcome, Reason, TrialKind};
use rusqlite::Connection;

use crate::sample::observation;

#[test]
fn observations_come_back_as_they_were_in_order_of_task_and_time() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ledger.db");
    let mut failed = observation("a.1", TrialKind::Oracle, 0.0);
    failed.outcome = Outcome::Failed {
        reason: Reason::OutOfMemory,
        class: FailureClass::Infrastructure,
        retryable: true,
        detail: "the limit of 4096 MiB was hit".into(),
    };
    failed.limits.memory_mb = None;
    let kept = [
        observation("b.1", TrialKind::Nop, 0.0),
        failed,
        observation("a.1", TrialKind::Nop, 0.999_999_999_999_999_9),
    ];
    let mut ledger = Ledger::open(&path).unwrap();
    ledger.append(&kept[..2]).unwrap();
    ledger.append(&kept[2..]).unwrap();
    ledger.append(&[]).unwrap();
    drop(ledger);
    let ledger = Ledger::open_existing(&path).unwrap().expect("the ledger is there");
    let all = ledger.observations(&Filter::default()).unwrap();
    assert_eq!(all, [kept[1].clone(), kept[2].clone(), kept[0].clone()]);
    ledger.verify().unwrap();
}

#[test]
fn filters_tell_every_part_of_an_identity_apart() {
    let directory = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::open(&directory.path().join("ledger.db")).unwrap();
    let base = observation("a.1", TrialKind::Nop, 0.0);
    let mut variants = vec![base.clone()];
    let changes: [fn(&mut record::Observation); 8] = [
        |other| other.task_id = ident::TaskId::new("a.2").unwrap(),
        |other| other.tree_digest = Digest::of("other"),
        |other| other.verifier_digest = Digest::of("other"),
        |other| other.image_digest = "other".into(),
        |other| other.limits.verifier_sec = 900,
        |other| other.limits.memory_mb = None,
        |other| other.limits.millicpus = Some(2000),
        |other| other.engine = "docker".into(),
    ];
    for change in changes {
        let mut other = base.clone();
        change(&mut other);
        variants.push(other);
    }
    ledger.append(&variants).unwrap();
    for variant in &variants {
        let found = ledger.observations(&Filter::of_key(&ProofKey::of(variant))).unwrap();
        assert_eq!(found.as_slice(), std::slice::from_ref(variant));
    }
    assert_eq!(ledger.observations(&Filter::of_task(&base.task_id)).unwrap().len(), 8);
    let oracles = Filter { kind: Some(TrialKind::Oracle), ..Filter::default() };
    assert_eq!(ledger.observations(&oracles).unwrap(), []);
}

#[test]
fn the_database_itself_refuses_changes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ledger.db");
    let kept = observation("a.1", TrialKind::Nop, 0.0);
    Ledger::open(&path).unwrap().append(std::slice::from_ref(&kept)).unwrap();
    let foreign_hand = Connection::open(&path).unwrap();
    for statement in [
        "UPDATE observations SET outcome = '{\"reward\":1.0}'",
        "DELETE FROM observations",
        "INSERT OR REPLACE INTO observations SELECT * FROM observations",
    ] {
        let error = foreign_hand.execute_batch(statement).unwrap_err().to_string();
        assert!(error.contains("observations are never"), "{statement}: {error}");
    }
    let ledger = Ledger::open(&path).unwrap();
    assert_eq!(ledger.observations(&Filter::default()).unwrap(), [kept]);
}

#[test]
fn what_cannot_be_kept_is_refused_whole() {
    let directory = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::open(&directory.path().join("ledger.db")).unwrap();
    let good = observation("a.1", TrialKind::Nop, 0.0);
    for bad in [f64::NAN, f64::INFINITY] {
        let rows = [good.clone(), observation("a.2", TrialKind::Nop, bad)];
        let error = ledger.append(&rows).unwrap_err();
        assert!(
            matches!(&error, LedgerError::Observation { task_id, .. } if task_id.as_str() == "a.2"),
            "{error}"
        );
    }
    let mut endless = good;
    endless.wall_ms = u64::MAX;
    assert!(ledger.append(&[endless]).is_err());
    assert_eq!(ledger.observations(&Filter::default()).unwrap(), []);
}
