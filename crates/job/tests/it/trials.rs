//! One trial: what came out, and what is odd about its files.

use artifact::Document as _;
use ident::Digest;
use job::{
    EarlierTry, Flag, Generation, Incomplete, JobError, Phase, PhaseOutcome, PhaseRecord, TrialRecord,
    TrialState, Usage, read_trial,
};
use record::{FailureClass, Outcome, Reason};
use serde_json::json;

use crate::shelf::{Shelf, exception_info, kinds, result, said};

#[test]
fn a_result_says_all_there_is_to_know() {
    let shelf = Shelf::new();
    shelf.rewarded("a__1", "org/a", 0.25);
    let trial = read_trial(&shelf.path("a__1")).unwrap();
    assert_eq!(trial.oddities, []);
    assert_eq!((trial.name.as_str(), trial.generation), ("a__1", Generation::Present));
    assert_eq!(trial.state, TrialState::Rewarded { reward: 0.25, failure: None });
    assert_eq!(trial.task.as_deref(), Some("org/a"));
    assert_eq!((trial.agent.as_deref(), trial.model.as_deref()), (Some("oracle"), None));
    assert_eq!(trial.engine.as_deref(), Some("native"));
    assert_eq!(trial.wall_ms, Some(22_500));
    assert_eq!(
        trial.phases.iter().map(|phase| phase.phase).collect::<Vec<_>>(),
        [Phase::Start, Phase::Agent]
    );
    // What is not known is not 0.
    assert_eq!((trial.tokens.input, trial.tokens.output, trial.tokens.cost_usd), (None, Some(7), Some(0.0)));
    assert_eq!((trial.attempt, trial.usage), (None, Usage::default()));
}

#[test]
fn tokens_of_python_are_reported_by_key_and_never_written() {
    let shelf = Shelf::new();
    shelf.write(
        "a/result.json",
        r#"{"trial_name": "a", "verifier_result": {"rewards": {"reward": NaN}}, "agent_result": {"cost_usd": Infinity}}"#,
    );
    shelf.write("b/result.json", r#"{"trial_name": "b", "verifier_result": {"rewards": {"reward": 1.0}}}"#);
    let odd = read_trial(&shelf.path("a")).unwrap();
    assert_eq!(odd.state, TrialState::Ungraded);
    assert_eq!(
        said(&odd.oddities),
        [
            "result.json: `verifier_result.rewards.reward` is NaN, which is not a number",
            "result.json: `agent_result.cost_usd` is Infinity, which is not a number",
        ]
    );
    let written = serde_json::to_string(&odd).unwrap();
    let read: serde_json::Value = serde_json::from_str(&written).unwrap();
    assert_eq!((&read["tokens"]["cost_usd"], &read["state"]), (&json!(null), &json!("ungraded")));

    let job = job::read_job(shelf.root()).unwrap();
    assert_eq!((job.tally.rewarded, job.tally.ungraded), (1, 1));
    assert_eq!(job.oddities[0].path, "a/result.json");
}

#[test]
fn a_trial_without_a_whole_result_is_incomplete_and_nothing_else() {
    let shelf = Shelf::new();
    let config = json!({"trial_name": "x", "task": {"path": "/data/tasks/demo/"}, "agent": {"import_path": "my:Agent"}});
    shelf.json("none/config.json", &config);
    shelf.write("empty/result.json", "");
    shelf.write("cut/result.json", r#"{"trial_name": "cut", "verifier_result": {"rewards": {"reward": 1"#);
    shelf.write("noise/result.json", "<html>");
    shelf.write("list/result.json", r#"[{"trial_name": "list"}]"#);
    shelf.write("rest/agent.log", "started");
    shelf.write("stray/reward.json", r#"{"reward": 1}"#);
    std::fs::create_dir(shelf.path("link")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", shelf.path("link/result.json")).unwrap();
    std::fs::create_dir(shelf.path("large")).unwrap();
    std::fs::File::create(shelf.path("large/result.json")).unwrap().set_len(2 << 30).unwrap();
    for (name, cause, odd) in [
        ("none", Incomplete::NoResult, &["other_name"][..]),
        ("empty", Incomplete::Empty, &["empty"]),
        ("cut", Incomplete::Cut, &["cut"]),
        ("noise", Incomplete::Unreadable, &["not_json"]),
        ("list", Incomplete::Unreadable, &["not_an_object"]),
        ("rest", Incomplete::NoResult, &["nothing_of_a_trial"]),
        ("stray", Incomplete::NoResult, &["nothing_of_a_trial", "stray_reward"]),
        ("link", Incomplete::Unreadable, &["not_plain"]),
        ("large", Incomplete::Unreadable, &["too_large"]),
    ] {
        let trial = read_trial(&shelf.path(name)).unwrap();
        assert_eq!(trial.state, TrialState::Incomplete { cause }, "{name}");
        assert_eq!(kinds(&trial.oddities), odd, "{name}");
        assert!(trial.rewards.is_empty(), "{name}");
    }
    let none = read_trial(&shelf.path("none")).unwrap();
    assert_eq!((none.task.as_deref(), none.agent.as_deref()), (Some("demo"), Some("my:Agent")));
    // Only while its job is at work it may still become whole.
    let held = job::claim(shelf.root()).unwrap();
    assert_eq!(read_trial(&shelf.path("none")).unwrap().state, TrialState::Running);
    assert!(matches!(read_trial(&shelf.path("empty")).unwrap().state, TrialState::Incomplete { .. }));
    drop(held);
    assert!(matches!(read_trial(&shelf.path("none")).unwrap().state, TrialState::Incomplete { .. }));
}

#[test]
fn a_reward_counts_beside_an_exception_as_its_policy_says() {
    let shelf = Shelf::new();
    let write = |name: &str, exception: &str, policy: serde_json::Value| {
        let mut result = result(name, "a");
        result["verifier_result"] = json!({"rewards": {"reward": 1}});
        result["exception_info"] = exception_info(exception);
        if !policy.is_null() {
            result["exception_info"]["policy"] = policy;
        }
        shelf.json(&format!("{name}/result.json"), &result);
        read_trial(&shelf.path(name)).unwrap().state
    };
    let valid = |state: &TrialState| matches!(state, TrialState::Rewarded { failure: Some(_), .. });
    assert!(valid(&write("timeout", "AgentTimeoutError", json!(null))));
    assert!(valid(&write("unknown", "ProcessLookupError", json!(null))));
    assert!(!valid(&write("api", "ApiError", json!(null))));
    // What was written beside the exception holds before the table.
    assert!(valid(&write("told", "ApiError", json!({"has_valid_reward": true}))));
    assert!(!valid(&write("untold", "AgentTimeoutError", json!({"has_valid_reward": false}))));
    let state = write("reason", "ValueError", json!(null));
    let failure = state.failure().unwrap();
    assert_eq!((failure.exception.as_str(), failure.reason, failure.class), ("ValueError", None, None));
    let state = write("typed", "VerifierTimeoutError", json!(null));
    let failure = state.failure().unwrap();
    assert_eq!((failure.reason, failure.class), (Some(Reason::VerifierTimeout), Some(FailureClass::Task)));
}

#[test]
fn what_may_be_tried_again_is_told_from_what_may_not() {
    let shelf = Shelf::new();
    for (exception, retryable) in [
        ("VerifierTimeoutError", false),
        ("RewardFileNotFoundError", false),
        ("RuntimeError", true),
        ("EnvironmentStartTimeoutError", true),
        ("AgentTimeoutError", false),
    ] {
        shelf.errored("a", "a", exception);
        let trial = read_trial(&shelf.path("a")).unwrap();
        assert_eq!(trial.state.failure().map(|failure| failure.retryable), Some(retryable), "{exception}");
    }
}

#[test]
fn a_zero_without_an_agent_is_no_ordinary_zero() {
    let shelf = Shelf::new();
    let mut nothing = result("a", "a");
    nothing["verifier_result"] = json!({"rewards": {"reward": 0.0}});
    nothing["agent_execution"] = json!(null);
    shelf.json("a/result.json", &nothing);
    assert_eq!(kinds(&read_trial(&shelf.path("a")).unwrap().oddities), ["no_agent"]);
    // A machine that broke down is an error, whatever reward lies beside it.
    nothing["exception_info"] = exception_info("EnvironmentStartTimeoutError");
    shelf.json("a/result.json", &nothing);
    let trial = read_trial(&shelf.path("a")).unwrap();
    assert!(
        matches!(&trial.state, TrialState::Errored { failure } if failure.class == Some(FailureClass::Infrastructure))
    );
    assert_eq!(trial.rewards.get("reward"), Some(&0.0));
}

#[test]
fn names_that_are_not_utf8_can_be_shown() {
    use std::os::unix::ffi::OsStrExt as _;
    let shelf = Shelf::new();
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9");
    std::fs::create_dir(shelf.root().join(name)).unwrap();
    std::fs::write(shelf.root().join(name).join("result.json"), "{\"task_name\": \"a\"}").unwrap();
    let job = job::read_job(shelf.root()).unwrap();
    assert_eq!((job.trials[0].name.as_str(), job.oddities.len()), ("caf\u{fffd}", 0));
    assert!(serde_json::to_string(&job).unwrap().contains("caf\u{fffd}"));
}

#[test]
fn odd_fields_are_reported_and_the_others_are_read() {
    let shelf = Shelf::new();
    let mut odd = result("a", "a");
    odd["schema_version"] = json!(7);
    odd["trial_name"] = json!("other");
    odd["task_name"] = json!(["a"]);
    odd["agent_info"]["model_info"] = json!({"name": 3, "provider": "p"});
    odd["verifier_result"] = json!({"rewards": {"speed": 2, "reward": "1.0"}});
    odd["started_at"] = json!(1_788_256_800);
    odd["finished_at"] = json!("09/01/26");
    odd["agent_execution"]["finished_at"] = json!("2026-11-29 14:47:27.123456789");
    odd["reward_valid"] = json!(true);
    shelf.json("a/result.json", &odd);
    let trial = read_trial(&shelf.path("a")).unwrap();
    assert_eq!(
        said(&trial.oddities),
        [
            "result.json: has schema version 7, which is not known; what is known of it was read",
            "result.json: `task_name` is a list instead of a text",
            "result.json: `agent_info.model_info.name` is a number instead of a text",
            "result.json: `verifier_result.rewards.reward` is a text instead of a number",
            "result.json: `finished_at` is 09/01/26: not a time in a known form",
            "result.json: `agent_execution` ends before it begins",
            "result.json: has rewards called speed and none called `reward`",
            "result.json: calls the trial `other`",
        ]
    );
    assert_eq!((trial.name.as_str(), trial.provider.as_deref()), ("other", Some("p")));
    assert_eq!(trial.started_at.unwrap().to_string(), "2026-09-01T10:00:00Z");
    assert_eq!((trial.finished_at, trial.wall_ms), (None, None));
    assert_eq!(trial.state, TrialState::Ungraded);
    assert_eq!(trial.rewards.get("speed"), Some(&2.0));
    // The name of the task is what the configuration says then.
    assert_eq!(trial.task.as_deref(), Some("a"));
}

#[test]
fn halves_of_pairs_repeated_keys_and_marks_do_no_harm() {
    let shelf = Shelf::new();
    shelf.write(
        "a/result.json",
        "\u{feff}{\"trial_name\": \"a\", \"task_name\": \"x\\ud83d\", \"trial_name\": \"a\", \
         \"agent_result\": {\"rollout_details\": [{\"logprobs\": [[-Infinity, -0.5]]}]}, \
         \"verifier_result\": {\"rewards\": {\"reward\": 0}}}",
    );
    let trial = read_trial(&shelf.path("a")).unwrap();
    assert_eq!(trial.state.reward(), Some(0.0));
    assert_eq!(trial.task.as_deref(), Some("x\u{fffd}"));
    let mut kinds = kinds(&trial.oddities);
    kinds.sort_unstable();
    assert_eq!(kinds, ["byte_order_mark", "duplicate_key", "lone_surrogate", "non_finite"]);
    shelf.write("b/result.json", b"{\"trial_name\": \"b\", \"source\": \"caf\xe9\"}");
    let trial = read_trial(&shelf.path("b")).unwrap();
    assert_eq!(trial.source.as_deref(), Some("caf\u{fffd}"));
    assert_eq!(said(&trial.oddities), ["result.json: holds bytes that are not UTF-8, read as U+FFFD"]);
}

#[test]
fn steps_have_rewards_failures_and_phases_of_their_own() {
    let shelf = Shelf::new();
    let mut steps = result("a", "a");
    steps["agent_execution"] = json!(null);
    steps["agent_result"] = json!(null);
    steps["verifier_result"] = json!({"rewards": {"reward": 0.5, "q": 1}});
    steps["step_results"] = json!([
        {"step_name": "first", "agent_result": {"n_input_tokens": 3}, "verifier_result": {"rewards": {"reward": 1}},
         "exception_info": null, "agent_execution": {"started_at": "2026-11-29T14:47:29Z", "finished_at": null}},
        {"step_name": "second", "agent_result": {"n_input_tokens": 4}, "verifier_result": null,
         "exception_info": exception_info("AgentTimeoutError")},
    ]);
    shelf.json("a/result.json", &steps);
    let trial = read_trial(&shelf.path("a")).unwrap();
    let TrialState::Rewarded { reward, failure: Some(failure) } = &trial.state else { panic!("{trial:?}") };
    assert_eq!((*reward, failure.step.as_deref()), (0.5, Some("second")));
    assert_eq!(trial.steps.len(), 2);
    assert_eq!(trial.steps[0].rewards.get("reward"), Some(&1.0));
    assert_eq!(trial.tokens.input, Some(7));
    let last = trial.phases.last().unwrap();
    assert_eq!((last.phase, last.step.as_deref(), last.finished_at), (Phase::Agent, Some("first"), None));
}

#[test]
fn results_of_terminal_bench_are_rewards_or_failures() {
    let shelf = Shelf::new();
    let write = |name: &str, resolved: serde_json::Value, mode: &str| {
        let results = json!({
            "id": "226f", "trial_name": name, "task_id": "demo", "instruction": "…", "is_resolved": resolved,
            "failure_mode": mode, "parser_results": {"test_a": "passed"}, "total_input_tokens": null,
            "total_output_tokens": 0, "trial_started_at": "2025-07-12T09:46:37.993298+00:00",
            "trial_ended_at": "2025-07-12T09:46:38.993298+00:00",
        });
        shelf.json(&format!("run/demo/{name}/results.json"), &results);
        read_trial(&shelf.path(&format!("run/demo/{name}"))).unwrap()
    };
    let trial = write("solved", json!(true), "unset");
    assert_eq!(trial.state, TrialState::Rewarded { reward: 1.0, failure: None });
    assert_eq!((trial.generation, trial.task.as_deref()), (Generation::TerminalBench, Some("demo")));
    assert_eq!((trial.wall_ms, trial.tokens.input, trial.tokens.output), (Some(1000), None, Some(0)));
    assert_eq!((trial.tests["test_a"].as_str(), trial.agent), ("passed", None));
    let late = write("late", json!(true), "agent_timeout");
    assert_eq!(late.state.reward(), Some(1.0));
    assert_eq!(late.state.failure().unwrap().reason, Some(Reason::AgentTimeout));
    assert_eq!(write("unsolved", json!(false), "none").state.reward(), Some(0.0));
    let unknown = write("unknown", json!(null), "test_timeout");
    assert!(
        matches!(&unknown.state, TrialState::Errored { failure } if failure.reason == Some(Reason::VerifierTimeout))
    );
    let new = write("new", json!(null), "a_mode_of_tomorrow");
    assert!(matches!(&new.state, TrialState::Errored { failure } if failure.reason.is_none()));
    assert_eq!(write("open", json!(null), "unset").state, TrialState::Ungraded);

    shelf.json("run/run_metadata.json", &json!({"agent_name": "droid", "model_name": "m"}));
    let trial = read_trial(&shelf.path("run/demo/solved")).unwrap();
    assert_eq!((trial.agent.as_deref(), trial.model.as_deref()), (Some("droid"), Some("m")));
}

fn record(trial: &str, outcome: Outcome) -> TrialRecord {
    TrialRecord {
        schema: TrialRecord::SCHEMA.into(),
        trial: trial.into(),
        task: "org/a".into(),
        tree_digest: Digest::of("a"),
        agent: "oracle".into(),
        model: None,
        attempt: 3,
        engine: "native".into(),
        image_digest: Some("sha256:1".into()),
        outcome,
        rewards: None,
        exception: None,
        flags: vec![Flag { reason: Reason::ToolNotFound, detail: "curl".into() }],
        phases: vec![PhaseRecord {
            phase: Phase::Build,
            step: None,
            started_at: "2026-11-29T14:47:24Z".into(),
            finished_at: Some("yesterday".into()),
            outcome: PhaseOutcome::Done,
        }],
        tests: [("t".to_owned(), "failed".to_owned())].into(),
        usage: Usage { peak_memory: Some(5), oom_kills: Some(1), cpu_ms: None },
        wall_ms: 12,
        ended_at: "2026-11-29T14:47:25Z".into(),
        retries: vec![EarlierTry {
            trial: ".earlier/a.0".into(),
            reason: Reason::EngineLost,
            detail: "gone".into(),
        }],
    }
}

#[test]
fn the_record_counts_where_it_agrees_with_the_result() {
    let shelf = Shelf::new();
    let failed = |reason| Outcome::Failed {
        reason,
        class: FailureClass::Infrastructure,
        retryable: true,
        detail: "the disk is full".into(),
    };
    let read = |name: &str, record: &TrialRecord| {
        artifact::store(&shelf.path(name).join(job::TRIAL_RECORD), record).unwrap();
        read_trial(&shelf.path(name)).unwrap()
    };
    // `RuntimeError` may stand for anything; the record knows what for.
    shelf.errored("a", "org/a", "RuntimeError");
    let trial = read("a", &record("a", failed(Reason::DiskFull)));
    let failure = trial.state.failure().unwrap();
    assert_eq!((failure.reason, failure.class), (Some(Reason::DiskFull), Some(FailureClass::Infrastructure)));
    assert_eq!(failure.message, "the disk is full");
    assert_eq!((trial.attempt, trial.wall_ms, trial.usage.oom_kills), (Some(3), Some(12), Some(1)));
    assert_eq!((trial.retries.len(), trial.tests["t"].as_str()), (1, "failed"));
    assert_eq!(trial.flags[0].reason, Reason::ToolNotFound);
    assert_eq!(trial.phases[0].outcome, Some(PhaseOutcome::Done));
    assert_eq!(
        said(&trial.oddities),
        ["seatrial.json: `phases[0].finished_at` is yesterday: not a time in a known form"]
    );

    shelf.rewarded("b", "org/b", 1.0);
    for (record, what) in [
        (record("b", Outcome::Reward(0.0)), "`outcome` is reward 0, but result.json says reward 1"),
        (record("b", failed(Reason::DiskFull)), "`outcome` is RuntimeError, but result.json says reward 1"),
        (record("x", Outcome::Reward(1.0)), "`trial` is x, but result.json says b"),
        (
            TrialRecord { schema: "seatrial/trial/9".into(), ..record("b", Outcome::Reward(1.0)) },
            "seatrial/trial/9",
        ),
    ] {
        let trial = read("b", &record);
        assert_eq!((trial.state.reward(), trial.attempt), (Some(1.0), None), "{what}");
        let said = said(&trial.oddities);
        assert!(
            said.len() == 1 && said[0].starts_with("seatrial.json: ") && said[0].contains(what),
            "{said:?}"
        );
    }
    assert_eq!(read("b", &record("b", Outcome::Reward(1.0))).attempt, Some(3));

    // An agent that ran out of time and was graded has a reward and an exception, in both documents or in none.
    let late = TrialRecord { exception: Some(Reason::AgentTimeout), ..record("b", Outcome::Reward(1.0)) };
    let trial = read("b", &late);
    let differs =
        "seatrial.json: says `outcome` is reward 1 and AgentTimeoutError, but result.json says reward 1";
    assert_eq!(said(&trial.oddities), [differs]);
    let mut graded = result("b", "org/b");
    graded["verifier_result"] = json!({"rewards": {"reward": 1.0}});
    graded["exception_info"] = exception_info("AgentTimeoutError");
    shelf.json("b/result.json", &graded);
    let trial = read("b", &late);
    assert_eq!(kinds(&trial.oddities), ["time"]);
    assert_eq!((trial.state.reward(), trial.attempt), (Some(1.0), Some(3)));
    assert_eq!(trial.state.failure().unwrap().class, Some(FailureClass::Agent));
    // The outcome may be the failure, with the reward beside it.
    let rewards = Some([("reward".to_owned(), 1.into())].into());
    let late = TrialRecord { rewards, ..record("b", failed(Reason::AgentTimeout)) };
    let trial = read("b", &late);
    assert_eq!(kinds(&trial.oddities), ["time"]);
    assert_eq!((trial.state.reward(), trial.attempt), (Some(1.0), Some(3)));
    assert_eq!(trial.state.failure().unwrap().message, "the disk is full");

    // A record is written before the result, so that alone it says only that the trial was cut off.
    std::fs::create_dir(shelf.path("c")).unwrap();
    let trial = read("c", &record("c", Outcome::Reward(1.0)));
    assert_eq!(trial.state, TrialState::Incomplete { cause: Incomplete::NoResult });
    assert_eq!(kinds(&trial.oddities), ["record_without_result"]);
    shelf.write("b/seatrial.json", "{\"schema\": \"seatrial.trial/1\"}");
    assert_eq!(kinds(&read_trial(&shelf.path("b")).unwrap().oddities), ["invalid"]);
}

#[test]
fn what_is_no_trial_is_an_error() {
    let shelf = Shelf::new();
    shelf.job("job", 1, true, &json!({}));
    shelf.write("file", "");
    assert!(matches!(read_trial(&shelf.path("job")), Err(JobError::IsAJob { .. })));
    assert!(matches!(read_trial(&shelf.path("file")), Err(JobError::NotADirectory { .. })));
    assert!(matches!(read_trial(&shelf.path("nothing")), Err(JobError::Io { .. })));
}
