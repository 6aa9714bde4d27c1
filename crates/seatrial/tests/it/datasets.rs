//! Packages from the recipe to the registry, and what is said on the way.

use std::path::Path;

use serde_json::json;

use crate::project::{Ended, Project, ended, sandboxes_run, seatrial, tree};

/// Exports a package in another language and time zone, with so many threads.
fn packed(project: &Project, threads: &str) -> Ended {
    let mut command = project.command(&["export", "--format", "package", "--json"]);
    command.env("LC_ALL", "tr_TR.UTF-8").env("TZ", "Asia/Kathmandu").env("RAYON_NUM_THREADS", threads);
    ended(&mut command)
}

#[test]
fn a_package_is_made_twice_alike_registered_once_and_found_again() {
    if !sandboxes_run() {
        return;
    }
    let [one, other] = [("1"), ("3")].map(|threads| {
        let project = Project::quick();
        project.up();
        packed(&project, threads).with_code(0);
        project
    });
    let package = |project: &Project| project.path("exports/my-set-2-v1/package/my-set-2-v1.tar.zst");
    let bytes = std::fs::read(package(&one)).unwrap();
    assert!(bytes == std::fs::read(package(&other)).unwrap(), "packages of two runs differ");

    let shelf = tempfile::tempdir().unwrap();
    let at = |arguments: &[&str]| seatrial(shelf.path(), &[arguments, &["--registry", "sets"]].concat());
    let package = package(&one).display().to_string();
    let said = at(&["register", &package, "--json"]).with_code(0).json();
    assert_eq!(
        (&said["name"], &said["tasks"], &said["existed"]),
        (&json!("my-set"), &json!(2), &json!(false))
    );
    assert_eq!(said["origin"], "my-set-2-v1.tar.zst");
    assert!(at(&["register", &package]).with_code(0).stdout.contains("my-set@v1: 2 tasks, as before"));

    let path = at(&["datasets", "path", "my-set"]).with_code(0).stdout;
    let registered = shelf.path().join(path.trim());
    assert_eq!(tree(&registered), tree(&one.frozen()));
    seatrial(shelf.path(), &["freeze", "--check", path.trim()]).with_code(0);
    let listed = at(&["datasets", "list", "--json"]).with_code(0).json();
    assert_eq!((&listed["datasets"][0]["version"], &listed["faults"]), (&json!("v1"), &json!([])));
    let shown = at(&["datasets", "show", "my-set@v1", "--json"]).with_code(0).json();
    assert_eq!(shown["splits"], json!({ "train": 1, "validation": 0, "test": 1 }));
    let task = shelf.path().join(shown["tasks"][0]["path"].as_str().unwrap());
    assert!(task.join("task.toml").is_file());
    assert!(at(&["datasets", "show", "my-set"]).with_code(0).stdout.contains("train"));

    let missing = at(&["datasets", "path", "other"]).with_code(2);
    assert!(missing.stderr.contains("no set `other`") && missing.stderr.contains("my-set@v1"), "{missing:?}");
    let mut flipped = bytes;
    flipped[1000] ^= 1;
    std::fs::write(&package, flipped).unwrap();
    let changed = at(&["register", &package]).with_code(5);
    assert!(changed.stderr.contains("my-set-2-v1.tar.zst: its SHA-256 is"), "{changed:?}");
    std::fs::remove_file(Path::new(&package).with_extension("zst.sha256")).unwrap();
    assert!(at(&["register", &package]).with_code(2).stderr.contains("--sha256"));
    assert!(at(&["register", "hf:nonsense"]).with_code(2).stderr.contains("hf:OWNER/NAME"));
    assert!(at(&["register", "nowhere.tar.zst"]).with_code(1).stderr.contains("nowhere.tar.zst"));
}

#[test]
fn nothing_is_pushed_without_a_token() {
    if !sandboxes_run() {
        return;
    }
    let project = Project::quick();
    project.up();
    let mut command = project.command(&["export", "--push", "hf:lab/set"]);
    command
        .env_remove("HF_TOKEN")
        .env("HF_HOME", project.path("nowhere"))
        .env("HF_ENDPOINT", "http://127.0.0.1:9");
    let refused = ended(&mut command).with_code(2);
    assert!(refused.stderr.contains("HF_TOKEN"), "{refused:?}");
    assert!(project.run(&["export", "--push", "lab/set"]).with_code(2).stderr.contains("hf:OWNER/NAME"));
}
