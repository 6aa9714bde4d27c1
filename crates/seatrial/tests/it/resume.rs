//! Jobs that are killed, cut off and stopped, and go on where they were.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::leftovers::nothing_is_left;
use crate::project::{binary, children, sandboxes_run};
use crate::tasks::{Shelf, Task};

/// Kills that the storm has to survive.
const KILLS: usize = 200;

/// A small generator: the same numbers in every run, so that a failure can be looked at again.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Tasks of every kind of end: rewards 1 and 0, a typed failure, an agent that takes a while.
fn shelf() -> Shelf {
    Shelf::new([
        Task::new("good"),
        Task::new("worse").solution("exit 7\n"),
        Task::new("silent").verifier("exit 0\n"),
        Task::new("slow").solution("sleep 0.1\nexit 1\n"),
    ])
}

const ARGUMENTS: [&str; 9] = ["run", "--json", "-p", "tasks", "-j", "2", "-n", "3", "--job-name"];

fn start(shelf: &Shelf, job: &str) -> Child {
    let mut command = binary();
    command.current_dir(shelf.root()).args(ARGUMENTS).arg(job).process_group(0);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// The trial directories of a job.
fn trials(job: &Path) -> Vec<PathBuf> {
    let hidden = |path: &Path| path.file_name().unwrap().to_string_lossy().starts_with('.');
    children(job).into_iter().filter(|path| path.is_dir() && !hidden(path)).collect()
}

fn json_of(path: &Path) -> Value {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The results that are there, each with its inode: a trial that is run again gets another one.
fn results(job: &Path) -> BTreeMap<PathBuf, u64> {
    trials(job)
        .into_iter()
        .map(|trial| trial.join("result.json"))
        .filter_map(|result| Some((result.clone(), std::fs::metadata(&result).ok()?.ino())))
        .collect()
}

/// What came out of every trial, by task and attempt.
fn outcomes(job: &Path) -> BTreeMap<(String, u64), Value> {
    let mut found = BTreeMap::new();
    for trial in trials(job) {
        let record = json_of(&trial.join("seatrial.json"));
        let result = json_of(&trial.join("result.json"));
        assert_eq!(result["trial_name"], record["trial"]);
        let key = (record["task"].as_str().unwrap().to_owned(), record["attempt"].as_u64().unwrap());
        let outcome = json!([record["outcome"], result["verifier_result"], result["reward_valid"]]);
        assert_eq!(found.insert(key, outcome), None, "{} is there twice", trial.display());
    }
    found
}

/// The statistics of a job without its trial names.
fn counts(job: &Path) -> Value {
    let result = json_of(&job.join("result.json"));
    assert!(result["finished_at"].is_string(), "{result}");
    let stats = &result["stats"];
    let numbers = ["n_completed_trials", "n_errored_trials", "n_running_trials", "n_pending_trials"]
        .map(|name| stats[name].clone());
    json!([
        result["n_total_trials"],
        numbers,
        stats["evals"]["oracle__tasks"]["metrics"],
        stats["evals"]["oracle__tasks"]["pass_at_k"],
    ])
}

/// Cuts a file of a trial that has not ended short, as a loss of power does.
fn cut_short(job: &Path, dice: &mut Dice) {
    for trial in trials(job) {
        if trial.join("result.json").exists() {
            continue;
        }
        let files: Vec<_> = children(&trial).into_iter().filter(|path| path.is_file()).collect();
        if files.is_empty() {
            continue;
        }
        let file = &files[dice.below(files.len() as u64) as usize];
        let length = file.metadata().unwrap().len();
        std::fs::File::options().write(true).open(file).unwrap().set_len(dice.below(length + 1)).unwrap();
    }
}

#[test]
fn a_job_that_is_killed_at_any_point_ends_like_an_undisturbed_one() {
    if !sandboxes_run() {
        return;
    }
    let shelf = shelf();
    let jobs = shelf.root().join("jobs");
    let begun = Instant::now();
    assert_eq!(start(&shelf, "calm").wait().unwrap().code(), Some(1));
    let whole = begun.elapsed();
    let (calm, calm_counts) = (outcomes(&jobs.join("calm")), counts(&jobs.join("calm")));
    assert_eq!(calm.len(), 12);

    let mut dice = Dice(20_261_129);
    let (mut kills, mut round) = (0, 0);
    while kills < KILLS {
        round += 1;
        let name = format!("storm-{round}");
        let job = jobs.join(&name);
        let mut before: BTreeMap<PathBuf, u64> = BTreeMap::new();
        let last = loop {
            let mut child = start(&shelf, &name);
            // A job that goes on has less left each time, so that all of its points come up.
            let delay = Duration::from_micros(dice.below(u64::try_from(whole.as_micros() / 3).unwrap()));
            std::thread::sleep(delay);
            // Only the program itself: that its sandboxes go with it is what is looked at.
            child.kill().unwrap();
            let status = child.wait().unwrap();
            let after = results(&job);
            for (result, inode) in &before {
                assert_eq!(after.get(result), Some(inode), "{} was run again or lost", result.display());
            }
            before = after;
            if status.code().is_some() {
                assert_eq!(status.code(), Some(1));
                break child.id();
            }
            kills += 1;
            if dice.below(4) == 0 && job.exists() {
                cut_short(&job, &mut dice);
            }
        };
        assert_eq!(outcomes(&job), calm, "{name} after {kills} kills");
        assert_eq!(counts(&job), calm_counts, "{name}");
        let log = std::fs::read_to_string(job.join("job.log")).unwrap();
        for trial in trials(&job) {
            let name = trial.file_name().unwrap().to_string_lossy().into_owned();
            let ends = log.lines().filter(|line| line.contains(&format!("{name} ended"))).count();
            assert!(ends <= 1, "{name} ended {ends} times");
        }
        nothing_is_left(shelf.root(), last, true);
        assert_eq!(children(&shelf.root().join(".seatrial/sandboxes")), Vec::<PathBuf>::new());
    }
    eprintln!("{kills} kills in {round} jobs");
}
