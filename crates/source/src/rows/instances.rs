//! Task candidates with their patches.

use std::collections::HashMap;

use record::Instance;

use super::table::{Columns, Notes, Placed};
use crate::read::{Faults, FieldFault, Place, Row, RowProblem, Surrogates};

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
    parse,
    compare,
};

fn parse(row: &mut Row, notes: &mut Notes, place: Place) -> Result<Instance, FieldFault> {
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
        notes.count("rows without a problem statement", 1, place);
    }
    let problem_statement = problem_statement.unwrap_or_default();
    Ok(Instance { instance_id, patch, fail_to_pass, pass_to_pass, image_name, repo, problem_statement })
}

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
            faults.push(row.fault(id, "instance_id", RowProblem::CaseOnly { other, first: first.place }));
        } else if first.record != row.record {
            faults.push(row.fault(id, "instance_id", RowProblem::Contradiction { first: first.place }));
        } else {
            notes.count("rows that repeat an earlier row exactly", 1, row.place);
        }
    }
}
