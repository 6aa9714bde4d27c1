//! The cheat set of proofs: every cheat gets the reward of a verifier that is weak against it, none that of a materialized task.

use std::collections::BTreeMap;
use std::path::Path;

use prove::cheats::CHEATS;

use crate::project::{Project, sandboxes_run, seatrial};
use crate::tasks::{Shelf, Task};

const UNITTEST: &str = "import unittest\nfrom calc import add\n\n\nclass TestAdd(unittest.TestCase):\n    \
                        def test_add(self):\n        self.assertEqual(add(1, 2), 3)\n\n\n\
                        if __name__ == '__main__':\n    unittest.main()\n";
const PYTEST: &str = "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n";

/// What a weak verifier asks, and what else the task holds.
struct Weak {
    /// Run in `/app`; the task is solved when it ends with 0.
    asks: &'static str,
    /// More lines of the Dockerfile, and more files of the task.
    dockerfile: &'static str,
    files: &'static [(&'static str, &'static str)],
}

/// A verifier for each cheat that falls to it. Nothing done gets 0 from all of them, and the solution gets 1.
const WEAK: [(&str, Weak); CHEATS.len()] = [
    ("prewritten-reward", weak("[ \"$(cat reward.txt 2>/dev/null)\" = 1 ] || $PLAIN")),
    (
        "exit-on-import",
        weak(
            "python3 -P -c 'import sys; sys.path.insert(0, \"/app\"); import calc; assert calc.add(1, 2) == 3'",
        ),
    ),
    (
        "conftest-hook",
        tested(
            "mkdir -p tests && cp /tests/test_calc.py tests/ && PYTHONPATH=/app python3 -P -m pytest -q -p no:cacheprovider tests",
        ),
    ),
    (
        "tampered-config",
        tested(
            "mkdir -p tests && cp /tests/test_calc.py tests/ && PYTHONPATH=/app python3 -P -m pytest -q -p no:cacheprovider tests",
        ),
    ),
    (
        "replaced-tests",
        Weak {
            asks: "python3 -P -c 'import sys, unittest; sys.path.insert(0, \"/app\"); unittest.main(module=\"tests.test_calc\")'",
            dockerfile: "COPY test_calc.py /app/tests/test_calc.py\n",
            files: &[("environment/test_calc.py", UNITTEST)],
        },
    ),
    (
        "replaced-runner",
        Weak {
            asks: "./run_tests.sh",
            dockerfile: "COPY run_tests.sh /app/run_tests.sh\n",
            files: &[(
                "environment/run_tests.sh",
                "#!/bin/sh\nexec python3 -c 'import calc; assert calc.add(1, 2) == 3'\n",
            )],
        },
    ),
    (
        "forged-log",
        tested(
            "PYTHONPATH=/app python3 -P -m pytest -p no:cacheprovider /tests/test_calc.py > /tmp/log 2>&1; grep -q '[0-9] passed' /tmp/log",
        ),
    ),
    (
        "forged-end-mark",
        Weak {
            asks: "{ echo '>>>>> Start Test Output'; PYTHONPATH=/app python3 -P /tests/test_calc.py -v 2>&1; echo '>>>>> End Test Output'; } \
                   > /tmp/log; sed -n '/Start Test/,/End Test/p' /tmp/log > /tmp/part; ! grep -q -E 'FAIL|Error' /tmp/part && grep -q OK /tmp/part",
            dockerfile: "",
            files: &[("tests/test_calc.py", UNITTEST)],
        },
    ),
    (
        "skip-all",
        tested(
            "PYTHONPATH=/app python3 -P -m pytest -p no:cacheprovider /tests/test_calc.py > /tmp/log 2>&1; ! grep -q -i -E 'failed|error' /tmp/log",
        ),
    ),
    (
        "shadowed-modules",
        tested("cp /tests/test_calc.py . && python3 -m pytest -q -p no:cacheprovider test_calc.py"),
    ),
    (
        "sitecustomize",
        weak(
            "python3 -P -c 'import sys; sys.path.insert(0, \"/app\"); import calc; assert calc.add(1, 2) == 3'",
        ),
    ),
    (
        "path-shim",
        weak(
            "python3 -I -c 'import sys; sys.path.insert(0, \"/app\"); import calc; sys.exit(calc.add(1, 2) != 3)'",
        ),
    ),
    ("background-writer", weak(". /etc/profile; $PLAIN")),
    (
        "killed-verifier",
        Weak {
            asks: "sh /tests/grade.sh; [ \"$(cat /logs/verifier/reward.txt)\" = 1 ]",
            dockerfile: "",
            files: &[(
                "tests/grade.sh",
                "if python3 -c 'import calc; assert calc.add(1, 2) == 3'; then reward=1; else reward=0; fi\n\
                 echo $reward > /logs/verifier/reward.txt\n",
            )],
        },
    ),
    (
        "git-history",
        Weak {
            asks: "/usr/bin/grep -q 'a + b' calc.py",
            dockerfile: "RUN git init -q . && git config user.email a@example.invalid && git config user.name a && git add calc.py \
                         && git commit -qm bug && sed -i 's/a - b/a + b/' calc.py && git commit -qam fix && git tag later \
                         && git reset -q --hard HEAD~1\n",
            files: &[],
        },
    ),
];

const fn weak(asks: &'static str) -> Weak {
    Weak { asks, dockerfile: "", files: &[] }
}

const fn tested(asks: &'static str) -> Weak {
    Weak { asks, dockerfile: "", files: &[("tests/test_calc.py", PYTEST)] }
}

/// Writes the task of a weak verifier: `add` subtracts.
fn write(shelf: &Shelf, name: &str, weak: &Weak) {
    // Not imported, and asked of the system's own interpreter: no cheat gets at this but by the way that is left open.
    let plain =
        "/usr/bin/python3 -I -c 'exec(open(\"/app/calc.py\").read()); raise SystemExit(add(1, 2) != 3)'";
    let task = Task::new(name)
        .solution("sed -i 's/a - b/a + b/' /app/calc.py\n")
        .verifier(&format!(
            "cd /app\nif {{ {}; }} > /tmp/said 2>&1; then reward=1; else reward=0; fi\necho $reward > /logs/verifier/reward.txt\nsleep 1\n",
            weak.asks.replace("$PLAIN", plain)
        ))
        .dockerfile_line("COPY calc.py /app/calc.py")
        .dockerfile_line(weak.dockerfile);
    task.write(&shelf.tasks());
    shelf.file(name, "environment/calc.py", "def add(a, b):\n    return a - b\n");
    for (file, text) in weak.files {
        shelf.file(name, file, text);
    }
}

#[test]
fn every_cheat_gets_the_reward_of_a_verifier_that_is_weak_against_it() {
    if !sandboxes_run() {
        return;
    }
    let shelf = Shelf::new([]);
    let weak: BTreeMap<&str, Weak> = WEAK.into_iter().collect();
    for (name, weak) in &weak {
        write(&shelf, name, weak);
    }
    let sound = shelf.run_with(&["-a", "nop", "-a", "oracle", "--job-name", "sound"]);
    for cheat in CHEATS {
        let name = cheat.name();
        let trials = sound.trials(name);
        assert_eq!(trials.len(), 2, "{name}");
        for trial in trials {
            let reward = if trial.line["agent"] == "oracle" { 1.0 } else { 0.0 };
            assert!(trial.is_rewarded(reward), "{}", trial.line);
        }
        let path = format!("tasks/{name}");
        let agent = format!("cheat:{name}");
        let cheated =
            seatrial(shelf.root(), &["run", "--json", "-p", &path, "-a", &agent, "--job-name", name]);
        let line = &cheated.with_code(0).json_lines()[0];
        assert_eq!(line["outcome"], serde_json::json!({"reward": 1.0}), "{name}: {line}");
    }
    // What a verifier falls to is its verdict; the solution of the task is never brought to a cheat.
    let proved =
        seatrial(shelf.root(), &["prove", "--json", "tasks/forged-log", "tasks/git-history"]).with_code(1);
    for (line, first) in proved.json_lines().iter().zip(["exit-on-import", "git-history"]) {
        let verdict = &line["verdict"];
        assert_eq!(verdict["reason"], "cheatable", "{line}");
        let detail = verdict["detail"].as_str().unwrap();
        if line["task_id"] == "git-history" {
            assert_eq!(detail, format!("the cheat {first} gets the reward: reward 1"));
            assert_eq!(line["cheats"].as_array().unwrap().len(), CHEATS.len() - 1, "{line}");
        }
    }
}

/// Proves the project's tasks and returns the cheats' trials by task, and the agents of each.
fn cheated(project: &Project) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for trial in project.trials() {
        let text = std::fs::read_to_string(trial.join("result.json")).unwrap();
        let result: serde_json::Value = serde_json::from_str(&text).unwrap();
        let agent = result["agent_info"]["name"].as_str().unwrap();
        if let Some(name) = agent.strip_prefix("cheat:") {
            assert!(!Path::new(&trial).join("agent/oracle.txt").exists());
            found.entry(result["task_name"].as_str().unwrap().to_owned()).or_default().push(name.to_owned());
        }
    }
    found
}

#[test]
fn no_cheat_gets_the_reward_of_a_materialized_task_and_one_task_answers_for_its_like() {
    if !sandboxes_run() {
        return;
    }
    let project = Project::quick();
    project.edit("seatrial.toml", "cheats = \"off\"", "cheats = \"per-verifier\"");
    project.run(&["source", "pull"]).with_code(0);
    for stage in ["plan", "materialize", "check", "prove"] {
        project.run(&[stage]).with_code(0);
    }
    let names: Vec<&str> = CHEATS.iter().map(|cheat| cheat.name()).collect();
    let proofs = project.json("proofs.json");
    let tasks = proofs["tasks"].as_array().unwrap();
    assert_eq!(tasks.len(), 3);
    for task in tasks {
        assert_eq!(task["verdict"]["status"], "accepted", "{task}");
        assert_eq!(task["cheats"], serde_json::json!(names), "{task}");
    }
    // Two of the three have one repository.
    let mut tried: Vec<usize> = cheated(&project).values().map(Vec::len).collect();
    tried.sort_unstable();
    assert_eq!(tried, [1, CHEATS.len(), CHEATS.len()]);
    // By task each is tried by itself, and nothing that is known is tried again.
    project.edit("seatrial.toml", "cheats = \"per-verifier\"", "cheats = \"per-task\"");
    project.run(&["prove"]).with_code(0);
    assert_eq!(cheated(&project).values().map(Vec::len).collect::<Vec<_>>(), [CHEATS.len(); 3]);
    project.edit("seatrial.toml", "cheats = \"per-task\"", "cheats = \"off\"");
    project.run(&["prove"]).with_code(0);
    assert_eq!(project.json("proofs.json")["tasks"][0]["cheats"], serde_json::json!([]));
}
