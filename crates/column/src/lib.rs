//! Parquet files of strangers, opened and decoded within bounds.
//!
//! A file comes in; a reader of its columns goes out that claims nothing outside the file, decodes no more values at a
//! time than it may, and whose panics are an error of the file. What the columns mean is for the rooms above.

mod budget;
mod guard;
mod open;
#[cfg(test)]
mod testing;

pub use budget::ValueBudget;
pub use guard::guarded;
pub use open::{OpenError, open};
