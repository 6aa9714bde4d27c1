//! Whole jobs: counts that close, means that say what they are over, and results held against the trials.

use job::{Generation, JobError, JobState, Mean, What, list_jobs, read_job};
use serde_json::{Value, json};

use crate::shelf::{Shelf, kinds, result, said};

/// Statistics of one evaluation, as Harbor writes them.
fn stats(completed: usize, errored: usize, mean: f64, rewards: &Value, exceptions: &Value) -> Value {
    json!({
        "n_completed_trials": completed, "n_errored_trials": errored, "n_running_trials": 0,
        "n_pending_trials": 0, "n_cancelled_trials": 0, "n_retries": 0,
        "evals": {"oracle__tasks": {
            "n_trials": completed - errored, "n_errors": errored, "metrics": [{"mean": mean}], "pass_at_k": {},
            "reward_stats": {"reward": rewards}, "exception_stats": exceptions,
        }},
    })
}

#[test]
fn both_means_name_what_they_are_over() {
    let shelf = Shelf::new();
    let mut rewards = json!({"1.0": [], "0.0": []});
    let mut exceptions = json!({"AgentTimeoutError": []});
    for index in 0..30 {
        let name = format!("t__{index:02}");
        match index {
            0..12 => {
                shelf.rewarded(&format!("job/{name}"), &format!("task-{}", index % 3), 1.0);
                rewards["1.0"].as_array_mut().unwrap().push(name.into());
            }
            12..27 => {
                shelf.rewarded(&format!("job/{name}"), "task-9", 0.0);
                rewards["0.0"].as_array_mut().unwrap().push(name.into());
            }
            _ => {
                shelf.errored(&format!("job/{name}"), "task-9", "AgentTimeoutError");
                exceptions["AgentTimeoutError"].as_array_mut().unwrap().push(name.into());
            }
        }
    }
    shelf.job("job", 30, true, &stats(30, 3, 12.0 / 27.0, &rewards, &exceptions));
    let job = read_job(&shelf.path("job")).unwrap();
    assert_eq!(job.oddities, []);
    assert_eq!((job.head.state, job.head.planned, job.pending), (JobState::Finished, Some(30), Some(0)));
    assert_eq!((job.tally.rewarded, job.tally.errored, job.open()), (27, 3, 0));
    assert_eq!(job.tally.graded(), Some(Mean { mean: 12.0 / 27.0, over: 27 }));
    assert_eq!(job.tally.errors_as_zero(), Some(Mean { mean: 0.4, over: 30 }));
    let tasks: Vec<_> = job.tasks.iter().map(|group| (group.task.as_deref(), group.tally.seen())).collect();
    assert_eq!(tasks, [(Some("task-0"), 4), (Some("task-1"), 4), (Some("task-2"), 4), (Some("task-9"), 18)]);
    assert_eq!(job.agents.len(), 1);
    assert_eq!(job.agents[0].tally, job.tally);

    // The other rule for the mean, of earlier versions, is right as well; a third one is not.
    shelf.job("job", 30, true, &stats(30, 3, 0.4, &rewards, &exceptions));
    assert_eq!(read_job(&shelf.path("job")).unwrap().oddities, []);
    shelf.job("job", 30, true, &stats(30, 3, 0.5, &rewards, &exceptions));
    assert_eq!(kinds(&read_job(&shelf.path("job")).unwrap().oddities), ["count_differs"]);
}

#[test]
fn the_counts_close_over_what_is_planned() {
    let shelf = Shelf::new();
    shelf.rewarded("job/a__1", "a", 1.0);
    shelf.errored("job/a__2", "a", "ApiError");
    shelf.json("job/a__3/result.json", &result("a__3", "a"));
    shelf.write("job/b__1/result.json", "");
    shelf.write("job/b__2/trial.log", "");
    let rewards = json!({"1.0": ["a__1", "c__1"]});
    shelf.job(
        "job",
        9,
        false,
        &stats(4, 2, 1.0, &rewards, &json!({"ApiError": ["a__2"], "OSError": ["c__2"]})),
    );
    let job = read_job(&shelf.path("job")).unwrap();
    assert_eq!(job.head.state, JobState::Unfinished);
    let tally = job.tally;
    assert_eq!((tally.rewarded, tally.errored, tally.ungraded, tally.incomplete), (1, 1, 1, 2));
    assert_eq!(job.lost.iter().map(|lost| lost.name.as_str()).collect::<Vec<_>>(), ["c__1", "c__2"]);
    assert_eq!((job.lost[0].rewards["reward"], job.lost[1].exception.as_deref()), (1.0, Some("OSError")));
    assert_eq!(tally.seen() + job.lost.len() + job.pending.unwrap(), 9);
    assert_eq!(job.open(), 6);
    // What is open is in no mean, and neither is what has no reward for no known reason.
    assert_eq!(tally.graded().unwrap(), Mean { mean: 1.0, over: 1 });
    assert_eq!(tally.errors_as_zero().unwrap(), Mean { mean: 0.5, over: 2 });
    let mut kinds = kinds(&job.oddities);
    kinds.sort_unstable();
    assert_eq!(kinds, ["empty", "lost"]);

    let held = job::claim(&shelf.path("job")).unwrap();
    let job = read_job(&shelf.path("job")).unwrap();
    assert_eq!((job.head.state, job.tally.running, job.tally.incomplete), (JobState::Running, 1, 1));
    drop(held);
    assert_eq!(read_job(&shelf.path("job")).unwrap().head.state, JobState::Interrupted);
}

#[test]
fn a_result_is_held_against_the_trials_name_by_name() {
    let shelf = Shelf::new();
    shelf.rewarded("job/a", "t", 1.0);
    shelf.rewarded("job/b", "t", 0.0);
    shelf.errored("job/c", "t", "ApiError");
    shelf.rewarded("job/d", "t", 1.0);
    shelf.write("job/e/trial.log", "");
    let rewards = json!({"1.0": ["a", "b"], "0.0": ["a"], "many": ["a"]});
    let exceptions = json!({"OSError": ["c"], "CancelledError": ["e"]});
    shelf.job("job", 3, true, &stats(4, 2, 1.0, &rewards, &exceptions));
    let job = read_job(&shelf.path("job")).unwrap();
    let said = said(&job.oddities);
    for expected in [
        "result.json: lists `a` twice in `stats.evals.oracle__tasks.reward_stats.reward`",
        "result.json: `stats.evals.oracle__tasks.reward_stats.reward.many` is a text instead of a number",
        "result.json: says reward of `b` is 1, but the trial says 0",
        "result.json: says `c` ended with OSError, but the trial says ApiError",
        "result.json: does not list `d`, which ended",
        "result.json: counts `e`, which has no result of its own",
        "result.json: says `stats.n_errored_trials` is 2, but the trials give 1",
        "result.json: says 3 trials are planned, but there are 5",
    ] {
        assert!(said.iter().any(|said| said == expected), "{expected} is not in {said:#?}");
    }
    assert_eq!(job.pending, Some(0));
}

#[test]
fn a_job_at_work_may_know_more_than_its_result() {
    let shelf = Shelf::new();
    shelf.rewarded("job/a", "t", 1.0);
    shelf.rewarded("job/b", "t", 1.0);
    shelf.job("job", 4, false, &stats(1, 0, 1.0, &json!({"1.0": ["a"]}), &json!({})));
    let _held = job::claim(&shelf.path("job")).unwrap();
    assert_eq!(read_job(&shelf.path("job")).unwrap().oddities, []);
}

#[test]
fn a_finished_job_without_trace_of_trials_says_so() {
    let shelf = Shelf::new();
    shelf.rewarded("job/a", "t", 1.0);
    shelf.job("job", 4, true, &stats(1, 0, 1.0, &json!({"1.0": ["a"]}), &json!({})));
    let job = read_job(&shelf.path("job")).unwrap();
    assert_eq!(job.pending, Some(3));
    assert_eq!(kinds(&job.oddities), ["absent"]);
}

#[test]
fn results_of_earlier_versions_are_counted_alike() {
    let shelf = Shelf::new();
    let mut old = result("a", "t");
    old.as_object_mut().unwrap().retain(|key, _| key != "schema_version" && key != "step_results");
    old["verifier_result"] = json!({"rewards": {"reward": 1.0}});
    shelf.json("job/a/result.json", &old);
    let stats = json!({"n_trials": 2, "n_errors": 0, "evals": {"x": {
        "n_trials": 1, "n_errors": 0, "metrics": [{"mean": 1.0}], "reward_stats": {"reward": {"1.0": ["a"]}},
        "exception_stats": {}}}});
    let result = json!({"id": "b1", "started_at": "2026-04-01T16:27:34.461025", "finished_at": "2026-04-01T16:28:00",
        "n_total_trials": 2, "stats": stats, "status": {"state": "done"}, "trial_results": [{}, {}]});
    shelf.json("job/result.json", &result);
    let job = read_job(&shelf.path("job")).unwrap();
    assert_eq!((job.head.generation, job.trials[0].generation), (Generation::Older, Generation::Older));
    assert_eq!(
        said(&job.oddities),
        [
            "result.json: holds 2 results of trials of its own, which are not read",
            "result.json: says `stats.n_trials` is 2, but the trials give 1",
            "result.json: says the job ended, but of 1 planned trials there is no trace",
        ]
    );
}

#[test]
fn a_run_of_terminal_bench_is_a_job() {
    let shelf = Shelf::new();
    let trial = |name: &str, resolved: Value, mode: &str| json!({"trial_name": name, "task_id": "demo", "is_resolved": resolved, "failure_mode": mode});
    let rows = [
        trial("demo.1-of-3", json!(true), "unset"),
        trial("demo.2-of-3", json!(false), "agent_timeout"),
        trial("demo.3-of-3", json!(null), "parse_error"),
    ];
    for row in &rows {
        shelf.json(&format!("run/demo/{}/results.json", row["trial_name"].as_str().unwrap()), row);
    }
    shelf.json(
        "run/results.json",
        &json!({"results": rows, "n_resolved": 1, "n_unresolved": 2, "accuracy": 0.33}),
    );
    shelf.json(
        "run/run_metadata.json",
        &json!({"run_id": "my-run", "agent_name": "droid", "model_name": null, "n_attempts": 3, "dataset_size": 1,
            "start_time": "2025-07-11T19:11:52.366271+00:00", "end_time": "2025-07-12T00:32:55.516461+00:00"}),
    );
    let job = read_job(&shelf.path("run")).unwrap();
    assert_eq!(job.oddities, []);
    assert_eq!((job.head.name.as_str(), job.head.state), ("my-run", JobState::Finished));
    assert_eq!((job.head.generation, job.head.planned), (Generation::TerminalBench, Some(3)));
    assert_eq!((job.tally.rewarded, job.tally.errored), (2, 1));
    assert_eq!(job.agents[0].name.agent.as_deref(), Some("droid"));

    // Also when nothing but the trials is left of it.
    std::fs::remove_file(shelf.path("run/results.json")).unwrap();
    std::fs::remove_file(shelf.path("run/run_metadata.json")).unwrap();
    let bare = read_job(&shelf.path("run")).unwrap();
    assert_eq!((bare.tally.rewarded, bare.tally.errored, bare.head.planned), (2, 1, None));
}

#[test]
fn a_copy_of_a_trial_does_not_count_whether_it_is_equal_or_not() {
    let shelf = Shelf::new();
    shelf.rewarded("job/a__1", "a", 1.0);
    let copy = |name: &str, reward: f64| {
        let mut result = result("a__1", "a");
        result["verifier_result"] = json!({"rewards": {"reward": reward}});
        result["reward_valid"] = json!(true);
        shelf.json(&format!("job/{name}/result.json"), &result);
    };
    // One before and one behind it in order; the directory that has the trial's name counts.
    copy("0-copy", 0.0);
    copy("b-copy", 1.0);
    let job = read_job(&shelf.path("job")).unwrap();
    assert_eq!((job.trials.len(), job.tally.graded().unwrap().mean), (1, 1.0));
    let copies: Vec<_> = job
        .oddities
        .iter()
        .filter(|oddity| !matches!(oddity.what, What::OtherName(_)))
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        copies,
        [
            "0-copy: has the trial name of `a__1` and another result; `a__1` counts",
            "b-copy: is a copy of `a__1` and does not count",
        ]
    );
}

#[test]
fn a_try_that_was_given_up_is_no_trial() {
    let shelf = Shelf::new();
    shelf.errored("job/a__1.0", "a", "RuntimeRequestError");
    shelf.errored("job/.earlier/a__1/1", "a", "RuntimeRequestError");
    shelf.rewarded("job/a__1", "a", 1.0);
    shelf.json(
        "job/a__1/seatrial.json",
        &json!({"schema": "seatrial.trial/1", "trial": "a__1", "task": "a", "tree_digest": "0".repeat(64),
            "agent": "oracle", "attempt": 0, "engine": "native", "outcome": {"reward": 1.0}, "phases": [],
            "wall_ms": 1, "ended_at": "2026-11-29T14:47:25Z",
            "retries": [{"trial": "a__1.0", "reason": "engine_lost", "detail": ""},
                        {"trial": ".earlier/a__1/1", "reason": "engine_lost", "detail": ""}]}),
    );
    let job = read_job(&shelf.path("job")).unwrap();
    assert_eq!((job.trials.len(), job.tally.rewarded, job.trials[0].retries.len()), (1, 1, 2));
    assert_eq!(job.oddities, []);
}

#[test]
fn links_and_foreign_directories_are_reported_and_not_followed() {
    let shelf = Shelf::new();
    shelf.rewarded("elsewhere/secret", "a", 1.0);
    shelf.rewarded("job/a", "a", 1.0);
    shelf.job("job/inner", 1, true, &json!({}));
    shelf.write("job/notes/read.me", "");
    shelf.write("job/.hidden/result.json", "{}");
    std::os::unix::fs::symlink(shelf.path("elsewhere/secret"), shelf.path("job/link")).unwrap();
    let job = read_job(&shelf.path("job")).unwrap();
    assert_eq!((job.tally.rewarded, job.tally.incomplete), (1, 1));
    let mut said = said(&job.oddities);
    said.sort();
    assert_eq!(
        said,
        [
            "inner: is a job of its own, whose trials do not count here",
            "link: is a link or a special file, and was not read",
            "notes: holds nothing that a trial writes",
        ]
    );
}

#[test]
fn broken_documents_of_a_job_leave_its_trials_readable() {
    let shelf = Shelf::new();
    shelf.rewarded("job/a", "a", 1.0);
    shelf.write(
        "job/config.json",
        "{\"job_name\": \"j\", \"n_attempts\": \"two\", \"agents\": [3, {\"name\": \"x\"}]}",
    );
    shelf.write("job/result.json", "{\"n_total_trials\": 1, \"stats\": {\"n_completed");
    shelf.write("job/lock.json", "{\"schema_version\": 3, \"trials\": [{}, {}]}");
    let job = read_job(&shelf.path("job")).unwrap();
    assert_eq!(kinds(&job.oddities), ["wrong_type", "wrong_type", "cut"]);
    assert_eq!((job.head.planned, job.pending, job.tally.rewarded), (Some(2), Some(1), 1));
    assert_eq!((job.head.name.as_str(), job.head.attempts), ("j", None));
    assert_eq!(job.head.configured[0].agent.as_deref(), Some("x"));
}

#[test]
fn jobs_are_told_from_trials_and_from_directories_of_jobs() {
    let shelf = Shelf::new();
    shelf.rewarded("jobs/bare/a", "a", 1.0);
    shelf.rewarded("jobs/told/a", "a", 1.0);
    shelf.job("jobs/told", 1, true, &json!({}));
    shelf.json("jobs/new/config.json", &json!({"job_name": "new"}));
    shelf.write("jobs/half/a/result.json", "");
    shelf.write("jobs/notes/text", "");
    shelf.write("jobs/.seatrial/x/result.json", "{}");
    std::os::unix::fs::symlink(shelf.path("jobs/told"), shelf.path("jobs/latest")).unwrap();
    let listing = list_jobs(&shelf.path("jobs")).unwrap();
    let names: Vec<_> = listing.jobs.iter().map(|job| job.file_name().unwrap()).collect();
    assert_eq!(names, ["bare", "half", "new", "told"]);
    assert_eq!(
        said(&listing.oddities),
        ["notes: is not the directory of a job", "latest: is a link or a special file, and was not read"]
    );
    // A job lists no jobs, and neither it nor its trials can be taken for one another.
    assert!(list_jobs(&shelf.path("jobs/told")).unwrap().jobs.is_empty());
    assert!(matches!(read_job(&shelf.path("jobs/told/a")), Err(JobError::IsATrial { .. })));
    assert!(matches!(read_job(&shelf.path("nothing")), Err(JobError::Io { .. })));
    shelf.job("only/jobs", 0, true, &json!({}));
    assert!(matches!(read_job(&shelf.path("only")), Err(JobError::HoldsJobs { .. })));
    // A link that somebody names is what they want to see.
    assert_eq!(read_job(&shelf.path("jobs/latest")).unwrap().tally.rewarded, 1);
}

#[test]
fn trials_come_one_by_one_in_the_order_of_their_directories() {
    let shelf = Shelf::new();
    for name in ["b", "a", "c"] {
        shelf.rewarded(&format!("job/{name}"), "t", 1.0);
    }
    let names: Vec<_> = job::trials(&shelf.path("job"))
        .unwrap()
        .map(|entry| match entry {
            job::TrialEntry::Trial(trial) => trial.name,
            job::TrialEntry::Odd(oddity) => oddity.to_string(),
        })
        .collect();
    assert_eq!(names, ["a", "b", "c"]);
}

/// A job as large as they get. What it took is said, and nothing depends on it.
#[test]
fn rehearsal_of_a_large_job() {
    const TRIALS: usize = if cfg!(debug_assertions) { 1_000 } else { 10_000 };
    let shelf = Shelf::new();
    let (mut solved, mut errored) = (Vec::new(), Vec::new());
    for index in 0..TRIALS {
        let name = format!("task-{:04}__{index:05}", index / 8);
        let path = format!("job/{name}");
        let task = format!("org/task-{:04}", index / 8);
        if index % 10 == 0 {
            shelf.errored(&path, &task, "RewardFileNotFoundError");
            errored.push(name);
        } else {
            shelf.rewarded(&path, &task, 1.0);
            solved.push(name);
        }
    }
    let stats = stats(
        TRIALS,
        errored.len(),
        1.0,
        &json!({"1.0": solved}),
        &json!({"RewardFileNotFoundError": errored}),
    );
    shelf.job("job", TRIALS, true, &stats);
    let begun = std::time::Instant::now();
    let job = read_job(&shelf.path("job")).unwrap();
    eprintln!("{TRIALS} trials were read in {:.2} s", begun.elapsed().as_secs_f64());
    assert_eq!(job.oddities, []);
    assert_eq!((job.tally.rewarded, job.tally.errored, job.pending), (solved.len(), errored.len(), Some(0)));
    assert_eq!((job.tasks.len(), job.agents.len()), (TRIALS / 8, 1));
}

#[test]
fn a_document_that_cannot_be_read_is_odd_once() {
    let shelf = Shelf::new();
    shelf.rewarded("job/t__1", "t", 1.0);
    shelf.write("job/seatrial.json", "{\"schema\": \"seatr");
    std::os::unix::fs::symlink("nowhere", shelf.path("job/result.json")).unwrap();
    let job = read_job(&shelf.path("job")).unwrap();
    let mut odd: Vec<_> = job.oddities.iter().map(|odd| (odd.path.as_str(), kind(&odd.what))).collect();
    odd.sort_unstable();
    assert_eq!(odd, [("result.json", "not_plain"), ("seatrial.json", "cut")]);
    shelf.write("job/seatrial.json", "{\"schema\": \"seatrial.job/9\"}");
    let said = said(&read_job(&shelf.path("job")).unwrap().oddities);
    assert!(said.iter().any(|line| line.contains("seatrial.job/9")), "{said:?}");
}

#[test]
fn a_directory_is_a_job_by_its_documents_or_its_trials() {
    let shelf = Shelf::new();
    shelf.rewarded("jobs/job/t__1", "t", 1.0);
    shelf.write("jobs/other/notes/file", "");
    assert!(job::is_job(&shelf.path("jobs/job")));
    assert!(!job::is_job(&shelf.path("jobs/other")) && !job::is_job(&shelf.path("nowhere")));
}

fn kind(what: &What) -> &'static str {
    match what {
        What::NotPlain => "not_plain",
        What::Cut(_) => "cut",
        _ => "another",
    }
}
