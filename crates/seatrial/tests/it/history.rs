//! The walk through the history of built environments, before anything is tried in them.

use serde_json::{Value, json};

use crate::project::{Project, sandboxes_run, seatrial};
use crate::tasks::{Shelf, Task};

/// A project whose base image brings a reference to another commit into the workspaces.
fn project_with_a_leak() -> Project {
    let project = Project::quick();
    project.edit("seatrial.toml", "seatrial.local/host", "seatrial.local/leak");
    let recipe = String::from_utf8(project.read("seatrial.toml")).unwrap();
    std::fs::write(project.path("seatrial.toml"), format!("{recipe}\n[bases]\nleak = \"bases/leak\"\n"))
        .unwrap();
    std::fs::create_dir_all(project.path("bases/leak")).unwrap();
    std::fs::write(project.path("bases/leak/tag"), format!("{}\n", "2".repeat(40))).unwrap();
    let dockerfile = "FROM seatrial.local/host\nCOPY tag /testbed/.git/refs/tags/v2\n";
    std::fs::write(project.path("bases/leak/Dockerfile"), dockerfile).unwrap();
    project
}

#[test]
fn an_environment_that_knows_another_commit_is_refused_before_any_trial() {
    if !sandboxes_run() {
        return;
    }
    let project = project_with_a_leak();
    for stage in [&["source", "pull"][..], &["plan"], &["materialize"], &["check"]] {
        project.run(stage).with_code(0);
    }
    let proved = project.run(&["prove", "-j", "2", "--json"]).with_code(1).json();
    assert_eq!(proved["rejected"], proved["tasks"], "{proved}");
    assert!(project.trials().is_empty());
    let proofs = project.read("proofs.json");
    for task in project.json("proofs.json")["tasks"].as_array().unwrap() {
        let (reason, detail) = (&task["verdict"]["reason"], task["verdict"]["detail"].as_str().unwrap());
        assert_eq!(reason, "history_leak", "{task}");
        assert_eq!(detail, format!(".git: the reference `refs/tags/v2` names {}", "2".repeat(40)));
    }
    // The ledger remembers, and later stages find the same in it.
    project.run(&["prove", "-j", "2"]).with_code(1);
    assert_eq!(project.read("proofs.json"), proofs);
    let refused = project.run(&["resolve"]).with_code(3);
    assert!(refused.stderr.contains("no accepted task is left"), "{refused:?}");

    // An image without it is another one, and everything is proved on that.
    let dockerfile = "FROM seatrial.local/host\nCOPY tag /opt/tag\n";
    std::fs::write(project.path("bases/leak/Dockerfile"), dockerfile).unwrap();
    let proved = project.run(&["prove", "-j", "2", "--json"]).json();
    assert_eq!(proved["rejected"], 0, "{proved}");
    assert!(!project.trials().is_empty());
}

#[test]
fn earlier_results_do_not_spare_an_environment_the_walk() {
    if !sandboxes_run() {
        return;
    }
    let project = project_with_a_leak();
    for stage in [&["source", "pull"][..], &["plan"], &["materialize"], &["check"]] {
        project.run(stage).with_code(0);
    }
    project.run(&["prove"]).with_code(1);
    // Results of somebody who did not look: all that a verdict asks for, about these very tasks.
    let mut rows = Vec::new();
    for task in project.json("proofs.json")["tasks"].as_array().unwrap() {
        let name = task["task_id"].as_str().unwrap();
        let life = project.run(&["status", name, "--json"]).with_code(0).json();
        for (kind, reward) in [("nop", 0), ("oracle", 1)] {
            let mut row = life["observations"][0].clone();
            row["kind"] = kind.into();
            row["outcome"] = json!({"reward": f64::from(reward)});
            rows.push(row);
        }
    }
    project.write_rows("earlier.jsonl", &rows);
    std::fs::remove_file(project.path("ledger.db")).unwrap();
    let would = ["prove", "--reconcile", "earlier.jsonl", "--dry-run", "--json"];
    let told = project.run(&would).with_code(0).json();
    let accepted = json!({"status": "accepted"});
    let lines = told["reconciled"]["lines"].as_array().unwrap();
    assert!(lines.iter().all(|line| line["verdict"] == accepted && line["taken"] == 2), "{told}");

    project.run(&["prove", "--reconcile", "earlier.jsonl"]).with_code(1);
    let proofs = project.json("proofs.json");
    let reasons: Vec<&Value> =
        proofs["tasks"].as_array().unwrap().iter().map(|task| &task["verdict"]["reason"]).collect();
    assert!(!reasons.is_empty() && reasons.iter().all(|reason| **reason == "history_leak"), "{proofs}");
    assert!(project.trials().is_empty());
}

#[test]
fn a_ready_made_task_may_be_about_history_so_it_is_only_told() {
    if !sandboxes_run() {
        return;
    }
    let (head, later) = ("1".repeat(40), "2".repeat(40));
    let task = Task::new("till").dockerfile_line(&format!(
        "RUN mkdir -p .git/refs/heads .git/refs/tags && echo 'ref: refs/heads/main' > .git/HEAD && \
         echo {head} > .git/refs/heads/main && echo {later} > .git/refs/tags/v2"
    ));
    let shelf = Shelf::new([task]);
    let proved = seatrial(shelf.root(), &["prove", "tasks/till", "-j", "2"]);
    let warning =
        format!("till: its history tells more: .git: object {head} of the checked-out commit is not there");
    assert!(proved.stderr.contains(&warning), "{proved:?}");
    assert!(!proved.all().contains("history_leak"), "{proved:?}");
}
