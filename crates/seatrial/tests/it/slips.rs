//! What is named or interrupted by mistake: said clearly, and nothing is lost or left behind.

use std::io::Read as _;
use std::os::unix::fs::symlink;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::project::{Project, binary, ended, seatrial};
use crate::tasks::{Shelf, Task};

#[test]
fn an_interrupted_export_leaves_nothing_behind() {
    let temporary = tempfile::tempdir().unwrap();
    let trial = temporary.path().join("jobs/job/trial");
    std::fs::create_dir_all(trial.join("agent")).unwrap();
    let result =
        json!({"task_name": "t", "trial_name": "trial", "agent_info": {"name": "a", "version": "1"}});
    std::fs::write(trial.join("result.json"), result.to_string()).unwrap();
    // Rows of so many turns take minutes.
    let steps: Vec<_> =
        (0..20_000).map(|n| json!({"source": "agent", "message": format!("turn {n}")})).collect();
    let trajectory =
        json!({"schema_version": "ATIF-v1.6", "agent": {"name": "a", "version": "1"}, "steps": steps});
    std::fs::write(trial.join("agent/trajectory.json"), trajectory.to_string()).unwrap();
    for (name, signal) in [("rows.jsonl", "INT"), ("rows.parquet", "TERM"), ("set", "INT")] {
        let out = temporary.path().join("out");
        std::fs::create_dir_all(&out).unwrap();
        if name != "set" {
            std::fs::write(out.join(name), "precious").unwrap();
        }
        let before = std::fs::read_dir(&out).unwrap().count();
        let mut command = binary();
        command.arg("-C").arg(temporary.path()).args(["traces", "export", "jobs", "--episodes", "all", "-o"]);
        let mut child = command.arg(out.join(name)).stderr(Stdio::piped()).spawn().unwrap();
        let end = Instant::now() + Duration::from_secs(60);
        while std::fs::read_dir(&out).unwrap().count() == before {
            assert!(child.try_wait().unwrap().is_none() && Instant::now() < end, "{name}: nothing was begun");
            std::thread::sleep(Duration::from_millis(2));
        }
        let kill = ["-s", signal, &child.id().to_string()].map(str::to_owned);
        assert!(std::process::Command::new("kill").args(kill).status().unwrap().success());
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130), "{name}: {said}");
        assert!(said.contains("interrupted") && !said.contains("is kept"), "{said}");
        assert_eq!(std::fs::read_dir(&out).unwrap().count(), before, "{name}: something is left");
        if name != "set" {
            assert_eq!(std::fs::read_to_string(out.join(name)).unwrap(), "precious");
        }
    }
}

#[test]
fn a_filter_that_is_none_is_refused_and_pipes_get_no_colours() {
    let temporary = tempfile::tempdir().unwrap();
    let said = seatrial(temporary.path(), &["--log", "nonsense=[[", "gc"]).with_code(2).all();
    assert!(said.contains("nonsense=[["), "{said}");
    let ended =
        ended(binary().env("RUST_LOG", "nonsense=[[").arg("-C").arg(temporary.path()).arg("gc")).with_code(0);
    assert!(ended.all().contains("RUST_LOG"), "{}", ended.all());
    let shelf = Shelf::new([Task::new("one")]);
    let ended = seatrial(shelf.root(), &["--log", "trace", "run", "-p", "tasks", "-a", "nop"]);
    assert!(!ended.stderr.contains('\u{1b}'), "{}", ended.stderr);
}

#[test]
fn what_is_no_task_job_or_trial_is_refused() {
    let shelf = Shelf::new([Task::new("one")]);
    let run = |arguments: &[&str]| seatrial(shelf.root(), arguments);
    assert!(run(&["digest", "tasks"]).with_code(1).all().contains("no task.toml"));
    run(&["digest", "tasks/one"]).with_code(0);
    assert!(run(&["jobs", "show", "tasks"]).with_code(2).all().contains("is no job"));
    assert!(run(&["traces", "show", "tasks"]).with_code(2).all().contains("is no trial"));
    std::fs::write(
        shelf.root().join("run.traj"),
        r#"{"trajectory": [{"response": "ls", "observation": "out"}]}"#,
    )
    .unwrap();
    assert!(run(&["traces", "show", "run.traj"]).with_code(0).all().contains("ls"));
    for threshold in ["nan", "inf"] {
        run(&["traces", "stats", "tasks", "--threshold", threshold]).with_code(2);
    }
    // A negative number is none of the options.
    let said = run(&["traces", "stats", "tasks", "--threshold", "-5"]).with_code(1).all();
    assert!(said.contains("no trial was found"), "{said}");
}

#[test]
fn one_task_that_cannot_be_checked_does_not_stop_the_others() {
    let shelf = Shelf::new([Task::new("one"), Task::new("two")]);
    let tasks = shelf.root().join("tasks");
    symlink("one", tasks.join("linked")).unwrap();
    let ended = seatrial(shelf.root(), &["check", "--json", "tasks"]).with_code(0);
    assert_eq!(ended.json_lines().len(), 2);
    assert!(ended.stderr.contains("linked is a link"), "{}", ended.stderr);
    // A link that is named itself cannot be read.
    let ended = seatrial(shelf.root(), &["check", "--json", "tasks/linked", "tasks/two"]).with_code(1);
    let lines = ended.json_lines();
    assert!(lines[0]["error"].is_string() && lines[1]["findings"].is_array(), "{lines:?}");
}

#[test]
fn a_name_cannot_forge_a_line() {
    let shelf = Shelf::new([Task::new("one")]);
    std::fs::rename(shelf.root().join("tasks/one"), shelf.root().join("tasks/a\n::error::b")).unwrap();
    let ended = seatrial(shelf.root(), &["check", "tasks"]);
    assert!(ended.stdout.lines().all(|line| !line.starts_with("::error")), "{}", ended.stdout);
    assert!(!ended.stdout.is_empty());
}

#[test]
fn gc_takes_only_what_is_ours() {
    let temporary = tempfile::tempdir().unwrap();
    let path = |name: &str| temporary.path().join(name);
    std::fs::create_dir_all(path("a/.seatrial/sandboxes/other")).unwrap();
    std::fs::create_dir_all(path("a/.seatrial/sandboxes/run-x")).unwrap();
    seatrial(&path("a"), &["gc"]).with_code(0);
    assert!(path("a/.seatrial/sandboxes/other").exists() && !path("a/.seatrial/sandboxes/run-x").exists());
    std::fs::create_dir_all(path("elsewhere/sandboxes/run-x")).unwrap();
    std::fs::create_dir(path("b")).unwrap();
    symlink("../elsewhere", path("b/.seatrial")).unwrap();
    assert!(seatrial(&path("b"), &["gc"]).with_code(5).all().contains("is a link"));
    assert!(path("elsewhere/sandboxes/run-x").exists());
}

#[test]
fn a_full_output_is_a_budget() {
    let shelf = Shelf::new([Task::new("one")]);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = binary();
    let child = command.arg("-C").arg(shelf.root()).args(["digest", "tasks/one"]).stdout(full);
    let output = child.stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(6));
    assert!(String::from_utf8_lossy(&output.stderr).contains("standard output"));
}

#[test]
fn mistakes_in_set_expressions_are_shown_in_their_line_before_anything_is_read() {
    let project = Project::quick();
    let recipe = String::from_utf8(project.read("seatrial.toml")).unwrap();
    let line = recipe.lines().find(|line| line.starts_with("members")).unwrap().to_owned();
    for (members, message) in [("((candidates", "no set expression"), ("nobody", "no set is called `nobody`")]
    {
        std::fs::write(
            project.path("seatrial.toml"),
            recipe.replace(&line, &format!("members = \"{members}\"")),
        )
        .unwrap();
        let said = project.run(&["source", "pull"]).with_code(2).all();
        assert!(said.contains(message) && said.contains("seatrial.toml:"), "{said}");
        assert!(!project.path("seatrial.lock").exists());
    }
}

#[test]
fn a_plan_with_a_task_twice_and_linked_tasks_are_refused() {
    let project = Project::quick();
    for stage in [&["source", "pull"][..], &["plan"]] {
        project.run(stage).with_code(0);
    }
    let elsewhere = tempfile::tempdir().unwrap();
    symlink(elsewhere.path(), project.path("tasks")).unwrap();
    assert!(project.run(&["materialize"]).with_code(5).all().contains("is a link"));
    assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    std::fs::remove_file(project.path("tasks")).unwrap();
    let mut plan = project.json("plan.json");
    let first = plan["tasks"][0].clone();
    plan["tasks"].as_array_mut().unwrap().push(first);
    std::fs::write(project.path("plan.json"), plan.to_string()).unwrap();
    assert!(project.run(&["materialize"]).with_code(5).all().contains("twice"));
    assert!(!project.path("tasks").exists());
}
