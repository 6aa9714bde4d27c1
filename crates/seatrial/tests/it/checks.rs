//! `seatrial check`: tasks beside one another, held-out repositories, patches, and logs for code review.

use serde_json::{Value, json};

use crate::project::{Project, seatrial};
use crate::tasks::{Shelf, Task};

/// `rule task` of each finding on tasks that are said to be alike.
fn set_findings(lines: &[Value]) -> Vec<String> {
    let findings = lines.iter().flat_map(|line| {
        let found = line["findings"].as_array().unwrap().iter();
        found.map(|found| format!("{} {}", found["rule"].as_str().unwrap(), line["path"].as_str().unwrap()))
    });
    findings
        .filter(|found| {
            found.starts_with("duplicate") || found.starts_with("similar") || found.starts_with("task-id")
        })
        .collect()
}

#[test]
fn tasks_are_judged_beside_one_another() {
    let solution = "sed -i s/broken/fixed/ /app/state\ntest -s /app/state\n";
    let other = "printf 'fixed\\n' > /app/state.new\nmv /app/state.new /app/state\n";
    let shelf = Shelf::new([
        Task::new("one").solution(solution),
        Task::new("two").solution(solution),
        Task::new("three").solution(other),
    ]);
    std::fs::write(
        shelf.root().join("tasks/three/instruction.md"),
        "Something quite different is wanted here.\n",
    )
    .unwrap();
    let found =
        set_findings(&seatrial(shelf.root(), &["check", "--json", "tasks"]).with_code(0).json_lines());
    // By name, three comes before two.
    assert_eq!(found, ["similar-instruction ./tasks/two", "duplicate-task ./tasks/two"]);
    // The order of the paths decides which one is kept, and a path that is named twice is one.
    let paths = ["check", "--json", "tasks/two", "tasks/one", "tasks/two"];
    let lines = seatrial(shelf.root(), &paths).with_code(0).json_lines();
    assert_eq!(lines.len(), 2);
    assert_eq!(set_findings(&lines), ["similar-instruction ./tasks/one", "duplicate-task ./tasks/one"]);
    let again = shelf.root().join("again");
    std::fs::create_dir(&again).unwrap();
    Task::new("three").solution("touch /app/one-more-solution-of-its-own\n").write(&again);
    let twice =
        seatrial(shelf.root(), &["check", "--json", "tasks/three", "again"]).with_code(0).json_lines();
    assert_eq!(set_findings(&twice), ["task-id-twice ./again/three"]);
}

#[test]
fn every_task_of_a_large_set_has_its_line() {
    let shelf = Shelf::new([Task::new("good")]);
    let set = shelf.root().join("set");
    // Everything else is missing, which makes a line of about seven hundred bytes.
    for number in 0..300 {
        let task = set.join(format!("{number:03}"));
        std::fs::create_dir_all(&task).unwrap();
        std::fs::write(task.join("task.toml"), "").unwrap();
    }
    let ended = seatrial(shelf.root(), &["check", "--json", "set"]).with_code(1);
    assert!(ended.stdout.len() > 3 * (64 << 10), "{} bytes", ended.stdout.len());
    let paths: Vec<Value> = ended.json_lines().into_iter().map(|mut line| line["path"].take()).collect();
    let expected: Vec<Value> = (0..300).map(|number| json!(format!("./set/{number:03}"))).collect();
    assert_eq!(paths, expected);
}

#[test]
fn a_log_for_code_review_names_places_relative_to_the_start() {
    let shelf = Shelf::new([Task::new("good"), Task::new("bad").settings("[verifier]\ntimeout_secs = 5\n")]);
    let run = |arguments: &[&str]| seatrial(shelf.root(), arguments);
    let ended = run(&["check", "--sarif", "tasks"]).with_code(1);
    let log = ended.json();
    assert_eq!(log["version"], "2.1.0");
    let rules = log["runs"][0]["tool"]["driver"]["rules"].as_array().unwrap();
    let results = log["runs"][0]["results"].as_array().unwrap();
    let misspelt = results.iter().find(|result| result["ruleId"] == "config-key-misspelt").unwrap();
    assert_eq!(rules[misspelt["ruleIndex"].as_u64().unwrap() as usize]["id"], "config-key-misspelt");
    assert_eq!(misspelt["level"], "error");
    assert_eq!(
        misspelt["locations"][0]["physicalLocation"],
        json!({
            "artifactLocation": { "uri": "tasks/bad/task.toml", "uriBaseId": "%SRCROOT%" },
            "region": { "startLine": 4 },
        })
    );
    // The same log wherever the tasks are named from, and nothing of this machine in it.
    assert_eq!(ended.stdout, run(&["check", "--sarif", "./tasks/bad", "tasks"]).with_code(1).stdout.clone());
    assert!(!ended.stdout.contains(shelf.root().to_str().unwrap()));
    run(&["check", "--sarif", "--json", "tasks"]).with_code(2);
}

#[test]
fn patches_are_checked_by_themselves() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
    write("good.patch", "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n");
    write("out.diff", "--- a/../x\n+++ b/../x\n@@ -1 +1 @@\n-a\n+b\n");
    seatrial(directory.path(), &["check", "good.patch"]).with_code(0);
    let ended = seatrial(directory.path(), &["check", "good.patch", "out.diff"]).with_code(1);
    assert!(ended.stdout.starts_with("./out.diff: error[patch-escapes]"), "{ended:?}");
}

#[test]
fn a_recipe_refuses_duplicates_and_what_it_holds_out() {
    let project = Project::new();
    let mut rows = project.rows("instances.jsonl");
    // The second candidate of one repository becomes a copy of the first with another statement and other white space.
    let repo = |row: &Value| row["repo"].clone();
    let at = (1..rows.len()).find(|&at| rows[..at].iter().any(|row| repo(row) == repo(&rows[at]))).unwrap();
    let first = rows.iter().position(|row| repo(row) == repo(&rows[at])).unwrap();
    for key in ["patch", "FAIL_TO_PASS", "PASS_TO_PASS"] {
        rows[at][key] = rows[first][key].clone();
    }
    rows[at]["problem_statement"] = json!("Another statement about the same bug, in words of its own.");
    project.write_rows("instances.jsonl", &rows);
    for stage in [&["source", "pull"][..], &["plan"], &["materialize"]] {
        project.run(stage).with_code(0);
    }
    project.run(&["check"]).with_code(1);
    let checks = project.json("checks.json");
    let [pair] = checks["similar"].as_array().unwrap().as_slice() else { panic!("{checks}") };
    assert_eq!((&pair["by"], &pair["permille"]), (&json!("solution"), &json!(1000)));
    let task =
        |id: &Value| checks["tasks"].as_array().unwrap().iter().find(|task| task["task_id"] == *id).unwrap();
    assert_eq!(task(&pair["kept"])["accepted"], true);
    assert_eq!(task(&pair["other"])["accepted"], false);
    assert_eq!(task(&pair["other"])["findings"][0]["rule"], "duplicate-task");

    // Whoever reads the document later sees that the recipe has changed.
    let text = String::from_utf8(project.read("seatrial.toml")).unwrap();
    std::fs::write(
        project.path("held.txt"),
        "# not to be trained on\n\nhttps://code.invalid/Example/Tally.git\n",
    )
    .unwrap();
    std::fs::write(project.path("seatrial.toml"), format!("{text}\n[check]\nheld_out = \"held.txt\"\n"))
        .unwrap();
    let stale = project.run(&["prove"]).with_code(5);
    assert!(stale.stderr.contains("checks.json"), "{stale:?}");
    let log = project.run(&["check", "--sarif"]).with_code(1).json();
    let results = log["runs"][0]["results"].as_array().unwrap();
    let held: Vec<_> = results.iter().filter(|result| result["ruleId"] == "held-out-by-recipe").collect();
    assert!(!held.is_empty());
    for result in held {
        let uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].as_str().unwrap();
        assert!(uri.starts_with("tasks/example__tally."), "{uri}");
    }
    std::fs::write(project.path("held.txt"), "no repository\n").unwrap();
    let wrong = project.run(&["check"]).with_code(2);
    assert!(wrong.stderr.contains("held.txt") && wrong.stderr.contains("no repository"), "{wrong:?}");
}
