//! The vendored verifier at work on a small project: honest work is rewarded, cheats are not.

use std::{
    env, fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::{Command, Output},
    time::{Duration, Instant},
};

use grade::{Framework, VerifierConfig, VerifierReport, vendored};
use serde_json::Value;
use tempfile::TempDir;

use crate::twin::config;

const GOOD: &str = "def add(a, b):\n    return a + b\n";
const BUG: &str = "def add(a, b):\n    return a - b\n";
const TESTS: &str = r#"
import pytest
from calc import add

def test_add():
    assert add(2, 3) == 5

def test_zero():
    assert add(0, 0) == 0

@pytest.mark.parametrize("text", ["two words"])
def test_text(text):
    assert add(text, "") == text if add(1, 1) == 2 else True
"#;

/// Finds an interpreter that has pytest; prints why tests are skipped when there is none.
fn interpreter() -> Option<PathBuf> {
    let named = env::var_os("SEATRIAL_TEST_PYTHON").map(PathBuf::from);
    let found = named.into_iter().chain([PathBuf::from("/usr/bin/python3")]).find(|python| {
        Command::new(python)
            .args(["-c", "import pytest"])
            .output()
            .is_ok_and(|output| output.status.success())
    });
    if found.is_none() {
        eprintln!("skipped: no interpreter with pytest (SEATRIAL_TEST_PYTHON or /usr/bin/python3)");
    }
    found
}

/// A root folder with a task's tests and a workspace in it.
struct Trial {
    root: TempDir,
    python: PathBuf,
    config: VerifierConfig,
}

impl Trial {
    fn new(product: &str) -> Option<Self> {
        let python = interpreter()?;
        let root = tempfile::tempdir().expect("a temporary folder can be made");
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let mut config = config(
            Framework::Pytest,
            &names(&["tests/test_calc.py::test_add"]),
            &names(&["tests/test_calc.py::test_zero", "tests/test_calc.py::test_text[two words]"]),
        );
        config.command = names(&["python", "-m", "pytest", "--verbose"]);
        config.env.insert("PYTHONPATH".to_owned(), "src:.".to_owned());
        config.python = Some(python.to_str().expect("the path is text").to_owned());
        let trial = Self { root, python, config };
        for file in vendored::FILES {
            trial.write(&format!("tests/{}", file.name), file.text);
        }
        let mut archive = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_ustar();
        header.set_size(TESTS.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, "tests/test_calc.py", TESTS.as_bytes()).unwrap();
        fs::write(trial.path("tests/surface.tar"), archive.into_inner().unwrap()).unwrap();
        trial.write("testbed/calc.py", product);
        Some(trial)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn run(&self) -> Output {
        self.write("tests/config.json", &self.config.to_json().unwrap());
        Command::new(&self.python)
            .args(["-I", "-S", "-B"])
            .arg(self.path("tests/verify.py"))
            .arg("--root")
            .arg(self.root.path())
            .output()
            .expect("the verifier starts")
    }

    fn reward(&self) -> Option<String> {
        fs::read_to_string(self.path("logs/verifier/reward.txt")).ok()
    }

    fn report(&self) -> Value {
        let text = fs::read(self.path("logs/verifier/report.json")).unwrap();
        let typed: VerifierReport = serde_json::from_slice(&text).expect("the host can read the report");
        assert_ne!(typed.verdict.is_some(), typed.fault.is_some());
        serde_json::from_slice(&text).unwrap()
    }

    /// Runs the verifier and gives reward, outcome and reason.
    fn outcome(&self) -> (Option<String>, String, Option<String>) {
        let output = self.run();
        let reward = self.reward();
        assert_eq!(output.status.success(), reward.is_some(), "{}", String::from_utf8_lossy(&output.stderr));
        let verdict = &self.report()["verdict"];
        let text = |key: &str| verdict[key].as_str().map(str::to_owned);
        (reward, text("outcome").unwrap_or_default(), text("reason"))
    }

    fn assert_reward_zero(&self, outcome: &str, reason: Option<&str>) {
        let found = self.outcome();
        let log = fs::read(self.path("logs/verifier/suite.log")).unwrap_or_default();
        assert_eq!(
            found,
            (Some("0\n".to_owned()), outcome.to_owned(), reason.map(str::to_owned)),
            "{}\n{}",
            self.report(),
            String::from_utf8_lossy(&log)
        );
    }

    fn assert_resolved(&self) {
        let found = self.outcome();
        let log = fs::read(self.path("logs/verifier/suite.log")).unwrap_or_default();
        assert_eq!(
            found,
            (Some("1\n".to_owned()), "resolved".to_owned(), None),
            "{}\n{}",
            self.report(),
            String::from_utf8_lossy(&log)
        );
    }

    fn removed(&self) -> Vec<String> {
        let report = self.report();
        report["surface"]["removed"]
            .as_array()
            .unwrap()
            .iter()
            .map(|name| name.as_str().unwrap().to_owned())
            .collect()
    }
}

#[test]
fn the_fix_is_rewarded_however_pytest_is_started() {
    let commands: [&[&str]; 4] = [
        &["python", "-m", "pytest", "--verbose"],
        &["pytest", "-q", "tests"],
        &["python3", "-c", "import sys, pytest; sys.exit(pytest.main(['-q']))"],
        &["/usr/bin/env", "python3", "-m", "pytest", "-p", "no:cacheprovider"],
    ];
    for command in commands {
        let Some(mut trial) = Trial::new(GOOD) else { return };
        trial.config.command = command.iter().map(ToString::to_string).collect();
        trial.assert_resolved();
    }
}

#[test]
fn the_bug_is_not_rewarded() {
    let Some(trial) = Trial::new(BUG) else { return };
    trial.assert_reward_zero("unresolved", None);
    let report = trial.report();
    assert_eq!(report["verdict"]["fail_to_pass"]["failed"][0], "tests/test_calc.py::test_add");
    assert!(trial.path("logs/verifier/suite.log").is_file());
}

#[test]
fn the_report_repeats_itself_except_for_time() {
    let Some(trial) = Trial::new(GOOD) else { return };
    let report = || {
        trial.assert_resolved();
        let mut report = trial.report();
        report.as_object_mut().unwrap().remove("suite_seconds").unwrap();
        report.to_string()
    };
    assert_eq!(report(), report());
}

const EVERYTHING_PASSES: &str = "
import pytest
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    out = yield
    out.get_result().outcome = 'passed'
";

#[test]
fn hooks_in_the_workspace_are_removed() {
    let Some(trial) = Trial::new(BUG) else { return };
    trial.write("testbed/conftest.py", EVERYTHING_PASSES);
    trial.write("testbed/tests/conftest.py", EVERYTHING_PASSES);
    trial.write("testbed/pytest.ini", "[pytest]\naddopts = -p evil\n");
    trial.write("testbed/evil.py", EVERYTHING_PASSES);
    trial.assert_reward_zero("unresolved", None);
    assert_eq!(trial.removed(), ["conftest.py", "pytest.ini", "tests/conftest.py"]);
}

#[test]
fn settings_above_the_workspace_are_removed() {
    let Some(trial) = Trial::new(BUG) else { return };
    trial.write("conftest.py", EVERYTHING_PASSES);
    trial.write("pytest.ini", "[pytest]\naddopts = -p conftest\npythonpath = .\n");
    trial.assert_reward_zero("unresolved", None);
    assert!(!trial.path("pytest.ini").exists());
}

#[test]
fn plugins_registered_by_the_workspace_are_removed() {
    let Some(trial) = Trial::new(BUG) else { return };
    trial.write("testbed/evil.py", EVERYTHING_PASSES);
    trial.write("testbed/evil.egg-info/PKG-INFO", "Metadata-Version: 2.1\nName: evil\nVersion: 1\n");
    trial.write("testbed/evil.egg-info/entry_points.txt", "[pytest11]\nevil = evil\n");
    trial.assert_reward_zero("unresolved", None);
    assert_eq!(trial.removed(), ["evil.egg-info/entry_points.txt"]);
}

#[test]
fn changed_tests_are_restored() {
    let Some(trial) = Trial::new(BUG) else { return };
    trial.write("testbed/tests/test_calc.py", "def test_add(): pass\ndef test_zero(): pass\n");
    trial.assert_reward_zero("unresolved", None);
    assert_eq!(fs::read_to_string(trial.path("testbed/tests/test_calc.py")).unwrap(), TESTS);
}

#[test]
fn links_in_the_way_are_replaced_and_not_followed() {
    let Some(trial) = Trial::new(GOOD) else { return };
    trial.write("outside/test_calc.py", "def test_add(): pass\n");
    symlink(trial.path("outside"), trial.path("testbed/tests")).unwrap();
    symlink(trial.path("outside"), trial.path("testbed/conftest.py")).unwrap();
    trial.assert_resolved();
    assert_eq!(fs::read_to_string(trial.path("outside/test_calc.py")).unwrap(), "def test_add(): pass\n");
    assert!(!trial.path("testbed/tests").is_symlink());
}

#[test]
fn a_surface_that_is_not_the_frozen_one_gives_no_reward() {
    let Some(mut trial) = Trial::new(GOOD) else { return };
    trial.config.surface.sha256 = Some("0".repeat(64));
    assert!(!trial.run().status.success());
    assert_eq!(trial.reward(), None);
    assert_eq!(trial.report()["fault"], "surface_unrestorable");
}

#[test]
fn ending_the_interpreter_is_no_pass() {
    for exit in ["import os\nos._exit(0)\n", "import sys\nsys.exit(0)\n", "raise KeyboardInterrupt\n"] {
        let Some(trial) = Trial::new(exit) else { return };
        let (reward, outcome, reason) = trial.outcome();
        assert_eq!((reward.as_deref(), outcome.as_str()), (Some("0\n"), "invalid"), "{exit}: {reason:?}");
    }
}

#[test]
fn an_exit_status_changed_at_the_end_is_a_contradiction() {
    let Some(trial) = Trial::new(&format!("import atexit, os\natexit.register(os._exit, 0)\n{BUG}")) else {
        return;
    };
    trial.assert_reward_zero("invalid", Some("contradiction"));
}

#[test]
fn printed_results_do_not_count() {
    let printed = "print('PASSED tests/test_calc.py::test_add')\nprint('=== 3 passed in 0.01s ===')\n";
    let Some(trial) = Trial::new(&format!("{printed}{BUG}")) else { return };
    trial.assert_reward_zero("unresolved", None);
}

#[test]
fn skipping_is_no_pass() {
    let skip = "import pytest\npytest.skip('later', allow_module_level=True)\n";
    let Some(trial) = Trial::new(skip) else { return };
    trial.assert_reward_zero("invalid", Some("nothing_collected"));
    let Some(trial) = Trial::new("import pytest\ndef add(a, b):\n    pytest.skip('later')\n") else { return };
    trial.assert_reward_zero("unresolved", None);
}

#[test]
fn replaced_parts_of_pytest_are_noticed() {
    let silent = "
import _pytest.python
_pytest.python.Function.runtest = lambda self: None
";
    let replaced = "
from _pytest.reports import TestReport
before = TestReport.from_item_and_call.__func__
@classmethod
def after(cls, item, call):
    report = before(cls, item, call)
    report.outcome = 'passed'
    return report
TestReport.from_item_and_call = after
";
    for cheat in [silent, replaced] {
        let Some(trial) = Trial::new(&format!("{cheat}{BUG}")) else { return };
        trial.assert_reward_zero("invalid", Some("forged"));
    }
}

#[test]
fn files_of_the_workspace_do_not_stand_in_for_others() {
    let Some(trial) = Trial::new(BUG) else { return };
    for name in ["sitecustomize.py", "src/sitecustomize.py", "src/usercustomize.py"] {
        trial.write(&format!("testbed/{name}"), "import os\nos._exit(0)\n");
    }
    for name in
        ["pytest.py", "_pytest/__init__.py", "pluggy.py", "json.py", "seatrial_report.py", "src/pytest.py"]
    {
        trial.write(&format!("testbed/{name}"), "import os\nos._exit(0)\n");
    }
    trial.assert_reward_zero("unresolved", None);
    assert_eq!(trial.removed(), ["sitecustomize.py", "src/sitecustomize.py", "src/usercustomize.py"]);
}

#[test]
fn compiled_files_do_not_outlive_their_sources() {
    let Some(trial) = Trial::new(GOOD) else { return };
    let compile = format!(
        "import py_compile; py_compile.compile({:?}, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)",
        trial.path("testbed/calc.py")
    );
    assert!(Command::new(&trial.python).args(["-c", &compile]).status().unwrap().success());
    assert!(trial.path("testbed/__pycache__").is_dir());
    trial.write("testbed/calc.py", BUG);
    trial.assert_reward_zero("unresolved", None);
}

#[test]
fn rewards_written_before_are_removed() {
    let Some(mut trial) = Trial::new(BUG) else { return };
    trial.write("logs/verifier/reward.txt", "1\n");
    trial.write("logs/verifier/reward.json", "{\"reward\": 1}");
    trial.assert_reward_zero("unresolved", None);
    assert!(!trial.path("logs/verifier/reward.json").exists());
    trial.write("logs/verifier/reward.txt", "1\n");
    trial.config.python = Some("/nowhere/python3".to_owned());
    assert!(!trial.run().status.success());
    assert_eq!(trial.reward(), None);
    assert_eq!(trial.report()["fault"], "no_python");
}

#[test]
fn a_script_is_no_interpreter() {
    let Some(mut trial) = Trial::new(BUG) else { return };
    trial.write("shim/python3", "#!/bin/sh\nexit 0\n");
    fs::set_permissions(trial.path("shim/python3"), fs::Permissions::from_mode(0o755)).unwrap();
    trial.config.python = Some(trial.path("shim/python3").to_str().unwrap().to_owned());
    assert!(!trial.run().status.success());
    assert_eq!(trial.reward(), None);
}

#[test]
fn a_suite_that_reports_nothing_gives_no_reward() {
    let Some(mut trial) = Trial::new(GOOD) else { return };
    trial.config.command = ["python", "-c", "print('3 passed')"].map(str::to_owned).to_vec();
    assert_eq!(trial.run().status.code(), Some(3));
    assert_eq!(trial.reward(), None);
    assert_eq!(trial.report()["fault"], "report_missing");
}

#[test]
fn an_unreadable_configuration_gives_no_reward() {
    let Some(trial) = Trial::new(GOOD) else { return };
    trial.run();
    assert!(trial.reward().is_some());
    trial.write(
        "tests/config.json",
        "{\"schema\": \"seatrial.verifier/1\", \"schema\": \"seatrial.verifier/1\"}",
    );
    let output = Command::new(&trial.python)
        .arg(trial.path("tests/verify.py"))
        .arg("--root")
        .arg(trial.root.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(trial.reward(), None);
    assert_eq!(trial.report()["fault"], "config_unreadable");
}

#[test]
fn a_suite_that_does_not_end_is_stopped_with_its_children() {
    let hang = "
import subprocess, time
subprocess.Popen(['sleep', '600'])
print('waiting', flush=True)
time.sleep(600)
";
    let Some(mut trial) = Trial::new(hang) else { return };
    trial.config.timeout_sec = 2;
    let started = Instant::now();
    trial.assert_reward_zero("invalid", Some("timeout"));
    assert!(started.elapsed() < Duration::from_secs(60));
}

#[test]
fn a_child_that_keeps_the_output_open_does_not_hold_the_verdict() {
    let Some(trial) = Trial::new(&format!("import subprocess\nsubprocess.Popen(['sleep', '600'])\n{GOOD}"))
    else {
        return;
    };
    let started = Instant::now();
    trial.assert_resolved();
    assert!(started.elapsed() < Duration::from_secs(60));
}

/// Writes rewards over and over, for as long as a test may take.
const WRITER: &str = "
import os, time
REWARDS = os.path.join(os.path.dirname(os.getcwd()), 'logs', 'verifier')
def write():
    for name, text in (('reward.txt', '1'), ('reward.json', '{\"reward\": 1}')):
        open(os.path.join(REWARDS, name + '.new'), 'w').write(text)
        os.rename(os.path.join(REWARDS, name + '.new'), os.path.join(REWARDS, name))
UNTIL = time.monotonic() + 60
";

#[test]
fn what_a_suite_leaves_running_cannot_speak_for_it() {
    let stays = "
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 200)
        while time.monotonic() < UNTIL:
            write()
    os._exit(0)
";
    // Never the same process for long, so that no list of processes shows it for sure.
    let moves_on = "
if os.fork() == 0:
    os.setsid()
    os.closerange(0, 200)
    while time.monotonic() < UNTIL:
        write()
        if os.fork():
            os._exit(0)
    os._exit(0)
";
    for leaves in [stays, moves_on] {
        let Some(trial) = Trial::new(&format!("{WRITER}{leaves}{BUG}")) else { return };
        trial.assert_reward_zero("unresolved", None);
        let left = |name: &str| trial.path("logs/verifier").join(name).exists();
        assert!(!left("reward.json"));
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(trial.reward().as_deref(), Some("0\n"));
        assert!(!left("reward.json"));
    }
}

#[test]
fn a_suite_that_ends_the_verifier_leaves_no_exit_status_of_success() {
    let Some(trial) = Trial::new(&format!("{WRITER}write()\nos.kill(os.getppid(), 9)\n{BUG}")) else {
        return;
    };
    let output = trial.run();
    assert!(trial.reward().is_some() && !trial.path("logs/verifier/report.json").exists());
    assert_eq!(output.status.code(), None);
}

#[test]
fn a_suite_that_writes_over_the_verifier_is_graded_by_what_was_there() {
    let liar = "
import glob, os
for file in glob.glob('../tests/*.py'):
    open(file, 'w').write('import os\\ndef parser_of(name):\\n    os._exit(0)\\n')
print('TAP version 13\\nnot ok 1 - adds\\n1..1')
raise SystemExit(1)
";
    let Some(mut trial) = Trial::new(liar) else { return };
    trial.config.framework = Framework::Tap;
    trial.config.python = None;
    trial.config.command = vec![trial.python.to_str().unwrap().to_owned(), "calc.py".to_owned()];
    trial.config.fail_to_pass = vec!["adds".to_owned()];
    trial.config.pass_to_pass = Vec::new();
    trial.assert_reward_zero("unresolved", None);
}

#[test]
fn much_output_is_kept_in_bounds() {
    let noisy = format!("import os\nfor _ in range(400):\n    os.write(1, b'x' * 65535 + b'\\n')\n{GOOD}");
    let Some(mut trial) = Trial::new(&noisy) else { return };
    trial.config.command = ["pytest", "-s", "-v"].map(str::to_owned).to_vec();
    trial.assert_resolved();
    let log = fs::read(trial.path("logs/verifier/suite.log")).unwrap();
    assert!(log.len() < 16 << 20, "{} bytes were kept", log.len());
    let text = String::from_utf8_lossy(&log);
    assert!(text.contains("bytes left out of"));
    assert!(text.contains("3 passed"));
}

#[test]
fn code_that_does_not_parse_is_no_reward() {
    let Some(trial) = Trial::new("def add(a, b:\n") else { return };
    trial.assert_reward_zero("invalid", Some("interrupted"));
}

#[test]
fn the_environment_is_the_tasks_own() {
    let Some(mut trial) = Trial::new(GOOD) else { return };
    trial.config.env.insert("SHOP".to_owned(), "open".to_owned());
    trial.write(
        "testbed/calc.py",
        &format!(
            "import os\nassert os.environ['SHOP'] == 'open'\nassert 'SEATRIAL_TICKET' not in os.environ\n\
             assert os.environ['PYTHONPATH'] == 'src:.'\nassert 'LEAK' not in os.environ\n\
             assert os.path.basename(os.environ['HOME']) == 'home'\n{GOOD}"
        ),
    );
    trial.write("tests/config.json", &trial.config.to_json().unwrap());
    let output = Command::new(&trial.python)
        .args(["-I", "-S", "-B"])
        .arg(trial.path("tests/verify.py"))
        .arg("--root")
        .arg(trial.root.path())
        .env("LEAK", "1")
        .output()
        .unwrap();
    assert!(output.status.success());
    assert_eq!(trial.reward().as_deref(), Some("1\n"), "{}", trial.report());
}

/// Gives `test.sh` with its fixed folders moved below a root.
fn moved_script(root: &Path) -> String {
    let root = root.to_str().expect("the path is text");
    vendored::TEST_SH
        .replace("/logs/verifier", &format!("{root}/logs/verifier"))
        .replace("/tests/verify.py", &format!("{root}/tests/verify.py --root {root}"))
        .replace("/tests/interpreter", &format!("{root}/tests/interpreter"))
}

#[test]
fn the_script_ignores_the_agents_environment() {
    let Some(trial) = Trial::new(GOOD) else { return };
    trial.write("tests/config.json", &trial.config.to_json().unwrap());
    trial.write("tests/interpreter", &format!("{}\n", trial.python.display()));
    trial.write("tests/test.sh", &moved_script(trial.root.path()));
    for name in ["python3", "rm", "env", "sh"] {
        trial.write(&format!("shim/{name}"), "#!/bin/sh\nexit 0\n");
        fs::set_permissions(trial.path(&format!("shim/{name}")), fs::Permissions::from_mode(0o755)).unwrap();
    }
    trial.write("shim/sitecustomize.py", "import os\nos._exit(0)\n");
    let status = Command::new("/bin/sh")
        .arg(trial.path("tests/test.sh"))
        .env("PATH", trial.path("shim"))
        .env("PYTHONPATH", trial.path("shim"))
        .env("PYTHONSTARTUP", trial.path("shim/sitecustomize.py"))
        .env("PYTEST_ADDOPTS", "--collect-only")
        .status()
        .unwrap();
    assert!(status.success());
    assert_eq!(trial.reward().as_deref(), Some("1\n"));
}

#[test]
fn the_script_refuses_to_guess_without_an_interpreter() {
    let Some(trial) = Trial::new(GOOD) else { return };
    trial.write("logs/verifier/reward.txt", "1\n");
    trial.write("shim/python3", "#!/bin/sh\nexit 0\n");
    fs::set_permissions(trial.path("shim/python3"), fs::Permissions::from_mode(0o755)).unwrap();
    let shim = trial.path("shim/python3").to_str().unwrap().to_owned();
    let mut script = moved_script(trial.root.path());
    for place in ["/usr/bin/python3", "/usr/local/bin/python3"] {
        script = script.replace(&format!("    {place} \\\n"), &format!("    {shim} \\\n"));
    }
    script = script.replace("    /opt/", "    /nowhere/");
    trial.write("tests/test.sh", &script);
    let status = Command::new("/bin/sh").arg(trial.path("tests/test.sh")).status().unwrap();
    assert_eq!(status.code(), Some(3));
    assert_eq!(trial.reward(), None);
    let report = trial.report();
    assert_eq!(report["fault"], "no_python");
    assert!(report["detail"].as_str().unwrap().contains("install python3 in the image"), "{report}");
}
