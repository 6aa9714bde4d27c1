//! Files cut into rows: bounded, strict about content, tolerant about line ends and kinds of columns.

mod csv;
mod fault;
mod json;
mod parquet;
mod raw;
mod row;

pub(crate) use csv::read_csv;
pub(crate) use fault::serialize_faults;
pub use fault::{Faults, Place, RowFault, RowProblem, Spot};
pub(crate) use json::{mend_surrogates, scan, strict_value};
pub(crate) use parquet::read_parquet;
pub(crate) use raw::{ROW_LIMIT, RawError, RawRow, read_raw};
pub(crate) use row::{FieldFault, Row, Surrogates, salvage_id};
