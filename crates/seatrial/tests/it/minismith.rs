//! Real bugs in real projects, from their published form to a frozen set.
//!
//! The corpus is a directory of SWE-smith instances, one row a repository that says how its suite is run, and the source
//! distributions. [`Corpus::write_project`] makes a recipe's directory of it, in which every instance has evidence and none
//! is over a cap, so that the proofs alone decide.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use walkdir::WalkDir;

use crate::groups::{choose, run_and_check};
use crate::project::{binary, ended, sandboxes_run};

/// Projects whose suites need nothing but pytest, run in a second or two, measure no time, and are the same with every
/// pytest since 7.
const PLAIN: [&str; 9] =
    ["addict", "dominate", "flashtext", "h11", "isodate", "markupsafe", "termcolor", "textfsm", "voluptuous"];

/// Instances of real projects and what is needed to run them.
struct Corpus {
    directory: PathBuf,
    instances: Vec<Value>,
    repositories: Vec<Value>,
}

/// How a corpus is proved.
struct Proof<'a> {
    /// Names of the projects, or all.
    projects: Option<&'a [&'a str]>,
    /// Nop and oracle runs that must agree.
    runs: u32,
}

impl Corpus {
    /// The corpus, where there is one.
    fn find() -> Option<Self> {
        let directory = ::corpus::find("data/minismith")?;
        let instances = std::fs::read_to_string(directory.join("instances.jsonl")).unwrap();
        let repositories = std::fs::read(directory.join("repositories.json")).unwrap();
        Some(Self {
            instances: instances.lines().map(|line| serde_json::from_str(line).unwrap()).collect(),
            repositories: serde_json::from_slice(&repositories).unwrap(),
            directory: std::path::absolute(directory).unwrap(),
        })
    }

    /// Writes a recipe and its sources to `root`, and returns how many candidates there are.
    ///
    /// Where `root` holds a base image's directory `bases/site`, environments start from it, otherwise from this machine's
    /// own system.
    fn write_project(&self, root: &Path, proof: &Proof<'_>) -> usize {
        let wanted = |repo: &str| proof.projects.is_none_or(|names| names.contains(&project_of(repo)));
        let of = |row: &Value| wanted(row["repo"].as_str().unwrap());
        let instances: Vec<&Value> = self.instances.iter().filter(|row| of(row)).collect();
        let profiles: Vec<Value> = self
            .repositories
            .iter()
            .filter(|row| of(row))
            .map(|row| {
                let kept = ["repo", "sdist", "sha256", "test_cmd", "env"].map(|key| (key, row[key].clone()));
                json!(BTreeMap::from(kept))
            })
            .collect();
        let solved = |row: &&Value| {
            let id = row["instance_id"].as_str().unwrap();
            let model = "claude-3-7-sonnet-20250219";
            json!({"instance_id": id, "model": model, "resolved": true, "traj_id": format!("{id}.00000000")})
        };
        let lines = |rows: Vec<Value>| rows.iter().fold(String::new(), |text, row| format!("{text}{row}\n"));
        let write = |name: &str, text: String| std::fs::write(root.join(name), text).unwrap();
        write("trajectories.jsonl", lines(instances.iter().map(solved).collect()));
        write("profiles.json", json!(profiles).to_string());
        write("instances.jsonl", lines(instances.iter().copied().cloned().collect()));

        let (count, runs) = (instances.len(), proof.runs);
        let site = root.join("bases/site/Dockerfile").is_file();
        let (base, bases) = if site { ("site", "\n[bases]\nsite = \"bases/site\"\n") } else { ("host", "") };
        let from = toml_text(&self.directory.join("sdist").display().to_string());
        write(
            "seatrial.toml",
            format!(
                r#"[dataset]
name = "real-bugs"
version = "v1"

[sources.smith]
kind = "file"
as = "instances"
path = "instances.jsonl"

[sources.profiles]
kind = "file"
as = "profiles"
path = "profiles.json"

[sources.trajectories]
kind = "file"
as = "trajectories"
path = "trajectories.jsonl"
{bases}
[[pool]]
stage = "all"
members = "smith"
target = {count}
cap = {count}

[materialize]
workspace = "sdist"
base = "seatrial.local/{base}"
from = {from}

[prove]
oracle_runs = {runs}
nop_runs = {runs}

[resolve]
repo_cap = {count}
split = {{ train = {count} }}
allow_shortfall = true
"#
            ),
        );
        count
    }
}

/// What became of every candidate of a project.
struct Standing {
    /// Task id and status, as `seatrial status --json` gives them.
    tasks: BTreeMap<String, Value>,
}

impl Standing {
    fn read(root: &Path) -> Self {
        let said = ended(binary().arg("-C").arg(root).args(["status", "--json"])).with_code(0).json();
        Self { tasks: serde_json::from_value(said["tasks"].clone()).unwrap() }
    }

    fn accepted(&self) -> usize {
        self.tasks.values().filter(|status| status["status"] == "accepted").count()
    }

    /// Fails the test when a task is not accepted and nobody says why.
    #[track_caller]
    fn assert_explained(&self) {
        for (task, status) in &self.tasks {
            let said = |key: &str| status[key].as_str().is_some_and(|text| !text.is_empty());
            match status["status"].as_str().unwrap() {
                "accepted" => {}
                "rejected" | "error" => assert!(said("reason") && said("detail"), "{task}: {status}"),
                _ => panic!("{task} is not decided: {status}"),
            }
        }
    }

    /// A table with a line for every project: its instances, how many were accepted, and why others were not.
    fn by_project(&self) -> String {
        let mut projects: BTreeMap<&str, (usize, usize, BTreeMap<&str, usize>)> = BTreeMap::new();
        for (task, status) in &self.tasks {
            let (all, accepted, reasons) = projects.entry(project_of(task)).or_default();
            *all += 1;
            match status["reason"].as_str() {
                None => *accepted += 1,
                Some(reason) => *reasons.entry(reason).or_default() += 1,
            }
        }
        let mut text = "| project | tasks | accepted | refused |\n|---|---|---|---|\n".to_owned();
        for (project, (all, accepted, reasons)) in &projects {
            let reasons: Vec<_> = reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
            writeln!(text, "| {project} | {all} | {accepted} | {} |", reasons.join(", ")).unwrap();
        }
        writeln!(text, "| all {} | {} | {} | |", projects.len(), self.tasks.len(), self.accepted()).unwrap();
        text
    }
}

/// `h11` of `swesmith/python-hyper__h11.0e688cdc` and of `python-hyper__h11.0e688cdc.func_pm_op_swap__00e3d000`.
fn project_of(name: &str) -> &str {
    let name = name.rsplit('/').next().unwrap_or(name);
    let name = name.split_once("__").map_or(name, |(_, name)| name);
    name.split('.').next().unwrap_or(name)
}

/// A TOML string; JSON's escapes are among TOML's.
fn toml_text(text: &str) -> String {
    json!(text).to_string()
}

/// Time that suites took by themselves in the trials whose directories are not in `before`.
fn suite_time(root: &Path, before: &BTreeSet<PathBuf>) -> (usize, Duration) {
    let reports = verifier_reports(root);
    let seconds = reports.difference(before).filter_map(|path| {
        let report: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        report["suite_seconds"].as_f64()
    });
    let seconds: Vec<f64> = seconds.collect();
    (seconds.len(), Duration::from_secs_f64(seconds.iter().sum()))
}

fn verifier_reports(root: &Path) -> BTreeSet<PathBuf> {
    let entries =
        WalkDir::new(root.join("jobs")).min_depth(4).max_depth(4).into_iter().filter_map(Result::ok);
    entries.map(walkdir::DirEntry::into_path).filter(|path| path.ends_with("verifier/report.json")).collect()
}

#[test]
fn real_bugs_become_a_frozen_set() {
    let Some(corpus) = Corpus::find() else { return };
    if !sandboxes_run() {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let count = corpus.write_project(temp.path(), &Proof { projects: Some(&PLAIN), runs: 1 });
    let up = ended(binary().arg("-C").arg(temp.path()).args(["up", "-j", "2", "--json"])).with_code(0).json();

    let standing = Standing::read(temp.path());
    assert_eq!(standing.tasks.len(), count);
    standing.assert_explained();
    let accepted = standing.accepted();
    assert!(accepted >= 30, "{accepted} of {count} were accepted\n{}", standing.by_project());

    // The steps lead from the candidates to what is frozen, and no accepted task is lost on the way.
    let steps: Vec<i64> =
        up["steps"].as_array().unwrap().iter().map(|step| step["tasks"].as_i64().unwrap()).collect();
    let (frozen, before) = steps.split_last().unwrap();
    assert_eq!(*frozen, before.iter().sum::<i64>(), "{up}");
    assert_eq!(usize::try_from(*frozen), Ok(accepted), "{up}");
    let frozen = Path::new(up["frozen"].as_str().unwrap());
    ended(binary().arg("freeze").arg("--check").arg(frozen)).with_code(0);
}

/// Proves everything, or the projects that `SEATRIAL_PROOF_PROJECTS` names, by the full rule, in the directory that
/// `SEATRIAL_PROOF_DIR` names; `scripts/prove-minismith` runs it.
#[test]
#[ignore = "takes as long as some hundred test suites"]
fn all_real_bugs_are_proved() {
    let directory = std::env::var_os("SEATRIAL_PROOF_DIR").expect("SEATRIAL_PROOF_DIR names a directory");
    let root = std::path::absolute(directory).unwrap();
    let corpus = Corpus::find().expect("the corpus is there");
    let named = std::env::var("SEATRIAL_PROOF_PROJECTS").unwrap_or_default();
    let named: Vec<&str> = named.split_whitespace().collect();
    let projects = (!named.is_empty()).then_some(named.as_slice());
    let count = corpus.write_project(&root, &Proof { projects, runs: 3 });
    let stage = |arguments: &[&str]| ended(binary().arg("-C").arg(&root).args(arguments));

    stage(&["source", "pull"]).with_code(0);
    for name in ["plan", "materialize"] {
        stage(&[name]).with_code(0);
    }
    stage(&["check"]);
    let (before, begun) = (verifier_reports(&root), Instant::now());
    // Its exit code says whether all were accepted; the table says more.
    let proved = stage(&["prove"]);
    let wall = begun.elapsed();
    let (trials, suites) = suite_time(&root, &before);
    let up = stage(&["up"]).with_code(0);

    let standing = Standing::read(&root);
    assert_eq!(standing.tasks.len(), count, "{}", proved.all());
    standing.assert_explained();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let ratio = wall.as_secs_f64() / (suites.as_secs_f64() / cores as f64);
    let mut report = standing.by_project();
    writeln!(report, "\n{trials} trials in {:.0} s on {cores} processors; their suites alone took {:.0} s together, so the proofs took {ratio:.2} times (sum of suites / processors)\n", wall.as_secs_f64(), suites.as_secs_f64()).unwrap();
    for (task, status) in standing.tasks.iter().filter(|(_, status)| status["status"] != "accepted") {
        let text = |key: &str| status[key].as_str().unwrap_or_default().to_owned();
        writeln!(report, "{task}: {} ({})", text("reason"), text("detail")).unwrap();
    }
    std::fs::write(root.join("report.md"), report + "\n" + &up.stdout).unwrap();
}

#[test]
fn a_scripted_model_at_real_bugs_is_told_the_same_everywhere() {
    let Some(corpus) = Corpus::find() else { return };
    if !sandboxes_run() {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let proof = Proof { projects: Some(&["flashtext", "isodate", "termcolor"]), runs: 1 };
    corpus.write_project(temp.path(), &proof);
    for stage in [&["source", "pull"][..], &["plan"], &["materialize"]] {
        ended(binary().arg("-C").arg(temp.path()).args(stage)).with_code(0);
    }
    let chosen = temp.path().join("chosen");
    let plan = choose(&temp.path().join("tasks"), &chosen);
    assert!(plan.len() >= 7, "{plan:?}");
    run_and_check(&chosen, &plan, "model");
}
