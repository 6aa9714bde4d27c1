//! Agents and verifiers that leave what nobody expects, or break what comes after them.

use crate::engines::{Engine, on_every_engine};
use crate::project::children;
use crate::tasks::{FIX, Task};

on_every_engine!(
    what_a_verifier_leaves_is_read_with_bounds,
    a_root_agent_that_breaks_the_tools_does_not_keep_its_reward,
    no_agent_can_choose_another_try,
    links_that_lead_out_together_do_not_reach_a_separate_verifier,
    logs_with_names_of_any_bytes_are_kept,
);

/// A verifier in a sandbox of its own, which the working directory enters.
const SEPARATE: &str = "artifacts = [\"/app\"]\n[agent]\ntimeout_sec = 60\n[verifier]\ntimeout_sec = 60\n\
                        environment_mode = \"separate\"\n[environment]\nbuild_timeout_sec = 60\n";

fn what_a_verifier_leaves_is_read_with_bounds(engine: &Engine) {
    let reward = "echo 1 > /logs/verifier/reward.txt\n";
    let shelf = engine.shelf([
        Task::new("gigabyte").verifier(&format!("{reward}truncate -s 1G /logs/verifier/core\n")),
        Task::new("gigabyte-reward").verifier("truncate -s 1G /logs/verifier/reward.txt\n"),
        Task::new("many").verifier(&format!("{reward}cd /logs/verifier; mkdir many; for i in $(seq 3000); do : > many/$i; done\n")),
        Task::new("in-the-way").verifier(&format!("{reward}mkdir /logs/verifier/test-stdout.txt; echo x > /logs/verifier/test-stdout.txt/x; echo said\n")),
        Task::new("long-names").verifier(&format!("{reward}cd /logs/verifier; python3 -c 'import os; open(b\"\\xff\" * 90, \"w\").close()'; echo x > kept\n")),
        Task::new("unpackable").verifier(&format!("{reward}python3 -c 'import os; open(b\"/logs/verifier/\" + b\"\\xff\" * 200, \"w\").close()'\n")),
        Task::new("agent-unpackable").solution(&format!("{FIX}python3 -c 'import os; open(b\"/logs/agent/\" + b\"\\xff\" * 200, \"w\").close()'\n")),
        Task::new("links").verifier(&format!("{reward}ln -s / /logs/verifier/root; ln -s ../../../../etc/passwd /logs/verifier/passwd\n")),
        Task::new("removed").verifier("rm -rf /logs/verifier\n"),
        Task::new("device").verifier("mknod /logs/verifier/reward.txt c 1 5 || mkfifo /logs/verifier/reward.txt\n"),
        Task::new("socket").verifier("python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"/logs/verifier/reward.json\")'\n"),
    ]);
    let job = engine.run(&shelf);
    let gigabyte = job.trial("gigabyte");
    assert!(gigabyte.is_rewarded(1.0), "{}", gigabyte.line);
    assert!(gigabyte.text("verifier/left-out.txt").contains("1073741824"));
    assert!(!gigabyte.directory.join("verifier/core").exists());
    assert_eq!(gigabyte.text("verifier/reward.txt"), "1\n");
    assert_eq!(job.trial("gigabyte-reward").reason(), "reward_unsafe");
    let many = job.trial("many");
    assert!(many.is_rewarded(1.0));
    assert_eq!(children(&many.directory.join("verifier/many")).len(), 3000);
    let way = job.trial("in-the-way");
    assert!(way.is_rewarded(1.0), "{}", way.line);
    assert_eq!(way.text("verifier/test-stdout.txt"), "said\n");
    let long = job.trial("long-names");
    assert!(long.is_rewarded(1.0), "{}", long.line);
    assert!(long.directory.join("verifier/kept").is_file() && long.text("trial.log").contains("left out: "));
    for task in ["unpackable", "agent-unpackable"] {
        assert!(job.trial(task).is_rewarded(1.0), "{task}: {}", job.trial(task).line);
    }
    let links = job.trial("links");
    assert!(links.is_rewarded(1.0));
    assert!(links.directory.join("verifier/root").symlink_metadata().is_err());
    for task in ["removed", "device", "socket"] {
        assert_eq!(job.trial(task).reason(), "reward_unsafe", "{task}: {}", job.trial(task).line);
    }
}

fn a_root_agent_that_breaks_the_tools_does_not_keep_its_reward(engine: &Engine) {
    let fake = "mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt\nfor place in /usr/bin /bin /usr/sbin /sbin; do rm -f $place/rm; printf '#!/bin/sh\\nexit 0\\n' > $place/rm; chmod +x $place/rm; done\n";
    let shelf = engine.shelf([
        Task::new("quiet").solution(fake).verifier(":\n"),
        Task::new("immutable").solution("mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt; chattr +i /logs/verifier/reward.txt; chmod 000 /logs/verifier\n").verifier(":\n"),
    ]);
    let job = engine.run(&shelf);
    for task in ["quiet", "immutable"] {
        let trial = job.trial(task);
        let outcome = &trial.line["outcome"];
        assert!(outcome["reward"].is_null(), "{task}: {outcome}");
        assert!(
            ["reward_unsafe", "reward_missing", "verifier_setup_failed"].contains(&trial.reason()),
            "{outcome}"
        );
    }
}

fn no_agent_can_choose_another_try(engine: &Engine) {
    let shells = "rm -f /bin/bash /usr/bin/bash /bin/sh /usr/bin/sh /bin/dash /usr/bin/dash\n";
    let plant = "mkdir /tests; echo 1 > /tests/conftest.py\n\
                 rm /usr/bin/rm; printf '#!/bin/bash\\nexit 0\\n' > /usr/bin/rm; chmod +x /usr/bin/rm\n";
    let shelf = engine.shelf([
        Task::new("logs").solution("rm -rf /logs; echo 1 > /logs\n"),
        Task::new("rm").solution("rm -f /bin/rm /usr/bin/rm\n"),
        Task::new("shells").solution(shells),
        Task::new("tests").solution(plant),
        Task::new("crossing")
            .settings(SEPARATE)
            .dockerfile_line("RUN mkdir /app/full && echo 1 > /app/full/file")
            .solution("rm -rf /app/full; echo 1 > /app/full\n"),
    ]);
    let job = engine.run(&shelf);
    for task in ["logs", "rm", "shells", "tests", "crossing"] {
        let outcome = &job.trial(task).line["outcome"];
        assert_eq!(outcome["failed"]["retryable"], false, "{task}: {outcome}");
        assert_ne!(outcome["failed"]["class"], "infrastructure", "{task}: {outcome}");
    }
    for task in ["logs", "tests", "crossing"] {
        assert_eq!(job.trial(task).reason(), "reward_unsafe", "{task}");
    }
}

fn links_that_lead_out_together_do_not_reach_a_separate_verifier(engine: &Engine) {
    let settings = "artifacts = [\"/app/out\"]\n[agent]\ntimeout_sec = 60\n[verifier]\ntimeout_sec = 60\n\
                    environment_mode = \"separate\"\n[environment]\nbuild_timeout_sec = 60\n";
    let verifier = "if [ \"$(cat /app/out/answer)\" = \"$(cat /tests/expected)\" ]; then r=1; else r=0; fi\necho $r > /logs/verifier/reward.txt\n";
    let task = |name: &str, solution: &str| {
        Task::new(name)
            .settings(settings)
            .solution(&format!("mkdir /app/out; cd /app/out\n{solution}"))
            .verifier(verifier)
    };
    let shelf = engine.shelf([
        task("honest", "echo 42 > real; ln -s real answer\n"),
        task("through", "ln -s . here; ln -s here/here/../../tests/expected answer\n"),
        task("around", "mkdir -p a/b; ln -s ../.. a/b/up; ln -s a/b/up/a/b/up/../../tests/expected answer\n"),
    ]);
    for task in ["honest", "through", "around"] {
        shelf.file(task, "tests/expected", "42\n");
    }
    let job = engine.run(&shelf);
    assert!(job.trial("honest").is_rewarded(1.0), "{}", job.trial("honest").line);
    for task in ["through", "around"] {
        assert!(job.trial(task).is_rewarded(0.0), "{}", job.trial(task).line);
    }
}

fn logs_with_names_of_any_bytes_are_kept(engine: &Engine) {
    let odd = "python3 -c \"open(b'/logs/agent/' + b'\\xff' * 80, 'w'); open(b'/logs/artifacts/' + b'\\xff' * 150, 'w')\"\n\
               echo 1 > /logs/agent/plain.txt\n";
    let shelf = engine.shelf([
        Task::new("odd").solution(&format!("{FIX}{odd}")),
        Task::new("crossing").settings(SEPARATE).solution(&format!("{FIX}{odd}")),
    ]);
    let job = engine.run(&shelf);
    assert!(job.trial("crossing").is_rewarded(1.0), "{}", job.trial("crossing").line);
    let trial = job.trial("odd");
    assert!(trial.is_rewarded(1.0), "{}", trial.line);
    assert_eq!(trial.text("agent/plain.txt"), "1\n");
    let manifest = trial.json("artifacts/manifest.json");
    assert_ne!(manifest[0]["status"], "failed", "{manifest}");
}
