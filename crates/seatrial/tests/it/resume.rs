//! Jobs that are killed, cut off and stopped, and go on where they were.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::docker::{contained, containers_of, docker};
use crate::leftovers::nothing_is_left;
use crate::project::{binary, children, ended, sandboxes_run};
use crate::tasks::{Shelf, Task};

/// A small generator: the same numbers in every run, so that a failure can be looked at again.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Tasks of every kind of end: rewards 1 and 0, a typed failure, an agent that takes a while.
fn shelf(task: impl Fn(&str) -> Task) -> Shelf {
    Shelf::new([
        task("good"),
        task("worse").solution("exit 7\n"),
        task("silent").verifier("exit 0\n"),
        task("slow").solution("sleep 0.1\nexit 1\n"),
    ])
}

const ARGUMENTS: [&str; 8] = ["run", "--json", "-p", "tasks", "-j", "2", "-n", "3"];

fn start(shelf: &Shelf, engine: &str, job: &str) -> Child {
    let mut command = binary();
    command
        .current_dir(shelf.root())
        .args(ARGUMENTS)
        .args(["--engine", engine, "--job-name", job])
        .process_group(0);
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

/// Kills jobs at random points, `kills` times in all, and lets each come to its end; `look` sees what the last process of a
/// job left behind.
fn storm(shelf: &Shelf, engine: &str, kills: usize, look: impl Fn(u32)) {
    let jobs = shelf.root().join("jobs");
    let begun = Instant::now();
    assert_eq!(start(shelf, engine, "calm").wait().unwrap().code(), Some(1));
    let whole = begun.elapsed();
    let (calm, calm_counts) = (outcomes(&jobs.join("calm")), counts(&jobs.join("calm")));
    assert_eq!(calm.len(), 12);

    let mut dice = Dice(20_261_129);
    let (mut killed, mut round) = (0, 0);
    while killed < kills {
        round += 1;
        let name = format!("storm-{round}");
        let job = jobs.join(&name);
        let mut before: BTreeMap<PathBuf, u64> = BTreeMap::new();
        let last = loop {
            let mut child = start(shelf, engine, &name);
            if killed < kills {
                // A job that goes on has less left each time, so that all of its points come up.
                let delay = dice.below(u64::try_from(whole.as_micros() / 3).unwrap());
                std::thread::sleep(Duration::from_micros(delay));
                // Only the program itself: that its sandboxes go with it is what is looked at.
                child.kill().unwrap();
            }
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
            killed += 1;
            if dice.below(4) == 0 && job.exists() {
                cut_short(&job, &mut dice);
            }
        };
        assert_eq!(outcomes(&job), calm, "{name} after {killed} kills");
        assert_eq!(counts(&job), calm_counts, "{name}");
        let log = std::fs::read_to_string(job.join("job.log")).unwrap();
        for trial in trials(&job) {
            let name = trial.file_name().unwrap().to_string_lossy().into_owned();
            let ends = log.lines().filter(|line| line.contains(&format!("{name} ended"))).count();
            assert!(ends <= 1, "{name} ended {ends} times");
        }
        look(last);
        assert_eq!(children(&shelf.root().join(".seatrial/sandboxes")), Vec::<PathBuf>::new());
    }
    eprintln!("{killed} kills in {round} jobs");
}

#[test]
fn a_job_that_is_killed_at_any_point_ends_like_an_undisturbed_one() {
    if !sandboxes_run() {
        return;
    }
    let shelf = shelf(Task::new);
    storm(&shelf, "native", 200, |last| nothing_is_left(shelf.root(), last, true));
}

#[test]
fn a_job_in_containers_that_is_killed_ends_like_an_undisturbed_one() {
    if docker().is_none() {
        return;
    }
    let shelf = shelf(contained);
    storm(&shelf, "docker", 12, |_| {
        assert_eq!(containers_of(shelf.root()), Vec::<String>::new());
    });
}

/// A daemon for one test alone; it ends with the value.
struct OwnDaemon(PathBuf);

impl OwnDaemon {
    fn script(&self, verb: &str) -> Command {
        let mut command = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/docker-engine"));
        command.arg(verb).arg(&self.0);
        command
    }

    /// Starts the daemon, or starts it again, and gives its address.
    #[track_caller]
    fn start(&self) -> String {
        let mut output = self.script("start").output().unwrap();
        // What the killed daemon had started may be in the way for a moment.
        for _ in 0..5 {
            if output.status.success() {
                break;
            }
            output = self.script("start").output().unwrap();
        }
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn kill(&self) {
        let file = self.0.join("docker.pid");
        let process = std::fs::read_to_string(&file).unwrap();
        let killed = Command::new("sh").args(["-c", "kill -s KILL \"$0\"", process.trim()]).status();
        assert!(killed.unwrap().success());
        // A daemon does not start while this names a process, be it one that nobody has waited for yet.
        std::fs::remove_file(file).unwrap();
    }
}

impl Drop for OwnDaemon {
    fn drop(&mut self) {
        let _ = self.script("stop").output();
    }
}

#[test]
fn a_daemon_that_is_killed_and_started_again_costs_no_trial() {
    if docker().is_none() {
        return;
    }
    let shelf = Shelf::new([contained("good").solution("sleep 1\necho fixed > /app/state\n")]);
    let daemon = OwnDaemon(shelf.root().join("daemon"));
    let address = daemon.start();
    let mut command = binary();
    command.current_dir(shelf.root()).env("DOCKER_HOST", &address);
    command.args(["run", "--json", "-p", "tasks", "-j", "2", "-n", "6", "--engine", "docker"]);
    command.args(["--max-retries", "20", "--job-name", "job"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let job = shelf.root().join("jobs/job");
    let end = Instant::now() + Duration::from_secs(120);
    while results(&job).is_empty() {
        assert!(Instant::now() < end, "no trial ended");
        std::thread::sleep(Duration::from_millis(20));
    }
    let before = results(&job);
    daemon.kill();
    daemon.start();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(outcomes(&job).len(), 6);
    for (result, inode) in before {
        assert_eq!(results(&job).get(&result), Some(&inode), "{} was run again", result.display());
    }
    let log = std::fs::read_to_string(job.join("job.log")).unwrap();
    assert!(log.contains("is tried again after engine_lost"), "{log}");
    let gc =
        ended(binary().current_dir(shelf.root()).env("DOCKER_HOST", &address).args(["gc", "--json"])).json();
    assert_eq!(gc["containers"], json!([]), "{gc}");
}

#[test]
fn the_first_interrupt_lets_trials_end_and_the_same_command_goes_on() {
    if !sandboxes_run() {
        return;
    }
    let shelf = Shelf::new([Task::new("slow").solution("sleep 1\necho fixed > /app/state\n")]);
    let run = || {
        let mut command = binary();
        command.current_dir(shelf.root()).args(["run", "--json", "-p", "tasks", "-j", "1", "-n", "3"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        command
    };
    let child = run().spawn().unwrap();
    let jobs = shelf.root().join("jobs");
    let begun = || children(&jobs).first().is_some_and(|job| !trials(job).is_empty());
    let end = Instant::now() + Duration::from_secs(60);
    while !begun() {
        assert!(Instant::now() < end, "no trial began");
        std::thread::sleep(Duration::from_millis(5));
    }
    interrupt(child.id());
    let drained = child.wait_with_output().unwrap();
    assert_eq!(drained.status.code(), Some(130), "{drained:?}");
    let lines = |bytes: &[u8]| -> Vec<Value> {
        String::from_utf8_lossy(bytes).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let said = lines(&drained.stdout);
    assert_eq!(said[0]["outcome"], json!({"reward": 1.0}));
    assert_eq!((&said[1]["rewarded"], &said[1]["pending"]), (&json!(1), &json!(2)), "{said:?}");

    let rest = run().output().unwrap();
    assert_eq!(rest.status.code(), Some(0), "{rest:?}");
    let said = lines(&rest.stdout);
    let earlier: Vec<_> = said[..3].iter().map(|line| line["earlier"] == true).collect();
    assert_eq!(earlier, [true, false, false]);
    assert_eq!(children(&jobs).len(), 1, "the same command goes on with the same job");
}

#[test]
fn a_second_interrupt_stops_trials_at_once() {
    if !sandboxes_run() {
        return;
    }
    let shelf = Shelf::new([Task::new("slow").solution("sleep 4242.5\n")]);
    let mut command = binary();
    command.current_dir(shelf.root()).args(["run", "-p", "tasks", "--job-name", "job"]);
    let mut child = command.stderr(Stdio::null()).stdout(Stdio::null()).process_group(0).spawn().unwrap();
    let sleeps = || {
        children(Path::new("/proc")).into_iter().any(|process| {
            std::fs::read(process.join("cmdline")).is_ok_and(|line| line == b"sleep\x004242.5\x00")
        })
    };
    let end = Instant::now() + Duration::from_secs(60);
    while !sleeps() {
        assert!(Instant::now() < end, "the agent did not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    interrupt(child.id());
    std::thread::sleep(Duration::from_millis(300));
    assert!(child.try_wait().unwrap().is_none() && sleeps(), "the first interrupt lets trials go on");
    interrupt(child.id());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    nothing_is_left(shelf.root(), child.id(), true);
    assert!(!sleeps());
    let result = json_of(&shelf.root().join("jobs/job/result.json"));
    let stats = &result["stats"];
    assert_eq!((&stats["n_running_trials"], &stats["n_pending_trials"]), (&json!(0), &json!(1)), "{result}");
    assert_eq!(result["finished_at"], Value::Null);
}

/// Jobs and scratch on a disk of 3 MiB.
#[test]
fn a_full_disk_stops_the_job_and_room_lets_it_go_on() {
    if !sandboxes_run() {
        return;
    }
    let shelf = Shelf::new([Task::new("good")]);
    let jobs = shelf.root().join("jobs");
    std::fs::create_dir(&jobs).unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=300k", "tmpfs"]).arg(&jobs).status();
    if !mounted.is_ok_and(|status| status.success()) {
        eprintln!("skipped: a small disk needs the right to mount one");
        return;
    }
    let _unmount = Unmount(jobs.clone());
    let filler = jobs.join("filler");
    std::fs::write(&filler, vec![1; 230 << 10]).unwrap();
    let full = shelf.run_with(&["-n", "30", "--job-name", "job"]);
    assert_eq!(full.ended.code, Some(6), "{:?}", full.ended);
    assert!(full.ended.stderr.contains("run the same command again"), "{:?}", full.ended);
    std::fs::remove_file(&filler).unwrap();
    let enlarged = Command::new("mount").args(["-o", "remount,size=64m"]).arg(&jobs).status();
    assert!(enlarged.unwrap().success());
    let job = shelf.run_with(&["-n", "30", "--job-name", "job"]);
    assert_eq!(job.ended.code, Some(0), "{:?}", job.ended);
    assert!(job.trials("good").len() == 30 && job.trials("good").iter().all(|trial| trial.is_rewarded(1.0)));
}

/// A mount that goes with the value.
struct Unmount(PathBuf);

impl Drop for Unmount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn interrupt(process: u32) {
    let status = Command::new("sh").args(["-c", "kill -s INT \"$0\"", &process.to_string()]).status();
    assert!(status.unwrap().success());
}

#[test]
fn what_stands_in_a_jobs_place_is_neither_followed_nor_waited_for() {
    if !sandboxes_run() {
        return;
    }
    let shelf = Shelf::new([Task::new("a"), Task::new("b")]);
    assert_eq!(shelf.run("nop", "job").ended.code, Some(0));
    let job = shelf.root().join("jobs/job");
    let (trial, elsewhere) = (trials(&job).remove(0), shelf.root().join("elsewhere"));
    std::fs::rename(&trial, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &trial).unwrap();
    let before = crate::project::tree(&elsewhere);
    // What a link leads to is no trial of this job: it is run again, and the other directory stays as it is.
    let again = shelf.run("nop", "job");
    assert_eq!(again.ended.code, Some(0), "{:?}", again.ended);
    assert_eq!(again.lines().iter().filter(|line| line["earlier"] == false).count(), 1);
    assert!(trial.symlink_metadata().unwrap().is_dir());
    assert_eq!(crate::project::tree(&elsewhere), before);

    let log = job.join("job.log");
    std::fs::remove_file(&log).unwrap();
    assert!(Command::new("mkfifo").arg(&log).status().unwrap().success());
    let refused = shelf.run("nop", "job").ended;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("job.log"), "{refused:?}");
    std::fs::remove_file(&log).unwrap();
    std::os::unix::fs::symlink(elsewhere.join("new"), &log).unwrap();
    assert_eq!(shelf.run("nop", "job").ended.code, Some(1));
    assert!(!elsewhere.join("new").exists());
}

#[test]
fn a_job_of_endless_trials_is_refused() {
    if !sandboxes_run() {
        return;
    }
    let shelf = Shelf::new([Task::new("a")]);
    let refused = shelf.run_with(&["-n", "4294967295"]).ended;
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("4294967295 trials"), "{refused:?}");
}

#[test]
fn only_what_has_no_reward_is_run_again() {
    if !sandboxes_run() {
        return;
    }
    let limit =
        "[agent]\ntimeout_sec = 1\n[verifier]\ntimeout_sec = 60\n[environment]\nbuild_timeout_sec = 60\n";
    let shelf = Shelf::new([
        Task::new("solved"),
        Task::new("silent").verifier("exit 0\n"),
        // Graded all the same: it has a reward, beside what went wrong.
        Task::new("late").settings(limit).solution("sleep 1000\n"),
    ]);
    let run = |rerun: &str| {
        let ended = shelf.run_with(&["--agent", "oracle", "--job-name", "job", "--rerun", rerun]).ended;
        assert_eq!(ended.code, Some(1), "one has no reward: {ended:?}");
        results(&shelf.root().join("jobs/job"))
    };
    let first = run("nothing");
    assert_eq!(run("passing"), first, "nothing failed for a passing reason");
    let again = run("errored");
    let changed: Vec<_> = again.iter().filter(|(path, inode)| first[*path] != **inode).collect();
    assert_eq!((changed.len(), again.len()), (1, 3), "{changed:?}");
    assert!(changed[0].0.to_string_lossy().contains("silent__"), "{changed:?}");
}

#[test]
fn a_damaged_record_of_a_job_is_named_with_a_way_on() {
    if !sandboxes_run() {
        return;
    }
    let shelf = Shelf::new([Task::new("a")]);
    shelf.run("nop", "job").ended.with_code(0);
    std::fs::write(shelf.root().join("jobs/job/seatrial.json"), "{").unwrap();
    let refused = shelf.run("nop", "job").ended.with_code(5);
    assert!(refused.stderr.contains("jobs/job/seatrial.json"), "{refused:?}");
    assert!(refused.stderr.contains("--job-name"), "{refused:?}");
    shelf.run("nop", "other").ended.with_code(0);
}
