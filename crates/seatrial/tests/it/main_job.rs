//! From a new project to a frozen set: what comes out, that it stays, and that nothing else gets in.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use walkdir::WalkDir;

use crate::project::{DOCUMENTS, Project, TRIALS, children, ended, sandboxes_run, tree};

#[test]
fn a_new_project_becomes_a_frozen_set() {
    if !sandboxes_run() {
        return;
    }
    let project = Project::new();
    let up = project.up();
    let mut documents: Vec<_> = DOCUMENTS.iter().map(|name| project.json(name)).collect();
    for (name, document) in DOCUMENTS.iter().zip(&documents) {
        assert!(document["schema"].as_str().is_some_and(|schema| schema.starts_with("seatrial.")), "{name}");
    }

    // What goes in and what is taken away adds up to what comes out.
    let steps = up["steps"].as_array().unwrap();
    let numbers: Vec<i64> = steps.iter().map(|step| step["tasks"].as_i64().unwrap()).collect();
    let (out, rest) = numbers.split_last().unwrap();
    assert_eq!((numbers[0], *out), (3, 2));
    assert_eq!(rest.iter().sum::<i64>(), *out, "{steps:?}");

    // Status says the same as the documents.
    let status = project.run(&["status", "--json"]).with_code(0).json();
    assert_eq!(sums(&status), [3, 3, 0, 0, 0]);
    let selection = documents.pop().unwrap();
    let chosen = selection["tasks"].as_array().unwrap();
    assert_eq!(chosen.len(), 2);
    for task in chosen {
        let life = project.run(&["status", "--json", task["task_id"].as_str().unwrap()]).with_code(0).json();
        assert_eq!(life["status"]["status"], "accepted");
        assert_eq!(life["split"], task["split"]);
        let outcomes = |kind: &str| -> Vec<Value> {
            let observations = life["observations"].as_array().unwrap().iter();
            observations.filter(|seen| seen["kind"] == kind).map(|seen| seen["outcome"].clone()).collect()
        };
        assert_eq!(outcomes("nop"), [(); 3].map(|()| serde_json::json!({"reward": 0.0})));
        assert_eq!(outcomes("oracle"), [(); 3].map(|()| serde_json::json!({"reward": 1.0})));
        for seen in life["observations"].as_array().unwrap() {
            assert!(project.path(seen["trial"].as_str().unwrap()).join("result.json").is_file(), "{seen}");
        }
    }

    // As many trials as the proof takes, each with its files, and no other.
    let trials = project.trials();
    assert_eq!(trials.len(), TRIALS);
    for trial in &trials {
        // One cheat ends the verifier, which has nothing to report then.
        let result = std::fs::read_to_string(trial.join("result.json")).unwrap();
        let ended = result.contains("cheat:killed-verifier");
        assert_ne!(trial.join("verifier/report.json").is_file(), ended, "{}", trial.display());
    }
    assert_eq!(children(&project.path(".seatrial/sandboxes")), Vec::<std::path::PathBuf>::new());

    // The frozen set and its export hold what their sums say, by the words of another program.
    for directory in [project.frozen(), project.path("exports/my-set-2-v1/harbor")] {
        let sums = Command::new("sha256sum")
            .args(["--check", "--strict", "--quiet", "SHA256SUMS"])
            .current_dir(&directory)
            .output()
            .unwrap();
        assert!(sums.status.success(), "{sums:?}");
    }
    project.run(&["freeze", "--check"]).with_code(0);

    // A second time nothing runs and nothing changes.
    let before = project.artifacts();
    let again = project.up();
    assert_eq!(again["semantic_digest"], up["semantic_digest"]);
    assert_eq!(project.trials(), trials);
    assert_eq!(project.artifacts(), before);
    let proved = project.run(&["prove", "--json"]).with_code(0).json();
    assert_eq!((&proved["tasks"], &proved["accepted"]), (&3.into(), &3.into()));
    assert_eq!(project.trials(), trials);

    workspaces_hold_one_commit_and_no_answers(&project);
}

/// Total, accepted, rejected, error and pending over all pools.
fn sums(status: &Value) -> [u64; 5] {
    let mut sums = [0; 5];
    for pool in status["pools"].as_object().unwrap().values() {
        let count = |value: &Value| match value {
            Value::Object(reasons) => reasons.values().map(|n| n.as_u64().unwrap()).sum(),
            number => number.as_u64().unwrap(),
        };
        for (sum, key) in sums.iter_mut().zip(["total", "accepted", "rejected", "error", "pending"]) {
            *sum += count(&pool[key]);
        }
    }
    sums
}

/// Unpacks every workspace with the system's own tools and looks for anything but one clean commit.
fn workspaces_hold_one_commit_and_no_answers(project: &Project) {
    let tasks = children(&project.path("tasks"));
    assert_eq!(tasks.len(), 3);
    for task in tasks {
        let temp = tempfile::tempdir().unwrap();
        let unpacked = Command::new("tar")
            .arg("-xf")
            .arg(task.join("environment/workspace.tar"))
            .current_dir(temp.path())
            .output()
            .unwrap();
        assert!(unpacked.status.success() && unpacked.stderr.is_empty(), "{unpacked:?}");
        assert_eq!(git(temp.path(), &["fsck", "--full", "--strict", "--lost-found", "--no-progress"]), "");
        assert_eq!(git(temp.path(), &["status", "--porcelain"]), "");
        assert_eq!(git(temp.path(), &["rev-list", "--all", "--count"]), "1\n");
        assert_eq!(git(temp.path(), &["for-each-ref", "--format=%(refname)"]), "refs/heads/main\n");
        assert_eq!(git(temp.path(), &["reflog", "--all"]), "");
        for trace in ["logs", "ORIG_HEAD", "FETCH_HEAD", "packed-refs", "lost-found/other"] {
            assert!(!temp.path().join(".git").join(trace).exists(), ".git/{trace}");
        }
        // Every object belongs to the commit: nothing is merely hidden.
        let all = git(temp.path(), &["cat-file", "--batch-all-objects", "--batch-check=%(objectname)"]);
        let reachable = git(temp.path(), &["rev-list", "--all", "--objects", "--no-object-names"]);
        let sorted = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
        assert_eq!(sorted(&all), sorted(&reachable));

        // Tests that tell the fix from the bug are neither in the tree nor in any object.
        let config: Value =
            serde_json::from_slice(&std::fs::read(task.join("tests/config.json")).unwrap()).unwrap();
        let hidden = config["fail_to_pass"].as_array().unwrap();
        assert!(!hidden.is_empty());
        let names = git(temp.path(), &["ls-tree", "-r", "--name-only", "HEAD"]);
        for test in hidden {
            let (file, function) = test.as_str().unwrap().split_once("::").unwrap();
            assert!(!names.lines().any(|name| name == file), "{file} in {names}");
            for entry in WalkDir::new(temp.path()) {
                let entry = entry.unwrap();
                if entry.file_type().is_file() {
                    let bytes = std::fs::read(entry.path()).unwrap();
                    assert!(
                        !String::from_utf8_lossy(&bytes).contains(function),
                        "{}",
                        entry.path().display()
                    );
                }
            }
        }
        // Nor is the repaired file: the object that the fix would make is not there yet.
        let before = git(temp.path(), &["write-tree"]);
        git(temp.path(), &["apply", task.join("solution/fix.patch").to_str().unwrap()]);
        let changed = git(temp.path(), &["diff", "--name-only"]);
        for file in changed.lines() {
            let repaired = git(temp.path(), &["hash-object", file]);
            assert!(!all.lines().any(|object| object == repaired.trim()), "{file} is there as {repaired}");
        }
        assert!(!changed.is_empty() && !before.is_empty());
    }
}

/// Runs the system's git in `directory` and returns everything that it says.
fn git(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "safe.directory=*"])
        .args(arguments)
        .current_dir(directory)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "git {arguments:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn what_is_refused_is_named_and_the_sums_close() {
    if !sandboxes_run() {
        return;
    }
    let project = Project::quick();
    let mut rows = project.rows("instances.jsonl");
    // The first one's tests pass with the bug already; what the third one's fix has to bring about never happens.
    let name = |row: &Value| row["instance_id"].as_str().unwrap().to_owned();
    let (passes, good, never) = (name(&rows[0]), name(&rows[1]), name(&rows[2]));
    rows[0]["FAIL_TO_PASS"] = serde_json::json!([rows[0]["PASS_TO_PASS"].as_array_mut().unwrap().remove(0)]);
    rows[2]["FAIL_TO_PASS"] = serde_json::json!(["tests/test_mean.py::test_that_nobody_wrote"]);
    project.write_rows("instances.jsonl", &rows);

    let up = project.up();
    let numbers: Vec<i64> =
        up["steps"].as_array().unwrap().iter().map(|step| step["tasks"].as_i64().unwrap()).collect();
    let (out, rest) = numbers.split_last().unwrap();
    assert_eq!((rest.iter().sum::<i64>(), *out), (1, 1), "{up}");
    let status = project.run(&["status", "--json"]).with_code(0).json();
    assert_eq!(sums(&status), [3, 1, 2, 0, 0], "{status}");
    assert_eq!(status["tasks"][&good]["status"], "accepted");
    for (task, reason) in [(passes, "nop_passed"), (never, "oracle_failed")] {
        assert_eq!(status["tasks"][&task]["reason"], reason, "{status}");
        assert!(up["steps"].to_string().contains(&format!("rejected: {reason}")), "{up}");
        assert!(!children(&project.frozen().join("tasks")).iter().any(|path| path.ends_with(&task)));
    }
    let selection = project.json("selection.json");
    assert!(!selection["shortages"].as_array().unwrap().is_empty(), "{selection}");
    let proved = project.run(&["prove", "--json"]).with_code(1).json();
    assert_eq!((&proved["accepted"], &proved["rejected"]), (&1.into(), &2.into()));
    // Asked for the full size, the same set is refused and nothing else is touched.
    let frozen = tree(&project.path("frozen"));
    project.edit("seatrial.toml", "allow_shortfall = true", "allow_shortfall = false");
    let refused = project.run(&["up", "--json"]).with_code(3).json();
    assert_eq!(refused["exit_code"], 3);
    assert_eq!(project.json("selection.json"), selection);
    assert_eq!(tree(&project.path("frozen")), frozen);
}

#[test]
fn the_same_inputs_give_the_same_bytes() {
    if !sandboxes_run() {
        return;
    }
    let (one, two) = (Project::quick(), Project::quick());
    let up =
        ended(one.command(&["up", "--json", "-j", "1"]).env("LANG", "C").env("LC_ALL", "C").env("TZ", "UTC"));
    let up = up.with_code(0).json();
    let mut elsewhere = Command::new("sh");
    elsewhere
        .args([
            "-c",
            "umask 077 && exec \"$0\" \"$@\"",
            env!("CARGO_BIN_EXE_seatrial"),
            "up",
            "--json",
            "-j",
            "4",
        ])
        .current_dir(two.root())
        .envs([("LANG", "tr_TR.UTF-8"), ("LC_ALL", "tr_TR.UTF-8"), ("TZ", "Asia/Kathmandu")]);
    let again = ended(&mut elsewhere).with_code(0).json();
    assert_eq!(up["semantic_digest"], again["semantic_digest"]);
    assert_eq!(one.artifacts(), two.artifacts());
    assert_eq!(modes(&one.frozen()), modes(&two.frozen()));
    assert_eq!(modes(&one.path("tasks")), modes(&two.path("tasks")));
}

/// The mode of everything below `root`, by path.
fn modes(root: &Path) -> BTreeMap<String, u32> {
    use std::os::unix::fs::MetadataExt;
    WalkDir::new(root)
        .min_depth(1)
        .into_iter()
        .map(|entry| {
            let entry = entry.unwrap();
            let path = entry.path().strip_prefix(root).unwrap().display().to_string();
            (path, entry.metadata().unwrap().mode() & 0o777)
        })
        .collect()
}

#[test]
fn whatever_is_deleted_comes_back() {
    if !sandboxes_run() {
        return;
    }
    let project = Project::quick();
    let digest = project.up()["semantic_digest"].clone();
    let (artifacts, trials) = (project.artifacts(), project.trials());
    let task = children(&project.path("tasks")).swap_remove(0);
    let task = task.strip_prefix(project.root()).unwrap().to_str().unwrap();
    let deleted = DOCUMENTS.iter().copied().chain([task, "tasks", "frozen", "exports", ".seatrial"]);
    for name in deleted {
        let path = project.path(name);
        if path.is_dir() {
            std::fs::remove_dir_all(&path).unwrap();
        } else {
            std::fs::remove_file(&path).unwrap();
        }
        assert_eq!(project.up()["semantic_digest"], digest, "without {name}");
        assert_eq!(project.artifacts(), artifacts, "without {name}");
        assert_eq!(project.trials(), trials, "trials ran without {name}");
    }
    // Without the ledger everything is proved once more, with the same result.
    std::fs::remove_file(project.path("ledger.db")).unwrap();
    assert_eq!(project.up()["semantic_digest"], digest);
    assert_eq!(project.artifacts(), artifacts);
    assert_eq!(project.trials().len(), 2 * trials.len());
}

#[test]
fn a_frozen_set_that_was_touched_is_found_out() {
    if !sandboxes_run() {
        return;
    }
    let project = Project::quick();
    project.up();
    let frozen = project.frozen();
    let files = tree(&frozen);
    assert!(files.len() > 15, "{files:?}");
    let check = || project.run(&["freeze", "--check", "--json"]);
    let problems = || check().with_code(5).json()["problems"].clone();
    let names = |problems: &Value, file: &str| {
        problems.as_array().unwrap().iter().any(|problem| problem["file"] == file)
    };
    for file in files.keys() {
        let path = frozen.join(file);
        let bytes = std::fs::read(&path).unwrap();
        let mut changed = bytes.clone();
        let middle = changed.len() / 2;
        changed[middle] ^= 1;
        std::fs::write(&path, changed).unwrap();
        let found = problems();
        // A sums file that says something else blames the file that it speaks of.
        assert!(names(&found, file) || file == "SHA256SUMS", "{file}: {found}");
        std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        problems();
        std::fs::remove_file(&path).unwrap();
        let found = problems();
        assert!(names(&found, file), "{file} removed: {found}");
        // `fs::write` would forget the mode of scripts, which the manifest knows.
        std::fs::write(&path, bytes).unwrap();
        if Path::new(file).extension().is_some_and(|extension| extension == "sh") {
            let found = problems();
            assert!(found.to_string().contains(file), "{file} not executable: {found}");
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        }
    }
    check().with_code(0);
    for added in ["extra", "tasks/extra", "tasks/extra.d/x"] {
        std::fs::create_dir_all(frozen.join(added).parent().unwrap()).unwrap();
        std::fs::write(frozen.join(added), "x").unwrap();
        let found = problems();
        assert!(names(&found, added), "{added}: {found}");
        std::fs::remove_file(frozen.join(added)).unwrap();
    }
    std::fs::remove_dir(frozen.join("tasks/extra.d")).unwrap();
    let text = project.run(&["freeze", "--check", frozen.to_str().unwrap()]).with_code(0);
    assert!(text.stdout.contains("files verified"), "{text:?}");

    // `up` neither repairs nor hands on a set that was touched.
    let task = children(&frozen.join("tasks")).swap_remove(0);
    std::fs::write(task.join("instruction.md"), "Something else.\n").unwrap();
    let touched = tree(&frozen);
    for command in ["up", "freeze", "export"] {
        let refused = project.run(&[command]).with_code(5);
        assert!(refused.stderr.contains("instruction.md"), "{command}: {refused:?}");
    }
    assert_eq!(tree(&frozen), touched);
}

#[test]
fn a_frozen_set_is_never_replaced_by_another() {
    if !sandboxes_run() {
        return;
    }
    let project = Project::quick();
    let digest = project.up()["semantic_digest"].clone();
    let frozen = tree(&project.frozen());
    // As many tasks under the same name, but all of them to train on.
    project.edit(
        "seatrial.toml",
        "train = 1, validation = 0, test = 1",
        "train = 2, validation = 0, test = 0",
    );
    let refused = project.run(&["up"]).with_code(5);
    assert!(refused.stderr.contains("my-set-2-v1"), "{refused:?}");
    assert_eq!(tree(&project.frozen()), frozen);
    // Under a new version both stand side by side.
    project.edit("seatrial.toml", "version = \"v1\"", "version = \"v2\"");
    assert_ne!(project.up()["semantic_digest"], digest);
    let sets = children(&project.path("frozen")).into_iter().filter(|path| path.is_dir());
    assert_eq!(sets.count(), 2);
    assert_eq!(tree(&project.path("frozen/my-set-2-v1")), frozen);
}

#[test]
fn stages_refuse_stale_inputs_and_name_the_stage_to_run() {
    if !sandboxes_run() {
        return;
    }
    let project = Project::quick();
    project.up();
    let recipe = project.read("seatrial.toml");
    let task = children(&project.path("tasks")).swap_remove(0);
    let before = project.artifacts();
    let refused = |stages: &[&str], remedy: &str, why: &str| {
        for stage in stages {
            let said = project.run(&[stage]).with_code(5).stderr;
            assert!(said.contains(&format!("`seatrial {remedy}`")), "{stage} after {why}: {said}");
        }
    };

    project.edit("seatrial.toml", "reserve = \"rest\"", "reserve = 0");
    refused(&["materialize", "check", "prove", "resolve"], "plan", "a change of a pool");
    refused(&["freeze"], "resolve", "a change of a pool");
    std::fs::write(project.path("seatrial.toml"), &recipe).unwrap();

    project.edit("seatrial.toml", "timeout_sec = 60", "timeout_sec = 70");
    refused(&["check", "prove", "resolve", "freeze"], "materialize", "a change of a limit");
    std::fs::write(project.path("seatrial.toml"), &recipe).unwrap();

    project.edit("seatrial.toml", "confirm_runs = 10", "confirm_runs = 9");
    refused(&["resolve", "freeze"], "prove", "a change of the proofs");
    std::fs::write(project.path("seatrial.toml"), &recipe).unwrap();

    project.edit("seatrial.toml", "repo_cap = 2", "repo_cap = 1");
    refused(&["freeze", "export"], "resolve", "a change of a cap");
    std::fs::write(project.path("seatrial.toml"), &recipe).unwrap();

    // A task directory is what was checked and proved, or it is not used.
    let instruction = task.join("instruction.md");
    let text = std::fs::read(&instruction).unwrap();
    std::fs::write(&instruction, "Do nothing.\n").unwrap();
    refused(&["check", "prove", "resolve", "freeze"], "materialize", "a changed task directory");
    assert!(project.run(&["prove"]).stderr.contains(task.file_name().unwrap().to_str().unwrap()));
    std::fs::write(&instruction, text).unwrap();
    std::fs::write(task.join("tests/extra.py"), "").unwrap();
    refused(&["prove", "freeze"], "materialize", "an added file");

    // `up` knows by itself what to do again.
    project.up();
    assert_eq!(project.artifacts(), before);
    assert!(!task.join("tests/extra.py").exists());
    assert_eq!(project.trials().len(), 6);
}

#[test]
fn an_edited_verdict_is_held_against_the_ledger() {
    if !sandboxes_run() {
        return;
    }
    let project = Project::quick();
    let row = &mut project.rows("instances.jsonl")[0].clone();
    row["FAIL_TO_PASS"] = serde_json::json!(["tests/test_slugs.py::test_that_is_not_there"]);
    let mut rows = project.rows("instances.jsonl");
    rows[0] = row.clone();
    project.write_rows("instances.jsonl", &rows);
    project.up();
    let proofs = String::from_utf8(project.read("proofs.json")).unwrap();
    let start = proofs.find("{\"detail\"").expect("a rejected task");
    let end = start + proofs[start..].find('}').unwrap() + 1;
    let edited = format!("{}{{\"status\":\"accepted\"}}{}", &proofs[..start], &proofs[end..]);
    std::fs::write(project.path("proofs.json"), edited).unwrap();
    let refused = project.run(&["resolve"]).with_code(5);
    assert!(
        refused.stderr.contains("than the ledger") && refused.stderr.contains("seatrial prove"),
        "{refused:?}"
    );
    // Numbers that rest on it are not shown as valid; the task is named.
    let task = row["instance_id"].as_str().unwrap();
    let refused = project.run(&["status"]).with_code(5);
    assert!(refused.stderr.contains(task) && refused.stdout.is_empty(), "{refused:?}");
    let life = project.run(&["status", task]).with_code(0);
    assert!(life.stdout.contains("ledger       says something else"), "{life:?}");
    // The ledger itself is wanted, too.
    std::fs::rename(project.path("ledger.db"), project.path("elsewhere.db")).unwrap();
    let refused = project.run(&["status"]).with_code(5);
    assert!(refused.stderr.contains("ledger.db is missing"), "{refused:?}");
    std::fs::rename(project.path("elsewhere.db"), project.path("ledger.db")).unwrap();
    // Verdicts by other settings are none by these.
    project.edit("seatrial.toml", "confirm_runs = 10", "confirm_runs = 9");
    let status = project.run(&["status", "--json"]).with_code(0);
    assert!(status.stderr.contains("made by other settings"), "{status:?}");
    assert_eq!(status.json()["total"]["pending"], status.json()["total"]["total"]);
}
