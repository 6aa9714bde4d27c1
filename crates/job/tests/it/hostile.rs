//! Results that were damaged, or made up to do harm.

use job::{TrialState, read_job, read_trial};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::shelf::{Shelf, exception_info, result};

/// Keys that the readers look at, and some that they do not.
const KEYS: [&str; 24] = [
    "schema_version",
    "id",
    "task_name",
    "trial_name",
    "config",
    "agent",
    "agent_info",
    "model_info",
    "name",
    "agent_result",
    "n_input_tokens",
    "cost_usd",
    "verifier_result",
    "rewards",
    "reward",
    "exception_info",
    "exception_type",
    "policy",
    "has_valid_reward",
    "started_at",
    "finished_at",
    "step_results",
    "n_total_trials",
    "x",
];

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
        Just(json!("2026-11-29T14:47:24Z")),
    ];
    leaf.prop_recursive(5, 40, 8, |inner| {
        prop_oneof![prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from), object(inner),]
    })
}

fn object(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    prop::collection::vec((prop::sample::select(&KEYS[..]), inner), 0..10).prop_map(|pairs| {
        Value::Object(pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_json_is_read_as_far_as_it_goes(value in object(value())) {
        let shelf = Shelf::new();
        shelf.json("job/a/result.json", &value);
        shelf.json("job/result.json", &value);
        shelf.json("job/config.json", &value);
        shelf.json("run/results.json", &value);
        shelf.json("run/run_metadata.json", &value);
        // Either a view or an error that says what was named; both can be shown.
        for directory in ["job/a", "job", "run"] {
            if let Ok(trial) = read_trial(&shelf.path(directory)) {
                serde_json::to_string(&trial).unwrap();
            }
            if let Ok(job) = read_job(&shelf.path(directory)) {
                let shown = job.tally.seen() + job.lost.len() + job.pending.unwrap_or(0);
                prop_assert!(job.head.planned.is_none_or(|planned| shown >= planned));
                serde_json::to_string(&job).unwrap();
            }
        }
    }

    #[test]
    fn a_damaged_result_is_never_taken_for_a_whole_one(at in 0_usize..2000, flip in any::<Option<u8>>()) {
        let shelf = Shelf::new();
        let mut whole = result("a", "a");
        whole["verifier_result"] = json!({"rewards": {"reward": 1.0}});
        whole["exception_info"] = exception_info("AgentTimeoutError");
        let mut bytes = serde_json::to_vec(&whole).unwrap();
        let at = at % bytes.len();
        match flip {
            Some(byte) => bytes[at] = byte,
            None => bytes.truncate(at),
        }
        shelf.write("a/result.json", &bytes);
        let trial = read_trial(&shelf.path("a")).unwrap();
        if flip.is_none() {
            let incomplete = matches!(trial.state, TrialState::Incomplete { .. });
            prop_assert!(incomplete, "cut at {}: {:?}", at, trial.state);
            prop_assert!(!trial.oddities.is_empty());
        }
        serde_json::to_string(&trial).unwrap();
    }
}

#[test]
fn depth_and_length_are_no_way_to_do_harm() {
    let shelf = Shelf::new();
    let deep =
        format!("{{\"trial_name\": \"a\", \"config\": {}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    shelf.write("a/result.json", &deep);
    shelf.write("b/result.json", deep.replace('[', "{\"agent\":").replace(']', "}"));
    let name = "x".repeat(1 << 20);
    shelf.json("c/result.json", &json!({"trial_name": name, "task_name": name}));
    for trial in ["a", "b", "c"] {
        let trial = read_trial(&shelf.path(trial)).unwrap();
        serde_json::to_string(&trial).unwrap();
    }
}
