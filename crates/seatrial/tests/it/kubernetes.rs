//! Trials on a real cluster.

use std::collections::BTreeMap;
use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::images::Registry;
use crate::project::{Ended, Project, TRIALS, binary, ended, sandboxes_run};
use crate::tasks::{Shelf, Task};

/// Names the kubeconfig of the cluster for tests.
const CLUSTER: &str = "SEATRIAL_TEST_KUBERNETES";

/// Where nodes ask for every image first.
const NODES_ASK: &str = "10.78.0.254:5000";

/// A recipe that says how the cluster is used; nothing else of it is looked at here.
const RECIPE: &str = r#"[dataset]
name = "cluster"
version = "v1"

[sources.candidates]
kind = "file"
as = "instances"
path = "candidates.jsonl"

[[pool]]
stage = "all"
members = "candidates"
target = 1
cap = 1

[materialize]
workspace = "git"
base = "seatrial.local/host"
from = "mirrors"

[resolve]
repo_cap = 1
split = { train = 1 }

[kubernetes]
accept_open_network = true
"#;

/// Where the cluster lies; says what is skipped when there is none.
fn cluster() -> Option<PathBuf> {
    let Some(kubeconfig) = std::env::var_os(CLUSTER).filter(|path| !path.is_empty()) else {
        eprintln!("skipped: trials on a cluster: {CLUSTER} names no kubeconfig (make test-kubernetes)");
        return None;
    };
    Some(Path::new(&kubeconfig).parent().unwrap().to_owned())
}

fn seatrial(root: &Path, cluster: &Path, arguments: &[&str]) -> Ended {
    ended(binary().arg("-C").arg(root).env("KUBECONFIG", cluster.join("runner.kubeconfig")).args(arguments))
}

/// A task in the cluster's image, which does not come from a build.
fn placed(task: Task, image: &str) -> Task {
    let settings = format!("{}docker_image = \"{image}\"\n", task.settings);
    task.settings(&settings)
}

/// What trials came to, by task and agent.
fn outcomes(ended: &Ended) -> Vec<(String, String, Value)> {
    let lines = ended.json_lines();
    let trials = lines.iter().filter(|line| line["outcome"].is_object());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut outcomes: Vec<_> = trials
        .map(|line| {
            let mut outcome = line["outcome"].clone();
            // Words are the engine's, reasons are the same.
            if let Some(failed) = outcome.get_mut("failed").and_then(Value::as_object_mut) {
                failed.remove("detail");
            }
            (text(&line["task"]), text(&line["agent"]), outcome)
        })
        .collect();
    outcomes.sort_by_key(|(task, agent, _)| (task.clone(), agent.clone()));
    outcomes
}

#[test]
fn trials_on_a_cluster_end_as_they_do_in_the_native_sandbox() {
    let Some(cluster) = cluster() else { return };
    let image = std::fs::read_to_string(cluster.join("base.reference")).unwrap();
    let image = image.trim();
    let tasks = || {
        let fix = "mkdir -p /app && echo fixed > /app/state\n";
        [
            Task::new("good").solution(fix),
            Task::new("wrong").solution("exit 7\n"),
            Task::new("silent").verifier("exit 0\n"),
            Task::new("hangs")
                .verifier("sleep 4242.75 & sleep 4242.75\n")
                .settings("[verifier]\ntimeout_sec = 2\n[environment]\nbuild_timeout_sec = 60\n"),
        ]
    };
    let there = Shelf::new(tasks().map(|task| placed(task, image)));
    std::fs::write(there.root().join("seatrial.toml"), RECIPE).unwrap();
    let arguments =
        ["run", "--json", "-j", "2", "-p", "tasks", "-a", "oracle", "-a", "nop", "--max-retries", "0"];
    let on_cluster = seatrial(there.root(), &cluster, &[&arguments[..], &["-e", "kubernetes"]].concat());
    let here = Shelf::new(tasks());
    let native = seatrial(here.root(), &cluster, &arguments);
    assert_eq!(outcomes(&on_cluster).len(), 8, "{}", on_cluster.all());
    assert_eq!(outcomes(&on_cluster), outcomes(&native), "{}", on_cluster.all());
    assert_eq!(on_cluster.code, native.code);

    // A task without an image that nodes can pull is refused by name.
    let unplaced = Shelf::new([Task::new("unplaced")]);
    std::fs::write(unplaced.root().join("seatrial.toml"), RECIPE).unwrap();
    let refused = seatrial(unplaced.root(), &cluster, &["run", "-p", "tasks", "-e", "kubernetes"]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.all().contains("images mirror"), "{}", refused.all());

    // Nothing of either run is left, and the sweep says so.
    let swept = seatrial(there.root(), &cluster, &["gc", "--engine", "kubernetes", "--json"]);
    let swept: Value = serde_json::from_str(&swept.stdout).unwrap();
    assert_eq!(swept["namespace"], "seatrial");
    let unknown = seatrial(there.root(), &cluster, &["gc", "--engine", "kubernetes", "--run", "no-such-run"]);
    assert_eq!(unknown.code, Some(2), "{}", unknown.all());
}

/// The verdict of every task, without what names trials and images, which are others.
fn verdicts(project: &Project) -> BTreeMap<String, Value> {
    let proofs = project.json("proofs.json");
    let tasks = proofs["tasks"].as_array().unwrap().iter();
    tasks.map(|task| (task["task_id"].as_str().unwrap().to_owned(), task["verdict"].clone())).collect()
}

/// What the administrator of the cluster sees of these kinds of objects, a name each.
fn objects(cluster: &Path, kinds: &str, more: &[&str]) -> Vec<String> {
    let mut command = Command::new("kubectl");
    command.arg("--kubeconfig").arg(cluster.join("kubeconfig"));
    let output = command.args(["get", kinds, "-n", "seatrial", "-o", "name"]).args(more).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Brings what nodes ask for to a registry that listens on loopback.
fn open_to_nodes(registry: &Registry) {
    let (listener, host) = (TcpListener::bind(NODES_ASK).unwrap(), registry.host.clone());
    std::thread::spawn(move || {
        for node in listener.incoming().map_while(Result::ok) {
            let Ok(registry) = TcpStream::connect(&host) else { continue };
            let ways = [(node.try_clone(), registry.try_clone()), (Ok(registry), Ok(node))];
            for (from, to) in ways {
                let (Ok(mut from), Ok(mut to)) = (from, to) else { continue };
                std::thread::spawn(move || {
                    let _ = io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Write);
                });
            }
        }
    });
}

#[test]
fn an_interrupted_run_leaves_nothing_on_the_cluster() {
    let Some(cluster) = cluster() else { return };
    let image = std::fs::read_to_string(cluster.join("base.reference")).unwrap();
    let task = placed(Task::new("interrupted").solution("sleep 4242.5\n"), image.trim());
    let shelf = Shelf::new([task]);
    std::fs::write(shelf.root().join("seatrial.toml"), RECIPE).unwrap();
    let mut command = binary();
    command.arg("-C").arg(shelf.root()).env("KUBECONFIG", cluster.join("runner.kubeconfig"));
    command.args(["run", "-p", "tasks", "-a", "oracle", "-e", "kubernetes"]);
    let mut program = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let selector = ["-l", "dev.seatrial/task=interrupted", "--field-selector", "status.phase=Running"];
    let end = Instant::now() + Duration::from_secs(120);
    while objects(&cluster, "pods", &selector).is_empty() {
        assert!(Instant::now() < end && program.try_wait().unwrap().is_none(), "its pod does not run");
        std::thread::sleep(Duration::from_millis(200));
    }
    // Once lets trials end, which this one does not; twice ends them.
    for _ in 0..2 {
        let killed = Command::new("kill").args(["-s", "INT", &program.id().to_string()]).status().unwrap();
        assert!(killed.success());
        std::thread::sleep(Duration::from_secs(1));
    }
    assert_eq!(program.wait().unwrap().code(), Some(130));
    let end = Instant::now() + Duration::from_secs(60);
    while !objects(&cluster, "pods", &selector[..2]).is_empty() {
        assert!(Instant::now() < end, "its pod stays");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn forty_tasks_get_the_rewards_that_they_get_natively() {
    let Some(cluster) = cluster() else { return };
    let image = std::fs::read_to_string(cluster.join("base.reference")).unwrap();
    // Every fifth is wrong, so that equal means something.
    let task = |number: u32| {
        let task = Task::new(&format!("task-{number:02}"));
        if number.is_multiple_of(5) {
            task.solution("true\n")
        } else {
            task.solution("mkdir -p /app && echo fixed > /app/state\n")
        }
    };
    let there = Shelf::new((0..40).map(|number| placed(task(number), image.trim())));
    std::fs::write(there.root().join("seatrial.toml"), RECIPE).unwrap();
    let arguments = ["run", "--json", "-p", "tasks", "-a", "oracle", "--max-retries", "0"];
    let on_cluster = [&arguments[..], &["-e", "kubernetes", "-j", "16"]].concat();
    let on_cluster = seatrial(there.root(), &cluster, &on_cluster);
    let here = Shelf::new((0..40).map(task));
    let native = seatrial(here.root(), &cluster, &[&arguments[..], &["-j", "2"]].concat());
    assert_eq!(outcomes(&on_cluster).len(), 40, "{}", on_cluster.all());
    assert_eq!(outcomes(&on_cluster), outcomes(&native));
}

#[test]
fn a_recipe_proves_on_a_cluster_what_it_proves_natively() {
    let Some(cluster) = cluster() else { return };
    if !sandboxes_run() {
        return;
    }
    let Some(registry) = Registry::start() else { return };
    open_to_nodes(&registry);
    let base =
        Command::new("tar").arg("-xOf").arg(cluster.join("base.tar")).arg("layer.tar").output().unwrap();
    assert!(base.status.success(), "{}", String::from_utf8_lossy(&base.stderr));
    registry.push_layers("team/base", "1", "the base", &[base.stdout]);

    let settings = format!(
        "[images]\nregistry = \"{}\"\nnamespace = \"tasks\"\nshards = 2\ntag_limit = 100\ncreate_repositories = true\n\n\
         [kubernetes]\naccept_open_network = true\n\n[prove]",
        registry.host
    );
    let proved = ["native", "kubernetes"].map(|engine| {
        let project = Project::new();
        let base = format!("base = \"{}/team/base:1\"", registry.host);
        project.edit("seatrial.toml", "base = \"seatrial.local/host\"", &base);
        project.edit("seatrial.toml", "engine = \"native\"", &format!("engine = \"{engine}\""));
        project.edit("seatrial.toml", "[prove]", &settings);
        for stage in [&["source", "pull"][..], &["plan"], &["materialize"], &["check"]] {
            project.run(stage).with_code(0);
        }
        for step in ["build", "plan", "mirror", "verify"] {
            project.run(&["images", step]).with_code(0);
        }
        let mut prove = project.command(&["prove", "-j", "4"]);
        let ended = ended(prove.env("KUBECONFIG", cluster.join("runner.kubeconfig")));
        assert_eq!(ended.code, Some(0), "{engine}: {}", ended.all());
        assert_eq!(project.trials().len(), TRIALS, "{engine}: one task answers for its like");
        verdicts(&project)
    });
    let [native, on_cluster] = proved;
    assert_eq!(native.len(), 3);
    assert_eq!(native, on_cluster);
}
