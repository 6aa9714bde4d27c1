//! JSON as agents and their tools write it, Python's wider idea of it included.
//!
//! Numbers keep their text, so that an integer of any size comes out as it went in; texts borrow from the input where they
//! hold no escape. `NaN` and its kin are numbers too, as Python writes them. What no text can hold, half of a surrogate pair,
//! becomes U+FFFD and is counted.

mod python;
mod read;
mod value;

pub(crate) use python::{compact, indented};
pub(crate) use read::{JsonError, Mended, parse};
pub(crate) use value::Json;
