//! Canaries on real lists of ids.

use std::collections::BTreeMap;

use ident::Digest;
use serde_json::Value;
use trace::{CanaryDocument, CanaryTask, CanaryTrial, canary_report, sample};

#[test]
fn the_order_and_the_line_ends_of_a_list_change_nothing() {
    let Some(lists) = corpus::find("cases/155-canary-sampling-order") else { return };
    let drawn = |name: &str| {
        let text = std::fs::read_to_string(lists.join(name)).unwrap();
        sample(text.lines().map(str::trim).filter(|id| !id.is_empty()), 30)
    };
    let ids = drawn("ids_a.txt");
    assert_eq!(ids.len(), 30);
    assert_eq!(ids, drawn("ids_b.txt"));
}

/// A canary of one trial a task, from the results of a case.
fn document(results: &[Value]) -> CanaryDocument {
    let name = |row: &Value| row["trial"].as_str().unwrap().to_owned();
    let task =
        |row: &Value| CanaryTask { id: name(row), repository: None, tree_digest: Digest::of(name(row)) };
    let trial = |row: &Value| CanaryTrial {
        task: name(row),
        attempt: 0,
        trial: name(row),
        reward: row["reward"].as_f64(),
        exception: row["exception"].as_str().map(str::to_owned),
        wall_ms: 0,
    };
    CanaryDocument {
        schema: String::new(),
        job: "job".into(),
        model: "m".into(),
        tasks_from: "case".into(),
        settings: BTreeMap::new(),
        repeats: 1,
        tasks: results.iter().map(task).collect(),
        trials: results.iter().map(trial).collect(),
    }
}

#[test]
fn errors_count_as_zero_in_the_headline_and_are_left_out_beside_it() {
    let Some(case) = corpus::case("canary-mean-with-errors") else { return };
    let results: Vec<Value> =
        serde_json::from_slice(&std::fs::read(case.join("results.json")).unwrap()).unwrap();
    let report = canary_report(&document(&results));
    assert_eq!((report.solved, report.rewarded, report.errored), (12, 27, 3));
    assert!((report.mean_with_errored_as_0.unwrap() - 0.4).abs() < 1e-9);
    let rewarded = report.mean_of_rewarded.unwrap();
    assert_eq!((format!("{:.3}", rewarded.mean), rewarded.over), ("0.444".to_owned(), 27));
    assert_eq!(report.exceptions[0].trials, 3);
    let interval = report.interval.unwrap();
    assert_eq!(
        (format!("{:.2}", interval.low), format!("{:.2}", interval.high)),
        ("0.25".into(), "0.58".into())
    );
}
