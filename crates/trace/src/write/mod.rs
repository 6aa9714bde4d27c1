//! Sets of rows on disk: Parquet and JSON lines, in one file or in shards with a card.

mod card;
mod columns;
mod jsonl;
mod parquet;
mod set;

pub use columns::{Column, Columns};
pub use set::{RowSet, Target, Written};

pub(crate) use jsonl::line;
