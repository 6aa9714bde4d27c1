//! Jobs, listed, shown and watched, whoever ran them.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::project::{Ended, binary, sandboxes_run, seatrial, tree};
use crate::tasks::{Shelf, Task};

/// A directory of jobs written by hand, as Harbor writes them.
struct Jobs {
    temp: TempDir,
}

impl Jobs {
    fn new() -> Self {
        Self { temp: tempfile::tempdir().unwrap() }
    }

    fn root(&self) -> &Path {
        self.temp.path()
    }

    fn write(&self, path: &str, value: &Value) {
        let path = self.root().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        // As a writer does that means it: whole or not at all.
        let temporary = path.with_extension("tmp");
        std::fs::write(&temporary, value.to_string()).unwrap();
        std::fs::rename(temporary, path).unwrap();
    }

    /// A trial with a reward, or with an exception.
    fn trial(&self, job: &str, name: &str, task: &str, outcome: Result<f64, &str>) {
        let exception = outcome.err().map(|exception| {
            json!({"exception_type": exception, "exception_message": "first line\nsecond line",
                "exception_traceback": "", "occurred_at": "2026-11-29T14:47:35Z"})
        });
        let rewards = outcome.ok().map(|reward| json!({"rewards": {"reward": reward}}));
        let result = json!({
            "schema_version": 1, "id": name, "task_name": task, "trial_name": name,
            "agent_info": {"name": "agent", "version": "1", "model_info": {"name": "model", "provider": "p"}},
            "verifier_result": rewards, "exception_info": exception,
            "started_at": "2026-11-29T14:47:24Z", "finished_at": "2026-11-29T14:47:25.5Z",
        });
        self.write(&format!("jobs/{job}/{name}/result.json"), &result);
    }

    fn job(&self, job: &str, planned: usize, finished: bool) {
        let result = json!({
            "schema_version": 1, "id": job, "started_at": "2026-11-29T14:47:23.702368",
            "updated_at": "2026-11-29T14:47:53", "finished_at": finished.then_some("2026-11-29T14:47:53"),
            "n_total_trials": planned, "stats": {"evals": {}},
        });
        self.write(&format!("jobs/{job}/result.json"), &result);
    }

    fn run(&self, arguments: &[&str]) -> Ended {
        seatrial(self.root(), arguments)
    }
}

#[test]
fn a_list_says_how_far_each_job_is() {
    let jobs = Jobs::new();
    jobs.trial("done", "a__1", "a", Ok(1.0));
    jobs.trial("done", "b__1", "b", Err("ApiError"));
    jobs.job("done", 2, true);
    jobs.trial("stopped", "a__1", "a", Ok(0.5));
    jobs.job("stopped", 3, false);
    std::fs::create_dir(jobs.root().join("jobs/notes")).unwrap();
    let before = tree(jobs.root());
    let text = jobs.run(&["jobs", "list"]).with_code(0);
    let lines: Vec<Vec<&str>> = text.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    let done = [
        "done",
        "agent",
        "(model)",
        "1",
        "1",
        "0",
        "0",
        "2",
        "1.000",
        "0.500",
        "2026-11-29",
        "14:47:23",
        "finished",
    ];
    let stopped = [
        "stopped",
        "agent",
        "(model)",
        "1",
        "0",
        "0",
        "2",
        "3",
        "0.500",
        "0.500",
        "2026-11-29",
        "14:47:23",
        "unfinished",
    ];
    assert_eq!(lines[1..], [done, stopped], "{text:?}");
    assert!(text.stderr.contains("left out: notes"), "{text:?}");

    let document = jobs.run(&["jobs", "list", "--json", "jobs"]).with_code(0).json();
    assert_eq!(document["schema"], "seatrial.jobs-list/1");
    let job = &document["jobs"][0];
    assert_eq!((&job["planned"], &job["rewarded"], &job["pending"]), (&json!(2), &json!(1), &json!(0)));
    assert_eq!(job["mean_graded"], json!({"mean": 1.0, "over": 1}));
    assert_eq!(job["mean_errors_as_zero"], json!({"mean": 0.5, "over": 2}));
    assert!(job["trials"].is_null(), "{job}");
    assert_eq!(document["oddities"][0]["kind"], "not_a_job");
    assert_eq!(tree(jobs.root()), before, "something was written");

    jobs.run(&["jobs", "list", "nowhere"]).with_code(2);
    let empty = jobs.run(&["jobs", "list", "jobs/notes"]).with_code(0);
    assert!(empty.stdout.contains("there is no job"), "{empty:?}");
}

#[test]
fn a_job_is_shown_trial_by_trial_with_what_is_odd() {
    let jobs = Jobs::new();
    jobs.trial("done", "a__1", "a", Ok(1.0));
    jobs.trial("done", "b__1", "b", Err("VerifierTimeoutError"));
    std::fs::create_dir(jobs.root().join("jobs/done/c__1")).unwrap();
    std::fs::write(
        jobs.root().join("jobs/done/c__1/result.json"),
        "{\"trial_name\": \"c__1\", \"x\": \u{1b}",
    )
    .unwrap();
    jobs.job("done", 4, true);
    for name in ["done", "jobs/done"] {
        let text = jobs.run(&["jobs", "show", name]).with_code(0).stdout;
        for expected in [
            "reward 1",
            "verifier_timeout: first line",
            "incomplete",
            "1 rewarded, 1 errored, 1 incomplete, 1 pending of 4",
            "mean reward 1.000 over 1 rewarded; 0.500 over 2 of 4 with 1 errored as 0",
            "c__1/result.json: ",
            "of 1 planned trials there is no trace",
        ] {
            assert!(text.contains(expected), "{expected} is not in\n{text}");
        }
        assert!(!text.contains('\u{1b}') && !text.contains("second line"), "{text}");
    }
    let document = jobs.run(&["jobs", "show", "--json", "done"]).with_code(0).json();
    assert_eq!(document["schema"], "seatrial.jobs-show/1");
    let trials = document["trials"].as_array().unwrap();
    let states: Vec<_> = trials.iter().map(|trial| trial["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["rewarded", "errored", "incomplete"]);
    assert_eq!(trials[1]["failure"]["reason"], "verifier_timeout");
    assert_eq!(trials[1]["failure"]["policy"]["should_grade"], true);
    assert_eq!((&trials[0]["wall_ms"], &trials[0]["tokens"]["input"]), (&json!(1500), &Value::Null));
    assert_eq!(document["tasks"].as_array().unwrap().len(), 3);

    let missing = jobs.run(&["jobs", "show", "nothing"]).with_code(2);
    assert!(missing.stderr.contains("jobs list"), "{missing:?}");
    let trial = jobs.run(&["jobs", "show", "jobs/done/a__1"]).with_code(2);
    assert!(trial.stderr.contains("one trial"), "{trial:?}");
    let all = jobs.run(&["jobs", "show", "--json", "jobs"]).with_code(2).json();
    assert!(all["error"].as_str().unwrap().contains("directory of jobs"), "{all}");
}

/// `jobs watch` on its way.
struct Watch {
    child: Child,
}

impl Watch {
    fn begin(root: &Path, arguments: &[&str]) -> Self {
        let mut command = binary();
        command.current_dir(root).args(["jobs", "watch"]).args(arguments);
        Self { child: command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap() }
    }

    fn end(self) -> Ended {
        let output = self.child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

/// Gives the watcher time to look once more; what is asserted does not depend on how often it did.
fn looks() {
    std::thread::sleep(Duration::from_millis(1200));
}

#[test]
fn a_job_is_watched_until_it_ends() {
    let jobs = Jobs::new();
    jobs.job("now", 2, false);
    let claim = job::claim(&jobs.root().join("jobs/now")).unwrap();
    let text = Watch::begin(jobs.root(), &["now"]);
    let document = Watch::begin(jobs.root(), &["--json", "jobs/now"]);
    looks();
    jobs.trial("now", "a__1", "a", Ok(1.0));
    looks();
    jobs.trial("now", "b__1", "b", Err("ApiError"));
    jobs.job("now", 2, true);
    drop(claim);
    let text = text.end().with_code(0);
    let last: Vec<_> = text.stdout.lines().rev().take(2).collect();
    assert_eq!(
        last,
        [
            "mean reward 1.000 over 1 rewarded; 0.500 over all 2 with 1 errored as 0",
            "1 rewarded, 1 errored of 2",
        ],
        "{text:?}"
    );
    let lines = document.end().with_code(0).json_lines();
    assert!(lines.iter().all(|line| line["schema"] == "seatrial.jobs-watch/1"), "{lines:?}");
    assert_eq!(lines.last().unwrap()["state"], "finished");
    let ended = |line: &Value| line["rewarded"].as_u64().unwrap() + line["errored"].as_u64().unwrap();
    assert!(lines.windows(2).all(|pair| ended(&pair[0]) <= ended(&pair[1])), "{lines:?}");
}

#[test]
fn a_job_that_was_broken_off_is_not_waited_for() {
    let jobs = Jobs::new();
    jobs.trial("gone", "a__1", "a", Ok(1.0));
    jobs.job("gone", 3, false);
    drop(job::claim(&jobs.root().join("jobs/gone")).unwrap());
    let begun = Instant::now();
    let ended = Watch::begin(jobs.root(), &["gone"]).end().with_code(1);
    assert!(begun.elapsed() < Duration::from_secs(60));
    assert!(ended.stdout.contains("1 rewarded, 0 errored, 2 pending of 3"), "{ended:?}");
    assert!(ended.stderr.contains("broken off"), "{ended:?}");
    let lines = Watch::begin(jobs.root(), &["gone", "--json"]).end().with_code(1).json_lines();
    assert_eq!((lines.len(), &lines[0]["state"]), (1, &json!("interrupted")));
}

#[test]
fn jobs_of_seatrial_have_nothing_odd() {
    if !sandboxes_run() {
        return;
    }
    let shelf = Shelf::new([
        Task::new("good"),
        Task::new("late").settings("[agent]\ntimeout_sec = 1\n[verifier]\ntimeout_sec = 60\n[environment]\nbuild_timeout_sec = 60\n")
            .solution("sleep 60\n"),
        Task::new("no-reward").verifier("true\n"),
    ]);
    let run = shelf.run_with(&["-a", "oracle", "-a", "nop", "-n", "2", "--job-name", "job"]);
    assert_eq!(run.ended.code, Some(1), "{:?}", run.ended);
    let job = seatrial(shelf.root(), &["jobs", "show", "--json", "job"]).with_code(0).json();
    assert_eq!(job["oddities"], json!([]));
    assert_eq!((&job["state"], &job["planned"]), (&json!("finished"), &json!(12)));
    let lines = run.lines();
    let trials = job["trials"].as_array().unwrap();
    assert_eq!(trials.len(), lines.len());
    for line in &lines {
        let trial = trials.iter().find(|trial| trial["name"] == line["trial"]).unwrap();
        assert_eq!((&trial["task"], &trial["wall_ms"]), (&line["task"], &line["wall_ms"]));
        assert_eq!(trial["engine"], "native");
        if let Some(reward) = line["outcome"]["reward"].as_f64() {
            assert_eq!((&trial["state"], trial["reward"].as_f64()), (&json!("rewarded"), Some(reward)));
        } else {
            assert_eq!(trial["failure"]["reason"], line["outcome"]["failed"]["reason"], "{trial}");
            assert_eq!(trial["failure"]["class"], line["outcome"]["failed"]["class"], "{trial}");
        }
        let phases: Vec<_> =
            trial["phases"].as_array().unwrap().iter().filter_map(|phase| phase["phase"].as_str()).collect();
        assert!(phases.contains(&"start") && phases.contains(&"agent"), "{trial}");
    }
    let mut attempts: Vec<_> = trials.iter().map(|trial| trial["attempt"].as_u64().unwrap()).collect();
    attempts.sort_unstable();
    assert_eq!(attempts, [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1]);
    let watched = seatrial(shelf.root(), &["jobs", "watch", "job"]).with_code(0);
    assert!(watched.stdout.contains(" of 12"), "{watched:?}");
}
