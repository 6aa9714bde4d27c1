//! What an interrupted `up` leaves behind, and how the next one goes on.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ledger::{Filter, Ledger};
use record::{Observation, TrialKind};
use serde_json::Value;

use crate::leftovers::{groups_of, nothing_is_left};
use crate::project::{Ended, Project, TRIALS, children, sandboxes_run};

/// Moments of an `up` at which it can be interrupted: what has to be there first.
const BEFORE_TRIALS: [&str; 3] = ["seatrial.lock", "plan.json", "checks.json"];

/// An `up` that is running, in a process group of its own as on a terminal.
struct Running {
    child: Child,
}

impl Running {
    fn start(project: &Project) -> Self {
        let mut command = project.command(&["up", "-j", "2"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        Self { child: command.spawn().unwrap() }
    }

    /// Waits until something is there.
    #[track_caller]
    fn wait_for(&mut self, what: &str, mut condition: impl FnMut() -> bool) {
        let end = Instant::now() + Duration::from_secs(120);
        while !condition() {
            assert!(self.child.try_wait().unwrap().is_none(), "`up` ended before {what}");
            assert!(Instant::now() < end, "no {what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Sends a signal to the program, or to its whole process group as a terminal does.
    fn signal(&self, signal: &str, group: bool) {
        let target = if group { format!("-{}", self.child.id()) } else { self.child.id().to_string() };
        let status = Command::new("sh").args(["-c", "kill -s \"$0\" -- \"$1\"", signal, &target]).status();
        assert!(status.unwrap().success(), "kill -s {signal} {target}");
    }

    fn end(self) -> Ended {
        let output = self.child.wait_with_output().unwrap();
        Ended {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// How many trials have a result, and how many have been begun.
fn progress(project: &Project) -> (usize, usize) {
    let trials = project.trials();
    (trials.iter().filter(|trial| trial.join("result.json").exists()).count(), trials.len())
}

/// Observations in the ledger over all planned tasks.
fn observations(project: &Project) -> usize {
    let status = project.run(&["status", "--json"]).with_code(0).json();
    let tasks = status["tasks"].as_object().unwrap();
    tasks
        .keys()
        .map(|task| {
            let life = project.run(&["status", "--json", task]).with_code(0).json();
            life["observations"].as_array().unwrap().len()
        })
        .sum()
}

fn undisturbed() -> Value {
    Project::quick().up()["semantic_digest"].clone()
}

#[test]
fn an_interrupted_up_leaves_nothing_running_and_goes_on() {
    if !sandboxes_run() {
        return;
    }
    let project = Project::new();
    for (moment, signal) in BEFORE_TRIALS.into_iter().zip(["INT", "TERM", "HUP"]) {
        // Whatever the round before came to, this one has to get there by itself.
        let _ = std::fs::remove_file(project.path(moment));
        let mut running = Running::start(&project);
        running.wait_for(moment, || project.path(moment).exists());
        let process = running.child.id();
        running.signal(signal, false);
        let ended = running.end().with_code(130);
        assert!(ended.stderr.contains("interrupted"), "{ended:?}");
        nothing_is_left(project.root(), process, true);
    }
    // While trials run: at the first one, at the first that has ended, and with the whole process group.
    for (round, (begun, done, group)) in [(1, 0, false), (2, 1, true), (3, 2, false)].into_iter().enumerate()
    {
        let before = progress(&project);
        let mut running = Running::start(&project);
        running.wait_for("a trial", || {
            let now = progress(&project);
            now.1 >= before.1 + begun && now.0 >= before.0 + done
        });
        let process = running.child.id();
        running.signal("INT", group);
        running.end().with_code(130);
        nothing_is_left(project.root(), process, true);
        assert_eq!(children(&project.path(".seatrial/sandboxes")), Vec::<std::path::PathBuf>::new());
        // What was seen is written down, except for the two trials that may just have ended.
        let status = project.run(&["status", "--json"]).with_code(0).json();
        assert_eq!(status["pools"]["main"]["total"], 3);
        assert!(observations(&project) >= progress(&project).0.saturating_sub(2 * (round + 1)), "{status}");
    }
    assert!(observations(&project) > 0, "no finished trial was kept");
    assert_eq!(project.up()["semantic_digest"], undisturbed());
    assert_eq!(observations(&project), TRIALS, "a trial that was kept ran again");
}

#[test]
fn a_killed_up_leaves_nothing_running_and_goes_on() {
    if !sandboxes_run() {
        return;
    }
    let project = Project::new();
    let mut killed = Vec::new();
    for (begun, done) in [(0, 0), (1, 0), (3, 2)] {
        let before = progress(&project);
        let mut running = Running::start(&project);
        running.wait_for("a trial", || {
            let now = progress(&project);
            project.path("plan.json").exists() && now.1 >= before.1 + begun && now.0 >= before.0 + done
        });
        killed.push(running.child.id());
        running.signal("KILL", false);
        assert_eq!(running.end().code, None);
        nothing_is_left(project.root(), killed[killed.len() - 1], false);
    }
    // What a program was writing when it was killed stands under such names.
    let deserted =
        [".seatrial-a.tmp", "tasks/.seatrial-b.tmp", "frozen/.seatrial-c.tmp"].map(|name| project.path(name));
    for directory in &deserted {
        std::fs::create_dir_all(directory.join("environment")).unwrap();
    }
    assert_eq!(project.up()["semantic_digest"], undisturbed());
    assert_eq!(observations(&project), TRIALS, "a trial that was kept ran again");
    // The next program cleared away what the killed ones could not.
    assert_eq!(children(&project.path(".seatrial/sandboxes")), Vec::<std::path::PathBuf>::new());
    for process in killed {
        assert_eq!(groups_of(process), Vec::<String>::new());
    }
    for deserted in deserted {
        assert!(!deserted.exists(), "{} is still there", deserted.display());
    }
}

#[test]
fn the_status_tells_what_a_proof_under_way_has_found() {
    if !sandboxes_run() {
        return;
    }
    let project = Project::new();
    let (mut pending, mut decided) = (0, 0);
    let mut look = || {
        let status = project.run(&["status", "--json"]).with_code(0).json();
        let count = |of: &str| {
            let tasks = status["tasks"].as_object().unwrap().values();
            tasks.filter(|task| task["status"] == of).count()
        };
        (pending, decided) = (count("pending"), count("accepted") + count("rejected"));
        decided > 0 && pending > 0
    };
    let mut running = Running::start(&project);
    running.wait_for("a plan", || project.path("checks.json").exists());
    running.wait_for("a verdict beside others that are pending", &mut look);
    running.signal("KILL", false);
    running.end();
    // Nothing of it is lost with the program.
    look();
    assert!(decided > 0, "{pending} pending");
    assert_eq!(project.up()["semantic_digest"], undisturbed());
}

#[test]
fn a_proof_that_lacks_nothing_but_its_last_trial_is_finished() {
    if !sandboxes_run() {
        return;
    }
    let project = Project::new();
    let whole = project.up()["semantic_digest"].clone();
    // What a program leaves that was killed just before: everything but the search of the history in one task.
    let path = project.path("ledger.db");
    let mut seen = Ledger::open(&path).unwrap().observations(&Filter::default()).unwrap();
    let last =
        |seen: &Observation| matches!(&seen.kind, TrialKind::Cheat(name) if name.as_str() == "git-history");
    seen.remove(seen.iter().position(last).expect("every task has one"));
    for name in ["ledger.db", "ledger.db-wal", "ledger.db-shm", "proofs.json"] {
        let _ = std::fs::remove_file(project.path(name));
    }
    Ledger::open(&path).unwrap().append(&seen).unwrap();
    assert_eq!(project.up()["semantic_digest"], whole);
    assert_eq!(observations(&project), TRIALS);
}

#[test]
fn a_second_program_stays_out_of_a_project() {
    if !sandboxes_run() {
        return;
    }
    let project = Project::new();
    let mut running = Running::start(&project);
    running.wait_for("a trial", || progress(&project).1 > 0);
    for stage in ["up", "plan", "materialize", "check", "prove", "resolve", "freeze", "export"] {
        let refused = project.run(&[stage, "--json"]).with_code(5);
        assert!(refused.json()["error"].as_str().unwrap().contains("another seatrial"), "{refused:?}");
    }
    // Reading is no harm.
    assert_eq!(project.run(&["status", "--json"]).with_code(0).json()["pools"]["main"]["total"], 3);
    assert!(running.child.try_wait().unwrap().is_none(), "the first one ended too early to say anything");
    running.end().with_code(0);
    assert_eq!(project.trials().len(), TRIALS);
    project.run(&["freeze", "--check"]).with_code(0);
}
