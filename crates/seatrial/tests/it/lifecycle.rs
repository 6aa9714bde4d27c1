//! The phases of a trial, one after the other: what each task feature does, and how each phase fails.

use std::path::Path;

use serde_json::{Value, json};

use crate::engines::{DOCKER, Engine, on_every_engine};
use crate::project::{binary, children, ended, sandboxes_run, tree};
use crate::tasks::{FIX, Shelf, Task, Trial};

on_every_engine!(
    every_phase_leaves_its_begin_its_end_and_what_came_of_it,
    an_agent_that_runs_into_its_limit_is_graded_and_does_not_pass_for_it,
    healthchecks_wait_as_docker_does,
    users_variables_and_working_directories_are_those_of_the_task,
    files_beside_a_prebuilt_image_are_brought_in,
    ignored_files_of_a_task_stay_outside,
    artifacts_are_kept_by_their_entries_and_listed,
    a_separate_verifier_sees_artifacts_and_nothing_else,
    steps_follow_each_other_and_give_one_reward,
    a_task_of_two_steps_leaves_what_harbor_leaves,
    missing_tools_are_named_and_never_a_silent_zero,
    what_trials_do_not_offer_is_refused_by_name,
    settings_that_nothing_can_satisfy_are_the_tasks_fault,
);

/// Settings that every task here begins with.
const LIMITS: &str = "[agent]\ntimeout_sec = 60\n[verifier]\ntimeout_sec = 60\n";

/// The phases of a trial with their steps and outcomes, in order.
fn phases(trial: &Trial) -> Vec<String> {
    let record = trial.json("seatrial.json");
    let phases = record["phases"].as_array().unwrap().iter();
    phases
        .map(|phase| {
            let outcome = match &phase["outcome"] {
                Value::String(outcome) => outcome.clone(),
                failed => failed["failed"].as_str().unwrap().to_owned(),
            };
            assert!(phase["started_at"].is_string() && phase["finished_at"].is_string(), "{phase}");
            let step = phase["step"].as_str().map(|step| format!("{step}:")).unwrap_or_default();
            format!("{step}{} {outcome}", phase["phase"].as_str().unwrap())
        })
        .collect()
}

/// Whether limits on memory are held on this machine; says what is skipped when they are not.
fn memory_is_limited() -> bool {
    let doctor = ended(binary().args(["doctor", "--json"])).json();
    let probes = doctor["engines"][0]["probes"].as_array().unwrap().clone();
    let groups = probes.iter().find(|probe| probe["name"] == "control groups").unwrap().clone();
    if groups["ok"] != true {
        eprintln!("skipped: memory limits cannot be set here: {}", groups["detail"]);
    }
    groups["ok"] == true
}

fn every_phase_leaves_its_begin_its_end_and_what_came_of_it(engine: &Engine) {
    let shelf = engine.shelf([
        Task::new("good"),
        Task::new("silent").verifier(":\n"),
        Task::new("no-image").dockerfile_line("RUN exit 3"),
        Task::new("unsupported").settings("[environment]\ngpus = 1\n"),
    ]);
    let job = engine.run(&shelf);
    let whole = ["build done", "start done", "setup done", "agent done", "collect done"];
    let with = |rest: &[&'static str]| [&whole[..], rest].concat();
    assert_eq!(phases(&job.trial("good")), with(&["verifier done", "destroy done"]));
    assert_eq!(phases(&job.trial("silent")), with(&["verifier reward_missing", "destroy done"]));
    assert_eq!(phases(&job.trial("no-image")), ["build environment_build_failed"]);
    assert_eq!(phases(&job.trial("unsupported")), Vec::<String>::new());
    let good = job.trial("good");
    let record = good.json("seatrial.json");
    assert!(record["image_digest"].as_str().unwrap().starts_with("sha256:"), "{record}");
    let result = good.json("result.json");
    for span in ["environment_setup", "agent_setup", "agent_execution", "verifier"] {
        assert!(result[span]["finished_at"].is_string(), "{span}");
    }
    let log = good.text("trial.log");
    for phase in ["build: ok in ", "agent: ok in ", "verifier: ok in ", "destroy: ok in "] {
        assert!(log.contains(phase), "{log}");
    }
}

fn an_agent_that_runs_into_its_limit_is_graded_and_does_not_pass_for_it(engine: &Engine) {
    let limit = "[agent]\ntimeout_sec = 1\n[verifier]\ntimeout_sec = 60\n";
    let late = format!(
        "{FIX}(trap '' TERM; while :; do echo 1 > /logs/verifier/reward.txt; sleep 0.1; done) &\nsleep 4343\n"
    );
    let shelf = engine.shelf([
        Task::new("late").settings(limit).solution(&late),
        Task::new("late-and-wrong").settings(limit).solution("sleep 4343\n"),
        Task::new("late-and-silent").settings(limit).solution("sleep 4343\n").verifier(":\n"),
    ]);
    let job = engine.run(&shelf);
    assert_eq!(job.ended.code, Some(1), "{:?}", job.ended);
    for (task, reward) in
        [("late", json!(1.0)), ("late-and-wrong", json!(0.0)), ("late-and-silent", Value::Null)]
    {
        let trial = job.trial(task);
        // Whoever accepts on a reward alone sees none.
        assert_eq!(trial.reason(), "agent_timeout", "{task}");
        assert_eq!(trial.line["outcome"]["failed"]["class"], "agent");
        assert!(trial.detail().contains("limit of 1 s"), "{}", trial.detail());
        let result = trial.json("result.json");
        assert_eq!(result["exception_info"]["exception_type"], "AgentTimeoutError");
        assert_eq!(result["verifier_result"]["rewards"]["reward"], reward, "{task}");
        assert_eq!(result["reward_valid"], !reward.is_null(), "{task}");
        assert!(trial.directory.join("verifier/test-stdout.txt").is_file());
    }
    assert!(job.trial("late-and-silent").detail().contains("no reward either"));
}

fn healthchecks_wait_as_docker_does(engine: &Engine) {
    let settings = |command: &str, rest: &str| {
        format!(
            "{LIMITS}[environment]\nbuild_timeout_sec = 60\n[environment.healthcheck]\ncommand = '''{command}'''\n{rest}\n"
        )
    };
    let third = "echo x >> /tmp/tries; [ $(wc -l < /tmp/tries) -ge 3 ]";
    let shelf = engine.shelf([
        Task::new("third-try").settings(&settings(third, "interval_sec = 0.05\nretries = 3")),
        Task::new("too-few").settings(&settings(third, "interval_sec = 0.05\nretries = 2")),
        Task::new("start-period").settings(&settings(
            third,
            "interval_sec = 0.05\nretries = 1\nstart_period_sec = 30\nstart_interval_sec = 0.05",
        )),
        Task::new("hangs").settings(&settings("echo waiting; sleep 4444", "timeout_sec = 0.5\nretries = 1")),
    ]);
    let job = engine.run(&shelf);
    for task in ["third-try", "start-period"] {
        let trial = job.trial(task);
        assert!(trial.is_rewarded(1.0), "{task}: {}", trial.line);
        assert!(phases(&trial).contains(&"healthcheck done".to_owned()));
    }
    for (task, word) in [("too-few", "2 times"), ("hangs", "longer than 0.5 s: waiting")] {
        let trial = job.trial(task);
        assert_eq!(trial.reason(), "healthcheck_failed", "{task}");
        assert!(trial.detail().contains(word), "{}", trial.detail());
        assert_eq!(trial.json("result.json")["exception_info"]["exception_type"], "HealthcheckError");
        assert_eq!(phases(&trial).last().unwrap(), "destroy done");
    }
}

fn users_variables_and_working_directories_are_those_of_the_task(engine: &Engine) {
    let settings = "[agent]\ntimeout_sec = 60\nuser = \"nobody\"\n[verifier]\ntimeout_sec = 60\nuser = \"nobody\"\n\
        [verifier.env]\nWANTED = \"fixed\"\n[environment]\nworkdir = \"/app/deep\"\n\
        [environment.env]\nPLACE = \"/app\"\nOTHER = \"${NOT_THERE:-default}\"\n[solution.env]\nSECRET = \"word\"\n";
    let solution = "[ \"$(id -un)\" = nobody ] && [ \"$PWD\" = /app/deep ] && [ \"$SECRET\" = word ] && [ \"$OTHER\" = default ] && echo fixed > $PLACE/state\necho published > /logs/artifacts/note\n";
    let verifier = "[ \"$(id -un)\" = nobody ] && [ \"$PWD\" = /app/deep ] && [ -z \"$SECRET\" ] && [ \"$(cat $PLACE/state)\" = \"$WANTED\" ] && reward=1 || reward=0\n\
        echo $reward > /logs/verifier/reward.txt\n";
    let shelf = engine.shelf([
        Task::new("ordinary")
            .settings(settings)
            .dockerfile_line("RUN mkdir /app/deep && chmod 666 /app/state")
            .solution(solution)
            .verifier(verifier),
        Task::new("host-variable").settings("[environment.env]\nHOME_OF_HOST = \"${HOME}\"\n"),
        Task::new("nobody-there").settings("[agent]\nuser = \"no-such-user\"\n"),
    ]);
    let job = engine.run(&shelf);
    let ordinary = job.trial("ordinary");
    assert!(ordinary.is_rewarded(1.0), "{} {}", ordinary.line, ordinary.text("verifier/test-stdout.txt"));
    assert_eq!(ordinary.text("artifacts/logs/artifacts/note"), "published\n");
    let refused = job.trial("host-variable");
    assert_eq!(refused.reason(), "task_invalid");
    assert!(refused.detail().contains("`HOME`"), "{}", refused.detail());
    let nobody = job.trial("nobody-there");
    assert!(nobody.detail().contains("no-such-user"), "{}", nobody.detail());
}

fn ignored_files_of_a_task_stay_outside(engine: &Engine) {
    let shelf = engine.shelf([Task::new("ignoring")
        .solution(&format!("[ ! -e /solution/notes ] && [ -e /solution/keep ] && {FIX}"))
        .verifier("[ ! -e /tests/cache ] && [ ! -e /tests/.harborignore ] && [ \"$(cat /app/state)\" = fixed ] && echo 1 > /logs/verifier/reward.txt\n")]);
    for (path, text) in [
        ("solution/.harborignore", "notes\n"),
        ("solution/notes", ""),
        ("solution/keep", ""),
        ("tests/.harborignore", "cache/\n"),
        ("tests/cache/x", ""),
    ] {
        shelf.file("ignoring", path, text);
    }
    let trial = engine.run(&shelf).trial("ignoring");
    assert!(trial.is_rewarded(1.0), "{}", trial.line);
}

fn files_beside_a_prebuilt_image_are_brought_in(engine: &Engine) {
    let shelf = engine.shelf([Task::new("prebuilt")
        .settings(&format!(
            "{LIMITS}[environment]\ndocker_image = \"seatrial.local/host\"\nworkdir = \"/srv\"\n"
        ))
        .solution("[ \"$(cat /srv/deep/data)\" = here ] && mkdir /app && echo fixed > /app/state\n")]);
    std::fs::remove_file(shelf.tasks().join("prebuilt/environment/Dockerfile")).unwrap();
    shelf.file("prebuilt", "environment/deep/data", "here\n");
    let trial = engine.run(&shelf).trial("prebuilt");
    assert!(trial.is_rewarded(1.0), "{} {}", trial.line, trial.text("agent/oracle.txt"));
}

fn artifacts_are_kept_by_their_entries_and_listed(engine: &Engine) {
    let settings = format!(
        "artifacts = [\"/app/out\", \"/app/out/deep\", \"/app/absent.txt\", \"/app/hollow\", \"result.txt\", \
         {{ source = \"/app/web\", destination = \"site\", exclude = [\"node_modules\", \"*.pyc\"] }}, \
         {{ source = \"/app/other\", destination = \"site\" }}]\n{LIMITS}"
    );
    let solution = format!(
        "{FIX}cd /app; mkdir -p out/deep hollow web/node_modules/x web/src other\n\
         echo 1 > out/deep/one; ln -s /etc/hostname out/link; mkfifo out/pipe\n\
         echo 2 > web/src/two; echo 3 > web/src/three.pyc; echo 4 > web/node_modules/x/four; echo 5 > other/five\n\
         echo 6 > result.txt; echo 7 > /logs/artifacts/seven; echo 8 > /logs/agent/eight; mkdir /logs/agent/oracle.txt\n\
         echo kept\n"
    );
    let hooks = "[[verifier.collect]]\ncommand = \"echo hook > /logs/artifacts/hook; exit 3\"\n\
                 [[verifier.collect]]\ncommand = \"sleep 4545\"\ntimeout_sec = 0.5\n";
    let shelf =
        engine.shelf([Task::new("keeps").settings(&format!("{settings}{hooks}")).solution(&solution)]);
    // A file that starts at the root of the document, before any table.
    let text = std::fs::read_to_string(shelf.tasks().join("keeps/task.toml")).unwrap();
    assert!(text.find("artifacts = ").unwrap() < text.find("[agent]").unwrap());
    let trial = engine.run(&shelf).trial("keeps");
    assert!(trial.is_rewarded(1.0), "{}", trial.line);
    let kept: Vec<_> = tree(&trial.directory.join("artifacts")).into_keys().collect();
    assert_eq!(
        kept,
        [
            "app/out/deep/one",
            "app/result.txt",
            "logs/artifacts/hook",
            "logs/artifacts/seven",
            "manifest.json",
            "site/src/two"
        ]
    );
    assert!(trial.directory.join("artifacts/app/hollow").is_dir());
    assert_eq!(trial.text("agent/oracle.txt"), "kept\n");
    assert_eq!(trial.text("agent/eight"), "8\n");
    let manifest = trial.json("artifacts/manifest.json");
    let entries: Vec<_> = manifest
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| ["source", "destination", "type", "status"].map(|key| entry[key].as_str().unwrap()))
        .collect();
    assert_eq!(
        entries,
        [
            ["/logs/artifacts", "artifacts/logs/artifacts", "directory", "ok"],
            ["/app/out", "artifacts/app/out", "directory", "ok"],
            ["/app/out/deep", "artifacts/app/out/deep", "directory", "skipped"],
            ["/app/absent.txt", "artifacts/app/absent.txt", "file", "failed"],
            ["/app/hollow", "artifacts/app/hollow", "directory", "empty"],
            ["result.txt", "artifacts/app/result.txt", "file", "ok"],
            ["/app/web", "artifacts/site", "directory", "ok"],
            ["/app/other", "artifacts/site", "directory", "skipped"],
        ]
    );
    assert_eq!(manifest[6]["exclude"], json!(["node_modules", "*.pyc"]));
    let log = trial.text("trial.log");
    assert!(log.contains("collect: Code(3)") && log.contains("collect: Timeout"), "{log}");
}

fn a_separate_verifier_sees_artifacts_and_nothing_else(engine: &Engine) {
    let settings = |rest: &str| {
        format!(
            "artifacts = [\"/app/answer\", \"/app/work\"]\n[agent]\ntimeout_sec = 60\n[verifier]\ntimeout_sec = 60\nenvironment_mode = \"separate\"\n{rest}"
        )
    };
    // Poisons everything that a verifier could use, leaves a process behind, and answers.
    let solution = "echo fixed > /app/answer; mkdir -p /app/work; echo 1 > /app/work/one; ln -s one /app/work/inside; ln -s /logs/verifier/reward.txt /app/work/out\n\
        echo fixed > /app/state; echo poisoned > /app/poison; echo note > /logs/artifacts/note\n\
        for name in bash sh cat rm; do printf '#!/bin/sh\\nexit 1\\n' > /usr/local/bin/$name; chmod +x /usr/local/bin/$name; done\n\
        mkdir -p /tests /logs/verifier; echo 1 > /logs/verifier/reward.txt\n\
        (while :; do echo 1 > /logs/verifier/reward.txt; done) > /dev/null 2>&1 &\n";
    let verifier = "set -e\n[ \"$(cat /app/answer)\" = fixed ]\n[ ! -e /app/poison ] && [ \"$(cat /app/state)\" = broken ]\n\
        [ \"$(cat /app/work/one)\" = 1 ] && [ -L /app/work/inside ] && [ ! -e /app/work/out ]\n\
        [ \"$(cat /logs/artifacts/note)\" = note ] && [ ! -e /usr/local/bin/cat ] && [ -z \"$(ls -A /logs/agent)\" ]\n\
        echo 1 > /logs/verifier/reward.txt\n";
    let shelf = engine.shelf([
        Task::new("copy").settings(&settings("")).solution(solution).verifier(verifier),
        Task::new("own-dockerfile").settings(&settings("")).solution(solution).verifier(
            "set -e\n[ \"$(cat /app/answer)\" = fixed ] && [ \"$(cat /made-for-tests)\" = yes ] && [ ! -e /app/state ]\necho 1 > /logs/verifier/reward.txt\n",
        ),
        Task::new("own-image")
            .settings(&settings("[verifier.environment]\ndocker_image = \"seatrial.local/host\"\n"))
            .solution(solution),
        Task::new("silent").settings(&settings("")).solution(solution).verifier(":\n"),
        Task::new("no-second").settings(&settings("")).solution(solution),
        Task::new("unprepared")
            .settings(&settings("[verifier.environment]\nworkdir = \"/\"\n[verifier.environment.healthcheck]\ncommand = \"false\"\nretries = 1\n"))
            .solution(solution),
    ]);
    shelf.file(
        "own-dockerfile",
        "tests/Dockerfile",
        &format!("FROM {}\nCOPY . /tests/\nRUN echo yes > /made-for-tests\n", engine.image),
    );
    shelf.file("no-second", "tests/Dockerfile", &format!("FROM {}\nRUN exit 3\n", engine.image));
    let job = engine.run(&shelf);
    for task in ["copy", "own-dockerfile"] {
        let trial = job.trial(task);
        assert!(trial.is_rewarded(1.0), "{task}: {} {}", trial.line, trial.text("verifier/test-stdout.txt"));
        assert_eq!(trial.json("result.json")["verifier_environment_mode"], "separate");
        // The first sandbox is gone before the verifier begins.
        let phases = phases(&trial);
        assert_eq!(phases[phases.len() - 2..], ["destroy done", "verifier done"], "{phases:?}");
    }
    // An image of the verifier's own has to bring its tests along.
    assert_eq!(job.trial("own-image").reason(), "reward_missing");
    assert_eq!(job.trial("silent").reason(), "reward_missing");
    let second = job.trial("no-second");
    assert_eq!(second.reason(), "environment_build_failed");
    assert!(second.detail().starts_with("the verifier's own environment: "), "{}", second.detail());
    assert_eq!(job.trial("unprepared").reason(), "healthcheck_failed");
    if engine.name == DOCKER.name {
        assert_eq!(crate::docker::containers_of(shelf.root()), Vec::<String>::new());
    }
}

/// A task of three steps; the third one needs what the second one made.
fn stepped(name: &str, head: &str, gate: &str) -> Task {
    Task::new(name).settings(&format!(
        "{head}artifacts = [\"/app/state\"]\n[agent]\ntimeout_sec = 60\n[environment]\nworkdir = \"/app\"\n\
         [verifier.env]\nA = \"task\"\nB = \"task\"\n\
         [[steps]]\nname = \"one\"\n{gate}[[steps]]\nname = \"two\"\nartifacts = [\"made\"]\n[steps.verifier.env]\nB = \"step\"\n\
         [steps.healthcheck]\ncommand = \"test -e /app/setup-ran\"\nretries = 1\n[[steps]]\nname = \"three\"\n"
    ))
}

fn write_steps(shelf: &Shelf, task: &str) {
    let steps = [
        (
            "one",
            "echo one > /app/state; echo 1 > /logs/artifacts/one\n",
            "[ \"$(cat /app/state)\" = one ] && [ \"$A$B\" = tasktask ]",
        ),
        (
            "two",
            "[ \"$(cat given)\" = given ] && [ ! -e /logs/artifacts/one ] && [ ! -e /tests ] && echo two > /app/state; echo made > made\n",
            "[ \"$(cat /app/state)\" = two ] && [ \"$A$B\" = taskstep ] && [ ! -e /logs/verifier/left ]",
        ),
        ("three", "[ -e made ] && exit 7\n", "[ \"$(cat /app/state)\" = three ]"),
    ];
    for (step, solution, check) in steps {
        let place = |path: &str| format!("steps/{step}/{path}");
        shelf.file(task, &place("instruction.md"), "Do it.\n");
        shelf.file(task, &place("solution/solve.sh"), &format!("#!/bin/bash\n{solution}"));
        shelf.file(task, &place("tests/check.sh"), &format!("#!/bin/bash\n{check}\n"));
    }
    // The task's own script, with what each step brings along over it.
    let test = "#!/bin/bash\n/tests/check.sh && r=1 || r=0\necho x > /logs/verifier/left\necho \"{\\\"reward\\\": $r, \\\"q\\\": 0.5}\" > /logs/verifier/reward.json\n";
    shelf.file(task, "tests/test.sh", test);
    shelf.file(task, "steps/two/workdir/given", "given\n");
    shelf.file(
        task,
        "steps/two/workdir/setup.sh",
        "#!/bin/bash\ntouch setup-ran; echo ran > /logs/artifacts/setup; rm -- \"$0\"\n",
    );
}

fn steps_follow_each_other_and_give_one_reward(engine: &Engine) {
    let tasks = [
        stepped("mean", "", ""),
        stepped("final", "multi_step_reward_strategy = \"final\"\n", ""),
        stepped("gated", "", "min_reward = { q = 0.6 }\n"),
        stepped("broken-setup", "", ""),
        stepped("own-sandboxes", "", ""),
    ];
    let names: Vec<_> = tasks.iter().map(|task| task.name.clone()).collect();
    let shelf = engine.shelf(tasks);
    for name in &names {
        write_steps(&shelf, name);
    }
    shelf.file("broken-setup", "steps/two/workdir/setup.sh", "#!/bin/bash\necho no luck; exit 5\n");
    let settings = shelf.tasks().join("own-sandboxes/task.toml");
    let text = std::fs::read_to_string(&settings).unwrap();
    std::fs::write(
        &settings,
        format!("{text}[verifier]\nenvironment_mode = \"separate\"\n")
            .replace("[verifier.env]", "[verifier.env]"),
    )
    .unwrap();
    let job = engine.run(&shelf);

    let mean = job.trial("mean");
    assert!(mean.is_rewarded(2.0 / 3.0), "{} {}", mean.line, mean.text("trial.log"));
    let result = mean.json("result.json");
    assert_eq!(result["verifier_result"]["rewards"], json!({"q": 0.5, "reward": 2.0 / 3.0}));
    assert_eq!(result["step_results"].as_array().unwrap().len(), 3);
    assert_eq!(result["step_results"][0]["step_name"], "one");
    assert_eq!(result["step_results"][0]["verifier_result"]["rewards"], json!({"q": 0.5, "reward": 1}));
    for absent in
        ["agent_result", "verifier_environment_mode", "agent_execution", "verifier", "exception_info"]
    {
        assert_eq!(result[absent], Value::Null, "{absent}");
    }
    assert!(result["agent_setup"]["finished_at"].is_string());
    let files: Vec<_> = tree(&mean.directory.join("steps")).into_keys().collect();
    assert_eq!(
        files,
        [
            "one/agent/oracle.txt",
            "one/artifacts/app/state",
            "one/artifacts/logs/artifacts/one",
            "one/artifacts/manifest.json",
            "one/verifier/left",
            "one/verifier/reward.json",
            "one/verifier/test-stdout.txt",
            "three/agent/exit-code.txt",
            "three/agent/oracle.txt",
            "three/artifacts/app/state",
            "three/artifacts/manifest.json",
            "three/verifier/left",
            "three/verifier/reward.json",
            "three/verifier/test-stdout.txt",
            "two/agent/oracle.txt",
            "two/artifacts/app/made",
            "two/artifacts/app/state",
            "two/artifacts/logs/artifacts/setup",
            "two/artifacts/manifest.json",
            "two/verifier/left",
            "two/verifier/reward.json",
            "two/verifier/test-stdout.txt",
        ]
    );
    assert_eq!(mean.text("steps/one/artifacts/app/state"), "one\n");
    assert!(phases(&mean).contains(&"two:healthcheck done".to_owned()));
    for absent in ["agent", "verifier", "artifacts"] {
        assert!(!mean.directory.join(absent).exists(), "{absent}");
    }

    // The agent's sandbox goes on, each verification has one of its own.
    let own = job.trial("own-sandboxes");
    assert!(own.is_rewarded(2.0 / 3.0), "{} {}", own.line, own.text("trial.log"));
    assert_eq!(phases(&own).iter().filter(|phase| phase.starts_with("destroy")).count(), 1);

    assert!(job.trial("final").is_rewarded(0.0));
    let gated = job.trial("gated");
    assert!(gated.is_rewarded(1.0), "{}", gated.line);
    assert_eq!(gated.json("result.json")["step_results"].as_array().unwrap().len(), 1);
    assert!(gated.text("trial.log").contains("q = 0.5 in step one, below 0.6"));

    let broken = job.trial("broken-setup");
    assert_eq!(broken.reason(), "task_invalid");
    assert!(broken.detail().contains("step two: steps/two/workdir/setup.sh ended with code 5: no luck"));
    let steps = broken.json("result.json")["step_results"].clone();
    assert_eq!(steps.as_array().unwrap().len(), 2);
    assert_eq!(steps[1]["exception_info"]["exception_type"], "ValueError");
    assert_eq!(steps[1]["verifier_result"], Value::Null);
}

/// Relative paths of all files of a directory, with the step's name in front of each.
fn layout(trial: &Path) -> Vec<String> {
    // What only one of the two writers has.
    tree(trial).into_keys().filter(|path| !path.ends_with("seatrial.json")).collect()
}

fn a_task_of_two_steps_leaves_what_harbor_leaves(engine: &Engine) {
    let Some(corpus) = corpus::find("data/harbor-0.26-jobs") else { return };
    let shelf = engine.shelf([]);
    let task = shelf.tasks().join("multi");
    let copied =
        std::process::Command::new("cp").arg("-rL").arg(corpus.join("tasks/multi")).arg(&task).status();
    assert!(copied.unwrap().success());
    let made = std::process::Command::new("chmod").args(["-R", "u+w"]).arg(&task).status();
    assert!(made.unwrap().success());
    let settings = std::fs::read_to_string(task.join("task.toml")).unwrap();
    assert!(settings.contains("debian:bookworm"));
    std::fs::write(task.join("task.toml"), settings.replace("debian:bookworm", engine.image)).unwrap();
    let ours = engine.run(&shelf).trial("bench/multi");
    assert!(ours.is_rewarded(1.0), "{} {}", ours.line, ours.text("trial.log"));
    let theirs = children(&corpus.join("odd"))
        .into_iter()
        .find(|path| path.file_name().unwrap().to_string_lossy().starts_with("multi__"))
        .unwrap();
    assert_eq!(layout(&ours.directory), layout(&theirs));
    let read = |path: &Path| -> Value { serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap() };
    let steps = |result: Value| -> Vec<Value> {
        let steps = result["step_results"].as_array().unwrap().clone();
        steps.iter().map(|step| step["verifier_result"].clone()).collect()
    };
    let (our_result, their_result) = (ours.json("result.json"), read(&theirs.join("result.json")));
    assert_eq!(our_result["verifier_result"], their_result["verifier_result"]);
    assert_eq!(steps(our_result), steps(their_result));
    let manifest = "steps/a/artifacts/manifest.json";
    assert_eq!(
        std::fs::read(ours.directory.join(manifest)).unwrap(),
        std::fs::read(theirs.join(manifest)).unwrap()
    );
}

#[test]
fn limits_that_are_reached_have_names() {
    if !sandboxes_run() {
        return;
    }
    let settings = |rest: &str| format!("{LIMITS}[environment]\n{rest}\n");
    let eat = "python3 -c 'x = b\"x\" * 500_000_000'\n";
    let shelf = Shelf::new([
        Task::new("agent-memory").settings(&settings("memory_mb = 96")).solution(&format!("set -e\n{eat}")),
        Task::new("agent-recovers").settings(&settings("memory_mb = 96")).solution(&format!("{eat}{FIX}")),
        Task::new("agent-storage")
            .settings(&settings("storage_mb = 4"))
            .solution("while :; do head -c 20000000 /dev/zero >> /app/big; sleep 0.05; done\n"),
    ]);
    let job = shelf.run("oracle", "job");
    let storage = job.trial("agent-storage");
    assert_eq!(storage.reason(), "storage_limit", "{}", storage.line);
    assert_eq!(storage.line["outcome"]["failed"]["class"], "agent");
    assert_eq!(storage.line["outcome"]["failed"]["retryable"], false);
    assert!(!storage.directory.join("verifier/reward.txt").exists());
    if memory_is_limited() {
        let memory = job.trial("agent-memory");
        assert_eq!(memory.reason(), "out_of_memory", "{}", memory.line);
        assert!(memory.detail().contains("of the agent"), "{}", memory.detail());
        // A process that is killed on the way is the agent's own business as long as it ends well.
        assert!(job.trial("agent-recovers").is_rewarded(1.0));
        assert!(memory.json("seatrial.json")["usage"]["oom_kills"].as_u64().unwrap() > 0);
    }
}

fn missing_tools_are_named_and_never_a_silent_zero(engine: &Engine) {
    let shelf = engine.shelf([
        Task::new("zero").verifier(
            "if [ \"$(mytool)\" = ok ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n",
        ),
        Task::new("none").verifier("set -e\nmytool\necho 1 > /logs/verifier/reward.txt\n"),
        Task::new("other-shell").verifier("sh -ec 'mytool; echo 1 > /logs/verifier/reward.txt'\n"),
        Task::new("range").verifier("echo 7 > /logs/verifier/reward.txt\n"),
    ]);
    let job = engine.run(&shelf);
    let zero = job.trial("zero");
    assert!(zero.is_rewarded(0.0));
    assert!(
        zero.text("trial.log").contains("note: tool_not_found (the verifier's shell did not find `mytool`)")
    );
    for task in ["none", "other-shell"] {
        let trial = job.trial(task);
        assert_eq!(trial.reason(), "tool_not_found", "{task}");
        assert_eq!(trial.json("result.json")["exception_info"]["exception_type"], "RewardFileNotFoundError");
    }
    let range = job.trial("range");
    assert!(range.is_rewarded(7.0));
    assert_eq!(range.json("seatrial.json")["flags"][0]["reason"], "reward_out_of_range");
    assert_eq!(zero.json("seatrial.json")["flags"][0]["reason"], "tool_not_found");
}

fn what_trials_do_not_offer_is_refused_by_name(engine: &Engine) {
    let shelf = engine.shelf([
        Task::new("gpus").settings("[environment]\ngpus = 1\n"),
        Task::new("compose"),
        Task::new("windows").settings("[environment]\nos = \"linux\"\n[[environment.mcp_servers]]\nname = \"x\"\ntransport = \"sse\"\nurl = \"http://index.invalid/\"\n"),
        Task::new("service").settings("[[verifier.collect]]\ncommand = \"true\"\nservice = \"database\"\n"),
        Task::new("allow-list").settings("[environment]\nnetwork_mode = \"allowlist\"\nallowed_hosts = [\"index.invalid\"]\n"),
    ]);
    shelf.file("compose", "environment/docker-compose.yaml", "services: {}\n");
    let job = engine.run(&shelf);
    for (task, word) in [
        ("gpus", "accelerators"),
        ("compose", "environment/docker-compose.yaml"),
        ("windows", "MCP servers"),
        ("service", "services other than main"),
    ] {
        let trial = job.trial(task);
        assert_eq!(trial.reason(), "task_invalid", "{task}");
        assert!(trial.detail().contains(word), "{}", trial.detail());
    }
    // A permission that is not used is none that is missing.
    assert!(job.trial("allow-list").is_rewarded(1.0));
}

fn settings_that_nothing_can_satisfy_are_the_tasks_fault(engine: &Engine) {
    let task = |name: &str, agent: &str, environment: &str| {
        Task::new(name).settings(&format!(
            "[agent]\ntimeout_sec = 60\n{agent}\n[verifier]\ntimeout_sec = 60\n[environment]\n{environment}\n"
        ))
    };
    let shelf = engine.shelf([
        task("nobody", "user = \"no-such-user\"", ""),
        task("nowhere", "", "workdir = \"/no/such/place\""),
        task("zero-byte", "", "env = { A = \"1\\u00002\" }"),
        task("many-processors", "", "cpus = 1e300"),
        task("much-memory", "", "memory_mb = 17592186044416"),
    ]);
    let job = engine.run(&shelf);
    for (task, word) in
        [("nobody", "no-such-user"), ("nowhere", "/no/such/place"), ("zero-byte", "zero byte")]
    {
        let outcome = &job.trial(task).line["outcome"];
        assert_eq!(job.trial(task).reason(), "task_invalid", "{outcome}");
        assert!(outcome["failed"]["detail"].as_str().unwrap().contains(word), "{outcome}");
    }
    // More than there is of anything is no limit.
    for task in ["many-processors", "much-memory"] {
        assert!(job.trial(task).is_rewarded(1.0), "{}", job.trial(task).line);
    }
}

#[test]
fn every_reason_is_documented_with_what_follows_from_it() {
    let formats = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats.md");
    let text = std::fs::read_to_string(formats).unwrap();
    for reason in record::Reason::ALL {
        let rule = job::rule(reason);
        let name = serde_json::to_value(reason).unwrap();
        let row = format!("| `{}` | ", name.as_str().unwrap());
        let found =
            text.lines().find(|line| line.starts_with(&row)).unwrap_or_else(|| panic!("no row {row}"));
        assert!(found.ends_with(&format!("| `{}` |", rule.exception)), "{found}");
        // Those that depend on the phase say so in words.
        if !matches!(reason, record::Reason::StorageLimit | record::Reason::TrialTimeout) {
            let class = serde_json::to_value(rule.class).unwrap();
            let retried = if rule.retryable { "yes" } else { "no" };
            assert!(found.contains(&format!("| {} | {retried} |", class.as_str().unwrap())), "{found}");
        }
    }
}
