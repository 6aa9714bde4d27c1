//! Task candidates with their patches.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::{self, Write};

use ident::{Digest, Sha256Writer, TaskId, TaskIdError};
use record::Instance;

use super::table::{Columns, Compare, Notes, uncompared};
use crate::read::{FieldFault, Row, RowProblem, Spot, Surrogates};

/// How instances are read: every text decides what a task is, so nothing is mended.
pub(crate) const INSTANCES: Columns<Instance> = Columns {
    wanted: &[
        "instance_id",
        "patch",
        "FAIL_TO_PASS",
        "PASS_TO_PASS",
        "image_name",
        "repo",
        "problem_statement",
    ],
    id: "instance_id",
    bare: false,
    surrogates: Surrogates::Refuse,
    fatal: ambiguous_id,
    parse,
    compare,
};

/// White space around an id makes two rows look like one task, and the rules of planning call that an error.
fn ambiguous_id(problem: &RowProblem) -> bool {
    matches!(problem, RowProblem::TaskId(TaskIdError::Edge(_)))
}

fn parse(row: &mut Row, notes: &mut Notes, spot: &Spot) -> Result<Instance, FieldFault> {
    let instance_id = row.task_id("instance_id")?;
    let patch = row.text("patch")?;
    let fail_to_pass = row.texts("FAIL_TO_PASS", true)?;
    let pass_to_pass = row.texts("PASS_TO_PASS", true)?;
    let image_name = row.text("image_name")?;
    let repo = row.text("repo")?;
    if !row.has("problem_statement") {
        return Err(FieldFault::new("problem_statement", RowProblem::Missing));
    }
    let problem_statement = row.optional_text("problem_statement")?;
    if problem_statement.as_ref().is_none_or(|text| text.trim().is_empty()) {
        notes.count("rows without a problem statement", 1, spot);
    }
    let problem_statement = problem_statement.unwrap_or_default();
    Ok(Instance { instance_id, patch, fail_to_pass, pass_to_pass, image_name, repo, problem_statement })
}

/// What a plan asks of an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceKey {
    /// The task's id.
    pub instance_id: TaskId,
    /// The collection's name for the repository, as given.
    pub repo: String,
    /// The collection's image for the repository, as given.
    pub image_name: String,
    /// Tells the row from others of the same id; none when only the keys were read.
    pub row: Option<Digest>,
}

impl InstanceKey {
    /// The key of a whole row.
    pub fn of(instance: &Instance) -> Self {
        let Instance { instance_id, repo, image_name, .. } = instance;
        Self {
            instance_id: instance_id.clone(),
            repo: repo.clone(),
            image_name: image_name.clone(),
            row: Some(row_digest(instance)),
        }
    }
}

/// A digest over everything that a row says, each text with its length. It is compared with others of its own kind and
/// written nowhere.
fn row_digest(instance: &Instance) -> Digest {
    let Instance { instance_id, patch, fail_to_pass, pass_to_pass, image_name, repo, problem_statement } =
        instance;
    let mut hash = Sha256Writer::new(io::sink());
    let mut add = |text: &str| {
        let length = (text.len() as u64).to_le_bytes();
        hash.write_all(&length)
            .and_then(|()| hash.write_all(text.as_bytes()))
            .expect("a sink takes everything");
    };
    for text in [instance_id.as_str(), patch, image_name, repo, problem_statement] {
        add(text);
    }
    for list in [fail_to_pass, pass_to_pass] {
        add(&list.len().to_string());
        for test in list {
            add(test);
        }
    }
    hash.finish().0
}

/// How instances are read when only their keys are asked for. Rows that repeat an id are all kept: whether they are
/// the same is a question for their other columns.
pub(crate) const INSTANCE_KEYS: Columns<InstanceKey> = Columns {
    wanted: &["instance_id", "repo", "image_name"],
    id: "instance_id",
    bare: false,
    surrogates: Surrogates::Refuse,
    fatal: ambiguous_id,
    parse: |row, _, _| {
        let instance_id = row.task_id("instance_id")?;
        let image_name = row.text("image_name")?;
        Ok(InstanceKey { instance_id, image_name, repo: row.text("repo")?, row: None })
    },
    compare: uncompared,
};

/// The first row of an id.
struct First {
    id: TaskId,
    row: Digest,
    spot: Spot,
}

/// The first rows by their ids in lower case.
#[derive(Default)]
struct FirstRows(HashMap<String, First>);

fn compare() -> Box<dyn Compare<Instance>> {
    Box::new(FirstRows::default())
}

impl Compare<Instance> for FirstRows {
    /// Finds rows of one id that differ, and ids that differ in case only. Exact repetitions are kept and counted.
    fn compare(&mut self, instance: &Instance, spot: &Spot, notes: &mut Notes) -> Result<(), FieldFault> {
        let (id, row) = (&instance.instance_id, row_digest(instance));
        let first = match self.0.entry(id.as_str().to_lowercase()) {
            Entry::Vacant(entry) => {
                entry.insert(First { id: id.clone(), row, spot: spot.clone() });
                return Ok(());
            }
            Entry::Occupied(entry) => entry.into_mut(),
        };
        let problem = if first.id != *id {
            RowProblem::CaseOnly { other: first.id.to_string(), first: first.spot.clone() }
        } else if first.row != row {
            RowProblem::Contradiction { first: first.spot.clone() }
        } else {
            notes.count("rows that repeat an earlier row exactly", 1, spot);
            return Ok(());
        };
        Err(FieldFault::new("instance_id", problem))
    }

    fn first_of(&self, id: &str) -> Option<Spot> {
        let first = self.0.get(&id.to_lowercase())?;
        (first.id.as_str() == id).then(|| first.spot.clone())
    }
}
