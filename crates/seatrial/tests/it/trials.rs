//! Trials of hand-made tasks: what comes out, why something does not, and the files that tell.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use serde_json::{Value, json};

use crate::project::{binary, children, ended, sandboxes_run, seatrial, tree};
use crate::tasks::{FIX, Shelf, Task, VERIFIER};

/// Keeps of an output what a trial directory keeps, and a marker.
const LOG_LIMIT: u64 = 4 << 20;

#[test]
fn the_oracle_gets_one_and_nop_gets_nothing() {
    if !sandboxes_run() {
        return;
    }
    let shelf = Shelf::new([Task::new("good")]);
    let oracle = shelf.run_with(&["-a", "oracle", "-n", "2", "--job-name", "first"]);
    assert_eq!(oracle.ended.code, Some(0), "{:?}", oracle.ended);
    let trials = oracle.trials("good");
    assert_eq!(trials.len(), 2);
    assert_ne!(trials[0].directory, trials[1].directory);
    for trial in &trials {
        assert!(trial.is_rewarded(1.0), "{}", trial.line);
        assert_eq!(
            trial.names(),
            [
                "agent",
                "artifacts",
                "config.json",
                "lock.json",
                "result.json",
                "seatrial.json",
                "trial.log",
                "verifier"
            ]
        );
        assert_eq!(trial.text("verifier/reward.txt"), "1\n");
        let result = trial.json("result.json");
        assert_eq!(result["verifier_result"], json!({"rewards": {"reward": 1.0}}));
        assert_eq!(result["exception_info"], Value::Null);
        assert_eq!(result["reward_valid"], true);
        assert_eq!(result["trial_name"], trial.line["trial"]);
        assert_eq!(result["config"], trial.json("config.json"));
    }
    let job: Value =
        serde_json::from_slice(&std::fs::read(shelf.root().join("jobs/first/result.json")).unwrap()).unwrap();
    assert_eq!(job["n_total_trials"], 2);
    assert_eq!(job["stats"]["evals"]["oracle__tasks"]["metrics"], json!([{"mean": 1.0}]));

    let nop = shelf.run("nop", "second");
    assert_eq!(nop.ended.code, Some(0));
    assert!(nop.trial("good").is_rewarded(0.0));
    // The same job again runs nothing and changes nothing; another one under its name is refused.
    let before = tree(&shelf.root().join("jobs"));
    let again = shelf.run("nop", "second");
    assert_eq!(again.ended.code, Some(0), "{:?}", again.ended);
    assert!(again.trial("good").is_rewarded(0.0) && again.trial("good").line["earlier"] == true);
    let taken = shelf.run("oracle", "second");
    assert_eq!(taken.ended.code, Some(5), "{:?}", taken.ended);
    assert!(taken.ended.stderr.contains("agents: nop there, oracle here"), "{:?}", taken.ended);
    assert_eq!(tree(&shelf.root().join("jobs")), before);
}

#[test]
fn jobs_of_the_same_second_get_names_of_their_own() {
    if !sandboxes_run() {
        return;
    }
    let shelf = Shelf::new([Task::new("good")]);
    let start = || {
        let mut command = binary();
        command.current_dir(shelf.root()).args(["run", "--json", "-p", "tasks", "-a", "nop"]);
        std::thread::spawn(move || ended(&mut command).with_code(0))
    };
    for run in [start(), start(), start()] {
        run.join().unwrap();
    }
    assert_eq!(children(&shelf.root().join("jobs")).len(), 3);
}

#[test]
fn verifiers_that_break_down_give_a_reason_and_never_a_reward() {
    if !sandboxes_run() {
        return;
    }
    let limit = |seconds: u32| {
        format!("[verifier]\ntimeout_sec = {seconds}\n[environment]\nbuild_timeout_sec = 60\n")
    };
    let shelf = Shelf::new([
        // Leaves a child that holds the output, ignores the polite signal, and has its reward written already.
        Task::new("hangs").settings(&limit(2)).verifier(
            "echo 1 > /logs/verifier/reward.txt\n(sleep 4242.25 &)\nsetsid sleep 4242.25 &\ntrap '' TERM\nwhile :; do sleep 1; done\n",
        ),
        Task::new("huge").verifier(&format!("{VERIFIER}head -c 60000000 /dev/zero | tr '\\0' x\necho; echo the end\n")),
        Task::new("login-shell")
            .dockerfile_line("RUN mkdir -p /opt/tool && printf '#!/bin/sh\\necho ok\\n' > /opt/tool/mytool && chmod +x /opt/tool/mytool && echo 'PATH=/opt/tool:$PATH' >> /etc/profile")
            .verifier("set -e\nanswer=$(mytool)\n[ \"$answer\" = ok ] && echo 1 > /logs/verifier/reward.txt\n"),
        Task::new("memory").settings("[environment]\nmemory_mb = 96\n").verifier(
            "python3 -c 'x = b\"x\" * 500_000_000'\necho 0 > /logs/verifier/reward.txt\n",
        ),
        Task::new("offline").verifier(
            "echo 'curl: (6) Could not resolve host: tools.invalid'\necho 0 > /logs/verifier/reward.txt\n",
        ),
        Task::new("no-interpreter").verifier("exec /no/such/program\n"),
        Task::new("stays-broken").solution("exit 7\n"),
        Task::new("unsupported").settings("[environment]\ngpus = 1\n"),
        Task::new("no-image").dockerfile_line("RUN exit 3"),
    ]);
    let job = shelf.run("oracle", "job");
    assert_eq!(job.ended.code, Some(1), "{:?}", job.ended);
    assert_eq!(job.lines().len(), 9);

    let hangs = job.trial("hangs");
    assert_eq!(hangs.reason(), "verifier_timeout");
    assert_eq!(hangs.json("result.json")["exception_info"]["exception_type"], "VerifierTimeoutError");
    assert_eq!(hangs.json("result.json")["verifier_result"], Value::Null);
    assert!(hangs.text("exception.txt").contains("limit of 2 s"), "{}", hangs.text("exception.txt"));
    let sleeping = children(std::path::Path::new("/proc")).into_iter().filter(|process| {
        std::fs::read(process.join("cmdline")).is_ok_and(|line| line == b"sleep\x004242.25\x00")
    });
    assert_eq!(sleeping.count(), 0, "a child of the verifier is still there");

    let huge = job.trial("huge");
    assert!(huge.is_rewarded(1.0), "{}", huge.line);
    let log = huge.text("verifier/test-stdout.txt");
    assert!(log.len() as u64 <= LOG_LIMIT && log.ends_with("the end\n"), "{} bytes", log.len());
    let (before, after) = log.split_once("\n[... ").unwrap();
    let (left_out, after) = after.split_once(" bytes left out ...]\n").unwrap();
    let whole = before.len() as u64 + left_out.parse::<u64>().unwrap() + after.len() as u64;
    assert_eq!(whole, 60_000_000 + "\nthe end\n".len() as u64);

    let login = job.trial("login-shell");
    assert_eq!(login.reason(), "tool_not_found");
    assert!(login.detail().contains("`mytool`"), "{}", login.detail());
    assert!(login.text("verifier/test-stdout.txt").contains("mytool: command not found"));

    let offline = job.trial("offline");
    assert!(offline.is_rewarded(0.0), "{}", offline.line);
    let flag = &offline.json("seatrial.json")["flags"][0];
    assert_eq!(flag["reason"], "verifier_setup_failed");
    assert!(flag["detail"].as_str().unwrap().ends_with("Could not resolve host: tools.invalid"), "{flag}");
    let said = "offline, oracle: reward 0, verifier_setup_failed (the verifier wanted a network";
    assert!(job.ended.stderr.contains(said), "{}", job.ended.stderr);

    let doctor = ended(binary().args(["doctor", "--json"])).json();
    let limits = doctor["engines"][0]["probes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|probe| probe["name"] == "control groups");
    if limits.unwrap()["ok"] == true {
        let memory = job.trial("memory");
        assert_eq!(memory.reason(), "out_of_memory");
        assert_eq!(memory.line["outcome"]["failed"]["class"], "infrastructure");
        assert_eq!(memory.line["outcome"]["failed"]["retryable"], true);
    } else {
        eprintln!("skipped: memory limits cannot be set here: {}", limits.unwrap()["detail"]);
    }

    assert_eq!(job.trial("no-interpreter").reason(), "reward_missing");
    let broken = job.trial("stays-broken");
    assert!(broken.is_rewarded(0.0), "{}", broken.line);
    assert_eq!(broken.text("agent/exit-code.txt"), "7");
    let unsupported = job.trial("unsupported");
    assert_eq!(unsupported.reason(), "task_invalid");
    assert!(unsupported.detail().contains("accelerators"), "{}", unsupported.detail());
    assert_eq!(job.trial("no-image").reason(), "environment_build_failed");

    // The job counts the same trials.
    let counted: Value =
        serde_json::from_slice(&std::fs::read(shelf.root().join("jobs/job/result.json")).unwrap()).unwrap();
    let stats = &counted["stats"];
    let without = job.lines().iter().filter(|line| line["outcome"]["failed"].is_object()).count();
    assert_eq!((&stats["n_completed_trials"], &stats["n_errored_trials"]), (&json!(9), &json!(without)));
    assert_eq!((&stats["n_running_trials"], &stats["n_pending_trials"]), (&json!(0), &json!(0)));
}

/// Verifiers by what they leave, the reason or the reward that follows, and a word of the explanation.
const REWARDS: [(&str, &str, Result<f64, &str>, &str); 33] = [
    ("missing", ":", Err("reward_missing"), ""),
    ("empty", ": > reward.txt", Err("reward_empty"), "reward.txt"),
    ("blank", "printf ' \\n\\t\\n' > reward.txt", Err("reward_empty"), "reward.txt"),
    ("nan", "echo nan > reward.txt", Err("reward_non_finite"), "nan"),
    ("overflow", "echo 1e999 > reward.txt", Err("reward_non_finite"), "1e999"),
    ("word", "echo PASS > reward.txt", Err("reward_unparsable"), "PASS"),
    ("underscore", "echo 1_0 > reward.txt", Err("reward_unparsable"), "1_0"),
    ("two-lines", "printf '0\\n1\\n' > reward.txt", Err("reward_unparsable"), "0"),
    ("link", "ln -s /etc/hostname reward.txt", Err("reward_unsafe"), "link"),
    ("directory", "mkdir reward.txt", Err("reward_unsafe"), "directory"),
    ("fifo", "mkfifo reward.txt", Err("reward_unsafe"), "special file"),
    (
        "large",
        "(echo 1; head -c 100000 /dev/zero | tr '\\0' ' ') > reward.txt",
        Err("reward_unsafe"),
        "64 KiB",
    ),
    ("json-bool", "echo '{\"reward\": true}' > reward.json", Err("reward_unparsable"), "boolean"),
    ("json-nan", "echo '{\"reward\": NaN}' > reward.json", Err("reward_non_finite"), "reward"),
    ("json-bare", "echo 1 > reward.json", Err("reward_unparsable"), "object"),
    ("json-empty", "echo '{}' > reward.json", Err("reward_missing"), ""),
    ("json-other", "echo '{\"score\": 1}' > reward.json", Err("reward_missing"), "score"),
    ("json-nested", "echo '{\"reward\": {\"value\": 1}}' > reward.json", Err("reward_unparsable"), "object"),
    ("json-twice", "echo '{\"reward\": 0, \"reward\": 1}' > reward.json", Err("reward_unparsable"), "twice"),
    ("disagree", "echo 0 > reward.txt; echo '{\"reward\": 1}' > reward.json", Err("reward_conflict"), "1"),
    ("json-string", "echo '{\"reward\": \"1\"}' > reward.json", Err("reward_unparsable"), "string"),
    ("json-null", "echo '{\"reward\": null}' > reward.json", Err("reward_unparsable"), "null"),
    ("json-list", "echo '{\"reward\": [1]}' > reward.json", Err("reward_unparsable"), "list"),
    (
        "json-infinity",
        "echo '{\"reward\": 1, \"q\": -Infinity}' > reward.json",
        Err("reward_non_finite"),
        "q",
    ),
    ("float", "printf '1.0\\n' > reward.txt", Ok(1.0), ""),
    ("no-newline", "printf 1 > reward.txt", Ok(1.0), ""),
    ("agree", "echo 1.0 > reward.txt; echo '{\"reward\": 1}' > reward.json", Ok(1.0), ""),
    ("near-one-text", "echo 0.9999999999999999 > reward.txt", Ok(0.999_999_999_999_999_9), ""),
    ("carriage-return", "printf ' 1 \\r\\n' > reward.txt", Ok(1.0), ""),
    ("byte-order-mark", "printf '\\xef\\xbb\\xbf1' > reward.txt", Ok(1.0), ""),
    ("near-one", "echo '{\"reward\": 0.9999999999999999}' > reward.json", Ok(0.999_999_999_999_999_9), ""),
    ("out-of-range", "echo 7 > reward.txt", Ok(7.0), ""),
    ("several", "echo '{\"style\": 1, \"reward\": 0.5}' > reward.json", Ok(0.5), ""),
];

#[test]
fn rewards_are_read_by_the_written_rules() {
    if !sandboxes_run() {
        return;
    }
    let verifier = |script: &str| format!("cd /logs/verifier\n{script}\n");
    let shelf =
        Shelf::new(REWARDS.iter().map(|(name, script, ..)| Task::new(name).verifier(&verifier(script))));
    let job = shelf.run("nop", "job");
    assert_eq!(job.ended.code, Some(1), "{:?}", job.ended);
    for (name, _, expected, word) in REWARDS {
        let trial = job.trial(name);
        let result = trial.json("result.json");
        match expected {
            Ok(reward) => {
                assert!(trial.is_rewarded(reward), "{name}: {}", trial.line);
                assert_eq!(result["verifier_result"]["rewards"]["reward"], reward, "{name}");
            }
            Err(reason) => {
                assert_eq!(trial.reason(), reason, "{name}: {}", trial.line);
                assert!(trial.detail().contains(word), "{name}: {}", trial.detail());
                assert!(!trial.detail().is_empty(), "{name}");
                assert!(result["exception_info"]["exception_type"].is_string(), "{name}");
                assert_eq!(result["reward_valid"], false, "{name}");
            }
        }
    }
    assert_eq!(
        job.trial("several").json("result.json")["verifier_result"]["rewards"],
        json!({"reward": 0.5, "style": 1})
    );
    // Nothing behind a link of the sandbox came out as a file.
    assert!(!job.trial("link").directory.join("verifier/reward.txt").exists());
}

/// Agents that want the reward without the work.
const CHEATS: [(&str, &str); 10] = [
    (
        "writes-rewards",
        "echo 1 > /logs/verifier/reward.txt; echo '{\"reward\": 1}' > /logs/verifier/reward.json",
    ),
    (
        "makes-the-directory",
        "mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt; chmod 0555 /logs/verifier",
    ),
    (
        "keeps-writing",
        "cat > /tmp/w <<'X'\nwhile :; do mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt; echo 1 > /logs/reward; done\nX\nsetsid nohup bash /tmp/w > /dev/null 2>&1 &\ndisown -a\nsleep 0.1",
    ),
    (
        "links-the-directory",
        "rm -rf /logs/verifier; mkdir /app/mine; echo 1 > /app/mine/reward.txt; ln -s /app/mine /logs/verifier",
    ),
    (
        "links-all-logs",
        "mkdir -p /app/logs/verifier; echo 1 > /app/logs/verifier/reward.txt; rm -rf /logs; ln -s /app/logs /logs",
    ),
    (
        "brings-tests",
        "mkdir -p /tests; printf '#!/bin/bash\\necho 1 > /logs/verifier/reward.txt\\n' > /tests/test.sh; chmod +x /tests/test.sh",
    ),
    (
        "links-tests",
        "mkdir -p /app/tests; printf '#!/bin/bash\\necho 1 > /logs/verifier/reward.txt\\n' > /app/tests/test.sh; rm -rf /tests; ln -s /app/tests /tests",
    ),
    (
        "mounts-over-it",
        "mkdir -p /logs/verifier; mount -t tmpfs none /logs/verifier && echo 1 > /logs/verifier/reward.txt",
    ),
    (
        "sets-shell-files",
        "for f in /root/.bashrc /root/.bash_profile /root/.profile /etc/bash.bashrc /etc/profile; do echo 'echo 1 > /logs/verifier/reward.txt; exit' >> $f; done; export BASH_ENV=/root/.bashrc",
    ),
    ("stops-the-world", "kill -STOP -1; kill -9 -1; echo 1 > /logs/verifier/reward.txt"),
];

#[test]
fn agents_that_write_rewards_themselves_get_none() {
    if !sandboxes_run() {
        return;
    }
    let honest = CHEATS.iter().map(|(name, script)| Task::new(name).solution(script));
    // A verifier that says nothing must not let somebody else's reward stand.
    let silent = CHEATS
        .iter()
        .map(|(name, script)| Task::new(&format!("{name}-silent")).solution(script).verifier(":\n"));
    let shelf = Shelf::new(honest.chain(silent));
    let job = shelf.run("oracle", "job");
    for (name, _) in CHEATS {
        let trial = job.trial(name);
        assert!(trial.is_rewarded(0.0), "{name}: {}", trial.line);
        assert_eq!(job.trial(&format!("{name}-silent")).reason(), "reward_missing", "{name}");
    }
}

#[test]
fn nothing_outside_the_sandbox_can_be_reached() {
    if !sandboxes_run() {
        return;
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let reach = format!("timeout 5 bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}'");
    let shelf = Shelf::new([
        Task::new("needs-network")
            .verifier(&format!("set -e\n{reach}\necho 1 > /logs/verifier/reward.txt\n")),
        Task::new("says-so").verifier(&format!(
            "if {reach}; then reward=1; else reward=0; fi\necho $reward > /logs/verifier/reward.txt\n"
        )),
        Task::new("agent").solution(&format!("{reach} && echo fixed > /app/state\n")),
    ]);
    // The project itself, with the solutions and the tests, is not to be seen from inside either.
    let secret = shelf.root().display().to_string();
    Task::new("looks-around")
        .solution(&format!("[ -n \"$(ls -A {secret})\" ] && {FIX}"))
        .write(&shelf.tasks());
    let job = shelf.run("oracle", "job");
    assert_eq!(job.trial("needs-network").reason(), "reward_missing");
    for task in ["says-so", "agent", "looks-around"] {
        assert!(job.trial(task).is_rewarded(0.0), "{task}");
    }
    assert!(listener.accept().is_err(), "somebody called from inside a sandbox");
}

#[test]
fn odd_names_stay_in_their_place() {
    if !sandboxes_run() {
        return;
    }
    let names: [&[u8]; 12] = [
        b"-rf",
        b"a b",
        b"$(touch pwned)",
        b"`touch pwned`",
        b"a;touch pwned",
        b"a:b",
        b"line\nbreak",
        b" lead ",
        b"Case",
        b"case",
        "\u{e9}t\u{e9}".as_bytes(),
        b"caf\xe9",
    ];
    let shelf = Shelf::new([]);
    for name in names {
        Task::new("").write_as(&shelf.tasks().join(OsStr::from_bytes(name)));
    }
    let before = tree(shelf.root());
    let job = shelf.run("oracle", "job");
    assert_eq!(job.ended.code, Some(0), "{:?}", job.ended);
    let lines = job.lines();
    assert_eq!(lines.len(), names.len());
    for line in &lines {
        assert_eq!(line["outcome"], json!({"reward": 1.0}), "{line}");
        let directory = shelf.root().join(line["directory"].as_str().unwrap());
        assert!(directory.join("result.json").is_file(), "{line}");
        assert_eq!(
            directory.parent().unwrap().canonicalize().unwrap(),
            shelf.root().join("jobs/job").canonicalize().unwrap()
        );
    }
    // Names that differ in case only are trials of their own.
    assert_eq!((job.trials("Case").len(), job.trials("case").len()), (1, 1));
    let mut after = tree(shelf.root());
    after.retain(|path, _| !path.starts_with("jobs/") && !path.starts_with(".seatrial/"));
    assert_eq!(after, before);

    let spoken = seatrial(shelf.root(), &["check", "--json", "tasks"]);
    assert_eq!(spoken.json_lines().len(), names.len());
}

/// The keys of a JSON value and everything below it, in their order.
fn shape(value: &Value, path: &str, keys: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let path = format!("{path}/{key}");
                keys.push(path.clone());
                shape(value, &path, keys);
            }
        }
        Value::Array(values) => {
            values.iter().take(1).for_each(|value| shape(value, &format!("{path}[]"), keys));
        }
        _ => {}
    }
}

#[test]
fn job_files_have_harbors_fields_in_harbors_order() {
    let Some(jobs) = corpus::find("data/harbor-0.26-jobs") else { return };
    if !sandboxes_run() {
        return;
    }
    let shelf = Shelf::new([Task::new("good"), Task::new("silent").verifier(":\n")]);
    let job = shelf.run("oracle", "job");
    let trial = |job: &std::path::Path, stem: &str| {
        children(job)
            .into_iter()
            .find(|path| path.file_name().unwrap().to_string_lossy().starts_with(stem))
            .unwrap()
    };
    let read =
        |path: &std::path::Path| -> Value { serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap() };
    let good = trial(&jobs.join("eight-n4"), "trivial-00__");
    let silent = trial(&jobs.join("odd"), "noreward__");
    let pairs = [
        (job.trial("good").directory, good, &["result.json", "config.json", "lock.json"][..]),
        (job.trial("silent").directory, silent, &["result.json"]),
        (shelf.root().join("jobs/job"), jobs.join("eight-n4"), &["config.json", "result.json"]),
    ];
    for (ours, theirs, files) in pairs {
        for file in files {
            let (mut our_keys, mut their_keys) = (Vec::new(), Vec::new());
            shape(&read(&ours.join(file)), "", &mut our_keys);
            shape(&read(&theirs.join(file)), "", &mut their_keys);
            for keys in [&mut our_keys, &mut their_keys] {
                // Counts differ with what happened, tasks with how they were named, and locks leave out what is null:
                // there, our engine has an import path where the other one has a type.
                let free = [
                    "/exception_stats/",
                    "/evals/",
                    "/tasks[]",
                    "/datasets[]",
                    "/environment/type",
                    "/environment/import_path",
                ];
                keys.retain(|key| !free.iter().any(|free| key.contains(free)));
            }
            assert!(our_keys.len() > 10, "{our_keys:?}");
            assert_eq!(
                our_keys,
                their_keys,
                "{} and {}",
                ours.join(file).display(),
                theirs.join(file).display()
            );
        }
    }
    let policy = |result: Value| result["exception_info"]["policy"].clone();
    let theirs = policy(read(&trial(&jobs.join("odd"), "noreward__").join("result.json")));
    assert_eq!(policy(job.trial("silent").json("result.json")), theirs);
    let ours = job.trial("silent").text("exception.txt");
    assert!(ours.contains("RewardFileNotFoundError"), "{ours}");
}

#[test]
fn tasks_that_cannot_be_run_are_named_with_what_is_wrong() {
    let shelf = Shelf::new([
        Task::new("good"),
        Task::new("linked"),
        Task::new("odd").settings("[agent]\ntimeout_sec = nan\n"),
    ]);
    std::os::unix::fs::symlink("/etc/passwd", shelf.tasks().join("linked/tests/link")).unwrap();
    let refused = shelf.run("nop", "job").ended;
    assert_eq!(refused.code, Some(2), "{refused:?}");
    for line in [
        "2 of 3 tasks cannot be run",
        "tasks/linked: link `tests/link` leads out",
        "tasks/odd is not a valid task",
    ] {
        assert!(refused.stderr.contains(line), "{refused:?}");
    }
    assert!(!shelf.root().join("jobs").exists());
}
