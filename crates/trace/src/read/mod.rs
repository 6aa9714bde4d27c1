//! Sets of rows, whoever wrote them: the field's columns from the oldest six on, ShareGPT's names, and SWE-smith's rows.
//!
//! | column | also found under |
//! |---|---|
//! | `conversations` | `messages`; as a list of structures, or as a text that holds JSON |
//! | `task` | `instance_id`, `task_name` |
//! | `trial_name` | `traj_id` |
//! | `result` | `resolved`, `reward` |
//!
//! A column that is missing is null in every row. A file that has none of the field's own columns and no `messages` is no set. Columns that nobody knows are named in the report.

mod convert;
mod lines;
mod parquet;
mod report;
mod set;

pub use report::{ReadReport, SkippedRow};
pub use set::{Place, SetFiles, Wanted, read_rows, set_files};

pub(crate) use convert::call;
pub(crate) use set::has_column;

use crate::write::Column;

/// Names under which a column is found as well.
const ALIASES: [(&str, Column); 5] = [
    ("instance_id", Column::Task),
    ("task_name", Column::Task),
    ("traj_id", Column::TrialName),
    ("resolved", Column::Result),
    ("reward", Column::Result),
];

/// The column of texts that is found under a name.
fn text_column(name: &str) -> Option<Column> {
    Column::of_texts(name)
        .or_else(|| ALIASES.iter().find(|(alias, _)| *alias == name).map(|(_, column)| *column))
}

/// Whether a column of this name tells that a file holds rows of trials. The other names are found in files of many kinds.
fn is_telling(name: &str) -> bool {
    is_conversations(name) || Column::of_texts(name).is_some()
}

/// What a file is that has no such column.
const NO_SET: &str =
    "is no set of traces: it has no column of one, such as `conversations`, `messages`, `task` or `result`";

/// Whether messages are found under a name.
fn is_conversations(name: &str) -> bool {
    name == "conversations" || name == "messages"
}
