//! Traces from the command line: rows, numbers, samples and pages.

use std::path::Path;

use serde_json::{Value, json};

use crate::project::{Ended, seatrial};

/// Writes a trial as Harbor does, with two turns.
fn trial(root: &Path, job: &str, task: &str, name: &str, reward: f64, exception: Option<&str>) {
    let directory = root.join("jobs").join(job).join(name);
    std::fs::create_dir_all(directory.join("agent")).unwrap();
    let exception = exception.map(|exception| json!({"exception_type": exception, "exception_message": ""}));
    let result = json!({
        "task_name": task, "trial_name": name, "started_at": "2026-03-01T10:00:00Z", "finished_at": "2026-03-01T10:00:30Z",
        "config": {"job_id": job}, "agent_info": {"name": "openhands", "version": "1", "model_info": {"name": "m", "provider": "p"}},
        "verifier_result": {"rewards": {"reward": reward}}, "exception_info": exception,
    });
    std::fs::write(directory.join("result.json"), result.to_string()).unwrap();
    let trajectory = json!({"schema_version": "ATIF-v1.6", "agent": {"name": "openhands", "version": "1"}, "steps": [
        {"step_id": 1, "source": "user", "message": "repair <calc>"},
        {"step_id": 2, "source": "agent", "message": "look", "tool_calls": [{"tool_call_id": "1", "function_name": "bash",
            "arguments": {"command": "git log --all"}}], "observation": {"results": [{"content": "calc.py\u{1b}[31m"}]}},
        {"step_id": 3, "source": "agent", "message": name},
    ]});
    std::fs::write(directory.join("agent/trajectory.json"), trajectory.to_string()).unwrap();
}

fn root() -> tempfile::TempDir {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path();
    for (job, rewards) in [("before", [0.0, 0.0, 1.0]), ("after", [1.0, 0.0, 1.0])] {
        for (index, reward) in rewards.into_iter().enumerate() {
            trial(root, job, &format!("task-{index}"), &format!("task-{index}__x"), reward, None);
        }
        trial(root, job, "task-2", "task-2__late", 1.0, Some("AgentTimeoutError"));
    }
    temporary
}

fn traces(root: &Path, arguments: &[&str]) -> Ended {
    let arguments: Vec<_> = ["traces"].iter().chain(arguments).copied().collect();
    seatrial(root, &arguments)
}

fn lines(path: &Path) -> Vec<Value> {
    std::fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn jobs_become_rows_and_rows_become_samples() {
    let temporary = root();
    let root = temporary.path();
    let said =
        traces(root, &["--json", "export", "jobs", "--episodes", "all", "-o", "set"]).with_code(0).json();
    assert_eq!((&said["trials"]["exported"], &said["written"]["rows"]), (&8.into(), &16.into()));
    assert!(
        root.join("set/README.md").is_file() && root.join("set/data/train-00000-of-00001.parquet").is_file()
    );
    let again = traces(root, &["export", "jobs", "-o", "set"]).with_code(2);
    assert!(again.stderr.contains("is there already"), "{}", again.stderr);
    traces(root, &["export", "jobs/after", "-o", "rows.jsonl", "--filter", "exception"]).with_code(0);
    let rows = lines(&root.join("rows.jsonl"));
    assert_eq!((rows.len(), &rows[0]["result"]), (1, &"AgentTimeoutError".into()));
    traces(root, &["merge", "set", "rows.jsonl", "-o", "merged.jsonl"]).with_code(0);
    // The last row of the late trial is in both.
    assert_eq!(lines(&root.join("merged.jsonl")).len(), 16);
    traces(root, &["convert", "set", "--to", "llama-factory", "--clean", "all", "-o", "sft.jsonl"])
        .with_code(0);
    let samples = lines(&root.join("sft.jsonl"));
    assert_eq!(samples.len(), 8);
    assert!(!samples[0].to_string().contains("\\u001b"), "{}", samples[0]);
    let said =
        traces(root, &["--json", "convert", "jobs", "--to", "rl", "-o", "rl.parquet"]).with_code(0).json();
    assert_eq!(said["convert"]["samples"], 8, "a reward beside a limit of time counts");
    let wrong =
        traces(root, &["convert", "jobs", "--to", "sft", "--clean", "soap", "-o", "x.jsonl"]).with_code(2);
    assert!(wrong.stderr.contains("no step is called `soap`"), "{}", wrong.stderr);
    traces(root, &["export", "nowhere", "-o", "x.jsonl"]).with_code(2);
    std::fs::create_dir(root.join("empty")).unwrap();
    traces(root, &["export", "empty", "-o", "x.jsonl"]).with_code(1);
}

#[test]
fn numbers_are_the_same_from_jobs_and_from_rows_where_rows_know_them() {
    let temporary = root();
    let root = temporary.path();
    traces(root, &["export", "jobs", "-o", "set"]).with_code(0);
    let jobs = traces(root, &["--json", "stats", "jobs", "--html", "report.html"]).with_code(0).json();
    let set = traces(root, &["--json", "stats", "set"]).with_code(0).json();
    assert_eq!((&jobs["all"]["trials"], &set["all"]["trials"]), (&8.into(), &8.into()));
    assert_eq!((&jobs["all"]["rewarded"], &set["all"]["rewarded"]), (&8.into(), &6.into()));
    assert_eq!((&jobs["all"]["with_exception"], &set["all"]["with_exception"]), (&2.into(), &2.into()));
    assert_eq!(jobs["exceptions"][0]["rewards"]["1.0"], 2);
    assert_eq!(jobs["turns"], set["turns"]);
    assert_eq!(jobs["formats"]["ATIF-v1.6"], 8);
    let page = std::fs::read_to_string(root.join("report.html")).unwrap();
    assert!(page.contains("<svg") && !page.contains("http"), "a page needs nothing else");
    let shown = traces(root, &["stats", "jobs"]).with_code(0).stdout;
    for line in
        ["8 trials: 8 rewarded, 0 errored; 5 solved", "AgentTimeoutError", "pass@k", "6 groups: 0 mixed"]
    {
        assert!(shown.contains(line), "no `{line}` in\n{shown}");
    }
    let compare = ["--json", "compare", "jobs/before", "jobs/after", "--html", "difference.html"];
    let compared = traces(root, &compare).with_code(0).json();
    assert_eq!(
        (&compared["common"], &compared["better"], &compared["worse"]),
        (&3.into(), &1.into(), &0.into())
    );
    let page = std::fs::read_to_string(root.join("difference.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("A: jobs/before") && !page.contains("http"), "{page}");
}

#[test]
fn one_trial_is_shown_and_signs_are_listed() {
    let temporary = root();
    let root = temporary.path();
    let shown = traces(root, &["show", "jobs/after/task-0__x"]).with_code(0).stdout;
    assert!(shown.contains("> bash {\"command\": \"git log --all\"}"), "{shown}");
    assert!(shown.contains("calc.py\\u{1b}[31m"), "a terminal obeys nothing of it: {shown}");
    traces(root, &["show", "jobs/after/task-0__x", "--html", "trial.html"]).with_code(0);
    let page = std::fs::read_to_string(root.join("trial.html")).unwrap();
    assert!(page.contains("repair &lt;calc&gt;"), "{page}");
    let found = traces(root, &["--json", "scan", "jobs"]).with_code(0).json();
    assert_eq!(
        (&found["trials_with_signs"], &found["hits"][0]["kind"]),
        (&8.into(), &"searches history".into())
    );
}

#[test]
fn rows_of_harbor_are_made_or_the_trial_is_named() {
    let temporary = root();
    let root = temporary.path();
    let harbor = ["--compat", "harbor-0.26", "--instruction", "-o"];
    let export = |out| [["export", "jobs/after"].as_slice(), &harbor, &[out]].concat();
    traces(root, &export("good.jsonl")).with_code(0);
    let row = &lines(&root.join("good.jsonl"))[0];
    assert_eq!(row["instruction"], "repair <calc>");
    assert!(row.get("trace_source").is_none() && row.get("verifier_output").is_none(), "{row}");
    std::fs::write(root.join("jobs/after/task-1__x/agent/trajectory.json"), "{").unwrap();
    let failed = traces(root, &export("bad.jsonl")).with_code(1);
    assert!(failed.stderr.contains("trial task-1__x: agent/trajectory.json"), "{}", failed.stderr);
    assert!(!root.join("bad.jsonl").exists());
    traces(root, &["export", "jobs/after", "-o", "whole.jsonl"]).with_code(0);
    assert_eq!(lines(&root.join("whole.jsonl")).len(), 3, "without Harbor's rules the rest goes on");
}
