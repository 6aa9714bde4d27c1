//! Histories and status files of the kind that people keep by hand, where they are at hand.

use std::fs;

use ident::{Digest, TaskId};
use ledger::{Decision, Needed, ProofKey, ProofRule, decide, reason, tally};
use record::{FailureClass, Observation, Outcome, Reason, Status, TrialKind};
use serde_json::Value;

use crate::sample::observation;

fn read(path: &str) -> Option<Value> {
    let text = fs::read_to_string(corpus::find(&format!("cases/{path}"))?).unwrap();
    Some(serde_json::from_str(&text).unwrap())
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap()
}

/// What the ledger would hold had the entry been made by it.
fn observations(entry: &Value) -> Vec<Observation> {
    let run = |kind, outcome| Observation {
        verifier_digest: Digest::of(text(entry, "verifier_fp")),
        outcome,
        ..observation(text(entry, "task"), kind, 0.0)
    };
    let lost = Outcome::Failed {
        reason: Reason::EngineLost,
        class: FailureClass::Infrastructure,
        retryable: true,
        detail: "the engine vanished".into(),
    };
    let oracle = match text(entry, "status") {
        "accepted" => Outcome::Reward(1.0),
        "rejected" => Outcome::Reward(0.0),
        _ => lost,
    };
    vec![run(TrialKind::Nop, Outcome::Reward(0.0)), run(TrialKind::Oracle, oracle)]
}

#[test]
fn earlier_results_count_only_for_the_verifier_they_were_made_with() {
    let Some(history) = read("154-resume-terminal-vs-retryable/history.json") else { return };
    let Some(current) = read("154-resume-terminal-vs-retryable/current.json") else { return };
    let all: Vec<_> = history.as_array().unwrap().iter().flat_map(observations).collect();
    let rule = ProofRule { nop_runs: 1, oracle_runs: 1, confirm_runs: 3, retries: 2, ..ProofRule::default() };
    let decision = |task: &str| -> Decision {
        let key = ProofKey {
            verifier_digest: Digest::of(text(&current, "verifier_fp")),
            ..ProofKey::of(&observation(task, TrialKind::Nop, 0.0))
        };
        decide(&key, &all, &rule)
    };
    let rejected = decision("a");
    assert!(matches!(&rejected.status, Status::Rejected { reason, .. } if reason == reason::ORACLE_FAILED));
    assert!(rejected.next.is_nothing());
    assert_eq!(decision("b").next, Needed { nop: 0, oracle: 1 });
    assert_eq!(decision("c").next, Needed { nop: 1, oracle: 1 });
    assert_eq!(decision("d").status, Status::Accepted);
}

#[test]
fn a_task_in_two_lists_is_named() {
    let Some(state) = read("153-status-counter-drift/state.json") else { return };
    let lists = [
        ("accepted", Status::Accepted),
        ("rejected", Status::Rejected { reason: "oracle_failed".into(), detail: String::new() }),
        ("error", Status::Error { reason: "engine_lost".into(), retryable: true, detail: String::new() }),
        ("pending", Status::Pending),
    ];
    let mut stated: Vec<(TaskId, Status)> = Vec::new();
    for (list, status) in &lists {
        for task in state[*list].as_array().unwrap() {
            stated.push((TaskId::new(task.as_str().unwrap()).unwrap(), status.clone()));
        }
    }
    let mut set: Vec<TaskId> = stated.iter().map(|(task, _)| task.clone()).collect();
    set.sort();
    set.dedup();
    assert_eq!(Some(set.len() as u64), state["oracle_total"].as_u64());
    let statuses = stated.iter().map(|(task, status)| (task, status));
    let wrong = tally(set.iter().map(|task| (task, "pool")), statuses).unwrap_err();
    assert_eq!(
        wrong.to_string(),
        "the status sums do not close; with more than one status: `b` (accepted, rejected)"
    );
}
