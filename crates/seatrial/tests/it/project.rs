//! The binary, run on a project in a directory of its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ident::Digest;
use serde_json::Value;
use tempfile::TempDir;
use walkdir::WalkDir;

/// What a run of the binary left: its exit code and all it said.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    /// Fails the test unless the exit code is `code`.
    #[track_caller]
    pub fn with_code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Standard output as one JSON document on one line.
    #[track_caller]
    pub fn json(&self) -> Value {
        let [document] = <[Value; 1]>::try_from(self.json_lines()).expect("one JSON document");
        document
    }

    /// Standard output as JSON lines and nothing else.
    #[track_caller]
    pub fn json_lines(&self) -> Vec<Value> {
        let parse = |line: &str| match serde_json::from_str(line) {
            Ok(value) => value,
            Err(error) => panic!("{error} in {line:?}; standard error:\n{}", self.stderr),
        };
        self.stdout.lines().map(parse).collect()
    }

    /// Everything that was said, on both streams.
    pub fn all(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }
}

/// The binary with nothing of the caller's settings that could change what it says.
pub fn binary() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seatrial"));
    command.env_remove("RUST_LOG").env("NO_COLOR", "1").stdin(Stdio::null());
    match crate::docker::daemon() {
        Some(address) => command.env("DOCKER_HOST", address),
        None => command.env_remove("DOCKER_HOST"),
    };
    command
}

/// Runs a prepared command to its end.
pub fn ended(command: &mut Command) -> Ended {
    let output = command.output().expect("the binary starts");
    Ended {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("standard output is UTF-8"),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Runs the binary in `directory`.
pub fn seatrial(directory: &Path, arguments: &[&str]) -> Ended {
    ended(binary().current_dir(directory).args(arguments))
}

/// Whether sandboxes run on this machine; says what is skipped when they do not.
pub fn sandboxes_run() -> bool {
    let doctor = ended(binary().args(["doctor", "--json"]));
    let usable = doctor.json()["engines"][0]["usable"] == true;
    if !usable {
        let probes = doctor.json()["engines"][0]["probes"].clone();
        let why = probes.as_array().into_iter().flatten().find(|probe| probe["ok"] == false);
        eprintln!("skipped: end-to-end tests with sandboxes: {}", why.unwrap_or(&Value::Null)["detail"]);
    }
    usable
}

/// The documents that stages write and read, in the order of the stages.
pub const DOCUMENTS: [&str; 7] = [
    "seatrial.lock",
    "plan.json",
    "reserves.json",
    "materialize.json",
    "checks.json",
    "proofs.json",
    "selection.json",
];

/// Trials that prove the three tasks of `seatrial init`: three of both kinds for each, fourteen cheats for each of the two
/// repositories, and the search of the history for each task.
pub const TRIALS: usize = 3 * (3 + 3) + 2 * 14 + 3;

/// A project from `seatrial init` in a temporary directory.
pub struct Project {
    _temp: TempDir,
    root: PathBuf,
}

impl Project {
    /// The project as `init` writes it.
    pub fn new() -> Self {
        let temp = tempfile::tempdir().expect("a temporary directory");
        let root = temp.path().join("set");
        seatrial(temp.path(), &["init", "set"]).with_code(0);
        Self { _temp: temp, root }
    }

    /// The project with one proof trial of each kind and no cheats, for tests of other things than proofs.
    pub fn quick() -> Self {
        let project = Self::new();
        project.edit("seatrial.toml", "oracle_runs = 3", "oracle_runs = 1");
        project.edit("seatrial.toml", "nop_runs = 3", "nop_runs = 1");
        project.edit("seatrial.toml", "cheats = \"per-verifier\"", "cheats = \"off\"");
        project
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.root.join(name)
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub fn json(&self, name: &str) -> Value {
        serde_json::from_slice(&self.read(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// The rows of a JSONL file.
    pub fn rows(&self, name: &str) -> Vec<Value> {
        let text = String::from_utf8(self.read(name)).expect("UTF-8");
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// Writes a JSONL file.
    pub fn write_rows(&self, name: &str, rows: &[Value]) {
        let lines: Vec<String> = rows.iter().map(ToString::to_string).collect();
        std::fs::write(self.path(name), lines.join("\n") + "\n").unwrap();
    }

    /// Replaces a text that is there exactly once.
    #[track_caller]
    pub fn edit(&self, name: &str, from: &str, to: &str) {
        let text = String::from_utf8(self.read(name)).expect("UTF-8");
        assert_eq!(text.matches(from).count(), 1, "{from:?} in {name}");
        std::fs::write(self.path(name), text.replace(from, to)).unwrap();
    }

    /// The binary with `-C` set to the project.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = binary();
        command.arg("-C").arg(&self.root).args(arguments);
        command
    }

    /// Runs the binary on the project.
    pub fn run(&self, arguments: &[&str]) -> Ended {
        ended(&mut self.command(arguments))
    }

    /// Runs `up` to its good end and returns its JSON.
    #[track_caller]
    pub fn up(&self) -> Value {
        self.run(&["up", "--json", "-j", "2"]).with_code(0).json()
    }

    /// The one frozen set.
    #[track_caller]
    pub fn frozen(&self) -> PathBuf {
        let mut sets = children(&self.path("frozen"));
        sets.retain(|path| path.is_dir());
        let [set] = sets.as_slice() else { panic!("one frozen set, not {sets:?}") };
        set.clone()
    }

    /// Digests of all files of the project except derived state, trials, the ledger and what tells of them beside frozen sets,
    /// by relative path.
    pub fn artifacts(&self) -> BTreeMap<String, Digest> {
        let mut files = tree(&self.root);
        let beside = |path: &str| path.strip_prefix("frozen/").is_some_and(|path| !path.contains('/'));
        let out = ["jobs/", ".seatrial/", "ledger.db"];
        files.retain(|path, _| !beside(path) && !out.iter().any(|out| path.starts_with(out)));
        files
    }

    /// The trial directories of all jobs.
    pub fn trials(&self) -> Vec<PathBuf> {
        children(&self.path("jobs"))
            .iter()
            .flat_map(|job| children(job))
            .filter(|path| path.is_dir())
            .collect()
    }
}

/// The entries of a directory in order; none when it is not there.
pub fn children(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// Digests of all regular files below `root`, by relative path.
pub fn tree(root: &Path) -> BTreeMap<String, Digest> {
    WalkDir::new(root)
        .into_iter()
        .map(|entry| entry.expect("a readable tree"))
        .filter(|entry| entry.file_type().is_file())
        .map(|entry| {
            let path = entry.path().strip_prefix(root).expect("below the root").display().to_string();
            (path, Digest::of(std::fs::read(entry.path()).unwrap()))
        })
        .collect()
}
