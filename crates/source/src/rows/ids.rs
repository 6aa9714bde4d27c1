//! Id lists: one id a line, or rows that have one.

use std::collections::HashSet;

use ident::TaskId;

use super::table::{Columns, Compare, Notes};
use crate::read::{FieldFault, Row, Spot, Surrogates};

/// How ids are read: bare texts, one a line or in a JSON array, or rows with `task_id` or `instance_id`.
///
/// White space around an id is a fault of the list, not trimmed away. An id that cannot be read refuses the list: what
/// it was meant to keep or to leave out cannot be guessed.
pub(crate) const IDS: Columns<TaskId> = Columns {
    wanted: &["task_id", "instance_id"],
    id: "task_id",
    bare: true,
    surrogates: Surrogates::Refuse,
    fatal: |_| true,
    parse,
    compare,
};

fn parse(row: &mut Row, _: &mut Notes, _: &Spot) -> Result<TaskId, FieldFault> {
    match (row.has("task_id"), row.has("instance_id")) {
        (_, false) => row.task_id("task_id"),
        (false, true) => row.task_id("instance_id"),
        (true, true) => {
            let id = row.task_id("task_id")?;
            let other = row.task_id("instance_id")?;
            if id == other {
                Ok(id)
            } else {
                Err(FieldFault::value("instance_id", format!("is `{other}`, while task_id is `{id}`")))
            }
        }
    }
}

/// An id that stands twice is kept twice and counted: a list is read as a set by whoever needs one.
fn compare() -> Box<dyn Compare<TaskId>> {
    let mut seen = HashSet::new();
    Box::new(move |id: &TaskId, spot: &Spot, notes: &mut Notes| {
        if !seen.insert(id.clone()) {
            notes.count("ids that stand in the list more than once", 1, spot);
        }
        Ok(())
    })
}
