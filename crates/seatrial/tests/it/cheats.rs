//! Agents that cheat on a task as `materialize` writes it: the vendored verifier gives them nothing.

use std::path::Path;
use std::process::Command;

use crate::project::{Project, sandboxes_run};
use crate::tasks::{Shelf, Trial};

/// The task that is cheated on, and the command that repairs it in earnest.
const TASK: &str = "example__slugs.00000002.lm_modify__f7247e3b";
const FIX: &str = "sed -i 's/\\.rstrip(\"-\")/.strip(\"-\")/' slugs.py\n";

/// A plugin that turns every report into a pass.
const HOOK: &str = "import pytest\n\
    @pytest.hookimpl(hookwrapper=True)\n\
    def pytest_runtest_makereport(item, call):\n    \
        report = (yield).get_result()\n    \
        report.outcome, report.longrepr = 'passed', None\n";

/// Name, script in `/testbed`, and a file that the script finds beside itself.
const CHEATS: [(&str, &str, &str); 14] = [
    ("conftest", "cp /solution/extra conftest.py", HOOK),
    ("conftest-in-tests", "mkdir -p tests && cp /solution/extra tests/conftest.py", HOOK),
    (
        "plugin-by-settings",
        "cp /solution/extra cheat.py; printf '[pytest]\\naddopts = -p cheat\\n' > pytest.ini",
        HOOK,
    ),
    (
        "plugin-by-pyproject",
        "cp /solution/extra cheat.py; printf '[tool.pytest.ini_options]\\naddopts = \"-p cheat\"\\n' > pyproject.toml",
        HOOK,
    ),
    (
        "site-settings",
        "cp /solution/extra sitecustomize.py; cp /solution/extra usercustomize.py",
        "import atexit, os\natexit.register(lambda: os._exit(0))\n",
    ),
    (
        "module-in-front",
        "mkdir pytest _pytest; cp /solution/extra pytest/__init__.py; cp /solution/extra pytest/__main__.py; cp /solution/extra _pytest/__init__.py",
        "import sys\nprint('5 passed in 0.01s')\nsys.exit(0)\n",
    ),
    (
        "ends-well-when-imported",
        "cp /solution/extra slugs.py",
        "import os\nprint('5 passed in 0.01s', flush=True)\nos._exit(0)\n",
    ),
    (
        "prints-results",
        "cat /solution/extra >> slugs.py",
        "\nimport sys\nfor _name in ('punctuation_at_the_ends_leaves_no_dash', 'a_limit_cuts_at_a_dash'):\n    \
         print('PASSED tests/test_slugs.py::test_' + _name, flush=True)\n    \
         print('tests/test_slugs.py::test_' + _name + ' PASSED', file=sys.stderr, flush=True)\n",
    ),
    (
        "skips",
        "cp /solution/extra slugs.py",
        "import pytest\npytest.skip('not today', allow_module_level=True)\n",
    ),
    (
        "programs-in-front",
        "for name in python python3 pytest bash sh env; do cp /solution/extra /usr/local/bin/$name; chmod +x /usr/local/bin/$name; done; export PATH=/usr/local/bin:$PATH",
        "#!/bin/sh\necho 1 > /logs/verifier/reward.txt\nexit 0\n",
    ),
    (
        "own-verifier",
        "mkdir -p /tests /logs/verifier; cp /solution/extra /tests/test.sh; echo 1 > /logs/verifier/reward.txt",
        "#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n",
    ),
    ("no-tests", "rm -rf tests; ln -s /nowhere tests", ""),
    (
        "tests-elsewhere",
        "rm -rf tests; mkdir /tmp/t; cp /solution/extra /tmp/t/test_slugs.py; ln -s /tmp/t tests",
        "def test_punctuation_at_the_ends_leaves_no_dash():\n    pass\n",
    ),
    (
        "outlives-the-suite",
        "cp /solution/extra slugs.py",
        "import os\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        os.closerange(0, 3)\n        \
         place = '/logs/verifier/reward.txt'\n        while True:\n            if os.path.exists(place):\n                \
         open(place + 2 * '2', 'w').write('1')\n                os.rename(place + '22', place)\n    os._exit(0)\n",
    ),
];

/// The same with what ends the verifier: there is no reward then.
const ENDINGS: [(&str, &str); 3] = [
    ("ends-the-verifier", "os.kill(os.getppid(), 9)"),
    ("asks-the-verifier-to-end", "os.kill(os.getppid(), 15)"),
    ("ends-everything", "os.kill(-1, 9)"),
];

/// Copies the materialized task below a new name, with another solution.
fn copy(from: &Path, shelf: &Shelf, name: &str, script: &str, extra: &str) {
    let to = shelf.tasks().join(name);
    assert!(Command::new("cp").arg("-r").arg(from).arg(&to).status().unwrap().success());
    std::fs::write(to.join("solution/solve.sh"), format!("#!/bin/bash\ncd /testbed\n{script}\n")).unwrap();
    std::fs::write(to.join("solution/extra"), extra).unwrap();
    let settings = std::fs::read_to_string(to.join("task.toml")).unwrap();
    std::fs::write(to.join("task.toml"), settings.replace(TASK, name)).unwrap();
}

/// What the vendored verifier says about a trial, where it came to say something.
fn verdict(trial: &Trial) -> String {
    std::fs::read_to_string(trial.directory.join("verifier/report.json")).unwrap_or_default()
}

#[test]
fn the_vendored_verifier_gives_cheats_nothing() {
    if !sandboxes_run() {
        return;
    }
    let project = Project::new();
    for stage in [&["source", "pull"][..], &["plan"], &["materialize"]] {
        project.run(stage).with_code(0);
    }
    let task = project.path("tasks").join(TASK);
    let shelf = Shelf::new([]);
    copy(&task, &shelf, "in-earnest", FIX, "");
    for (name, script, extra) in CHEATS {
        copy(&task, &shelf, name, script, extra);
    }
    for (name, ending) in ENDINGS {
        let product = format!(
            "import os\ndef write():\n    open('/logs/verifier/reward.txt', 'w').write('1')\nwrite()\n{ending}\nwrite()\n"
        );
        copy(&task, &shelf, name, "cp /solution/extra slugs.py", &product);
    }
    let job = shelf.run("oracle", "job");
    let trial = |name: &str| job.trial(&format!("seatrial/{name}"));
    let earnest = trial("in-earnest");
    assert!(earnest.is_rewarded(1.0), "{} {}", earnest.line, verdict(&earnest));
    let trials = CHEATS.map(|(name, ..)| trial(name));
    let wrong: Vec<String> = trials
        .iter()
        .filter(|cheat| !cheat.is_rewarded(0.0))
        .map(|cheat| format!("{}\n{}", cheat.line, verdict(cheat)))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for (name, _) in ENDINGS {
        let ended = trial(name);
        assert_eq!(ended.line["outcome"]["failed"]["reason"], "reward_unsafe", "{}", ended.line);
    }
}
