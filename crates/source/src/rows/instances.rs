//! Task candidates with their patches.

use std::collections::HashMap;

use ident::{TaskId, TaskIdError};
use record::Instance;

use super::table::{Columns, Notes, Placed};
use crate::read::{Faults, FieldFault, Row, RowProblem, Spot, Surrogates};

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
        Ok(InstanceKey { instance_id, image_name, repo: row.text("repo")? })
    },
    compare: |_, _, _| {},
};

/// Finds rows of one id that differ, and ids that differ in case only. Exact repetitions are kept and counted.
fn compare(rows: &[Placed<Instance>], notes: &mut Notes, faults: &mut Faults) {
    let mut seen: HashMap<String, usize> = HashMap::with_capacity(rows.len());
    for (at, row) in rows.iter().enumerate() {
        let id = row.record.instance_id.as_str();
        let first = match seen.entry(id.to_lowercase()) {
            std::collections::hash_map::Entry::Vacant(entry) => {
                entry.insert(at);
                continue;
            }
            std::collections::hash_map::Entry::Occupied(entry) => &rows[*entry.get()],
        };
        if first.record.instance_id != row.record.instance_id {
            let other = first.record.instance_id.to_string();
            faults.push(row.fault(
                id,
                "instance_id",
                RowProblem::CaseOnly { other, first: first.spot.clone() },
            ));
        } else if first.record != row.record {
            faults.push(row.fault(
                id,
                "instance_id",
                RowProblem::Contradiction { first: first.spot.clone() },
            ));
        } else {
            notes.count("rows that repeat an earlier row exactly", 1, &row.spot);
        }
    }
}
