//! Trials in containers of a real daemon.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::tasks::{Shelf, Task};

/// Names the daemon that tests may use, as `unix:///path`.
const DAEMON: &str = "SEATRIAL_TEST_DOCKER";
/// An image that the daemon holds: Python, pytest and git.
const BASE: &str = "seatrial.test/base:1";

/// The daemon's address.
pub fn daemon() -> Option<String> {
    std::env::var(DAEMON).ok().filter(|address| !address.is_empty())
}

/// The daemon's address; says what is skipped when there is none.
pub fn docker() -> Option<String> {
    let daemon = daemon();
    if daemon.is_none() {
        eprintln!("skipped: trials in containers: {DAEMON} names no daemon (scripts/test starts one)");
    }
    daemon
}

/// A task that holds, built from the daemon's image.
pub fn contained(name: &str) -> Task {
    let mut task = Task::new(name);
    task.dockerfile = format!("FROM {BASE}\nWORKDIR /app\nRUN echo broken > /app/state\n");
    task
}

/// Containers whose trials belong to jobs below `root`.
pub fn containers_of(root: &Path) -> Vec<String> {
    let jobs = crate::project::children(&root.join("jobs"));
    let ids = jobs.iter().filter_map(|job| {
        let record: Value = serde_json::from_slice(&std::fs::read(job.join("seatrial.json")).ok()?).ok()?;
        record["id"].as_str().map(str::to_owned)
    });
    let list = |id: String| {
        let filter = format!("label=dev.seatrial.job={id}");
        let output = Command::new("docker")
            .env("DOCKER_HOST", daemon().unwrap())
            .args(["ps", "--all", "--quiet", "--filter", &filter])
            .output()
            .expect("the daemon's client runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect::<Vec<_>>()
    };
    ids.flat_map(list).collect()
}

#[test]
fn trials_in_containers_end_as_they_do_in_the_native_sandbox() {
    if docker().is_none() {
        return;
    }
    let mut prebuilt = contained("prebuilt");
    prebuilt.settings = format!("{}docker_image = \"{BASE}\"\n", prebuilt.settings);
    let shelf = Shelf::new([
        // An image that no other test builds at the same time.
        contained("good").dockerfile_line("ENV MADE_FOR=trials-in-containers"),
        contained("wrong").solution("exit 7\n"),
        contained("silent").verifier("exit 0\n"),
        contained("hangs")
            .verifier("sleep 4242.75 & sleep 4242.75\n")
            .settings("[verifier]\ntimeout_sec = 2\n"),
        contained("no-image").dockerfile_line("RUN exit 3"),
        contained("hungry")
            .settings("[environment]\nmemory_mb = 64\n")
            .verifier("python3 -c 'x = bytearray(300 << 20)'\n"),
        prebuilt.solution("mkdir -p /app && echo fixed > /app/state\n"),
        Task::new("elsewhere"),
    ]);
    let job = shelf.run_with(&["--engine", "docker", "--job-name", "job", "--max-retries", "0"]);
    assert_eq!(job.ended.code, Some(1), "{:?}", job.ended);
    assert!(job.trial("good").is_rewarded(1.0), "{}", job.trial("good").line);
    assert!(job.trial("wrong").is_rewarded(0.0), "{}", job.trial("wrong").line);
    assert!(job.trial("prebuilt").is_rewarded(1.0), "{}", job.trial("prebuilt").line);
    assert_eq!(job.trial("silent").reason(), "reward_missing");
    assert_eq!(job.trial("hangs").reason(), "verifier_timeout");
    assert_eq!(job.trial("hungry").reason(), "out_of_memory");
    let no_image = job.trial("no-image");
    assert_eq!(no_image.reason(), "environment_build_failed");
    assert!(no_image.detail().contains("exit 3"), "{}", no_image.detail());
    // The host's own system is an image of the native engine alone.
    let elsewhere = job.trial("elsewhere");
    assert!(elsewhere.line["outcome"]["failed"].is_object(), "{}", elsewhere.line);
    assert!(elsewhere.detail().contains("seatrial.local/host"), "{}", elsewhere.detail());
    let record = job.trial("good").json("seatrial.json");
    assert_eq!(record["engine"], "docker");
    assert!(record["image_digest"].as_str().unwrap().starts_with("sha256:"), "{record}");
    assert_eq!(job.trial("good").json("config.json")["environment"]["type"], "docker");
    assert_eq!(containers_of(shelf.root()), Vec::<String>::new());

    let nop = shelf.run_with(&["--engine", "docker", "--job-name", "nop", "-a", "nop"]);
    assert!(nop.trial("good").is_rewarded(0.0));
    // Built once: the second job found the image by what it was built from.
    let digests = [job.trial("good"), nop.trial("good")]
        .map(|trial| trial.json("seatrial.json")["image_digest"].clone());
    assert_eq!(digests[0], digests[1]);
    assert_eq!(nop.trial("good").line["outcome"], json!({"reward": 0.0}));
}
