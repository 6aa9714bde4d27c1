//! How everything that may go wrong with a model ends, by the table that trainers go by.

use serde_json::{Value, json};

use crate::agents::Scripted;
use crate::project::sandboxes_run;
use crate::tasks::{Job, Shelf, Task};

/// Whether a failure is tried again, whether it is graded, and whether a reward that was given counts, by the name of its exception.
/// The same table as in Harbor 0.26, as far as agents with a model can come to it.
const TABLE: [(&str, [bool; 3]); 8] = [
    ("AgentTimeoutError", [false, true, true]),
    ("NonZeroAgentExitCodeError", [false, true, true]),
    ("ContextLengthExceededError", [false, true, true]),
    ("OutputLengthExceededError", [false, true, true]),
    ("AgentSafetyRefusalError", [false, true, true]),
    ("ApiError", [true, true, false]),
    ("AgentAuthenticationError", [false, false, false]),
    ("ModelNotFoundError", [false, false, false]),
];

/// What goes wrong in a task, behind a first command that solves it; and the exception that this is.
fn misfortunes() -> Vec<(&'static str, &'static str, Value)> {
    let again = |fault: Value| json!([{"faults": vec![fault; 20]}]);
    let at_once = json!({"seconds": 0});
    let status = |status: u16| json!({"status": {"status": status, "retry_after": at_once}});
    vec![
        ("too-slow", "AgentTimeoutError", json!([{"commands": ["sleep 60"]}])),
        ("slow-model", "AgentTimeoutError", again(json!({"slow": {"ms": 60_000}}))),
        ("babbles", "NonZeroAgentExitCodeError", json!([{"text": "Hello!"}])),
        ("malformed", "NonZeroAgentExitCodeError", json!([{"arguments": "{\"command\": \"ls"}])),
        ("server-overflow", "ContextLengthExceededError", again(json!("overflow"))),
        (
            "budget-overflow",
            "ContextLengthExceededError",
            json!([{"commands": ["head -c 9000 /dev/zero | tr '\\0' y"]}]),
        ),
        (
            "wrong-usage",
            "ContextLengthExceededError",
            json!([{"commands": ["true"], "usage": {"wrong": {"prompt": 999_999, "completion": 1}}}]),
        ),
        ("cut-short", "OutputLengthExceededError", json!([{"text": "On and", "finish": "length"}])),
        ("filtered", "AgentSafetyRefusalError", json!([{"text": "", "finish": "content_filter"}])),
        (
            "declined",
            "AgentSafetyRefusalError",
            again(json!({"status": {"status": 400, "message": "blocked by content_policy"}})),
        ),
        ("rate-limited", "ApiError", again(status(429))),
        ("server-error", "ApiError", again(status(500))),
        ("overloaded", "ApiError", again(status(503))),
        (
            "far-too-busy",
            "ApiError",
            again(json!({"status": {"status": 429, "retry_after": {"seconds": 9999}}})),
        ),
        ("refused", "ApiError", again(json!({"status": {"status": 418}}))),
    ]
}

/// Tasks of these names, with scenes that solve each and then go on as told.
fn shelf(names: &[&str]) -> Shelf {
    let task = |name: &&str| {
        let task = Task::new(name);
        if name.contains("slow") { task.settings("[agent]\ntimeout_sec = 4\n") } else { task }
    };
    let shelf = Shelf::new(names.iter().map(task));
    for name in names {
        shelf.file(name, "instruction.md", &format!("Task {name}: make /app/state say `fixed`.\n"));
    }
    shelf
}

/// Holds every trial of a job against the table. All of them had solved their tasks before they failed.
#[track_caller]
fn check(job: &Job, task: &str, exception: &str, retries: usize) {
    let (_, [retried, graded, valid]) = TABLE.into_iter().find(|(name, _)| *name == exception).unwrap();
    let trial = job.trial(task);
    let result = trial.json("result.json");
    let info = &result["exception_info"];
    assert_eq!(info["exception_type"], exception, "{task}: {info}");
    let flags = ["should_retry", "should_grade", "has_valid_reward"].map(|flag| info["policy"][flag] == true);
    assert_eq!(flags, [retried, graded, valid], "{task}");
    // What was done is what the flags say.
    let tries = trial.json("seatrial.json")["retries"].as_array().map_or(0, Vec::len);
    assert_eq!(tries, if retried { retries } else { 0 }, "{task}");
    let rewards = if graded { json!({"reward": 1.0}) } else { Value::Null };
    assert_eq!(result["verifier_result"]["rewards"], rewards, "{task}: {result}");
    assert_eq!(trial.line["reward"], if valid { json!(1.0) } else { Value::Null }, "{task}");
    assert_eq!(result["reward_valid"], valid, "{task}");
}

#[test]
fn every_failure_of_a_model_ends_as_the_table_says() {
    if !sandboxes_run() {
        return;
    }
    let misfortunes = misfortunes();
    let names: Vec<_> = misfortunes.iter().map(|(name, ..)| *name).collect();
    let shelf = shelf(&names);
    let scenes: Vec<_> = misfortunes
        .iter()
        .map(|(name, _, turns)| {
            let mut all = vec![json!({"commands": ["echo fixed > /app/state"]})];
            all.extend(turns.as_array().unwrap().iter().cloned());
            json!({"when": [format!("Task {name}:")], "turns": all})
        })
        .collect();
    let model = Scripted::serve(&json!({"model": "m", "scenes": scenes}));
    let job = model.run(&shelf, &["--context", "9000", "--max-retries", "1"]);
    for (task, exception, _) in &misfortunes {
        check(&job, task, exception, 1);
    }
}

#[test]
fn wrong_keys_and_unknown_models_are_neither_graded_nor_tried_again() {
    if !sandboxes_run() {
        return;
    }
    let shelf = shelf(&["one"]);
    let turns = json!([{"commands": ["submit"]}]);
    let locked = Scripted::serve(&json!({"model": "m", "key": "made-up", "scenes": [{"turns": turns}]}));
    check(
        &locked.run(&shelf, &["--max-retries", "2", "--job-name", "locked"]),
        "one",
        "AgentAuthenticationError",
        0,
    );
    let other = Scripted::serve(&json!({"model": "other", "scenes": [{"turns": turns}]}));
    check(&other.run(&shelf, &["--max-retries", "2", "--job-name", "other"]), "one", "ModelNotFoundError", 0);
}

#[test]
fn what_passes_is_tried_again_and_then_counts() {
    if !sandboxes_run() {
        return;
    }
    let shelf = shelf(&["busy"]);
    let busy = json!({"status": {"status": 503, "retry_after": {"seconds": 0}}});
    // Six tries of the first trial, then one of the second.
    let model = Scripted::serve(&json!({"model": "m", "scenes": [{"turns": [
        {"commands": ["echo fixed > /app/state"]}, {"commands": ["submit"], "faults": vec![busy; 7]}]}]}));
    let job = model.run(&shelf, &["--max-retries", "1"]);
    let trial = job.trial("busy");
    assert!(trial.is_rewarded(1.0), "{}", trial.line);
    let retries = trial.json("seatrial.json")["retries"].clone();
    assert_eq!(
        (retries[0]["reason"].as_str(), retries[1].is_null()),
        (Some("api_failed"), true),
        "{retries}"
    );
    let steps = trial.json("agent/trajectory.json")["steps"].clone();
    assert_eq!(steps[3]["extra"]["tries"], 2, "{steps}");
}
