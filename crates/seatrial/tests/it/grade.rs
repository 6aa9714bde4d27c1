//! `seatrial grade`: recorded logs, the lists of tests in all their forms, verdicts and exit codes.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::project::{Ended, seatrial};

const PYTEST: &str = "tests/test_till.py::test_adds PASSED   [ 33%]\ntests/test_till.py::test_takes[a b] PASSED   [ 66%]\n\
                      tests/test_till.py::test_later SKIPPED   [100%]\n";

/// A directory with one log.
struct Desk(tempfile::TempDir);

impl Desk {
    fn new(log: &str) -> Self {
        let desk = Self(tempfile::tempdir().unwrap());
        desk.write("log", log);
        desk
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.path().join(name), text).unwrap();
    }

    fn grade(&self, arguments: &[&str]) -> Ended {
        seatrial(self.0.path(), &[&["grade", "log"], arguments].concat())
    }
}

const ADDS: &str = "tests/test_till.py::test_adds";
const TAKES: &str = "tests/test_till.py::test_takes[a b]";
const LATER: &str = "tests/test_till.py::test_later";

#[test]
fn every_required_test_has_a_row_and_the_verdict_a_line() {
    let desk = Desk::new(PYTEST);
    let ended = desk
        .grade(&["-f", "pytest", "--f2p", ADDS, TAKES, "--p2p", LATER, "--exit-status", "0"])
        .with_code(0);
    let lines: Vec<Vec<&str>> = ended.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["list", "status", "test"]);
    assert_eq!(lines[1], ["F2P", "passed", ADDS]);
    assert_eq!(lines[2], ["F2P", "passed", "tests/test_till.py::test_takes[a", "b]"]);
    assert_eq!(lines[3], ["P2P", "skipped", LATER]);
    assert_eq!(ended.stdout.lines().last(), Some("resolved: every required test holds"));

    // A skip does not fix anything, and an exit status that says otherwise is a contradiction.
    let skipped = desk.grade(&["-f", "pytest", "--f2p", LATER]).with_code(1);
    assert!(
        skipped.stdout.ends_with("unresolved: 1 of F2P did not pass, 0 of P2P regressed\n"),
        "{skipped:?}"
    );
    let contradicted = desk.grade(&["-f", "pytest", "--f2p", ADDS, "--exit-status", "1"]).with_code(1);
    assert!(contradicted.stdout.contains("invalid, contradiction: "), "{contradicted:?}");
    let killed = desk.grade(&["-f", "pytest", "--f2p", ADDS, "--exit-status", "-9"]).with_code(1);
    assert!(killed.stdout.contains("invalid, abnormal_exit: "), "{killed:?}");
    // A damaged id is no failure of the test.
    let cut = desk.grade(&["-f", "pytest", "--f2p", "tests/test_till.py::test_takes[a"]).with_code(1);
    assert!(cut.stdout.contains(&format!("the log shows `{TAKES}`")), "{cut:?}");
    assert!(cut.stdout.contains("invalid, id_mismatch: "), "{cut:?}");
    let other = desk.grade(&["-f", "pytest", "--f2p", "test_adds"]).with_code(1);
    assert!(other.stderr.contains("it has 3 others, such as `tests/test_till.py::test_adds`"), "{other:?}");
}

#[test]
fn lists_come_from_arguments_verifiers_and_rows_alike() {
    let desk = Desk::new(PYTEST);
    let wanted = desk.grade(&["-f", "pytest", "--f2p", ADDS, "--f2p", TAKES, "--p2p", LATER, "--json"]);
    let wanted = wanted.with_code(0).json();
    assert_eq!(wanted["verdict"]["outcome"], "resolved");
    assert_eq!(wanted["collected"], 3);
    let lists = (json!([ADDS, TAKES]), json!([LATER]));
    let config = json!({
        "schema": "seatrial.verifier/1", "instance_id": "x", "workdir": "/testbed", "framework": "pytest",
        "command": ["pytest"], "timeout_sec": 9, "fail_to_pass": lists.0, "pass_to_pass": lists.1,
        "surface": {"archive": "surface.tar", "patterns": ["tests/"], "keep_folders": [], "ancestor_files": []},
    });
    desk.write("config.json", &config.to_string());
    desk.write(
        "row.json",
        &json!({"FAIL_TO_PASS": lists.0, "PASS_TO_PASS": lists.1, "patch": "x"}).to_string(),
    );
    // Some collections hold the lists as texts.
    let text = json!({"FAIL_TO_PASS": lists.0.to_string(), "PASS_TO_PASS": lists.1.to_string()});
    desk.write("text.json", &text.to_string());
    for arguments in [
        &["--config", "config.json"][..],
        &["-f", "pytest", "--instance", "row.json"],
        &["-f", "pytest", "--instance", "text.json"],
    ] {
        assert_eq!(
            desk.grade(&[arguments, &["--json"]].concat()).with_code(0).json(),
            wanted,
            "{arguments:?}"
        );
    }
    desk.write("empty.json", "{\"FAIL_TO_PASS\": []}");
    let empty = desk.grade(&["-f", "pytest", "--instance", "empty.json", "--json"]).with_code(1).json();
    assert_eq!(empty["verdict"]["reason"], "f2p_empty");
    assert_eq!(empty["verdict"]["reward"], Value::Null);
}

#[test]
fn a_log_may_come_from_a_pipe_and_lie_between_marks() {
    let desk = Desk::new("");
    desk.write("log", &format!("PASSED {ADDS}\n<<7\n{PYTEST}7>>\n"));
    let marked = desk.grade(&["-f", "pytest", "--f2p", ADDS, "--marks", "<<7", "7>>"]).with_code(0);
    assert!(marked.stdout.contains("resolved"));
    let cut = desk.grade(&["-f", "pytest", "--f2p", ADDS, "--marks", "<<7", "8>>"]).with_code(1);
    assert!(cut.stdout.contains("invalid, incomplete: "), "{cut:?}");
    let mut piped = crate::project::binary();
    piped.args(["grade", "-", "-f", "pytest", "--f2p", ADDS]).current_dir(desk.0.path());
    piped.stdin(fs::File::open(desk.0.path().join("log")).unwrap());
    crate::project::ended(&mut piped).with_code(0);
}

#[test]
fn what_cannot_be_graded_is_a_usage_error() {
    let desk = Desk::new(PYTEST);
    desk.write("bad.json", "{\"FAIL_TO_PASS\": 3}");
    let wrong: [(&[&str], &str); 6] = [
        (&["-f", "nose", "--f2p", "a"], "\"nose\" is no log format"),
        (&["--f2p", "a"], "framework is not told"),
        (&["-f", "pytest"], "no required test is named"),
        (&["-f", "pytest", "--instance", "bad.json"], "no row of an instance"),
        (&["--config", "bad.json"], "verifier configuration"),
        (&["-f", "pytest", "--instance", "nowhere.json"], "nowhere.json"),
    ];
    for (arguments, named) in wrong {
        let ended = desk.grade(&[arguments, &["--json"]].concat()).with_code(2);
        assert!(ended.json()["error"].as_str().unwrap().contains(named), "{ended:?}");
    }
    let nowhere = seatrial(desk.0.path(), &["grade", "nowhere", "-f", "pytest", "--f2p", "a"]).with_code(2);
    assert!(nowhere.stderr.contains("nowhere"), "{nowhere:?}");
}

fn files_below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_below(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// SWE-smith's own runs, whose reports are true for these.
#[test]
fn runs_of_the_harness_that_made_the_collection_grade_as_it_says() {
    let Some(folder) = corpus::find("data/swesmith") else { return };
    let mut files = Vec::new();
    files_below(&folder, &mut files);
    let desk = Desk::new("");
    let mut graded = 0;
    for path in files.iter().filter(|path| path.ends_with("report.json")) {
        let log = path.with_file_name("test_output.txt");
        let report: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        let (Some(resolved), Some(status), true) =
            (report["resolved"].as_bool(), report["tests_status"].as_object(), log.is_file())
        else {
            continue;
        };
        let both = |list: &str| {
            let part = |part: &str| status[list][part].as_array().cloned().unwrap_or_default();
            [part("success"), part("failure")].concat()
        };
        let row = json!({"FAIL_TO_PASS": both("FAIL_TO_PASS"), "PASS_TO_PASS": both("PASS_TO_PASS")});
        desk.write("row.json", &row.to_string());
        let log = log.display().to_string();
        seatrial(desk.0.path(), &["grade", &log, "--harness", "-f", "pytest", "--instance", "row.json"])
            .with_code(i32::from(!resolved));
        graded += 1;
    }
    assert!(graded >= 4, "only {graded} runs with a verdict were found");
}
