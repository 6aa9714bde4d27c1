//! Id lists: one id a line, or rows that have one.

use std::collections::HashSet;

use ident::TaskId;

use super::table::{Columns, Notes, Placed, Table, TableError};
use crate::file::FileInput;
use crate::read::{Faults, FieldFault, Place, Row, RowProblem, Surrogates, read_raw};

/// How ids are read from JSON: bare texts, or objects with `task_id` or `instance_id`.
pub(crate) const IDS: Columns<TaskId> = Columns {
    wanted: &["task_id", "instance_id"],
    id: "task_id",
    bare: true,
    surrogates: Surrogates::Refuse,
    parse,
    compare,
};

fn parse(row: &mut Row, _: &mut Notes, _: Place) -> Result<TaskId, FieldFault> {
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
fn compare(rows: &[Placed<TaskId>], notes: &mut Notes, _: &mut Faults) {
    let mut seen = HashSet::with_capacity(rows.len());
    for row in rows {
        if !seen.insert(row.record.as_str()) {
            notes.count("ids that stand in the list more than once", 1, row.place);
        }
    }
}

/// Reads one id a line. White space around an id is a fault of the list, not trimmed away.
pub(crate) fn read_id_lines(input: &FileInput) -> Result<Table<TaskId>, TableError> {
    let mut rows = Vec::new();
    let mut faults = Faults::new(input.shown.clone());
    let mut notes = Notes::default();
    let facts = read_raw(input, &mut |raw| {
        let whole = |problem| FieldFault { field: None, problem, offset: None };
        let id = match &raw.bytes {
            Ok(bytes) => std::str::from_utf8(bytes)
                .map_err(|error| FieldFault {
                    offset: Some(error.valid_up_to()),
                    ..whole(RowProblem::NotUtf8)
                })
                .and_then(|text| TaskId::new(text).map_err(|error| whole(error.into()))),
            Err(problem) => Err(whole(problem.clone())),
        };
        match id {
            Ok(record) => rows.push(Placed { place: raw.place, offset: raw.offset, record }),
            Err(fault) => faults.push(fault.at(&raw, None)),
        }
    })
    .map_err(TableError::Raw)?;
    if faults.total > 0 {
        return Err(TableError::Rows(faults));
    }
    compare(&rows, &mut notes, &mut faults);
    Ok(Table { rows: rows.into_iter().map(|row| row.record).collect(), facts, notes })
}
