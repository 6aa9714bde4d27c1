//! A task directory as Harbor understands it: opened, or refused with everything that is missing at once.

use std::path::{Path, PathBuf};

use artifact::read_bounded;

use crate::TaskError;
use crate::config::{
    ConfigError, ConfigProblem, ConfigReading, Os, TaskConfig, VerifierConfig, VerifierMode, read_config,
};
use crate::harborignore::WalkFilter;
use crate::snapshot::{Listed, Node, Snapshot};

/// The file that configures a task.
const CONFIG: &str = "task.toml";
/// No configuration comes near this size.
const MAX_CONFIG_BYTES: u64 = 4 << 20;
/// The longest prompt that is read.
const MAX_INSTRUCTION_BYTES: u64 = 16 << 20;

/// A valid task directory.
#[derive(Debug, Clone)]
pub struct TaskDir {
    path: PathBuf,
    config: TaskConfig,
    problems: Vec<ConfigProblem>,
    has_solution: bool,
}

/// Everything that can be said about a directory that may or may not be a task.
#[derive(Debug)]
pub struct Inspection {
    /// What `task.toml` says, where it parses.
    pub reading: Option<ConfigReading>,
    /// Why it does not parse.
    pub config_error: Option<ConfigError>,
    /// Parts that are not there, in order of their names.
    pub missing: Vec<MissingPart>,
    /// The first link, special file or size that makes the tree unreadable.
    pub tree_error: Option<TaskError>,
}

/// A part of a task that is not there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MissingPart {
    /// Its path relative to the task.
    pub path: String,
    /// Whether Harbor refuses the task for it; without a solution only the oracle cannot run.
    pub required: bool,
    /// What it would be there for.
    pub purpose: &'static str,
}

impl Inspection {
    /// One line for each reason why no trial may be run on the directory; empty for a valid task.
    pub fn defects(&self) -> Vec<String> {
        let missing = self.missing.iter().filter(|part| part.required);
        let refused = self.reading.iter().flat_map(|reading| &reading.problems);
        self.config_error
            .iter()
            .map(ToString::to_string)
            .chain(self.tree_error.iter().map(ToString::to_string))
            .chain(refused.filter(|problem| problem.kind.refuses()).map(ToString::to_string))
            .chain(missing.map(|part| format!("{} is missing: {}", part.path, part.purpose)))
            .collect()
    }
}

/// As [`inspect_task`], of a directory of which every entry is known: without links and special files, each path with `/`
/// between its components and behind those above it. `None` where the content of a file decides that is not known.
pub fn inspect_listed<'a>(entries: impl IntoIterator<Item = (&'a [u8], Listed<'a>)>) -> Option<Inspection> {
    let mut config = None;
    let mut snapshot = Snapshot::default();
    for (path, entry) in entries {
        if let Listed::File(content) = entry
            && path == CONFIG.as_bytes()
        {
            config = Some(read_config(content?));
        }
        snapshot.insert(path, entry)?;
    }
    Some(inspected(&Parts { path: Path::new(""), snapshot: Some(&snapshot) }, config, None))
}

/// Looks at everything in the directory at `path`; only a directory that cannot be read is an error.
pub fn inspect_task(path: &Path) -> Result<Inspection, TaskError> {
    let mut tree_error = None;
    let snapshot = match Snapshot::outline(path) {
        Ok(snapshot) => Some(snapshot),
        Err(error @ (TaskError::Io { .. } | TaskError::NotADirectory { .. })) => return Err(error),
        Err(error) => {
            tree_error = Some(error);
            None
        }
    };
    let parts = Parts { path, snapshot: snapshot.as_ref() };
    let config = if parts.file(CONFIG) {
        Some(read_config(&read_inside(path, &path.join(CONFIG), MAX_CONFIG_BYTES)?))
    } else {
        None
    };
    Ok(inspected(&parts, config, tree_error))
}

/// Puts together what is known: the parts, the configuration where there is one, and why the tree is unreadable.
fn inspected(
    parts: &Parts<'_>,
    config: Option<Result<ConfigReading, ConfigError>>,
    tree_error: Option<TaskError>,
) -> Inspection {
    let mut missing = Vec::new();
    if config.is_none() {
        missing.push(part(CONFIG, true, "it configures the task"));
    }
    let (reading, config_error) = match config {
        Some(Ok(reading)) => (Some(reading), None),
        Some(Err(error)) => (None, Some(error)),
        None => (None, None),
    };
    missing.extend(parts.missing(reading.as_ref().map(|reading| &reading.config), reading.is_none()));
    missing.sort();
    Inspection { reading, config_error, missing, tree_error }
}

impl TaskDir {
    /// Opens the task at `path`; a directory that is no valid task is refused with all reasons at once.
    ///
    /// The rules are Harbor's: `task.toml` is readable, there is an image or an `environment/`, the instruction and the
    /// test script (or those of every step) are there, and no link leaves the task. Unknown keys are kept as
    /// [`TaskDir::problems`].
    pub fn open(path: &Path) -> Result<Self, TaskError> {
        let inspection = inspect_task(path)?;
        let defects = inspection.defects();
        let has_solution = !inspection.missing.iter().any(|part| !part.required);
        match inspection.reading {
            Some(reading) if defects.is_empty() => Ok(Self {
                path: path.to_owned(),
                config: reading.config,
                problems: reading.problems,
                has_solution,
            }),
            _ => Err(TaskError::Invalid { path: path.to_owned(), defects }),
        }
    }

    /// Where the task lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What its `task.toml` says.
    pub fn config(&self) -> &TaskConfig {
        &self.config
    }

    /// What is doubtful about it: unknown keys and values without effect.
    pub fn problems(&self) -> &[ConfigProblem] {
        &self.problems
    }

    /// Whether every step, or the task itself, has a reference solution.
    pub fn has_solution(&self) -> bool {
        self.has_solution
    }

    /// The name that people see: the package's, or else the directory's.
    pub fn display_name(&self) -> String {
        match &self.config.package {
            Some(package) => package.name.clone(),
            None => self.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
        }
    }

    /// The prompt of the task, without the canary lines and blank lines at its head, as Harbor hands it out.
    pub fn instruction(&self) -> Result<String, TaskError> {
        self.prompt(&self.path.join("instruction.md"))
    }

    /// The prompt of one step.
    pub fn step_instruction(&self, step: &str) -> Result<String, TaskError> {
        self.prompt(&self.path.join("steps").join(step).join("instruction.md"))
    }

    fn prompt(&self, path: &Path) -> Result<String, TaskError> {
        let bytes = read_inside(&self.path, path, MAX_INSTRUCTION_BYTES)?;
        Ok(without_canary(&String::from_utf8_lossy(&bytes)).to_owned())
    }
}

/// Reads a file that may be a link, as long as it ends inside `root`.
fn read_inside(root: &Path, path: &Path, limit: u64) -> Result<Vec<u8>, TaskError> {
    let io = |source| TaskError::Io { path: path.to_owned(), source };
    // A regular file directly in the root stands nowhere else.
    if path.parent() == Some(root) && std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file())
    {
        return Ok(read_bounded(path, limit)?);
    }
    let end = std::fs::canonicalize(path).map_err(io)?;
    if !end.starts_with(std::fs::canonicalize(root).map_err(io)?) {
        return Err(TaskError::LinkOutside {
            link: path.display().to_string(),
            target: end.display().to_string(),
        });
    }
    Ok(read_bounded(&end, limit)?)
}

/// Drops leading lines that hold a canary, `<!--…canary…-->` or `#…canary…`, and the blank lines at the head.
fn without_canary(text: &str) -> &str {
    let is_canary = |line: &str| {
        let line = line.trim().to_lowercase();
        line.contains("canary")
            && (line.starts_with('#') || (line.starts_with("<!--") && line.ends_with("-->")))
    };
    let mut rest = text;
    while let Some(line) = rest.split_inclusive('\n').next().filter(|line| is_canary(line)) {
        rest = &rest[line.len()..];
    }
    while let Some(line) = rest.split_inclusive('\n').next().filter(|line| line.trim().is_empty()) {
        rest = &rest[line.len()..];
    }
    rest
}

fn part(path: impl Into<String>, required: bool, purpose: &'static str) -> MissingPart {
    MissingPart { path: path.into(), required, purpose }
}

/// Looks for parts in the snapshot, or on the disk when the tree as a whole is unreadable.
struct Parts<'a> {
    path: &'a Path,
    snapshot: Option<&'a Snapshot>,
}

impl Parts<'_> {
    fn node(&self, name: &str) -> Option<&Node> {
        let components: Vec<_> = name.split('/').map(|part| part.as_bytes().to_vec()).collect();
        let snapshot = self.snapshot?;
        match snapshot.get(&components)? {
            Node::Link { ends_at, .. } => snapshot.get(ends_at),
            node => Some(node),
        }
    }

    fn file(&self, name: &str) -> bool {
        match self.snapshot {
            Some(_) => matches!(self.node(name), Some(Node::File { .. })),
            None => std::fs::symlink_metadata(self.path.join(name)).is_ok_and(|metadata| metadata.is_file()),
        }
    }

    fn directory(&self, name: &str) -> bool {
        match self.snapshot {
            Some(_) => matches!(self.node(name), Some(Node::Directory(_))),
            None => std::fs::symlink_metadata(self.path.join(name)).is_ok_and(|metadata| metadata.is_dir()),
        }
    }

    /// A script that is there and is uploaded.
    fn script(&self, name: &str) -> bool {
        let uploaded = self.snapshot.is_none_or(|snapshot| {
            let filter = WalkFilter::of(snapshot);
            let mut path = Vec::new();
            name.split('/').all(|component| {
                path.push(component.as_bytes().to_vec());
                !filter.excludes(&path)
            })
        });
        self.file(name) && uploaded
    }

    fn missing(&self, config: Option<&TaskConfig>, unread: bool) -> Vec<MissingPart> {
        let mut missing = Vec::new();
        let default = VerifierConfig::default();
        let (image, windows, steps) = match config {
            Some(config) => (
                config.environment.docker_image.is_some(),
                config.environment.os == Os::Windows,
                config.steps.as_slice(),
            ),
            None => (false, false, &[][..]),
        };
        let extension = if windows { "bat" } else { "sh" };
        if !image && !self.directory("environment") {
            missing.push(part(
                "environment",
                true,
                "it or `environment.docker_image` says where the task runs",
            ));
        }
        let test = format!("tests/test.{extension}");
        let solution = format!("solution/solve.{extension}");
        let brings_tests = |verifier: &VerifierConfig| {
            verifier.mode == VerifierMode::Separate
                && verifier.environment.as_ref().is_some_and(|environment| environment.docker_image.is_some())
        };
        if steps.is_empty() {
            // Without a readable configuration nothing is known about steps; a `steps/` folder speaks for them.
            if unread && self.directory("steps") {
                return missing;
            }
            if !self.file("instruction.md") {
                missing.push(part("instruction.md", true, "it is the prompt"));
            }
            let verifier = config.map_or(&default, |config| &config.verifier);
            if !self.script(&test) && !brings_tests(verifier) {
                missing.push(part(&test, true, "it gives the reward"));
            }
            if !self.script(&solution) {
                missing.push(part(solution, false, "the oracle runs it"));
            }
            return missing;
        }
        for step in steps {
            let inside = |name: &str| format!("steps/{}/{name}", step.name);
            if !self.directory(&format!("steps/{}", step.name)) {
                missing.push(part(format!("steps/{}", step.name), true, "it is the directory of a step"));
                continue;
            }
            if !self.file(&inside("instruction.md")) {
                missing.push(part(inside("instruction.md"), true, "it is the prompt of the step"));
            }
            if !self.script(&inside(&test)) && !self.script(&test) && !brings_tests(&step.verifier) {
                missing.push(part(inside(&test), true, "it or the task's own gives the reward"));
            }
            if !self.script(&inside(&solution)) {
                missing.push(part(inside(&solution), false, "the oracle runs it"));
            }
        }
        missing
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use fs_err as fs;

    use super::*;

    fn write(root: &Path, files: &[(&str, &str)]) {
        for (name, text) in files {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    #[test]
    fn everything_that_is_missing_is_listed_at_once() {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), &[("task.toml", "[agent]\ntimeout_sec = 0\n[environment]\ncpus = -1\n")]);
        let inspection = inspect_task(directory.path()).unwrap();
        let missing: Vec<_> = inspection.missing.iter().map(|part| part.path.as_str()).collect();
        assert_eq!(missing, ["environment", "instruction.md", "solution/solve.sh", "tests/test.sh"]);
        let error = TaskDir::open(directory.path()).unwrap_err().to_string();
        for word in [
            "line 2: `agent.timeout_sec`",
            "`environment.cpus`",
            "instruction.md is missing",
            "tests/test.sh",
        ] {
            assert!(error.contains(word), "{error}");
        }
        assert!(!error.contains("solve.sh"), "{error}");
    }

    #[test]
    fn a_task_of_steps_needs_no_root_instruction() {
        let directory = tempfile::tempdir().unwrap();
        let toml =
            "[environment]\ndocker_image = \"x\"\n[[steps]]\nname = \"one\"\n[[steps]]\nname = \"two\"\n";
        write(
            directory.path(),
            &[("task.toml", toml), ("tests/test.sh", ""), ("steps/one/instruction.md", "1")],
        );
        let error = TaskDir::open(directory.path()).unwrap_err().to_string();
        assert!(error.contains("steps/two is missing"), "{error}");
        write(directory.path(), &[("steps/two/instruction.md", "2")]);
        let task = TaskDir::open(directory.path()).unwrap();
        assert_eq!(task.step_instruction("two").unwrap(), "2");
        assert!(!task.has_solution());
    }

    /// What a listing says is what the directory itself says.
    #[test]
    fn a_listing_is_inspected_like_the_directory() {
        let whole = [
            ("task.toml", "[environment]\ncpus = -1\nx = 1\n"),
            ("instruction.md", "a"),
            ("environment/Dockerfile", "FROM a\n"),
            ("tests/test.sh", "a"),
            ("tests/.harborignore", "a*.sh\n"),
            ("solution/solve.sh", "a"),
        ];
        let without = |name: &str| {
            whole.iter().filter(|(path, _)| *path != name).copied().collect::<Vec<(&str, &str)>>()
        };
        let ignoring: Vec<_> =
            without("tests/.harborignore").into_iter().chain([("tests/.harborignore", "*.sh")]).collect();
        let broken: Vec<_> = without("task.toml").into_iter().chain([("task.toml", "[")]).collect();
        let mut cases = vec![whole.to_vec(), ignoring, broken];
        cases.extend(whole.iter().map(|(name, _)| without(name)));
        for files in cases {
            let directory = tempfile::tempdir().unwrap();
            write(directory.path(), &files);
            let mut entries: BTreeMap<&str, Listed<'_>> = BTreeMap::new();
            for (path, text) in &files {
                if let Some((folder, _)) = path.split_once('/') {
                    entries.insert(folder, Listed::Directory);
                }
                entries.insert(path, Listed::File(Some(text.as_bytes())));
            }
            let listed = inspect_listed(entries.into_iter().map(|(path, entry)| (path.as_bytes(), entry)));
            let (listed, read) = (listed.unwrap(), inspect_task(directory.path()).unwrap());
            assert_eq!(format!("{listed:?}"), format!("{read:?}"));
        }
        let unknown = |path| inspect_listed([(path, Listed::File(None))]).is_none();
        assert!(unknown(&b"task.toml"[..]) && unknown(b".harborignore") && !unknown(b"README.md"));
        assert!(inspect_listed([(&b"a/b"[..], Listed::Directory)]).is_none());
    }

    #[test]
    fn an_ignored_test_script_is_a_missing_one() {
        let directory = tempfile::tempdir().unwrap();
        let files = [
            ("task.toml", "[environment]\ndocker_image = \"x\"\n"),
            ("instruction.md", ""),
            ("tests/test.sh", ""),
        ];
        write(directory.path(), &files);
        TaskDir::open(directory.path()).unwrap();
        write(directory.path(), &[("tests/.harborignore", "*.sh\n")]);
        assert!(TaskDir::open(directory.path()).is_err());
    }

    #[test]
    fn canaries_are_dropped_from_the_head_of_a_prompt() {
        assert_eq!(without_canary("<!-- CANARY x -->\n# canary y\n\n\ntext\n# canary\n"), "text\n# canary\n");
        assert_eq!(without_canary("\n\n  \ntext"), "text");
        assert_eq!(without_canary(""), "");
    }
}
