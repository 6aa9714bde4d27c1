//! Arguments, exit codes, and what is said on which stream.

use serde_json::{Value, json};

use crate::project::{DOCUMENTS, Project, binary, children, ended, seatrial, tree};
use crate::tasks::{Shelf, Task};

/// Runs the binary in an empty directory.
fn alone(arguments: &[&str]) -> crate::project::Ended {
    let temp = tempfile::tempdir().unwrap();
    seatrial(temp.path(), arguments)
}

#[test]
fn help_and_version_are_data_and_succeed() {
    let help = alone(&["--help"]).with_code(0);
    assert!(help.stderr.is_empty(), "{help:?}");
    for command in ["init", "doctor", "up", "plan", "prove", "freeze", "run", "digest"] {
        assert!(help.stdout.contains(&format!("\n  {command} ")), "{command} in {}", help.stdout);
        let own = alone(&[command, "--help"]).with_code(0);
        assert!(own.stdout.contains("Usage: seatrial"), "{own:?}");
    }
    let version = alone(&["--version"]).with_code(0);
    assert_eq!(version.stdout, format!("seatrial {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn arguments_that_make_no_sense_are_usage_errors() {
    let wrong: [(&[&str], &str); 8] = [
        (&["--frobnicate"], "--frobnicate"),
        (&["frobnicate"], "frobnicate"),
        (&["up", "--jobs", "0"], "--jobs"),
        (&["up", "-j", "many"], "many"),
        (&["run"], "--path"),
        (&["run", "-p", "tasks", "-a", "wizard"], "wizard"),
        (&["check", "--list", "--explain", "x"], "--explain"),
        (&["completions", "csh"], "csh"),
    ];
    for (arguments, named) in wrong {
        let text = alone(arguments).with_code(2);
        assert!(text.stdout.is_empty() && text.stderr.contains(named), "{text:?}");
        let json = alone(&[&["--json"], arguments].concat()).with_code(2).json();
        assert_eq!(json["exit_code"], 2);
        assert!(json["error"].as_str().unwrap().contains(named), "{json}");
    }
    assert!(alone(&[]).with_code(2).stderr.contains("Usage: seatrial"));
}

#[test]
fn the_man_page_and_completions_come_from_the_same_definition() {
    let man = alone(&["man"]).with_code(0).stdout;
    assert!(man.starts_with(".ie") || man.starts_with(".TH"), "{man}");
    for shell in ["bash", "zsh", "fish"] {
        let completions = alone(&["completions", shell]).with_code(0).stdout;
        for known in ["materialize", "explain"] {
            assert!(completions.contains(known), "{known} for {shell}");
        }
    }
}

#[test]
fn init_writes_below_the_working_directory_and_overwrites_nothing() {
    let temp = tempfile::tempdir().unwrap();
    seatrial(temp.path(), &["init", "one"]).with_code(0);
    assert!(temp.path().join("one/seatrial.toml").is_file());
    assert_eq!(children(&temp.path().join("one")).iter().filter(|path| path.ends_with("one")).count(), 0);
    seatrial(temp.path(), &["-C", "one", "init", "inner"]).with_code(0);
    assert!(temp.path().join("one/inner/seatrial.toml").is_file());
    // Two projects of one version are the same bytes.
    let inner = tree(&temp.path().join("one/inner"));
    seatrial(temp.path(), &["init", "two"]).with_code(0);
    assert_eq!(tree(&temp.path().join("two")), inner);
    // An empty directory that is there is filled, also where one stands in it.
    let here = temp.path().join("three");
    std::fs::create_dir(&here).unwrap();
    seatrial(&here, &["init", "."]).with_code(0);
    assert_eq!(tree(&here), inner);

    let again = seatrial(temp.path(), &["init", "two", "--json"]).with_code(2);
    assert!(again.json()["error"].as_str().unwrap().contains("not empty"));
    assert_eq!(tree(&temp.path().join("two")), inner);
}

#[test]
fn digests_keep_the_order_of_the_paths_and_say_which_failed() {
    let shelf = Shelf::new([Task::new("b"), Task::new("a"), Task::new("escape")]);
    // What Harbor hashes does not have to be a task that anybody can run.
    std::fs::create_dir(shelf.root().join("tasks/unreadable")).unwrap();
    std::fs::write(shelf.root().join("tasks/unreadable/task.toml"), "version = [").unwrap();
    std::os::unix::fs::symlink("/etc/hostname", shelf.root().join("tasks/escape/environment/name")).unwrap();

    let paths = ["tasks/b", "tasks/a", "tasks/unreadable"];
    let lines =
        seatrial(shelf.root(), &[&["digest", "--json"], &paths[..]].concat()).with_code(0).json_lines();
    assert_eq!(lines.iter().map(|line| &line["path"]).collect::<Vec<_>>(), paths);
    for line in &lines {
        assert_eq!(keys(line), ["path", "content_hash", "task_checksum", "tree_digest"]);
        for key in ["content_hash", "task_checksum", "tree_digest"] {
            let digest = line[key].as_str().unwrap();
            assert!(digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()), "{line}");
        }
    }
    // Two directories of the same content differ in nothing.
    assert_eq!(lines[0]["content_hash"], lines[1]["content_hash"]);
    assert_eq!(lines[0]["tree_digest"], lines[1]["tree_digest"]);

    let paths = ["tasks/b", "tasks/nowhere", "tasks/escape", "tasks/a"];
    let failed = seatrial(shelf.root(), &[&["digest", "--json"], &paths[..]].concat()).with_code(1);
    let lines = failed.json_lines();
    assert_eq!(lines.iter().map(|line| &line["path"]).collect::<Vec<_>>(), paths);
    assert!(lines[0]["error"].is_null() && lines[3]["error"].is_null(), "{lines:?}");
    for line in &lines[1..=2] {
        assert_eq!(keys(line), ["path", "error"]);
    }
    assert!(lines[2]["error"].as_str().unwrap().contains("/etc/hostname"), "{lines:?}");
    let text = seatrial(shelf.root(), &["digest", "tasks/a", "tasks/escape"]).with_code(1);
    assert!(text.stdout.contains("content hash") && text.stdout.contains("environment/name"), "{text:?}");
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

#[test]
fn rules_are_listed_explained_and_applied() {
    let listed = alone(&["check", "--list", "--json"]).with_code(0).json_lines();
    assert!(listed.len() > 20, "{} rules", listed.len());
    for rule in &listed {
        assert_eq!(keys(rule), ["name", "family", "severity", "summary"]);
        let explained =
            alone(&["check", "--explain", rule["name"].as_str().unwrap(), "--json"]).with_code(0).json();
        for key in ["name", "family", "severity", "summary"] {
            assert_eq!(explained[key], rule[key]);
        }
        assert!(explained["explanation"].as_str().unwrap().len() > 20, "{explained}");
        assert!(explained["fix"].as_str().unwrap().len() > 5, "{explained}");
    }
    let unknown = alone(&["check", "--explain", "no-such-rule"]).with_code(2);
    assert!(unknown.stderr.contains("no-such-rule") && unknown.stderr.contains("--list"), "{unknown:?}");

    let shelf = Shelf::new([Task::new("good"), Task::new("bad").settings("[verifier]\ntimeout_secs = 5\n")]);
    std::fs::remove_file(shelf.root().join("tasks/bad/instruction.md")).unwrap();
    let good = seatrial(shelf.root(), &["check", "--json", "tasks/good"]).with_code(0).json();
    assert_eq!(good["findings"], json!([]));
    let both = seatrial(shelf.root(), &["check", "--json", "tasks"]).with_code(1).json_lines();
    let findings = both.iter().find(|line| line["path"].as_str().unwrap().ends_with("bad")).unwrap();
    let found = |file: &str| {
        findings["findings"]
            .as_array()
            .unwrap()
            .iter()
            .find(|finding| finding["file"] == file)
            .unwrap()
            .clone()
    };
    assert_eq!(found("instruction.md")["severity"], "error");
    // A link that leaves the task is named, and not followed.
    std::os::unix::fs::symlink("/etc/passwd", shelf.root().join("tasks/good/environment/accounts")).unwrap();
    let leaves = seatrial(shelf.root(), &["check", "--json", "tasks/good"]).with_code(1).stdout;
    assert!(leaves.contains("environment/accounts") && !leaves.contains("root:"), "{leaves}");
    // A misspelt limit is not silently the default one.
    let misspelt = found("task.toml");
    assert_eq!(misspelt["line"], 4);
    assert!(
        misspelt.to_string().contains("timeout_secs") && misspelt.to_string().contains("timeout_sec`"),
        "{misspelt}"
    );
}

#[test]
fn a_mistake_in_the_recipe_is_shown_at_its_place() {
    let project = Project::new();
    project.edit("seatrial.toml", "target = 2", "targte = 2");
    let shown = ended(binary().current_dir(project.root()).arg("plan")).with_code(2);
    assert!(shown.stdout.is_empty());
    insta::assert_snapshot!(shown.stderr, @r#"
      × ./seatrial.toml:33:1: unknown key `pool.targte`
        ╭─[./seatrial.toml:33:1]
     32 │ members = "candidates"               # sources and [sets] by name, with | & - and parentheses
     33 │ targte = 2
        · ───┬──
        ·    ╰── unknown key `pool.targte`
     34 │ cap = 2                              # most tasks of one repository; or a share such as "5%"
        ╰────
      help: did you mean `target`?
    "#);
    let json = project.run(&["plan", "--json"]).with_code(2).json();
    assert!(json["error"].as_str().unwrap().contains("seatrial.toml:33:1"), "{json}");

    // All mistakes are named in one pass.
    project.edit("seatrial.toml", "oracle_runs = 3", "oracle_runs = \"3\"");
    project.edit("seatrial.toml", "[resolve]", "[resolv]");
    let all = project.run(&["up"]).with_code(2).stderr;
    for named in ["pool.targte", "resolv", "oracle_runs"] {
        assert!(all.contains(named), "{named} in {all}");
    }
    std::fs::write(project.path("seatrial.toml"), [0xff, 0xfe]).unwrap();
    assert!(project.run(&["up"]).with_code(2).stderr.contains("not UTF-8"));
    std::fs::remove_file(project.path("seatrial.toml")).unwrap();
    let missing = project.run(&["up"]).with_code(2).stderr;
    assert!(missing.contains("no recipe") && missing.contains("seatrial init"), "{missing}");
    assert!(!project.path("seatrial.lock").exists());
}

#[test]
fn a_broken_row_is_named_by_line_task_and_field() {
    let project = Project::new();
    let mut rows = project.rows("instances.jsonl");
    rows[1]["FAIL_TO_PASS"] = json!("not a list");
    rows[2].as_object_mut().unwrap().remove("patch");
    project.write_rows("instances.jsonl", &rows);
    let said = project.run(&["source", "pull", "--strict"]).with_code(2).stderr;
    for named in ["instances.jsonl", "line 2", "49e999da", "FAIL_TO_PASS", "line 3", "92b53359", "patch"] {
        assert!(said.contains(named), "{named} in {said}");
    }
    assert!(!project.path("seatrial.lock").exists());
    // Otherwise they are left out, and named all the same.
    let said = project.run(&["source", "pull"]).with_code(0).stderr;
    assert!(said.contains("line 2") && said.contains("92b53359"), "{said}");
}

#[test]
fn task_ids_that_are_no_file_names_are_refused() {
    let project = Project::new();
    let before = tree(project.root().parent().unwrap());
    let rows = project.rows("instances.jsonl");
    let hostile = [
        "../../escape",
        "a/b",
        "a\0b",
        "line\nbreak",
        "-rf",
        "",
        ".",
        "..",
        " lead",
        "trail ",
        "a:b",
        "a\\b",
    ];
    for id in hostile {
        let mut rows = rows.clone();
        rows[1]["instance_id"] = json!(id);
        project.write_rows("instances.jsonl", &rows);
        let said = project.run(&["source", "pull", "--strict"]).with_code(2).stderr;
        assert!(said.contains("line 2") && said.contains("instance_id"), "{id:?}: {said}");
    }
    // On some file systems these two are one.
    let mut twice = rows.clone();
    twice[1]["instance_id"] = json!(rows[2]["instance_id"].as_str().unwrap().replace("example", "Example"));
    project.write_rows("instances.jsonl", &twice);
    let said = project.run(&["source", "pull", "--strict"]).with_code(2).stderr;
    assert!(said.contains("line 2") && said.contains("line 3"), "{said}");
    project.write_rows("instances.jsonl", &rows);
    let mut after = tree(project.root().parent().unwrap());
    after.retain(|path, _| !path.starts_with("set/.seatrial/"));
    let ids = |files: &std::collections::BTreeMap<String, _>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(ids(&after), ids(&before));
}

#[test]
fn changed_sources_are_refused_until_they_are_accepted() {
    let project = Project::new();
    project.run(&["source", "pull"]).with_code(0);
    project.run(&["plan"]).with_code(0);
    let plan = project.read("plan.json");
    let locked = project.read("seatrial.lock");
    project.edit("reward-means.jsonl", "0.25", "0.75");
    for command in [&["source", "pull"][..], &["plan"], &["materialize"], &["up"]] {
        let said = project.run(command).with_code(5).stderr;
        assert!(said.contains("rewards") && said.contains("source pull --update"), "{said}");
    }
    assert_eq!(project.read("seatrial.lock"), locked);
    assert_eq!(project.read("plan.json"), plan);

    let pulled = project.run(&["source", "pull", "--update", "--json"]).with_code(0).json();
    assert!(pulled["changes"].to_string().contains("reward-means.jsonl"), "{pulled}");
    assert_ne!(project.read("seatrial.lock"), locked);
    // The plan was made from the old rows.
    let stale = project.run(&["materialize"]).with_code(5).stderr;
    assert!(stale.contains("plan.json") && stale.contains("seatrial plan"), "{stale}");
    project.run(&["plan"]).with_code(0);
    project.run(&["materialize"]).with_code(0);
}

#[test]
fn a_shortage_writes_nothing() {
    let project = Project::new();
    project.edit("seatrial.toml", "target = 2", "target = 4");
    project.run(&["source", "pull"]).with_code(0);
    let before = tree(project.root());
    for command in ["plan", "up"] {
        let refused = project.run(&[command, "--json"]).with_code(3);
        let json = refused.json();
        assert_eq!(json["exit_code"], 3);
        assert!(json["error"].as_str().unwrap().contains("3 of 4"), "{json}");
    }
    let mut after = tree(project.root());
    after.retain(|path, _| !path.starts_with(".seatrial/"));
    let mut before = before;
    before.retain(|path, _| !path.starts_with(".seatrial/"));
    assert_eq!(after, before);
}

#[test]
fn json_is_the_only_thing_on_standard_output() {
    let project = Project::new();
    let shelf = Shelf::new([Task::new("one")]);
    let task = shelf.root().join("tasks/one").display().to_string();
    let spare = shelf.root().join("spare").display().to_string();
    let nowhere = shelf.root().join("nowhere").display().to_string();
    let commands: [(&[&str], i32); 19] = [
        (&["init", &spare], 0),
        (&["init", &spare], 2),
        (&["plan"], 2),
        (&["source", "pull"], 0),
        (&["plan"], 0),
        (&["status"], 0),
        (&["materialize"], 0),
        (&["check"], 0),
        (&["check", &task], 0),
        (&["status"], 0),
        (&["status", "example__tally.00000001.lm_modify__92b53359"], 0),
        (&["status", "nobody__knows.00000001.lm_modify__00000000"], 2),
        (&["status", "../.."], 2),
        (&["resolve"], 2),
        (&["freeze"], 2),
        (&["freeze", "--check", &nowhere], 2),
        (&["export"], 2),
        (&["digest", &task], 0),
        (&["run", "-p", &nowhere], 2),
    ];
    for (arguments, code) in commands {
        let ended = project.run(&[arguments, &["--json"]].concat()).with_code(code);
        let lines = ended.json_lines();
        assert!(!lines.is_empty(), "{arguments:?} says nothing: {ended:?}");
        if code != 0 && arguments[0] != "freeze" {
            assert_eq!(lines[0]["exit_code"], code, "{arguments:?}: {ended:?}");
        }
        // The same without `--json` says on standard error why it failed.
        if code != 0 {
            assert!(ended.stderr.contains("error"), "{arguments:?}: {ended:?}");
        }
    }
    assert!(DOCUMENTS[..5].iter().all(|name| project.path(name).is_file()));
}

#[test]
fn quiet_keeps_results_and_errors() {
    let project = Project::new();
    project.run(&["source", "pull"]).with_code(0);
    let plan = project.run(&["plan", "--quiet"]).with_code(0);
    assert!(plan.stderr.is_empty() && plan.stdout.contains("tier 1 (cross_source)"), "{plan:?}");
    let failed = project.run(&["resolve", "--quiet"]).with_code(2);
    assert!(failed.stderr.contains("error: "), "{failed:?}");
    assert!(!plan.all().contains('\u{1b}'), "colour in a pipe");
}

#[test]
fn a_job_is_one_directory_below_the_jobs() {
    let directory = tempfile::tempdir().unwrap();
    let task = directory.path().join("task");
    for part in ["environment", "tests"] {
        std::fs::create_dir_all(task.join(part)).unwrap();
    }
    for file in ["task.toml", "instruction.md", "environment/Dockerfile", "tests/test.sh"] {
        std::fs::write(task.join(file), "").unwrap();
    }
    for name in ["../escaped", "/tmp/escaped", "", ".", "a/b"] {
        let ended =
            seatrial(directory.path(), &["run", "-p", "task", "-a", "nop", "--job-name", name]).with_code(2);
        assert!(ended.stderr.contains("cannot name a job"), "{name:?}: {ended:?}");
    }
    assert!(!directory.path().join("escaped").exists() && !directory.path().join("jobs").exists());
}

#[test]
fn what_is_no_frozen_set_is_not_checked_as_one() {
    let directory = tempfile::tempdir().unwrap();
    let ended = seatrial(directory.path(), &["freeze", "--check", "."]).with_code(2);
    assert!(ended.stderr.contains("is no frozen set"), "{ended:?}");
}
