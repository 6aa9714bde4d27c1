//! Earlier results that are taken over before anything is run.

use serde_json::{Value, json};

use crate::project::{Project, sandboxes_run, tree};

/// A second project of the same tasks, prepared up to proofs.
fn prepared() -> Project {
    let project = Project::quick();
    for stage in [&["source", "pull"][..], &["plan"], &["materialize"], &["check"]] {
        project.run(stage).with_code(0);
    }
    project
}

fn fates(table: &Value) -> Vec<&str> {
    table["reconciled"]["lines"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| line["fate"].as_str().unwrap())
        .collect()
}

#[test]
fn the_ledger_of_another_project_spares_its_runs() {
    if !sandboxes_run() {
        return;
    }
    let first = prepared();
    first.run(&["prove", "-j", "2"]);
    let (ledger, proofs) = (first.path("ledger.db"), first.json("proofs.json"));
    let ledger = ledger.to_str().unwrap();

    // What would be done is told, and nothing is done.
    let second = prepared();
    let before = {
        let mut files = tree(&second.path("."));
        files.retain(|path, _| !path.starts_with(".seatrial/"));
        files
    };
    let told = second.run(&["prove", "--reconcile", ledger, "--dry-run", "--json"]).with_code(0).json();
    assert!(fates(&told).iter().all(|fate| *fate == "reused"), "{told}");
    assert!(fates(&told).len() > 1 && second.trials().is_empty());
    let mut after = tree(&second.path("."));
    after.retain(|path, _| !path.starts_with(".seatrial/"));
    assert_eq!(after, before);

    // Then it is done, once: the same verdicts without a trial.
    for _ in 0..2 {
        second.run(&["prove", "--reconcile", ledger]);
        assert!(second.trials().is_empty());
        assert_eq!(second.json("proofs.json")["tasks"], proofs["tasks"]);
    }
    let life = second.run(&["status", second.json("proofs.json")["tasks"][0]["task_id"].as_str().unwrap()]);
    assert!(life.stdout.contains("ledger.db@"), "{life:?}");
}

#[test]
fn jobs_are_histories_and_other_limits_are_none() {
    if !sandboxes_run() {
        return;
    }
    let first = prepared();
    first.run(&["prove", "-j", "2"]);
    let job = crate::project::children(&first.path("jobs")).remove(0);
    let second = prepared();
    let told = second
        .run(&["prove", "--reconcile", job.to_str().unwrap(), "--dry-run", "--json"])
        .with_code(0)
        .json();
    // A job knows its nops and oracles; cheats are tried again.
    assert!(fates(&told).iter().all(|fate| matches!(*fate, "continued" | "reused")), "{told}");

    let changed = std::fs::read_to_string(job.join("config.json")).unwrap();
    let mut config: Value = serde_json::from_str(&changed).unwrap();
    config["timeout_multiplier"] = json!(2.0);
    std::fs::write(job.join("config.json"), config.to_string()).unwrap();
    let told = second
        .run(&["prove", "--reconcile", job.to_str().unwrap(), "--dry-run", "--json"])
        .with_code(0)
        .json();
    assert!(fates(&told).iter().all(|fate| *fate == "run"), "{told}");
    assert!(told["reconciled"]["lines"][0]["ignored"]["other_limits"].is_u64(), "{told}");
}

#[test]
fn what_is_no_history_is_a_usage_error() {
    let project = Project::new();
    std::fs::write(project.path("bad.jsonl"), "{}\n").unwrap();
    for (history, word) in [("bad.jsonl", "bad.jsonl, line 1"), ("nowhere", "nowhere")] {
        let refused = project.run(&["prove", "--reconcile", history]).with_code(2);
        assert!(refused.stderr.contains(word), "{refused:?}");
    }
    project.run(&["prove", "--dry-run"]).with_code(2);
}
