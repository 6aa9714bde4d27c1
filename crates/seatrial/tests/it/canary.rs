//! A canary from the command line: what is drawn, what is told, and what is compared.

use serde_json::{Value, json};

use crate::agents::Scripted;
use crate::project::{Ended, sandboxes_run, seatrial};
use crate::tasks::{Shelf, Task};

/// A model that solves these tasks and submits the others as they are.
fn model(solves: &[&str]) -> Scripted {
    let mut scenes: Vec<Value> = solves
        .iter()
        .map(|name| {
            json!({"when": [format!("Task {name}:")], "turns": [{"commands": ["echo fixed > state"]}, {"commands": ["submit"]}]})
        })
        .collect();
    let broken = json!({"faults": [{"status": {"status": 418}}]});
    scenes.push(json!({"when": ["Task e:"], "turns": [broken]}));
    scenes.push(json!({"turns": [{"commands": ["submit"]}]}));
    Scripted::serve(&json!({"model": "m", "scenes": scenes}))
}

fn canary(shelf: &Shelf, model: &Scripted, arguments: &[&str]) -> Ended {
    let url = model.server.url();
    let all = ["canary", "tasks", "-m", "m", "--endpoint", url.as_str(), "--max-retries", "0"];
    seatrial(shelf.root(), &[&all, arguments].concat())
}

#[test]
fn two_checkpoints_are_compared_on_the_same_tasks() {
    if !sandboxes_run() {
        return;
    }
    let shelf = Shelf::new(["a", "b", "c", "d", "e"].map(Task::new));
    for name in ["a", "b", "c", "d", "e"] {
        shelf.file(name, "instruction.md", &format!("Task {name}: make /app/state say `fixed`.\n"));
    }
    let first = canary(&shelf, &model(&["a", "b"]), &["--json", "--job-name", "first"]).with_code(0).json();
    let report = &first["report"];
    assert_eq!(
        (&report["solved"], &report["errored"], &report["pending"]),
        (&2.into(), &1.into(), &0.into())
    );
    assert_eq!(report["mean_with_errored_as_0"], 0.4);
    assert_eq!(report["mean_of_rewarded"], json!({"mean": 0.5, "over": 4}));
    assert_eq!(report["exceptions"], json!([{"exception": "ApiError", "trials": 1, "rewarded": 0}]));
    assert_eq!(first["settings"]["context"], "65536");
    let rows: Vec<_> = report["by_task"].as_array().unwrap().iter().map(|row| row["name"].clone()).collect();
    // In the order of their digests.
    assert_eq!(rows, ["d", "c", "b", "e", "a"].map(Value::from).to_vec());

    let arguments = ["--job-name", "second", "--compare", "jobs/first", "--max-turns", "7"];
    let second = canary(&shelf, &model(&["a", "b", "c"]), &arguments).with_code(0);
    for text in [
        "solved 3 of 5: mean reward 0.600 with 1 errored as 0, 95 % interval 0.23-0.88",
        "mean reward 0.750 over 4 rewarded alone",
        "1 exception: 1 ApiError",
        "first: 0.600 cannot be told from 0.400: better on 1 and worse on 0 of 5 common tasks, p = 1.000",
        "there are too few tasks to tell them apart",
        "max turns: 100 before, 7 now",
    ] {
        assert!(second.stdout.contains(text), "{text}\n{}", second.stdout);
    }
    let page = std::fs::read_to_string(shelf.root().join("jobs/second/canary.html")).unwrap();
    assert!(page.contains("0.600 cannot be told from 0.400") && page.contains("<svg"));

    // The same one again runs nothing and says the same; a document is as good as its job.
    let quiet = model(&[]);
    let again = ["--json", "--job-name", "second", "--compare", "jobs/first/canary.json", "--max-turns", "7"];
    let again = canary(&shelf, &quiet, &again).with_code(0).json();
    assert!(quiet.server.requests().is_empty());
    assert_eq!(again["comparison"]["better"], json!(["c"]));
    assert_eq!(again["comparison"]["verdict"], "cannot_be_told_apart");

    // Two of them, and two attempts at each; a list in place of a draw.
    std::fs::write(shelf.root().join("ids.txt"), "\u{feff}b\r\n\r\na\r\nb\r\n").unwrap();
    let listed = ["--json", "--ids", "ids.txt", "-k", "2"];
    let listed = canary(&shelf, &model(&["a"]), &listed).with_code(0).json();
    assert_eq!((&listed["report"]["planned"], &listed["report"]["solved"]), (&4.into(), &2.into()));
    assert_eq!(listed["report"]["by_task"][1]["solved"], 2);
    let drawn = canary(&shelf, &model(&[]), &["--json", "-n", "2"]).with_code(0).json();
    assert_eq!(drawn["report"]["tasks"], 2);
    std::fs::write(shelf.root().join("ids.txt"), "nobody\n").unwrap();
    let unknown = canary(&shelf, &quiet, &["--ids", "ids.txt"]).with_code(2);
    assert!(unknown.stderr.contains("no task `nobody`"), "{}", unknown.stderr);
}
