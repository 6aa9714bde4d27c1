//! Tests that vary are taken out of a task where the recipe wants that, and the task is proved anew.

use std::process::Command;

use ident::Digest;
use serde_json::Value;

use crate::project::{Project, sandboxes_run};

/// So many tests, each of which passes in one run of two, that some vary in any three runs.
const COINS: usize = 8;

const COIN: &str = "import os\n\nimport pytest\n\n\n@pytest.mark.parametrize('n', range(8))\ndef test_coin(n):\n    assert os.urandom(1)[0] < 128\n";

/// Adds a file to a source distribution of the project, and names the new archive in its profile.
fn add_to_sdist(project: &Project, name: &str, path: &str, text: &str) {
    let archive = project.path(format!("sdists/{name}-1.0.tar.gz"));
    let before = Digest::of(std::fs::read(&archive).unwrap()).hex();
    let temp = tempfile::tempdir().unwrap();
    let tar = |action: &str, what: &[&str]| {
        let mut command = Command::new("tar");
        command.arg(action).arg(&archive).arg("-C").arg(temp.path()).args(what);
        assert!(command.status().unwrap().success());
    };
    tar("-xzf", &[]);
    let top = crate::project::children(temp.path()).remove(0);
    std::fs::write(top.join(path), text).unwrap();
    tar("-czf", &[top.file_name().unwrap().to_str().unwrap()]);
    let after = Digest::of(std::fs::read(&archive).unwrap()).hex();
    project.edit("profiles.json", &before, &after);
}

#[test]
fn varying_tests_are_taken_out_and_the_task_is_proved_again() {
    if !sandboxes_run() {
        return;
    }
    let project = Project::quick();
    project.edit("seatrial.toml", "oracle_runs = 1", "oracle_runs = 3");
    add_to_sdist(&project, "slugs", "tests/test_extra.py", COIN);
    let mut rows = project.rows("instances.jsonl");
    let name = |row: &Value| row["instance_id"].as_str().unwrap().to_owned();
    let task = rows.iter().map(name).find(|id| id.contains("slugs")).unwrap();
    let row = rows.iter_mut().find(|row| row["instance_id"] == task.as_str()).unwrap();
    let coins = (0..COINS).map(|n| Value::from(format!("tests/test_extra.py::test_coin[{n}]")));
    row["PASS_TO_PASS"].as_array_mut().unwrap().extend(coins);
    project.write_rows("instances.jsonl", &rows);

    // Rejected as they are.
    project.up();
    let status = project.run(&["status", "--json"]).with_code(0).json();
    assert_eq!(status["tasks"][&task]["reason"], "flaky", "{status}");
    assert!(!project.path("quarantine.json").exists());

    project.edit("seatrial.toml", "flaky_tests = \"reject\"", "flaky_tests = \"quarantine\"");
    // Another set, so it needs a version of its own.
    project.edit("seatrial.toml", "version = \"v1\"", "version = \"v2\"");
    project.up();
    let status = project.run(&["status", "--json"]).with_code(0).json();
    assert_eq!(status["tasks"][&task]["status"], "accepted", "{status}");
    let quarantine = project.json("quarantine.json");
    assert_eq!(quarantine["tasks"][&task]["tests"].as_object().map(serde_json::Map::len), Some(COINS));
    // What must turn never goes, and neither does what held.
    let config = project.json(&format!("tasks/{task}/tests/config.json"));
    assert!(!config.to_string().contains("test_coin"), "{config}");
    assert!(!config["fail_to_pass"].as_array().unwrap().is_empty());
    assert!(!config["pass_to_pass"].as_array().unwrap().is_empty());
    let documents = project.json("materialize.json");
    let made = documents["tasks"].as_array().unwrap().iter().find(|made| made["task_id"] == task.as_str());
    assert_eq!(made.unwrap()["quarantined"].as_array().map(Vec::len), Some(COINS));
}
