//! Reads histories: ledgers, directories of jobs, JSON lines.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use fs_err as fs;
use ident::Digest;
use job::{TrialState, TrialView};
use ledger::{Filter, Ledger};
use record::{FailureClass, Limits, Observation, Outcome, Reason, TrialKind};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Largest file of a history, in bytes.
const MAX_FILE: u64 = 1 << 30;
/// Largest configuration of a job, in bytes.
const MAX_CONFIG: u64 = 16 << 20;
/// Begins every SQLite database.
const SQLITE: &[u8] = b"SQLite format 3\0";

/// Why a history could not be read.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// There is more than is read.
    #[error("{} is larger than {limit} bytes; divide it", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The bound in bytes.
        limit: u64,
    },
    /// A line is no observation.
    #[error("{}, line {line}: {detail}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong with it.
        detail: String,
    },
    /// The ledger cannot be read.
    #[error(transparent)]
    Ledger(#[from] ledger::LedgerError),
    /// The job cannot be read.
    #[error(transparent)]
    Job(#[from] job::JobError),
}

/// What identifies the task directory of an earlier result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tree {
    /// Its tree digest.
    Digest(Digest),
    /// Harbor's content hash or its older checksum, as 64 hexadecimal digits.
    Harbor(String),
}

/// One earlier result. What is none was not said.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Earlier {
    /// The task, by the name that the history has for it.
    pub task: String,
    /// What was tried.
    pub kind: TrialKind,
    /// The task directory.
    pub tree: Tree,
    /// Tree digest of its tests; the tree speaks for them where it is not said.
    pub verifier_digest: Option<Digest>,
    /// The root file system.
    pub image: EarlierImage,
    /// The network.
    pub network: EarlierNetwork,
    /// The limits.
    pub limits: EarlierLimits,
    /// The engine.
    pub engine: Option<String>,
    /// What came out.
    pub outcome: Outcome,
    /// Status of the required tests.
    pub tests: BTreeMap<String, String>,
    /// How long it took, in milliseconds.
    pub wall_ms: u64,
    /// What it also speaks for, where it is a cheat.
    pub cheat_group: Option<Digest>,
    /// Where it was, as the history says; never used as a path.
    pub trial: String,
    /// When it ended.
    pub ended_at: String,
}

/// What is known of the limits of an earlier result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EarlierLimits {
    /// They were these.
    Stated(Limits),
    /// They were those of the task itself, with nothing laid over them.
    OfTask,
    /// Not what they were.
    Unknown,
}

/// What is known of the root file system of an earlier result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EarlierImage {
    /// It was the one of this identity.
    Digest(String),
    /// It was what the task itself names, with nothing laid over it.
    OfTask,
    /// Not what it was.
    Unknown,
}

/// What is known of the network of an earlier result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EarlierNetwork {
    /// There was none, as in every proof.
    None,
    /// It was what the task itself asks for.
    OfTask,
}

/// One history.
#[derive(Debug, Clone, PartialEq)]
pub struct History {
    /// Its name: the last part of its path.
    pub name: String,
    /// Digest of what was read of it.
    pub digest: Digest,
    /// Its results, in its own order.
    pub results: Vec<Earlier>,
    /// How many of its trials say nothing about a proof, by the reason.
    pub passed_over: BTreeMap<&'static str, usize>,
}

/// Reads one history: a ledger, the directory of a job, or a file of JSON lines. Nothing of it is changed.
///
/// # Errors
/// [`HistoryError`]; a history with a line that cannot be read is refused as a whole.
pub fn read(path: &Path) -> Result<History, HistoryError> {
    let io = |source| HistoryError::Io { path: path.to_owned(), source };
    let name = path.file_name().map_or_else(|| ".".into(), |name| name.to_string_lossy().into_owned());
    let (results, passed_over) = if fs::metadata(path).map_err(io)?.is_dir() {
        of_job(path)?
    } else {
        let mut head = Vec::new();
        fs::File::open(path).map_err(io)?.take(SQLITE.len() as u64).read_to_end(&mut head).map_err(io)?;
        let results =
            if head == SQLITE { of_ledger(path)? } else { of_lines(path, &bounded(path, MAX_FILE)?)? };
        (results, BTreeMap::new())
    };
    // What was understood is what is taken over, so its digest names the history, whatever its form is.
    let text = serde_json::to_vec(&results).map_err(|error| io(error.into()))?;
    Ok(History { name: task::printable(name.as_bytes()), digest: Digest::of(text), results, passed_over })
}

fn bounded(path: &Path, limit: u64) -> Result<Vec<u8>, HistoryError> {
    let io = |source| HistoryError::Io { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    fs::File::open(path).map_err(io)?.take(limit + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > limit {
        return Err(HistoryError::TooLarge { path: path.to_owned(), limit });
    }
    Ok(bytes)
}

/// Reads a copy: opening a ledger brings it to the present layout, and this one is somebody else's.
fn of_ledger(path: &Path) -> Result<Vec<Earlier>, HistoryError> {
    let io = |source| HistoryError::Io { path: path.to_owned(), source };
    let directory = tempfile::tempdir().map_err(io)?;
    let copy = directory.path().join("ledger.db");
    // What was written last may still lie in the log beside it.
    for suffix in ["", "-wal"] {
        let beside = |path: &Path| {
            let mut beside = path.as_os_str().to_owned();
            beside.push(suffix);
            PathBuf::from(beside)
        };
        let source = beside(path);
        if suffix.is_empty() || source.is_file() {
            fs::write(beside(&copy), bounded(&source, MAX_FILE)?).map_err(io)?;
        }
    }
    let Some(ledger) = Ledger::open_existing(&copy)? else { return Ok(Vec::new()) };
    Ok(ledger.observations(&Filter::default())?.into_iter().map(Earlier::from).collect())
}

impl From<Observation> for Earlier {
    fn from(observation: Observation) -> Self {
        Self {
            task: observation.task_id.to_string(),
            kind: observation.kind,
            tree: Tree::Digest(observation.tree_digest),
            verifier_digest: Some(observation.verifier_digest),
            image: EarlierImage::Digest(observation.image_digest),
            network: EarlierNetwork::None,
            limits: EarlierLimits::Stated(observation.limits),
            engine: Some(observation.engine),
            outcome: observation.outcome,
            tests: observation.tests,
            wall_ms: observation.wall_ms,
            cheat_group: observation.cheat_group,
            trial: observation.trial,
            ended_at: observation.ended_at,
        }
    }
}

/// One line: an observation as the ledger has it, where Harbor's hash may stand in place of the tree digest.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    task_id: String,
    kind: TrialKind,
    #[serde(default)]
    tree_digest: Option<Digest>,
    #[serde(default)]
    content_hash: Option<Digest>,
    #[serde(default)]
    verifier_digest: Option<Digest>,
    image_digest: String,
    limits: Limits,
    engine: String,
    outcome: Outcome,
    #[serde(default)]
    tests: BTreeMap<String, String>,
    #[serde(default)]
    wall_ms: u64,
    #[serde(default)]
    trial: String,
    ended_at: String,
    #[serde(default)]
    cheat_group: Option<Digest>,
}

fn of_lines(path: &Path, bytes: &[u8]) -> Result<Vec<Earlier>, HistoryError> {
    let mut results = Vec::new();
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    for (number, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let wrong = |detail: String| HistoryError::Line { path: path.to_owned(), line: number + 1, detail };
        let row: Row = serde_json::from_slice(line).map_err(|error| wrong(error.to_string()))?;
        let tree = match (row.tree_digest, row.content_hash) {
            (Some(digest), _) => Tree::Digest(digest),
            (None, Some(hash)) => Tree::Harbor(hash.hex()),
            (None, None) => return Err(wrong("neither tree_digest nor content_hash says which tree".into())),
        };
        results.push(Earlier {
            task: row.task_id,
            kind: row.kind,
            tree,
            verifier_digest: row.verifier_digest,
            image: EarlierImage::Digest(row.image_digest),
            network: EarlierNetwork::None,
            limits: EarlierLimits::Stated(row.limits),
            engine: Some(row.engine),
            outcome: row.outcome,
            tests: row.tests,
            wall_ms: row.wall_ms,
            cheat_group: row.cheat_group,
            trial: row.trial,
            ended_at: row.ended_at,
        });
    }
    Ok(results)
}

/// What the trials of a job say about proofs, and how many say nothing, by the reason.
fn of_job(path: &Path) -> Result<(Vec<Earlier>, BTreeMap<&'static str, usize>), HistoryError> {
    let laid_over = LaidOver::of(path);
    let (mut results, mut passed_over) = (Vec::new(), BTreeMap::new());
    for trial in job::read_job(path)?.trials {
        match of_trial(trial, laid_over) {
            Ok(result) => results.push(result),
            Err(why) => *passed_over.entry(why).or_default() += 1,
        }
    }
    Ok((results, passed_over))
}

/// What a job laid over its tasks, as far as its own documents tell.
#[derive(Clone, Copy)]
struct LaidOver {
    limits: bool,
    environment: bool,
    /// Whether the trials may have had the network that their tasks ask for.
    network: bool,
}

impl LaidOver {
    fn of(path: &Path) -> Self {
        let config = bounded(&path.join("config.json"), MAX_CONFIG).ok();
        let config = config.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let Some(Value::Object(config)) = config else {
            return Self { limits: true, environment: true, network: true };
        };
        let part = |name: &str| match config.get(name) {
            Some(Value::Array(parts)) => parts.iter().collect(),
            part => Vec::from_iter(part),
        };
        let parts: Vec<&Map<String, Value>> = ["agents", "verifier", "environment"]
            .into_iter()
            .flat_map(part)
            .filter_map(Value::as_object)
            .chain([&config])
            .collect();
        let any = |is: fn(&str, &Value) -> bool| {
            parts.iter().any(|part| part.iter().any(|(key, value)| is(key, value)))
        };
        let settings = trial::job_settings(path).ok().flatten();
        let is_limited = |settings: &BTreeMap<String, String>| settings.keys().any(|name| name != "network");
        Self {
            limits: any(is_limit) || settings.as_ref().is_some_and(is_limited),
            environment: any(is_of_environment),
            // Seatrial gives a network only where it is asked to; others give what the task asks for.
            network: settings.is_none_or(|settings| settings.contains_key("network")),
        }
    }
}

/// Whether a setting of a job changes a limit.
fn is_limit(key: &str, value: &Value) -> bool {
    let is_limit = key.contains("timeout") || key.starts_with("override_") && key != "override_error_policy";
    is_limit && !value.is_null() && !(key.ends_with("multiplier") && value.as_f64() == Some(1.0))
}

/// Whether a setting of a job changes what its sandboxes are made of.
fn is_of_environment(key: &str, value: &Value) -> bool {
    let keys = [
        "force_build",
        "mounts",
        "mounts_json",
        "extra_docker_compose",
        "extra_allowed_hosts",
        "env",
        "import_path",
        "kwargs",
    ];
    let is_empty = match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    keys.contains(&key) && !is_empty
}

/// What a trial says about a proof, or why nothing.
fn of_trial(trial: TrialView, laid_over: LaidOver) -> Result<Earlier, &'static str> {
    let kind = match trial.agent.as_deref() {
        Some("oracle") => TrialKind::Oracle,
        Some("nop") => TrialKind::Nop,
        Some(_) => return Err("of another agent"),
        None => return Err("of an agent that is not named"),
    };
    let outcome = match (&trial.state, trial.state.failure()) {
        (TrialState::Rewarded { reward, .. }, None) => Outcome::Reward(*reward),
        (_, Some(failure)) => {
            let detail = format!("{}: {}", failure.exception, failure.message);
            match failure.reason {
                Some(reason) => {
                    let rule = job::rule(reason);
                    Outcome::Failed { reason, class: rule.class, retryable: rule.retryable, detail }
                }
                // A name that may stand for anything says nothing lasting about the task.
                None => Outcome::Failed {
                    reason: Reason::EngineLost,
                    class: FailureClass::Infrastructure,
                    retryable: true,
                    detail,
                },
            }
        }
        _ => return Err("without an end"),
    };
    let (Some(task), Some(checksum)) = (trial.task, trial.task_checksum) else {
        return Err("of a task that is not named with its checksum");
    };
    Ok(Earlier {
        task,
        kind,
        tree: Tree::Harbor(checksum),
        verifier_digest: None,
        image: match trial.image_digest {
            Some(digest) => EarlierImage::Digest(digest),
            None if laid_over.environment => EarlierImage::Unknown,
            None => EarlierImage::OfTask,
        },
        network: if laid_over.network { EarlierNetwork::OfTask } else { EarlierNetwork::None },
        limits: if laid_over.limits { EarlierLimits::Unknown } else { EarlierLimits::OfTask },
        engine: trial.engine,
        outcome,
        tests: trial.tests,
        wall_ms: trial.wall_ms.unwrap_or_default(),
        cheat_group: None,
        trial: trial.name,
        ended_at: trial.finished_at.map(|at| at.at.to_string()).unwrap_or_default(),
    })
}
