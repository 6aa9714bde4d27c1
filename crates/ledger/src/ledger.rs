//! The ledger on disk.

use std::path::{Path, PathBuf};

use ident::{Digest, TaskId, to_canonical_json};
use record::{Limits, Observation, Outcome, TrialKind};
use rusqlite::types::Value;
use rusqlite::{Connection, Row, Transaction, TransactionBehavior, params, params_from_iter};

use crate::schema::connect;
use crate::{LedgerError, ProofKey};

/// A ledger that is open. Several processes may have the same one open: writers wait for each other.
#[derive(Debug)]
pub struct Ledger {
    pub(crate) connection: Connection,
    pub(crate) path: PathBuf,
}

/// Which observations are asked for. What is none matches everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Of one task.
    pub task_id: Option<TaskId>,
    /// Of one kind.
    pub kind: Option<TrialKind>,
    /// Of one task tree.
    pub tree_digest: Option<Digest>,
    /// Of one verifier.
    pub verifier_digest: Option<Digest>,
    /// On one root file system.
    pub image_digest: Option<String>,
    /// Under these very limits.
    pub limits: Option<Limits>,
    /// On one engine.
    pub engine: Option<String>,
    /// Of cheats whose outcome speaks for this group.
    pub cheat_group: Option<Digest>,
}

impl Filter {
    /// Everything about one task.
    pub fn of_task(task_id: &TaskId) -> Self {
        Self { task_id: Some(task_id.clone()), ..Self::default() }
    }

    /// Everything that a verdict on `key` may look at.
    pub fn of_key(key: &ProofKey) -> Self {
        Self {
            task_id: Some(key.task_id.clone()),
            kind: None,
            tree_digest: Some(key.tree_digest),
            verifier_digest: Some(key.verifier_digest),
            image_digest: Some(key.image_digest.clone()),
            limits: Some(key.limits.clone()),
            engine: Some(key.engine.clone()),
            cheat_group: None,
        }
    }

    /// Every trial of a cheat whose outcome speaks for a group of tasks.
    pub fn of_cheat_group(group: Digest) -> Self {
        Self { cheat_group: Some(group), ..Self::default() }
    }

    /// The conditions and their values.
    fn conditions(&self) -> (String, Vec<Value>) {
        let mut conditions = Vec::new();
        let mut values = Vec::new();
        let mut equal = |column: &'static str, value: Value| {
            // `IS` instead of `=`: a limit that is absent is a value of its own.
            conditions.push(format!("{column} IS ?"));
            values.push(value);
        };
        if let Some(id) = &self.task_id {
            equal("task_id", Value::Text(id.to_string()));
        }
        if let Some(kind) = &self.kind {
            equal("kind", Value::Text(kind.to_string()));
        }
        if let Some(digest) = self.tree_digest {
            equal("tree_digest", Value::Text(digest.hex()));
        }
        if let Some(digest) = self.verifier_digest {
            equal("verifier_digest", Value::Text(digest.hex()));
        }
        if let Some(image) = &self.image_digest {
            equal("image_digest", Value::Text(image.clone()));
        }
        if let Some(limits) = &self.limits {
            // A limit beyond SQLite's integers was never kept, so it matches nothing.
            let number = |limit: u64| i64::try_from(limit).map_or(Value::Integer(-1), Value::Integer);
            let optional = |limit: Option<u64>| limit.map_or(Value::Null, number);
            equal("verifier_sec", number(limits.verifier_sec));
            equal("memory_mb", optional(limits.memory_mb));
            equal("millicpus", optional(limits.millicpus));
        }
        if let Some(engine) = &self.engine {
            equal("engine", Value::Text(engine.clone()));
        }
        if let Some(group) = self.cheat_group {
            equal("cheat_group", Value::Text(group.hex()));
        }
        let text = if conditions.is_empty() { "1".to_owned() } else { conditions.join(" AND ") };
        (text, values)
    }
}

const COLUMNS: &str = "task_id, kind, tree_digest, verifier_digest, image_digest, verifier_sec, memory_mb, \
                       millicpus, engine, outcome, tests, wall_ms, trial, ended_at, cheat_group";

impl Ledger {
    /// Opens the ledger at `path` and creates it when there is none.
    pub fn open(path: &Path) -> Result<Self, LedgerError> {
        Ok(Self { connection: connect(path, true)?, path: path.to_owned() })
    }

    /// Opens the ledger at `path` if there is one.
    pub fn open_existing(path: &Path) -> Result<Option<Self>, LedgerError> {
        if !path.exists() {
            return Ok(None);
        }
        Ok(Some(Self { connection: connect(path, false)?, path: path.to_owned() }))
    }

    /// Appends observations, all of them or none.
    pub fn append(&mut self, observations: &[Observation]) -> Result<(), LedgerError> {
        let path = &self.path;
        let failed = |source| LedgerError::of_sqlite(path, source);
        // Everything is checked before the file is locked.
        let rows: Vec<_> = observations.iter().map(StoredRow::of).collect::<Result<_, _>>()?;
        // Immediate: a transaction that begins by reading could not wait for another writer.
        let transaction =
            Transaction::new(&mut self.connection, TransactionBehavior::Immediate).map_err(failed)?;
        {
            let mut insert = transaction
                .prepare_cached(&format!(
                    "INSERT INTO observations ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
                ))
                .map_err(failed)?;
            for (observation, row) in observations.iter().zip(&rows) {
                insert
                    .execute(params![
                        observation.task_id.as_str(),
                        observation.kind.to_string(),
                        observation.tree_digest.hex(),
                        observation.verifier_digest.hex(),
                        observation.image_digest,
                        row.verifier_sec,
                        row.memory_mb,
                        row.millicpus,
                        observation.engine,
                        row.outcome,
                        row.tests,
                        row.wall_ms,
                        observation.trial,
                        observation.ended_at,
                        observation.cheat_group.map(|group| group.hex()),
                    ])
                    .map_err(failed)?;
            }
        }
        transaction.commit().map_err(failed)
    }

    /// The observations that match, in order of task and then of appending.
    pub fn observations(&self, filter: &Filter) -> Result<Vec<Observation>, LedgerError> {
        let failed = |source| LedgerError::of_sqlite(&self.path, source);
        let (conditions, values) = filter.conditions();
        let mut select = self
            .connection
            .prepare_cached(&format!(
                "SELECT id, {COLUMNS} FROM observations WHERE {conditions} ORDER BY task_id, id"
            ))
            .map_err(failed)?;
        let mut rows = select.query(params_from_iter(values)).map_err(failed)?;
        let mut observations = Vec::new();
        while let Some(row) = rows.next().map_err(failed)? {
            observations.push(self.observation(row)?);
        }
        Ok(observations)
    }

    /// Everything that a verdict on `key` looks at: what was observed of the very thing, and of cheats also what others of its
    /// group were seen to withstand.
    pub fn about(&self, key: &ProofKey) -> Result<Vec<Observation>, LedgerError> {
        let mut observations = self.observations(&Filter::of_key(key))?;
        if let Some(group) = key.cheat_group {
            let others = self.observations(&Filter::of_cheat_group(group))?;
            observations.extend(others.into_iter().filter(|other| !key.matches(other)));
        }
        Ok(observations)
    }

    /// Looks through the whole file for damage.
    pub fn verify(&self) -> Result<(), LedgerError> {
        let failed = |source| LedgerError::of_sqlite(&self.path, source);
        let mut check = self.connection.prepare("PRAGMA integrity_check(5)").map_err(failed)?;
        let found: Vec<String> =
            check.query_map([], |row| row.get(0)).and_then(Iterator::collect).map_err(failed)?;
        if found == ["ok"] {
            return Ok(());
        }
        Err(LedgerError::Damaged { path: self.path.clone(), detail: found.join("; ") })
    }

    fn observation(&self, row: &Row<'_>) -> Result<Observation, LedgerError> {
        read_observation(row).map_err(|detail| {
            let row = row.get::<_, i64>(0).map_or_else(|_| "?".to_owned(), |id| id.to_string());
            LedgerError::Damaged { path: self.path.clone(), detail: format!("observation {row}: {detail}") }
        })
    }
}

/// The parts of an observation that SQLite keeps in another form.
struct StoredRow {
    verifier_sec: i64,
    memory_mb: Option<i64>,
    millicpus: Option<i64>,
    outcome: String,
    tests: String,
    wall_ms: i64,
}

impl StoredRow {
    fn of(observation: &Observation) -> Result<Self, LedgerError> {
        let wrong =
            |detail: String| LedgerError::Observation { task_id: observation.task_id.clone(), detail };
        if let Outcome::Reward(reward) = observation.outcome
            && !reward.is_finite()
        {
            // JSON would turn it into null without a word.
            return Err(wrong(format!("its reward is {reward}")));
        }
        let number = |name: &str, value: u64| {
            i64::try_from(value).map_err(|_| wrong(format!("{name} is {value}, beyond what can be kept")))
        };
        let json = |error: ident::CanonicalError| wrong(error.to_string());
        let limits = &observation.limits;
        Ok(Self {
            verifier_sec: number("verifier_sec", limits.verifier_sec)?,
            memory_mb: limits.memory_mb.map(|value| number("memory_mb", value)).transpose()?,
            millicpus: limits.millicpus.map(|value| number("millicpus", value)).transpose()?,
            outcome: to_canonical_json(&observation.outcome).map_err(json)?,
            tests: to_canonical_json(&observation.tests).map_err(json)?,
            wall_ms: number("wall_ms", observation.wall_ms)?,
        })
    }
}

fn read_observation(row: &Row<'_>) -> Result<Observation, String> {
    let text = |column: usize| row.get::<_, String>(column).map_err(|error| error.to_string());
    let number = |column: usize| {
        let value: Option<i64> = row.get(column).map_err(|error| error.to_string())?;
        value.map(u64::try_from).transpose().map_err(|error| error.to_string())
    };
    let needed = |column: usize| number(column)?.ok_or_else(|| "a number is missing".to_owned());
    let digest = |column: usize| Digest::parse(&text(column)?).map_err(|error| error.to_string());
    Ok(Observation {
        task_id: TaskId::new(text(1)?).map_err(|error| error.to_string())?,
        kind: text(2)?.parse().map_err(|error: record::KindError| error.to_string())?,
        tree_digest: digest(3)?,
        verifier_digest: digest(4)?,
        image_digest: text(5)?,
        limits: Limits { verifier_sec: needed(6)?, memory_mb: number(7)?, millicpus: number(8)? },
        engine: text(9)?,
        outcome: serde_json::from_str(&text(10)?).map_err(|error| error.to_string())?,
        tests: serde_json::from_str(&text(11)?).map_err(|error| error.to_string())?,
        wall_ms: needed(12)?,
        trial: text(13)?,
        ended_at: text(14)?,
        cheat_group: match row.get::<_, Option<String>>(15).map_err(|error| error.to_string())? {
            Some(group) => Some(Digest::parse(&group).map_err(|error| error.to_string())?),
            None => None,
        },
    })
}
