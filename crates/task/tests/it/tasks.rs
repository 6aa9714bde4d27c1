//! Whole tasks made from real instances.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use record::{Instance, Profile};
use task::materialize::{
    BaseTree, MaterializeInput, RefusalReason, Settings, SurfaceArchive, TaskFile, TaskFiles, Verifier,
    materialize,
};
use task::tree::{Entry, Tree, TreeLimits};
use task::{TaskDir, digest_task, tree_digest_of, write_task};

/// A verifier that owns what pytest takes for tests and records which archive it was given.
struct Pytest;

impl Verifier for Pytest {
    fn owns(&self, path: &str) -> bool {
        let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
        folders.split('/').any(|folder| folder == "tests" || folder == "test")
            || name.strip_suffix(".py").is_some_and(|stem| stem.starts_with("test_"))
            || matches!(name, "conftest.py" | "pytest.ini" | "setup.cfg" | "tox.ini" | "pyproject.toml")
    }

    fn file_of<'i>(&self, id: &'i str) -> Option<&'i str> {
        id.split_once("::").map(|(file, _)| file)
    }

    fn defines(&self, id: &str, _path: &str, text: &str) -> bool {
        text.contains(&format!("def {id}("))
    }

    fn files(&self, surface: &SurfaceArchive<'_>) -> Result<Vec<TaskFile>, String> {
        let script = format!("#!/bin/sh\nsha256sum /tests/surface.tar | grep -q {}\n", surface.digest);
        Ok(vec![TaskFile { path: "test.sh".into(), mode: 0o755, content: script.into_bytes() }])
    }
}

fn settings() -> Settings {
    Settings {
        base_image: "example.invalid/python:3.11".into(),
        agent_timeout_sec: Some(3000),
        verifier_timeout_sec: 180,
        cpus: Some(1),
        memory_mb: Some(2048),
        ..Settings::default()
    }
}

fn content<'a>(task: &'a TaskFiles, path: &str) -> &'a [u8] {
    &task.files.iter().find(|file| file.path == path).unwrap().content
}

/// Unpacks the workspace of a task, applies its fix with git and returns the tree before and after.
fn solve(task: &TaskFiles) -> (Tree, Tree) {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("testbed");
    tar::Archive::new(content(task, "environment/workspace.tar")).unpack(&root).unwrap();
    let before = Tree::from_directory(&root, TreeLimits::default()).unwrap();
    let patch = directory.path().join("fix.patch");
    std::fs::write(&patch, content(task, "solution/fix.patch")).unwrap();
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "safe.directory=*", "-c", "core.quotepath=off"]).args(arguments).current_dir(&root);
        let output = git.env("HOME", directory.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert_eq!(git(&["rev-parse", "HEAD"]).trim(), task.commit);
    let reachable = git(&["rev-list", "--all", "--objects"]);
    for hidden in &task.hidden_tests {
        assert!(!reachable.contains(hidden.as_str()), "{hidden} is in the history");
    }
    git(&["apply", "--whitespace=nowarn", "--", patch.to_str().unwrap()]);
    (before, Tree::from_directory(&root, TreeLimits::default()).unwrap())
}

struct Corpus {
    root: PathBuf,
    profiles: BTreeMap<String, Profile>,
    instances: Vec<Instance>,
    trees: BTreeMap<String, Tree>,
}

impl Corpus {
    fn open() -> Option<Self> {
        let root = corpus::find("data/minismith")?;
        let profiles: Vec<Profile> =
            serde_json::from_slice(&std::fs::read(root.join("repositories.json")).unwrap()).unwrap();
        let text = std::fs::read_to_string(root.join("instances.jsonl")).unwrap();
        Some(Self {
            profiles: profiles.into_iter().map(|profile| (profile.repo.clone(), profile)).collect(),
            instances: text.lines().map(|line| serde_json::from_str(line).unwrap()).collect(),
            trees: BTreeMap::new(),
            root,
        })
    }

    fn tree(&mut self, repo: &str) -> Tree {
        let sdist = self.root.join("sdist").join(self.profiles[repo].sdist.as_ref().unwrap());
        let read = || Tree::from_sdist(&sdist, TreeLimits::default()).unwrap();
        self.trees.entry(repo.to_owned()).or_insert_with(read).clone()
    }
}

#[test]
fn real_instances_become_tasks_that_their_fix_solves() {
    let Some(mut corpus) = Corpus::open() else { return };
    let mut refused: BTreeMap<&str, u32> = BTreeMap::new();
    let (mut made, mut hidden, mut solved) = (0, 0, BTreeSet::new());
    let output = tempfile::tempdir().unwrap();
    for instance in std::mem::take(&mut corpus.instances) {
        let clean = corpus.tree(&instance.repo);
        let profile = &corpus.profiles[&instance.repo];
        let settings = settings();
        let input = MaterializeInput {
            instance: &instance,
            profile,
            clean: &clean,
            settings: &settings,
            verifier: &Pytest,
        };
        // One of each project is looked at closely; the others only have to be made.
        let close = solved.insert(instance.repo.clone());
        let task = match materialize(&input) {
            Ok(task) => task,
            Err(refusal) => {
                eprintln!("{refusal}");
                *refused.entry(refusal.reason.name()).or_default() += 1;
                continue;
            }
        };
        made += 1;
        hidden += task.hidden_tests.len();
        assert!(task.missing_tests.is_empty(), "{}: {:?}", instance.instance_id, task.missing_tests);
        if !close {
            continue;
        }
        assert_eq!(materialize(&input).unwrap(), task, "the same input gives the same bytes");
        let (before, after) = solve(&task);
        let mut expected = clean.clone();
        for path in &task.hidden_tests {
            expected.remove(path.as_bytes());
        }
        assert_ne!(before, expected, "{}", instance.instance_id);
        assert_eq!(after, expected, "{}", instance.instance_id);

        let directory = output.path().join(instance.instance_id.as_str());
        write_task(&directory, &task).unwrap();
        let opened = TaskDir::open(&directory).unwrap();
        assert_eq!(opened.problems(), []);
        assert!(opened.has_solution());
        assert_eq!(opened.config().environment.memory_mb, Some(2048));
        assert_eq!(opened.config().metadata["instance_id"].as_str(), Some(instance.instance_id.as_str()));
        let first = (digest_task(&directory).unwrap(), tree_digest_of(&directory.join("tests")).unwrap());
        write_task(&directory, &task).unwrap();
        assert_eq!(
            (digest_task(&directory).unwrap(), tree_digest_of(&directory.join("tests")).unwrap()),
            first
        );
    }
    eprintln!("{made} made, {hidden} test files hidden, refused: {refused:?}");
    assert_eq!(made + refused.values().sum::<u32>(), 142);
    assert!(made >= 140 && hidden > 142);
}

fn small() -> (Instance, Profile, Tree) {
    let row = serde_json::json!({
        "instance_id": "acme__calc.0123abcd.func_basic__abcdefgh",
        "patch": "--- a/calc.py\n+++ b/calc.py\n@@ -1,2 +1,2 @@\n def add(a, b):\n-    return a + b\n+    return a - b\n",
        "FAIL_TO_PASS": ["tests/test_calc.py::test_add", "calc.py::calc.add", "/testbed/tests/test_more.py::test_x"],
        "PASS_TO_PASS": [],
        "image_name": "example.invalid/calc",
        "repo": "swesmith/acme__calc.0123abcd",
        "problem_statement": "add(1, 2) is wrong"
    });
    let profile = serde_json::json!({
        "repo": "swesmith/acme__calc.0123abcd",
        "test_cmd": "python -m pytest",
        "env": {"PYTHONPATH": "src:."}
    });
    let mut clean = Tree::new();
    for (path, text) in [
        ("calc.py", "def add(a, b):\n    return a + b\n"),
        ("setup.cfg", "[tool:pytest]\n"),
        ("src/calc/testing.py", "helper = 1\n"),
        ("tests/test_calc.py", "def test_add(): ...\n"),
        ("tests/test_more.py", "def test_x(): ...\n"),
        ("tests/data/numbers.csv", "1,2\r\n"),
    ] {
        clean.insert(path, Entry::file(text.as_bytes())).unwrap();
    }
    (serde_json::from_value(row).unwrap(), serde_json::from_value(profile).unwrap(), clean)
}

fn make(
    instance: &Instance,
    profile: &Profile,
    clean: &Tree,
    settings: &Settings,
) -> Result<TaskFiles, RefusalReason> {
    materialize(&MaterializeInput { instance, profile, clean, settings, verifier: &Pytest })
        .map_err(|refusal| refusal.reason)
}

#[test]
fn a_task_holds_what_it_says() {
    let (instance, profile, clean) = small();
    let task = make(&instance, &profile, &clean, &settings()).unwrap();
    let paths: Vec<_> = task.files.iter().map(|file| (file.path.as_str(), file.mode)).collect();
    assert_eq!(
        paths,
        [
            ("environment/Dockerfile", 0o644),
            ("environment/workspace.tar", 0o644),
            ("instruction.md", 0o644),
            ("solution/fix.patch", 0o644),
            ("solution/solve.sh", 0o755),
            ("task.toml", 0o644),
            ("tests/surface.tar", 0o644),
            ("tests/test.sh", 0o755),
        ]
    );
    assert_eq!(content(&task, "instruction.md"), b"add(1, 2) is wrong\n");
    let (before, after) = solve(&task);
    let listed: Vec<_> =
        before.iter().map(|(path, _)| std::str::from_utf8(path).unwrap().to_owned()).collect();
    assert_eq!(listed, ["calc.py", "setup.cfg", "src/calc/testing.py", "tests/data/numbers.csv"]);
    assert_eq!(after.get(b"calc.py"), clean.get(b"calc.py"));
    let surface =
        Tree::from_tar(content(&task, "tests/surface.tar"), Path::new("surface.tar"), TreeLimits::default());
    let surface: Vec<_> =
        surface.unwrap().iter().map(|(path, _)| String::from_utf8(path.to_vec()).unwrap()).collect();
    assert_eq!(surface, ["setup.cfg", "tests/data/numbers.csv", "tests/test_calc.py", "tests/test_more.py"]);
    assert_eq!(task.surface_files.iter().collect::<Vec<_>>(), surface.iter().collect::<Vec<_>>());
    let fix = String::from_utf8(content(&task, "solution/fix.patch").to_vec()).unwrap();
    assert!(
        fix.starts_with("diff --git a/calc.py b/calc.py\n--- a/calc.py\n+++ b/calc.py\n@@ -1,2 +1,2 @@\n"),
        "{fix}"
    );
}

#[test]
fn the_oracle_script_changes_everything_or_nothing() {
    let (mut instance, profile, clean) = small();
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    let workdir = root.join("work");
    let settings = Settings { workdir: workdir.to_str().unwrap().to_owned(), ..settings() };
    instance.patch +=
        "--- a/src/calc/testing.py\n+++ b/src/calc/testing.py\n@@ -1 +1 @@\n-helper = 1\n+helper = 2\n";
    let task = make(&instance, &profile, &clean, &settings).unwrap();
    write_task(&root.join("task"), &task).unwrap();
    let run = || Command::new(root.join("task/solution/solve.sh")).env("HOME", &root).output().unwrap();
    let look = || Tree::from_directory(&workdir, TreeLimits::default()).unwrap();

    tar::Archive::new(content(&task, "environment/workspace.tar")).unpack(&workdir).unwrap();
    std::fs::write(workdir.join("src/calc/testing.py"), "helper = 3\n").unwrap();
    let before = look();
    assert!(!run().status.success());
    assert_eq!(look(), before, "a fix that fits in part is not applied in part");

    std::fs::write(workdir.join("src/calc/testing.py"), "helper = 2\n").unwrap();
    let output = run();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(look().get(b"calc.py"), clean.get(b"calc.py"));
    assert_eq!(look().get(b"src/calc/testing.py"), clean.get(b"src/calc/testing.py"));
}

#[test]
fn a_checkout_in_the_image_is_replaced() {
    let (instance, profile, clean) = small();
    let present = Settings { base_tree: BaseTree::Present, ..settings() };
    let task = make(&instance, &profile, &clean, &present).unwrap();
    let text = String::from_utf8(content(&task, "environment/Dockerfile").to_vec()).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], "FROM example.invalid/python:3.11");
    assert_eq!(
        lines[1],
        r#"RUN ["rm","-rf","--","/testbed/.git","/testbed/tests/test_calc.py","/testbed/tests/test_more.py"]"#
    );
    assert_eq!(lines[3..], ["ADD workspace.tar /testbed/", "WORKDIR /testbed", "ENV PYTHONPATH=\"src:.\""]);
}

#[test]
fn refusals_have_stable_names() {
    let (instance, profile, clean) = small();
    let with = |change: &dyn Fn(&mut Instance)| {
        let mut instance = instance.clone();
        change(&mut instance);
        make(&instance, &profile, &clean, &settings()).unwrap_err().name()
    };
    let patch = |text: &'static str| move |instance: &mut Instance| text.clone_into(&mut instance.patch);
    assert_eq!(with(&patch(" \n")), "patch_empty");
    assert_eq!(with(&patch("--- a/calc.py\n+++ b/calc.py\n@@ -1 +1 @@\n-x\n+y\n")), "patch_does_not_apply");
    assert_eq!(with(&patch("--- a/../x\n+++ b/../x\n@@ -1 +1 @@\n-x\n+y\n")), "patch_escapes");
    assert_eq!(
        with(&patch("--- a/setup.cfg\n+++ b/setup.cfg\n@@ -1 +1 @@\n-[tool:pytest]\n+[x]\n")),
        "patch_touches_tests"
    );
    assert_eq!(with(&patch("diff --git a/x b/x\nGIT binary patch\n")), "patch_binary");
    assert_eq!(with(&patch("nonsense")), "patch_malformed");
    let same = "--- a/calc.py\n+++ b/calc.py\n@@ -1,2 +1,2 @@\n-def add(a, b):\n+def add(a, b):\n     return a + b\n";
    assert_eq!(with(&patch(same)), "patch_changes_nothing");
    assert_eq!(with(&|instance| instance.fail_to_pass.clear()), "no_fail_to_pass");
    assert_eq!(with(&|instance| instance.repo = "other".into()), "profile_mismatch");
    let reason = |settings: Settings| make(&instance, &profile, &clean, &settings).unwrap_err().name();
    assert_eq!(make(&instance, &profile, &Tree::new(), &settings()).unwrap_err().name(), "workspace_missing");
    assert_eq!(reason(Settings { workdir: "/a b; rm -rf".into(), ..settings() }), "setting_invalid");
    assert_eq!(reason(Settings { base_image: "x\nRUN y".into(), ..settings() }), "setting_invalid");
    assert_eq!(reason(Settings { memory_mb: Some(0), ..settings() }), "setting_invalid");
    let mut odd = profile.clone();
    odd.env.insert("A\nRUN".into(), "x".into());
    assert_eq!(make(&instance, &odd, &clean, &settings()).unwrap_err().name(), "environment_variable");
    let refusal = materialize(&MaterializeInput {
        instance: &Instance { patch: String::new(), ..instance.clone() },
        profile: &profile,
        clean: &clean,
        settings: &settings(),
        verifier: &Pytest,
    });
    assert_eq!(
        refusal.unwrap_err().to_string(),
        "`acme__calc.0123abcd.func_basic__abcdefgh` is refused for its patch: the patch is empty"
    );
}
