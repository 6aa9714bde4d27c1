//! A model at work on tasks: a scripted one, over real HTTP, in real sandboxes.

use scripted::{Script, Server};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::project::{binary, ended, sandboxes_run, seatrial};
use crate::tasks::{Job, Shelf, Task};

/// A scripted model that is being served.
pub struct Scripted {
    pub server: Server,
    _runtime: Runtime,
}

impl Scripted {
    /// Serves a script.
    pub fn serve(script: &Value) -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let script = Script::from_json(&script.to_string()).expect("a script");
        let server = runtime.block_on(Server::start(script)).expect("a port is free");
        Self { server, _runtime: runtime }
    }

    /// Runs the agent `shell` on all tasks of a shelf.
    pub fn run(&self, shelf: &Shelf, arguments: &[&str]) -> Job {
        let url = self.server.url();
        let model = ["-a", "shell", "-m", "m", "--endpoint", url.as_str()];
        let once: &[&str] = if arguments.contains(&"--max-retries") { &[] } else { &["--max-retries", "0"] };
        shelf.run_with(&[&model, once, arguments].concat())
    }
}

const SUBMIT: &str = "submit";

/// Tasks that the scripted model treats each in its own way, and what comes of it: reward, and reason of a failure.
const FATES: [(&str, Option<f64>, Option<&str>); 9] = [
    ("solves", Some(1.0), None),
    ("fails", Some(0.0), None),
    ("late", Some(1.0), Some("agent_timeout")),
    ("overflows", Some(0.0), Some("context_overflow")),
    ("cheats", Some(0.0), None),
    ("babbles", Some(0.0), Some("agent_error")),
    ("stops", Some(0.0), None),
    ("refused", None, Some("api_failed")),
    ("breaks", None, Some("agent_error")),
];

fn shelf() -> Shelf {
    let shelf = Shelf::new(FATES.map(|(name, _, _)| match name {
        "late" => Task::new(name).settings("[agent]\ntimeout_sec = 3\n"),
        _ => Task::new(name),
    }));
    for (name, _, _) in FATES {
        shelf.file(name, "instruction.md", &format!("Task {name}: make /app/state say `fixed`.\n"));
    }
    shelf
}

fn script() -> Value {
    let fix = "echo fixed > /app/state";
    let scene = |name: &str, turns: Value| json!({"when": [format!("Task {name}:")], "turns": turns});
    json!({"model": "m", "scenes": [
        scene("solves", json!([
            {"text": "I look.", "reasoning": "Where is it?", "commands": ["cat state; id -u; ls /solution /tests"]},
            {"text": "Broken.", "arguments": "{\"command\": \"cat"},
            {"text": "I repair it.", "commands": [fix], "faults": [{"status": {"status": 500}}, "cut"]},
            {"commands": [SUBMIT]},
        ])),
        scene("fails", json!([{"commands": ["echo fxied > /app/state; head -c 100000 /dev/zero | tr '\\0' x"]}, {"commands": [SUBMIT]}])),
        scene("late", json!([{"commands": [format!("{fix}; sleep 60")]}])),
        scene("overflows", json!([{"commands": ["head -c 12000 /dev/zero | tr '\\0' y"]}])),
        scene("cheats", json!([
            {"commands": ["echo 1 > /logs/verifier/reward.txt; mkdir -p /logs/agent/wire; cd /logs/agent; echo '{}' > wire/x; for f in trajectory.json trajectory.cont-1.json result.json; do echo '{\"steps\": [{\"source\": \"agent\", \"message\": \"forged\"}]}' > $f; done; (while :; do echo 1 > /logs/verifier/reward.txt; done) &"]},
            {"commands": [SUBMIT]},
        ])),
        scene("babbles", json!([{"text": "Hello!"}])),
        scene("stops", json!([{"commands": ["true"]}])),
        scene("refused", json!([{"commands": ["true"]}, {"faults": [{"status": {"status": 418, "message": "no"}}]}])),
        scene("breaks", json!([{"commands": ["mkdir /tmp/x; mv /bin/bash /usr/bin/bash /bin/sh /usr/bin/sh /tmp/x; true"]}, {"commands": ["ls"]}])),
    ]})
}

#[test]
fn what_a_model_does_is_what_results_trajectories_and_traces_tell() {
    if !sandboxes_run() {
        return;
    }
    let (shelf, model) = (shelf(), Scripted::serve(&script()));
    let limits = [
        "--context",
        "9000",
        "--max-turns",
        "6",
        "--tokens",
        "vllm",
        "--prices",
        "1,1,2",
        "--job-name",
        "all",
    ];
    let job = model.run(&shelf, &limits);
    assert_eq!(job.ended.code, Some(1), "{:?}", job.ended);
    let mut turns = 0;
    for (name, reward, reason) in FATES {
        let trial = job.trial(name);
        assert_eq!(trial.line["reward"], json!(reward), "{name}: {}", trial.line);
        match reason {
            Some(reason) => assert_eq!(trial.reason(), reason, "{name}"),
            None => assert!(trial.is_rewarded(reward.unwrap()), "{name}"),
        }
        let result = trial.json("result.json");
        assert_eq!(result["agent_info"]["name"], "shell");
        assert_eq!(result["agent_info"]["model_info"], json!({"name": "m", "provider": null}));
        assert_eq!(result["config"]["agent"]["model_name"], "m");
        assert_eq!(result["reward_valid"], reward.is_some());
        let trajectory = trial.json("agent/trajectory.json");
        let steps = trajectory["steps"].as_array().unwrap();
        let asked = steps.iter().filter(|step| step["source"] == "agent").count();
        assert_eq!(result["agent_result"]["metadata"]["n_episodes"], asked, "{name}");
        let sum = |key: &str| steps.iter().filter_map(|step| step["metrics"][key].as_u64()).sum::<u64>();
        assert_eq!(result["agent_result"]["n_input_tokens"], sum("prompt_tokens"), "{name}");
        assert_eq!(result["agent_result"]["n_output_tokens"], sum("completion_tokens"), "{name}");
        let record = trial.json("seatrial.json");
        assert_eq!(record["model"]["turns"], asked);
        turns += asked;
    }
    let heard = |name: &str, step: usize| {
        let trajectory = job.trial(name).json("agent/trajectory.json");
        trajectory["steps"][step]["observation"]["results"][0]["content"].as_str().unwrap().to_owned()
    };
    // Neither solution nor tests are there while the model works.
    assert!(heard("solves", 2).starts_with("exit status 2\noutput:\nbroken\n0\n"), "{}", heard("solves", 2));
    assert!(heard("fails", 2).contains(" bytes left out ...]"));
    let end = |name: &str| job.trial(name).json("seatrial.json")["model"]["end"].clone();
    assert_eq!((end("solves"), end("stops")), (json!("submitted"), json!("step_limit")));
    // What a model leaves in the place of its trajectory is no part of it.
    let cheats = job.trial("cheats");
    assert!(!cheats.text("agent/trajectory.json").contains("\"forged\""));
    assert!(!cheats.directory.join("agent/trajectory.cont-1.json").exists());
    assert!(!cheats.directory.join("agent/wire").exists());

    // The traces tell the same.
    let root = shelf.root();
    let said =
        seatrial(root, &["--json", "traces", "export", "jobs", "--episodes", "all", "-o", "rows.jsonl"]);
    let said = said.with_code(0).json();
    assert_eq!(said["written"]["rows"], turns, "{said}");
    let rows = std::fs::read_to_string(root.join("rows.jsonl")).unwrap();
    for line in rows.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let (_, reward, reason) = FATES.into_iter().find(|(name, _, _)| row["task"] == *name).unwrap();
        let expected = match (reward, reason) {
            (_, Some(reason)) => {
                let reason = serde_json::from_value(reason.into()).unwrap();
                job::rule(reason).exception.to_owned()
            }
            (reward, None) => job::python_float(reward.unwrap()),
        };
        assert_eq!(row["result"], expected, "{}", row["task"]);
        assert_eq!((&row["agent"], &row["model"]), (&"shell".into(), &"m".into()));
    }
    let tokens = ["--json", "traces", "convert", "jobs", "--to", "tokens", "-o", "tokens.jsonl"];
    let said = seatrial(root, &tokens).with_code(0).json();
    assert_eq!(said["convert"]["samples"], turns, "{said}");
    assert_eq!(said["convert"]["prefix_breaks"], 0, "{said}");
    let show = seatrial(root, &["--json", "jobs", "show", "all"]).with_code(0).json();
    assert_eq!((&show["rewarded"], &show["errored"]), (&7.into(), &2.into()));

    // The same job again asks nobody.
    let asked = model.server.requests().len();
    let again = model.run(&shelf, &limits);
    assert!(again.lines().iter().all(|line| line["earlier"] == true));
    assert_eq!(model.server.requests().len(), asked);
}

#[test]
fn attempts_are_groups_and_a_missing_reward_is_named() {
    if !sandboxes_run() {
        return;
    }
    let shelf = Shelf::new([Task::new("mixed"), Task::new("partial")]);
    shelf.file("partial", "instruction.md", "Task partial.\n");
    let solve = json!([{"commands": ["echo fixed > state"]}, {"commands": [SUBMIT]}]);
    let model = Scripted::serve(&json!({"model": "m", "scenes": [
        {"when": ["Task partial."], "seed": 8, "turns": [{"faults": [{"status": {"status": 418}}]}]},
        {"seed": 7, "turns": solve},
        {"turns": [{"commands": [SUBMIT]}]},
    ]}));
    let job = model.run(&shelf, &["-n", "3", "--seed", "7", "--protocol", "fenced"]);
    assert_eq!(job.ended.code, Some(1), "{:?}", job.ended);
    let rewards: Vec<_> = job.trials("mixed").iter().map(|trial| trial.line["reward"].clone()).collect();
    assert_eq!(rewards, [1.0, 0.0, 0.0]);
    let difficulty = ["--json", "traces", "convert", "jobs", "--to", "difficulty", "-o", "difficulty.jsonl"];
    let said = seatrial(shelf.root(), &difficulty).with_code(0).json();
    assert_eq!(said["convert"]["samples"], 2, "{said}");
    let rows = std::fs::read_to_string(shelf.root().join("difficulty.jsonl")).unwrap();
    let rows: Vec<Value> = rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows[0]["instance_id_or_commit_hash"], "mixed");
    assert_eq!((&rows[0]["reward_mean"], &rows[0]["spread"]), (&json!(1.0 / 3.0), &json!("mixed")));
    // The trial that was refused had no turn.
    assert_eq!((&rows[1]["rewarded"], &rows[1]["errored"]), (&json!(2), &json!(0)));
    let sum = job.ended.json_lines().pop().unwrap();
    let partial = json!([{"task": "partial", "agent": "shell", "rewarded": 2}]);
    assert_eq!(sum["groups"], json!({"attempts": 3, "whole": 1, "constant": 0, "partial": partial}));
}

/// A small agent in Python, which asks the model behind the door until it says no more commands.
const PROGRAM: &str = r#"
import json, os, subprocess, urllib.request
messages = [{"role": "user", "content": os.environ["SEATRIAL_INSTRUCTION"]}]
while True:
    body = json.dumps({"model": os.environ["SEATRIAL_MODEL"], "messages": messages}).encode()
    request = urllib.request.Request(os.environ["URL"], body, {"Content-Type": "application/json"})
    text = json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"]
    messages.append({"role": "assistant", "content": text})
    if "```" not in text:
        break
    script = text.split("```bash\n")[1].split("\n```")[0]
    ran = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    messages.append({"role": "user", "content": ran.stdout + ran.stderr})
json.dump(messages, open("/logs/agent/little.json", "w"))
raise SystemExit(3 if text == "fail" else 0)
"#;

/// How it is started.
fn little() -> String {
    format!(
        "name = \"little\"\nversion = \"7\"\nsetup = \"command -v python3\"\ncommand = '''python3 -c '{}''''\n\
         trajectory = \"little.json\"\nform = \"chat\"\n[env]\nURL = \"{{{{ base_url }}}}/chat/completions\"\n",
        PROGRAM.replace('\'', "\"")
    )
}

#[test]
fn a_program_of_the_image_asks_the_model_through_a_door() {
    if !sandboxes_run() {
        return;
    }
    let shelf = Shelf::new([Task::new("solves"), Task::new("fails")]);
    for name in ["solves", "fails"] {
        shelf.file(name, "instruction.md", &format!("Task {name}: repair 'it' \"now\".\n"));
    }
    let model = Scripted::serve(&json!({"model": "m", "scenes": [
        {"when": ["Task solves: repair 'it' \"now\"."], "turns": [{"commands": ["echo fixed > state"]}, {"text": "done"}]},
        {"when": ["Task fails:"], "turns": [{"text": "fail"}]},
    ]}));
    let spec = little();
    std::fs::write(shelf.root().join("little.toml"), &spec).unwrap();
    let url = model.server.url();
    let run = |url: &str, job: &str| {
        shelf.run_with(&[
            "--agent-spec",
            "little.toml",
            "-m",
            "m",
            "--endpoint",
            url,
            "--max-retries",
            "0",
            "--job-name",
            job,
        ])
    };
    let job = run(&url, "one");
    let solves = job.trial("solves");
    assert!(solves.is_rewarded(1.0), "{} {:?}", solves.line, job.ended);
    let result = solves.json("result.json");
    assert_eq!(
        result["agent_info"],
        json!({"name": "little", "version": "7", "model_info": {"name": "m", "provider": null}})
    );
    assert!(solves.text("agent/little.json").contains("done"));
    // Its trajectory is read where and as the specification says.
    let export = ["--json", "traces", "export", "jobs/one", "--episodes", "all", "-o", "rows.jsonl"];
    let said = seatrial(shelf.root(), &export).with_code(0).json();
    assert_eq!((&said["written"]["rows"], &said["trials"]["quarantined"]), (&json!(3), &json!([])), "{said}");
    // What is not known of it is not zero.
    assert_eq!(result["agent_result"]["n_input_tokens"], Value::Null);
    let fails = job.trial("fails");
    assert_eq!((fails.reason(), &fails.line["reward"]), ("agent_error", &json!(0.0)));
    // The door leads to loopback alone, and a setup that fails says what it said.
    let far = run("https://model.invalid/v1", "two");
    assert!(far.trial("solves").detail().contains("127.0.0.1"), "{:?}", far.ended);
    std::fs::write(
        shelf.root().join("little.toml"),
        spec.replace("command -v python3", "echo no such; exit 4"),
    )
    .unwrap();
    let bare = run(&url, "three");
    assert_eq!(bare.trial("solves").reason(), "agent_setup_failed");
    assert!(bare.trial("solves").detail().contains("no such"));
    std::fs::write(shelf.root().join("little.toml"), spec.replace("little", "shell")).unwrap();
    assert!(run(&url, "four").ended.stderr.contains("cannot name an agent"));
    std::fs::write(shelf.root().join("little.toml"), spec.replace("\"chat\"", "\"morse\"")).unwrap();
    assert!(run(&url, "five").ended.stderr.contains("no trajectory has the form `morse`"));
    for built_in in agent::installed::Spec::built_in() {
        let known = |form: &String| trace::TRAJECTORY_FORMS.contains(&form.as_str());
        assert!(built_in.form.as_ref().is_none_or(known), "{}", built_in.name);
    }
}

/// Programs that were installed for tests, below the directory that `SEATRIAL_TEST_AGENTS` names; and the packages.
const PROGRAMS: [(&str, &str); 4] = [
    ("claude-code", "npm install --prefix DIR/claude-code @anthropic-ai/claude-code"),
    ("codex", "npm install --prefix DIR/codex @openai/codex"),
    ("mini-swe-agent", "pip install --target DIR/mini-swe-agent mini-swe-agent"),
    ("qwen-code", "npm install --prefix DIR/qwen-code @qwen-code/qwen-code"),
];

#[test]
fn programs_of_others_work_where_the_image_has_them() {
    let Some(installed) = std::env::var_os("SEATRIAL_TEST_AGENTS") else {
        eprintln!("skipped: agents of others: SEATRIAL_TEST_AGENTS names no directory with them");
        return;
    };
    if !sandboxes_run() {
        return;
    }
    let turns = json!([
        {"text": "I repair it.", "commands": ["cat state; echo fixed > state"]},
        {"text": "Done.", "commands": []},
    ]);
    let mut submits = turns.clone();
    submits[1]["commands"] = json!(["echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"]);
    let model = Scripted::serve(&json!({"model": "m", "context": 1_000_000, "scenes": [
        // One of them answers its own first message in the model's place.
        {"when": ["setting up the context for our chat"], "said_before": 1, "turns": turns},
        {"when": ["Task mini-swe-agent."], "turns": submits},
        {"turns": turns},
    ]}));
    for (agent, install) in PROGRAMS {
        let place = std::path::Path::new(&installed).join(agent);
        if !place.is_dir() {
            eprintln!("skipped: {agent}: {install}");
            continue;
        }
        let mut task = Task::new("solves").settings(
            "[agent]\ntimeout_sec = 300\n[verifier]\ntimeout_sec = 60\n[environment]\nbuild_timeout_sec = 600\n",
        );
        task = task.dockerfile_line("COPY site /opt/site");
        if agent == "mini-swe-agent" {
            // The program that was installed names the interpreter of the machine that installed it.
            let program = "RUN printf '#!/bin/sh\\nexec python3 -m minisweagent.run.mini \"$@\"\\n' > /opt/site/bin/mini";
            task = task.dockerfile_line(program).dockerfile_line("ENV PYTHONPATH=/opt/site");
        }
        let path = "ENV PATH=/opt/site/bin:/opt/site/node_modules/.bin:/usr/local/bin:/usr/bin:/bin";
        let shelf = Shelf::new([task.dockerfile_line(path)]);
        shelf.file("solves", "instruction.md", &format!("Task {agent}. Make /app/state say `fixed`.\n"));
        let context = shelf.tasks().join("solves/environment/site");
        let copied = std::process::Command::new("cp").arg("-r").arg(&place).arg(&context).status().unwrap();
        assert!(copied.success());
        let url = model.server.url();
        let job = shelf.run_with(&["-a", agent, "-m", "m", "--endpoint", &url, "--max-retries", "0"]);
        let trial = job.trial("solves");
        assert!(trial.is_rewarded(1.0), "{agent}: {} {}", trial.line, trial.text("agent/output.txt"));
        assert_eq!(trial.json("agent/spec.json")["name"], agent);
        let export = ["--json", "traces", "export", "jobs", "--episodes", "all", "-o", "rows.jsonl"];
        let said = seatrial(shelf.root(), &export).with_code(0).json();
        assert_eq!(said["written"]["rows"], 2, "{agent}: {said}");
        let rows = std::fs::read_to_string(shelf.root().join("rows.jsonl")).unwrap();
        let row: Value = serde_json::from_str(rows.lines().last().unwrap()).unwrap();
        assert_eq!((&row["agent"], &row["result"]), (&json!(agent), &json!("1.0")));
        let told = row["conversations"].to_string();
        for text in
            [&format!("Task {agent}. Make /app/state say"), "I repair it.", "cat state; echo fixed", "broken"]
        {
            assert!(told.contains(text), "{agent}: {text}: {told}");
        }
    }
}

#[test]
fn agents_work_in_containers_as_they_do_in_the_native_sandbox() {
    if crate::docker::docker().is_none() {
        return;
    }
    let shelf = Shelf::new([crate::docker::contained("solves"), crate::docker::contained("fails")]);
    for name in ["solves", "fails"] {
        shelf.file(name, "instruction.md", &format!("Task {name}: make /app/state say `fixed`.\n"));
    }
    let solve = json!({"commands": ["echo fixed > state"]});
    let model = Scripted::serve(&json!({"model": "m", "scenes": [
        {"when": ["Task solves:", "`submit`"], "turns": [solve, {"commands": [SUBMIT]}]},
        {"when": ["Task fails:", "`submit`"], "turns": [{"commands": ["cd /tmp; export X=1"]}, {"commands": ["pwd; echo $X"]}, {"commands": [SUBMIT]}]},
        {"when": ["Task solves:"], "turns": [solve, {"text": "done"}]},
        {"turns": [{"text": "fail"}]},
    ]}));
    let job = model.run(&shelf, &["--engine", "docker", "--job-name", "shell", "--persistent-shell"]);
    assert!(job.trial("solves").is_rewarded(1.0), "{:?}", job.ended);
    assert!(job.trial("fails").is_rewarded(0.0), "{:?}", job.ended);
    let heard = job.trial("fails").text("agent/trajectory.json");
    assert!(heard.contains("/tmp\\n1\\n"), "{heard}");
    std::fs::write(shelf.root().join("little.toml"), little()).unwrap();
    let url = model.server.url();
    let program = ["--agent-spec", "little.toml", "-m", "m", "--endpoint", &url, "--max-retries", "0"];
    let job = shelf.run_with(&[&program[..], &["--engine", "docker", "--job-name", "little"]].concat());
    assert!(job.trial("solves").is_rewarded(1.0), "{} {:?}", job.trial("solves").line, job.ended);
    assert!(job.trial("solves").text("agent/little.json").contains("done"));
    let fails = job.trial("fails");
    assert_eq!((fails.reason(), &fails.line["reward"]), ("agent_error", &json!(0.0)));
    assert!(crate::docker::containers_of(shelf.root()).is_empty());
}

#[test]
fn a_killed_run_keeps_every_turn_and_goes_on() {
    const TURNS: usize = 24;
    if !sandboxes_run() {
        return;
    }
    let shelf = Shelf::new([Task::new("long")]);
    let mut turns = vec![json!({"text": "On.", "commands": ["head -c 30000 /dev/zero | tr '\\0' x"]}); TURNS];
    turns.push(json!({"commands": [SUBMIT]}));
    let model = Scripted::serve(&json!({"model": "m", "context": 100_000_000, "scenes": [{"turns": turns}]}));
    let url = model.server.url();
    let start = || {
        let mut command = binary();
        command.current_dir(shelf.root()).args([
            "run",
            "-p",
            "tasks",
            "-a",
            "shell",
            "-m",
            "m",
            "--endpoint",
            &url,
        ]);
        command.args(["--output-bytes", "65536", "--job-name", "job"]);
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap()
    };
    let job = shelf.root().join("jobs/job");
    let trajectory = || {
        let trials = crate::project::children(&job);
        trials.into_iter().map(|trial| trial.join("agent/trajectory.json")).find(|path| path.is_file())
    };
    // Killed while it writes, at another moment each time.
    for (round, wanted) in [3, 6, 10, 14, 20].into_iter().enumerate() {
        let asked = model.server.requests().len();
        let mut run = start();
        let begun = std::time::Instant::now();
        while model.server.requests().len() < asked + wanted {
            assert!(begun.elapsed().as_secs() < 120, "no answer");
            assert!(run.try_wait().unwrap().is_none(), "it ended by itself");
            std::thread::sleep(std::time::Duration::from_micros(500));
        }
        run.kill().unwrap();
        run.wait().unwrap();
        let answered = model.server.requests().len() - asked;
        let path = trajectory().expect("a trajectory");
        let export =
            ["--json", "traces", "export", path.to_str().unwrap(), "--episodes", "all", "-o", "rows.jsonl"];
        let said = seatrial(shelf.root(), &export).with_code(0).json();
        let kept = usize::try_from(said["written"]["rows"].as_u64().unwrap()).unwrap();
        // The last answer may not have come through before the kill.
        assert!(kept == answered || kept + 1 == answered, "round {round}: {kept} of {answered}: {said}");
    }
    // The same command goes on, and what the killed ones had asked for is still there.
    assert!(start().wait().unwrap().success());
    let earlier = crate::project::children(&job.join(".earlier"));
    assert_eq!(earlier.len(), 5, "{earlier:?}");
    assert!(earlier.iter().all(|trial| trial.join("agent-files/trajectory.json").is_file()));
    let whole: Value = serde_json::from_slice(&std::fs::read(trajectory().unwrap()).unwrap()).unwrap();
    assert_eq!(whole["final_metrics"]["total_steps"], TURNS + 3);
}

#[test]
fn a_key_comes_from_the_environment_and_is_nowhere_else() {
    const KEY: &str = "sk-made-up-and-never-written-0815";
    if !sandboxes_run() {
        return;
    }
    let shelf = Shelf::new([Task::new("one")]);
    let model = Scripted::serve(
        &json!({"model": "m", "key": KEY, "scenes": [{"turns": [{"commands": ["env"]}, {"commands": [SUBMIT]}]}]}),
    );
    let url = model.server.url();
    let run = |job: &str, more: &[&str]| {
        let mut command = binary();
        command.current_dir(shelf.root()).env_remove("OPENAI_API_KEY").env("MADE_UP_KEY", KEY);
        command.args([
            "--log",
            "trace",
            "run",
            "--json",
            "-p",
            "tasks",
            "-a",
            "shell",
            "-m",
            "m",
            "--endpoint",
            &url,
        ]);
        ended(command.args(["--keep-wire", "--max-retries", "0", "--job-name", job]).args(more))
    };
    let good = run("good", &["--api-key-env", "MADE_UP_KEY"]).with_code(0);
    let bad = run("bad", &[]).with_code(1);
    assert!(bad.stdout.contains("agent_auth_failed"), "{}", bad.stdout);
    let none = run("none", &["--api-key-env", "NOT_SET_ANYWHERE"]).with_code(2);
    assert!(none.stderr.contains("NOT_SET_ANYWHERE"), "{}", none.stderr);
    assert!(!good.all().contains(KEY) && !bad.all().contains(KEY));
    let mut wires = 0;
    for entry in walkdir::WalkDir::new(shelf.root()) {
        let entry = entry.unwrap();
        if entry.file_type().is_file() {
            let bytes = std::fs::read(entry.path()).unwrap();
            assert!(!String::from_utf8_lossy(&bytes).contains(KEY), "{}", entry.path().display());
            wires += usize::from(entry.path().to_string_lossy().ends_with(".request.json"));
        }
    }
    assert_eq!(wires, 3, "two turns that were answered and one that was not");
}

#[test]
fn what_is_missing_for_a_model_is_said_before_anything_runs() {
    let shelf = Shelf::new([Task::new("one")]);
    let said = |arguments: &[&str]| {
        let mut command = binary();
        command
            .current_dir(shelf.root())
            .env_remove("OPENAI_BASE_URL")
            .args(["run", "-p", "tasks"])
            .args(arguments);
        ended(&mut command).with_code(2).stderr
    };
    assert!(said(&["-a", "shell"]).contains("add -m MODEL"));
    assert!(said(&["-a", "shell", "-m", "m"]).contains("add --endpoint URL"));
    assert!(said(&["-a", "nop", "-m", "m"]).contains("add -a shell"));
    assert!(said(&["-a", "shell", "-m", "m", "--endpoint", "here"]).contains("no address of an endpoint"));
    std::fs::write(shelf.root().join("p.toml"), "task = \"{{ instructions }}\"\n").unwrap();
    let wrong = ["-a", "shell", "-m", "m", "--endpoint", "http://127.0.0.1:1/v1", "--prompts", "p.toml"];
    assert!(said(&wrong).contains("p.toml: the prompt `task` cannot be filled in"));
}
