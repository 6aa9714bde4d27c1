//! Observations to keep.

use std::collections::BTreeMap;

use ident::{Digest, TaskId};
use record::{Limits, Observation, Outcome, TrialKind};

pub fn observation(task: &str, kind: TrialKind, reward: f64) -> Observation {
    Observation {
        task_id: TaskId::new(task).unwrap(),
        kind,
        tree_digest: Digest::of("tree"),
        verifier_digest: Digest::of("tests"),
        image_digest: "sha256:image".into(),
        limits: Limits { verifier_sec: 180, memory_mb: Some(4096), millicpus: None },
        engine: "native".into(),
        outcome: Outcome::Reward(reward),
        tests: BTreeMap::from([("t.py::ä[\u{1}]".to_owned(), "passed".to_owned())]),
        wall_ms: 1234,
        trial: format!("jobs/proof/{task}__1"),
        ended_at: "2026-01-02T03:04:05Z".into(),
        cheat_group: None,
    }
}
