//! `seatrial gc` removes what is deserted, and nothing else.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use fs_err as fs;
use serde_json::{Value, json};

use crate::docker::docker;
use crate::project::{Project, binary, ended};

fn gc(directory: &Path, daemon: &str, arguments: &[&str]) -> crate::project::Ended {
    ended(binary().env("DOCKER_HOST", daemon).arg("-C").arg(directory).args(["--json", "gc"]).args(arguments))
}

#[test]
fn deserted_directories_go_and_others_stay() {
    let temp = tempfile::tempdir().unwrap();
    let sandboxes = temp.path().join(".seatrial/sandboxes");
    let (deserted, used) = (sandboxes.join("run-deserted"), sandboxes.join("run-used"));
    for directory in [&deserted, &used] {
        fs::create_dir_all(directory.join("closed")).unwrap();
        File::create(directory.join("lock")).unwrap();
    }
    fs::os::unix::fs::symlink(temp.path(), deserted.join("closed/link")).unwrap();
    fs::write(temp.path().join("kept"), "kept").unwrap();
    let held = File::open(used.join("lock")).unwrap();
    held.lock().unwrap();
    let nowhere = "unix:///no/such/socket";
    let said = gc(temp.path(), nowhere, &[]).with_code(0).json();
    assert_eq!(said["directories"], json!([deserted]));
    assert!(said["no_daemon"].as_str().unwrap().contains("/no/such/socket"), "{said}");
    assert!(!deserted.exists() && used.join("closed").exists() && temp.path().join("kept").exists());
    assert_eq!(gc(temp.path(), nowhere, &[]).with_code(0).json()["directories"], json!([]));
    // A job's containers cannot be removed where there is no daemon.
    assert!(gc(temp.path(), nowhere, &["--run", NO_JOB]).with_code(1).all().contains("/no/such/socket"));
    // What is neither an id nor a job is a slip.
    assert!(gc(temp.path(), nowhere, &["--run", "job"]).with_code(2).all().contains("`job` is no job"));
    drop(held);
    assert_eq!(gc(temp.path(), nowhere, &[]).with_code(0).json()["directories"], json!([used]));
}

#[test]
fn layers_of_tasks_that_are_gone_go() {
    let project = Project::new();
    for stage in [&["source", "pull", "--update"][..], &["plan"], &["materialize"], &["images", "build"]] {
        project.run(stage).with_code(0);
    }
    let layers = |said: &Value| said["layers"].as_u64().unwrap();
    let nowhere = "unix:///no/such/socket";
    let collect = || gc(project.root(), nowhere, &["--images"]).with_code(0).json();
    assert_eq!(layers(&collect()), 0, "all layers belong to tasks");

    let tasks = crate::project::children(&project.path("tasks"));
    fs::remove_dir_all(&tasks[0]).unwrap();
    let used = project.path(".seatrial/sandboxes/run-used");
    fs::create_dir_all(&used).unwrap();
    let held = File::create(used.join("lock")).unwrap();
    held.lock().unwrap();
    let said = collect();
    assert_eq!((&said["layers_in_use"], layers(&said)), (&json!(true), 0), "{said}");
    drop(held);
    assert!(layers(&collect()) > 0);
    assert_eq!(layers(&collect()), 0);
    // What is left is whole, and what is gone is made again.
    project.run(&["materialize"]).with_code(0);
    project.run(&["images", "build"]).with_code(0);
}

/// The id of no job.
const NO_JOB: &str = "00000000-0000-4000-8000-000000000000";

/// One request to a daemon; returns its status and what it says.
fn ask(daemon: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let mut stream = UnixStream::connect(daemon.trim_start_matches("unix://")).unwrap();
    let body = body.to_string();
    // At once: a daemon that has read enough to answer closes its end.
    let request = format!(
        "{method} {path} HTTP/1.0\r\nHost: docker\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

#[test]
fn deserted_containers_go_and_others_stay() {
    let Some(daemon) = docker() else { return };
    let temp = tempfile::tempdir().unwrap();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap().display().to_string();
    let namespace: String = namespace.chars().filter(char::is_ascii_digit).collect();
    let (dead, job) = (u32::MAX, format!("00000000-0000-4000-8000-{:012}", std::process::id()));
    let owner = |boot: &str, pid: u32| format!("{boot}/{namespace}/{pid}/1");
    let create = |labels: Value| {
        let image = "seatrial.test/base:1";
        let (status, made) = ask(
            &daemon,
            "POST",
            "/containers/create",
            &json!({ "Image": image, "Cmd": ["true"], "Labels": labels }),
        );
        assert_eq!(status, 201, "{made}");
        made["Id"].as_str().unwrap().to_owned()
    };
    let exists = |id: &str| ask(&daemon, "GET", &format!("/containers/{id}/json"), &Value::Null).0 == 200;
    let ours = |owner: String, job: &str| json!({ "dev.seatrial.owner": owner, "dev.seatrial.sandbox": "gc", "dev.seatrial.job": job });
    let deserted = create(ours(owner(boot.trim(), dead), "other"));
    let elsewhere = create(ours(owner("another-boot", dead), &job));
    let foreign = create(json!({ "made.by": "somebody" }));
    let forged = create(json!({ "dev.seatrial.sandbox": "gc" }));

    let said = gc(temp.path(), &daemon, &[]).with_code(0).json();
    let ids = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|entry| entry["id"].as_str().unwrap().to_owned()).collect()
    };
    assert!(ids(&said["containers"]).contains(&deserted), "{said}");
    assert!(ids(&said["kept"]).contains(&elsewhere), "{said}");
    assert!(!exists(&deserted));
    assert!(exists(&elsewhere) && exists(&foreign) && exists(&forged));

    let said = gc(temp.path(), &daemon, &["--run", &job]).with_code(0).json();
    assert_eq!(ids(&said["containers"]), std::slice::from_ref(&elsewhere));
    assert!(!exists(&elsewhere) && exists(&foreign) && exists(&forged));
    for id in [foreign, forged] {
        ask(&daemon, "DELETE", &format!("/containers/{id}?force=1&v=1"), &Value::Null);
    }
}
