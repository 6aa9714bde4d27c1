//! Files cut into rows: bounded, strict about content, tolerant about line ends.

mod fault;
mod json;
mod raw;
mod row;

pub use fault::{Faults, Place, RowFault, RowProblem};
pub(crate) use json::{mend_surrogates, scan, strict_value};
pub(crate) use raw::{RawError, RawFacts, RawRow, read_raw};
pub(crate) use row::{FieldFault, Row, Surrogates, salvage_id};
