//! Sets of rows on disk: Parquet and JSON lines, in one file or in shards with a card.

mod card;
mod columns;
mod group;
mod groups;
mod jsonl;
mod parquet;
mod set;
mod target;

pub use columns::{Column, Columns};
pub use set::{RowSet, Written};
pub use target::Target;

pub(crate) use jsonl::line;
pub(crate) use target::{begin_file, put_file, suffix};
