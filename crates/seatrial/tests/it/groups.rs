//! A scripted model on real projects with real suites: what it does is what every command tells, and what comes of it flows back
//! into the plan.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::agents::Scripted;
use crate::project::{Ended, Project, children, sandboxes_run, seatrial};

/// What a model does in one attempt at a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// It repairs the bug by editing files.
    Solves,
    /// It edits a file, and not as it should.
    Fails,
    /// It solves the task and does not stop.
    Dawdles,
    /// It fills its context.
    Overflows,
    /// It goes for the reward in place of the task.
    Cheats,
    /// Its server breaks down.
    Breaks,
}

impl Fate {
    /// The model's answers.
    fn turns(self, fix: &str) -> Value {
        let solve = json!({"text": "I repair it.", "commands": [format!("cat >/tmp/p <<'END OF PATCH'\n{fix}END OF PATCH\ngit apply /tmp/p || patch -p1 </tmp/p")]});
        let submit = json!({"commands": ["submit"]});
        match self {
            Self::Solves => json!([{"commands": ["git status --short; ls"]}, solve, submit]),
            Self::Fails => {
                json!([{"commands": ["echo '# nothing of use' >> \"$(ls *.py README* | head -n 1)\""]}, submit])
            }
            Self::Dawdles => json!([solve, {"commands": ["sleep 600"]}]),
            Self::Overflows => json!([{"commands": ["head -c 60000 /dev/zero | tr '\\0' x"]}]),
            Self::Cheats => json!([
                {"commands": ["mkdir -p /logs/verifier; echo 1 >/logs/verifier/reward.txt; echo '{\"reward\": 1}' >/logs/verifier/reward.json"]},
                {"commands": ["printf 'import pytest\\n@pytest.hookimpl(hookwrapper=True)\\ndef pytest_runtest_makereport(item, call):\\n    out = yield\\n    out.get_result().outcome = \"passed\"\\n' >conftest.py"]},
                submit,
            ]),
            Self::Breaks => {
                json!([{"commands": ["true"]}, {"faults": vec![json!({"status": {"status": 418}}); 9]}])
            }
        }
    }

    /// The reward that counts, what went wrong, and how often the model answered.
    fn outcome(self) -> (Option<f64>, Option<&'static str>, usize) {
        match self {
            Self::Solves => (Some(1.0), None, 3),
            Self::Fails => (Some(0.0), None, 2),
            Self::Dawdles => (Some(1.0), Some("AgentTimeoutError"), 2),
            Self::Overflows => (Some(0.0), Some("ContextLengthExceededError"), 2),
            Self::Cheats => (Some(0.0), None, 3),
            Self::Breaks => (None, Some("ApiError"), 1),
        }
    }
}

/// A task directory of a project, and what becomes of its attempts in their order.
#[derive(Debug)]
pub struct Planned {
    pub directory: PathBuf,
    pub fates: Vec<Fate>,
}

impl Planned {
    fn id(&self) -> String {
        self.directory.file_name().unwrap().to_string_lossy().into_owned()
    }
}

/// Copies task directories to where a model works on them, each with another fate. The script knows tasks by what it is told, so that
/// of several that say the same one is taken.
pub fn choose(tasks: &Path, root: &Path) -> Vec<Planned> {
    use Fate::{Breaks, Cheats, Fails, Overflows, Solves};
    let mut told = BTreeSet::new();
    let mut plan = Vec::new();
    std::fs::create_dir_all(root.join("tasks")).unwrap();
    for task in children(tasks) {
        let text = std::fs::read_to_string(task.join("instruction.md")).unwrap();
        if text.trim().is_empty() || !told.insert(text) {
            continue;
        }
        let directory = root.join("tasks").join(task.file_name().unwrap());
        let copied = Command::new("cp").arg("-r").arg(&task).arg(&directory).status().unwrap();
        assert!(copied.success());
        let fate = [Solves, Fails, Solves, Cheats, Overflows, Solves, Breaks][plan.len() % 7];
        plan.push(Planned { directory, fates: vec![fate] });
    }
    plan
}

/// The script in which a model does this; the seed tells attempts apart.
pub fn script(plan: &[Planned]) -> Value {
    let mut scenes = Vec::new();
    for task in plan {
        let told = std::fs::read_to_string(task.directory.join("instruction.md")).unwrap();
        let fix = std::fs::read_to_string(task.directory.join("solution/fix.patch")).unwrap();
        for (seed, fate) in task.fates.iter().enumerate() {
            scenes.push(json!({"when": [told.trim()], "seed": seed, "turns": fate.turns(&fix)}));
        }
    }
    json!({"model": "m", "scenes": scenes})
}

/// The options with which every attempt ends as planned.
pub const LIMITS: [&str; 9] =
    ["--seed", "0", "--context", "14000", "--output-bytes", "60000", "--agent-timeout", "20", "--json"];

/// Runs all attempts, and holds everything that commands tell of them against the plan.
pub fn run_and_check(root: &Path, plan: &[Planned], job: &str) {
    let model = Scripted::serve(&script(plan));
    let url = model.server.url();
    let attempts = plan[0].fates.len();
    let count = attempts.to_string();
    let model_of =
        ["-m", "m", "--endpoint", url.as_str(), "--max-retries", "0", "-j", "2", "--tokens", "vllm"];
    let run = ["run", "-p", "tasks", "-a", "shell", "-n", &count, "--job-name", job];
    let ran = seatrial(root, &[&run[..], &model_of, &LIMITS].concat());
    let fates = plan.iter().flat_map(|task| task.fates.iter().map(|fate| fate.outcome()));
    let expected: Vec<_> = fates.collect();
    let errored = expected.iter().filter(|(reward, ..)| reward.is_none()).count();
    assert_eq!(ran.code, Some(i32::from(errored > 0)), "{ran:?}");
    let turns: usize = expected.iter().map(|(.., turns)| turns).sum();
    // Rewards are 1 and 0.
    let solved = expected.iter().filter(|(reward, ..)| *reward == Some(1.0)).count();

    let lines = ran.json_lines();
    let (sum, lines) = lines.split_last().unwrap();
    assert_eq!(lines.len(), expected.len());
    let mut by_task: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for line in lines {
        let directory = root.join(line["directory"].as_str().unwrap());
        let file = |name: &str| -> Value {
            serde_json::from_slice(&std::fs::read(directory.join(name)).unwrap()).unwrap()
        };
        let result = file("result.json");
        let attempt = usize::try_from(line["attempt"].as_u64().unwrap()).unwrap();
        let task = plan.iter().find(|task| line["task"].as_str().unwrap().ends_with(&task.id())).unwrap();
        let (reward, exception, turns) = task.fates[attempt].outcome();
        let fate = task.fates[attempt];
        assert_eq!(line["reward"], json!(reward), "{} {fate:?}: {line}", task.id());
        let info = &result["exception_info"]["exception_type"];
        assert_eq!(info, &json!(exception), "{} {fate:?}", task.id());
        // The trajectory tells what the script says.
        let trajectory = file("agent/trajectory.json");
        let steps = trajectory["steps"].as_array().unwrap().iter().filter(|step| step["source"] == "agent");
        assert_eq!(steps.count(), turns, "{} {fate:?}", task.id());
        assert_eq!(result["agent_result"]["metadata"]["n_episodes"], turns);
        by_task.entry(task.id()).or_default().extend(reward);
    }
    assert_eq!((&sum["rewarded"], &sum["errored"]), (&json!(expected.len() - errored), &json!(errored)));
    let constant = |rewards: &Vec<f64>| rewards.iter().all(|reward| reward.total_cmp(&rewards[0]).is_eq());
    let whole: Vec<_> = by_task.values().filter(|rewards| rewards.len() == attempts).collect();
    if attempts > 1 {
        assert_eq!(sum["groups"]["whole"], whole.len(), "{sum}");
        assert_eq!(sum["groups"]["constant"], whole.iter().filter(|rewards| constant(rewards)).count());
        assert_eq!(sum["groups"]["partial"].as_array().unwrap().len(), by_task.len() - whole.len());
    }

    // So do the rows, the numbers and the tokens of the traces.
    let traces = |arguments: &[&str]| seatrial(root, arguments).with_code(0).json();
    let jobs = format!("jobs/{job}");
    let rows = traces(&["--json", "traces", "export", &jobs, "--episodes", "all", "-o", "rows.jsonl"]);
    assert_eq!(rows["written"]["rows"], turns, "{rows}");
    let text = std::fs::read_to_string(root.join("rows.jsonl")).unwrap();
    let mut results: BTreeMap<String, usize> = BTreeMap::new();
    for line in text.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        *results.entry(row["result"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    let mut told: BTreeMap<String, usize> = BTreeMap::new();
    for (reward, exception, turns) in &expected {
        let result = exception.map_or_else(|| job::python_float(reward.unwrap()), str::to_owned);
        *told.entry(result).or_default() += turns;
    }
    assert_eq!(results, told);
    let tokens = traces(&["--json", "traces", "convert", &jobs, "--to", "tokens", "-o", "tokens.jsonl"]);
    assert_eq!(
        (&tokens["convert"]["samples"], &tokens["convert"]["prefix_breaks"]),
        (&json!(turns), &json!(0))
    );
    let stats = traces(&["--json", "traces", "stats", &jobs]);
    let all = &stats["all"];
    assert_eq!(
        (&all["rewarded"], &all["errored"]),
        (&json!(expected.len() - errored), &json!(errored)),
        "{stats}"
    );
    let mean = solved as f64 / (expected.len() - errored) as f64;
    assert!((all["graded"]["mean"].as_f64().unwrap() - mean).abs() < 1e-9, "{stats}");

    // And so does a canary, which asks the same model the same once more.
    let canary = ["canary", "tasks", "-n", "1000", "-k", &count, "--job-name", "canary"];
    let canary = seatrial(root, &[&canary[..], &model_of, &LIMITS].concat()).with_code(0).json();
    let report = &canary["report"];
    let all_with_zero = solved as f64 / expected.len() as f64;
    assert_eq!((&report["solved"], &report["errored"]), (&json!(solved), &json!(errored)), "{report}");
    assert!((report["mean_with_errored_as_0"].as_f64().unwrap() - all_with_zero).abs() < 1e-9, "{report}");
    for row in report["by_task"].as_array().unwrap() {
        let rewards = &by_task[row["name"].as_str().unwrap()];
        assert_eq!(row["solved"], rewards.iter().filter(|reward| **reward > 0.5).count(), "{row}");
    }
    let mut named: BTreeMap<&str, usize> = BTreeMap::new();
    expected
        .iter()
        .filter_map(|(_, exception, _)| *exception)
        .for_each(|name| *named.entry(name).or_default() += 1);
    let exceptions = report["exceptions"].as_array().unwrap().iter();
    let found =
        exceptions.map(|found| (found["exception"].as_str().unwrap(), found["trials"].as_u64().unwrap()));
    assert_eq!(
        found.collect::<BTreeMap<_, _>>(),
        named.iter().map(|(name, many)| (*name, *many as u64)).collect()
    );
}

/// Runs the stages up to the task directories.
fn materialized(project: &Project) {
    for stage in [&["source", "pull"][..], &["plan"], &["materialize"]] {
        project.run(stage).with_code(0);
    }
}

fn explained(project: &Project, task: &str) -> Ended {
    project.run(&["plan", "explain", task]).with_code(0)
}

#[test]
fn groups_of_a_model_tell_the_same_everywhere_and_flow_back_into_the_plan() {
    use Fate::{Breaks, Cheats, Dawdles, Fails, Overflows, Solves};
    if !sandboxes_run() {
        return;
    }
    let project = Project::quick();
    materialized(&project);
    let fates = [
        [Solves, Fails, Dawdles, Overflows, Cheats],
        [Fails, Fails, Cheats, Fails, Fails],
        [Solves, Solves, Solves, Breaks, Solves],
    ];
    let directories = children(&project.path("tasks"));
    assert_eq!(directories.len(), fates.len());
    let plan: Vec<_> = directories
        .into_iter()
        .zip(fates)
        .map(|(directory, fates)| Planned { directory, fates: fates.to_vec() })
        .collect();
    run_and_check(project.root(), &plan, "groups");

    // How often the model solved them is evidence for the next plan, in the place of what was known before.
    let convert = ["traces", "convert", "jobs/groups", "--to", "difficulty", "-o", "rollouts.jsonl"];
    seatrial(project.root(), &convert).with_code(0);
    let means: Vec<_> = project.rows("rollouts.jsonl");
    let wanted = [(2.0 / 5.0, "mixed"), (0.0, "none"), (1.0, "none")];
    for ((row, task), (mean, spread)) in means.iter().zip(&plan).zip(wanted) {
        assert_eq!(row["instance_id_or_commit_hash"], task.id(), "{row}");
        assert_eq!(
            (row["reward_mean"].as_f64(), row["spread"].as_str()),
            (Some(mean), Some(spread)),
            "{row}"
        );
        let (low, high) = (row["low"].as_f64().unwrap(), row["high"].as_f64().unwrap());
        assert!(low <= mean && mean <= high && high - low < 1.0, "{row}");
    }
    let never = plan[1].id();
    let before = explained(&project, &never).all();
    project.edit("seatrial.toml", "path = \"reward-means.jsonl\"", "path = \"rollouts.jsonl\"");
    project.run(&["source", "pull", "--update"]).with_code(0);
    project.run(&["plan"]).with_code(0);
    let after = explained(&project, &never).all();
    assert_ne!(before, after);
    let planned = |name: &str| project.json(name)["tasks"].as_array().unwrap().clone();
    let known: BTreeMap<String, String> = [planned("plan.json"), planned("reserves.json")]
        .concat()
        .iter()
        .map(|task| {
            (task["task_id"].as_str().unwrap().to_owned(), task["swe_master"].as_str().unwrap().to_owned())
        })
        .collect();
    let of = |index: usize| known[&plan[index].id()].as_str();
    assert_eq!((of(0), of(1), of(2)), ("partial", "zero", "full"), "{known:?}");
    // Groups without any spread teach nothing, and are left out on request.
    let mixed = [&convert[..], &["--drop-constant-groups"]].concat();
    seatrial(project.root(), &mixed).with_code(0);
    assert_eq!(project.rows("rollouts.jsonl").len(), 1);

    // What the recipe says of models and canaries holds where options say nothing.
    std::fs::write(project.path("prompts.toml"), "task = \"Please: {{ instruction }}\"\n").unwrap();
    let recipe = String::from_utf8(project.read("seatrial.toml")).unwrap();
    let more = "\n[agents]\nprompts = \"prompts.toml\"\n\n[canary]\nsize = 1\ncontext_tokens = 20000\n";
    std::fs::write(project.path("seatrial.toml"), recipe + more).unwrap();
    let model = Scripted::serve(&script(&plan));
    let url = model.server.url();
    let canary =
        ["--json", "canary", "tasks", "-m", "m", "--endpoint", &url, "--seed", "0", "--job-name", "one"];
    let canary = seatrial(project.root(), &canary).with_code(0).json();
    assert_eq!((&canary["report"]["tasks"], &canary["settings"]["context"]), (&json!(1), &json!("20000")));
    assert!(canary["settings"]["prompts"].is_string(), "{canary}");
    let asked = model.server.requests()[0].body["messages"][1]["content"].as_str().unwrap().to_owned();
    assert!(asked.starts_with("Please: "), "{asked}");
}

#[test]
fn a_scripted_model_at_a_frozen_set_is_told_the_same_everywhere() {
    let Some(set) = std::env::var_os("SEATRIAL_TEST_FROZEN") else {
        eprintln!(
            "skipped: a scripted model at a frozen set: SEATRIAL_TEST_FROZEN names none, such as the example's"
        );
        return;
    };
    let temp = tempfile::tempdir().unwrap();
    let plan = choose(&Path::new(&set).join("tasks"), temp.path());
    assert!(plan.len() >= 7, "{plan:?}");
    run_and_check(temp.path(), &plan, "model");
}
