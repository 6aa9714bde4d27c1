//! Task directories written by hand, and agents run on them.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use crate::project::{Ended, children, seatrial};

/// A solution that repairs what [`Task::new`] sets up.
pub const FIX: &str = "echo fixed > /app/state\n";
/// A verifier that asks for the repair.
pub const VERIFIER: &str = "if [ \"$(cat /app/state)\" = fixed ]; then reward=1; else reward=0; fi\n\
                            echo $reward > /logs/verifier/reward.txt\n";

/// A small Harbor task on this machine's own system: `/app/state` has to become `fixed`.
pub struct Task {
    pub name: String,
    pub settings: String,
    pub dockerfile: String,
    pub solution: String,
    pub verifier: String,
}

impl Task {
    /// A task that holds: the oracle gets 1 and nop gets 0.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            settings: "[agent]\ntimeout_sec = 60\n[verifier]\ntimeout_sec = 60\n[environment]\nbuild_timeout_sec = 60\n"
                .to_owned(),
            dockerfile: "FROM seatrial.local/host\nWORKDIR /app\nRUN echo broken > /app/state\n".to_owned(),
            solution: FIX.to_owned(),
            verifier: VERIFIER.to_owned(),
        }
    }

    pub fn settings(mut self, toml: &str) -> Self {
        toml.clone_into(&mut self.settings);
        self
    }

    pub fn dockerfile_line(mut self, line: &str) -> Self {
        self.dockerfile.push_str(line);
        self.dockerfile.push('\n');
        self
    }

    pub fn solution(mut self, script: &str) -> Self {
        script.clone_into(&mut self.solution);
        self
    }

    pub fn verifier(mut self, script: &str) -> Self {
        script.clone_into(&mut self.verifier);
        self
    }

    /// Writes the task below `parent`, in a directory of its name.
    pub fn write(&self, parent: &Path) -> PathBuf {
        self.write_as(&parent.join(&self.name))
    }

    /// Writes the task into `directory`.
    pub fn write_as(&self, directory: &Path) -> PathBuf {
        let file = |path: &str, text: &str| {
            let path = directory.join(path);
            std::fs::create_dir_all(path.parent().expect("a parent")).unwrap();
            std::fs::write(&path, text).unwrap();
        };
        file("task.toml", &format!("schema_version = \"1.1\"\n\n{}", self.settings));
        file("instruction.md", "Make /app/state say `fixed`.\n");
        file("environment/Dockerfile", &self.dockerfile);
        file("solution/solve.sh", &format!("#!/bin/bash\n{}", self.solution));
        file("tests/test.sh", &format!("#!/bin/bash\n{}", self.verifier));
        for script in ["solution/solve.sh", "tests/test.sh"] {
            let mode = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(directory.join(script), mode).unwrap();
        }
        directory.to_owned()
    }
}

/// Task directories and the jobs that run on them, in a directory of their own.
pub struct Shelf {
    temp: TempDir,
}

impl Shelf {
    /// Writes the tasks.
    pub fn new(tasks: impl IntoIterator<Item = Task>) -> Self {
        let temp = tempfile::tempdir().expect("a temporary directory");
        std::fs::create_dir(temp.path().join("tasks")).unwrap();
        for task in tasks {
            task.write(&temp.path().join("tasks"));
        }
        Self { temp }
    }

    pub fn root(&self) -> &Path {
        self.temp.path()
    }

    pub fn tasks(&self) -> PathBuf {
        self.temp.path().join("tasks")
    }

    /// Writes one more file of a task; scripts are executable.
    pub fn file(&self, task: &str, path: &str, text: &str) {
        let path = self.tasks().join(task).join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        if path.extension().is_some_and(|extension| extension == "sh") {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
    }

    /// Runs an agent on all tasks, two at once.
    pub fn run(&self, agent: &str, job: &str) -> Job {
        self.run_with(&["--agent", agent, "--job-name", job])
    }

    /// Runs `seatrial run` over all tasks with more arguments.
    pub fn run_with(&self, arguments: &[&str]) -> Job {
        let all = [&["run", "--json", "-j", "2", "-p", "tasks"], arguments].concat();
        Job { root: self.root().to_owned(), ended: seatrial(self.root(), &all) }
    }
}

/// A job that has run.
pub struct Job {
    root: PathBuf,
    pub ended: Ended,
}

impl Job {
    /// The lines of the command's JSON that tell of a trial. The last line sums up.
    #[track_caller]
    pub fn lines(&self) -> Vec<Value> {
        let mut lines = self.ended.json_lines();
        let summary = lines.pop().expect("a summary");
        assert!(summary["job"].is_string(), "{summary}");
        lines
    }

    /// All trials of one task.
    pub fn trials(&self, task: &str) -> Vec<Trial> {
        let lines = self.lines().into_iter().filter(|line| line["task"] == task);
        lines
            .map(|line| {
                let directory = self.root.join(line["directory"].as_str().expect("a directory"));
                Trial { line, directory }
            })
            .collect()
    }

    /// The one trial of a task.
    #[track_caller]
    pub fn trial(&self, task: &str) -> Trial {
        let mut trials = self.trials(task);
        assert_eq!(trials.len(), 1, "trials of {task}: {:?}", self.ended);
        trials.remove(0)
    }
}

/// A trial that has run: its line of the command's JSON, and its directory.
pub struct Trial {
    pub line: Value,
    pub directory: PathBuf,
}

impl Trial {
    /// Whether the trial has exactly this reward.
    pub fn is_rewarded(&self, reward: f64) -> bool {
        self.line["outcome"] == serde_json::json!({"reward": reward})
    }

    /// Why there is no reward.
    #[track_caller]
    pub fn reason(&self) -> &str {
        let outcome = &self.line["outcome"];
        outcome["failed"]["reason"].as_str().unwrap_or_else(|| panic!("no reason: {outcome}"))
    }

    /// The words about why there is no reward.
    #[track_caller]
    pub fn detail(&self) -> &str {
        self.line["outcome"]["failed"]["detail"].as_str().expect("a detail")
    }

    pub fn text(&self, file: &str) -> String {
        let bytes =
            std::fs::read(self.directory.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub fn json(&self, file: &str) -> Value {
        serde_json::from_str(&self.text(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
    }

    /// Names of the files and directories of the trial.
    pub fn names(&self) -> Vec<String> {
        children(&self.directory)
            .iter()
            .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
            .collect()
    }
}
