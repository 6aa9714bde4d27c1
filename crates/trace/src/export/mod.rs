//! Jobs turned into rows, trial after trial in the order of the rows, with never more than a few trials in memory.

mod index;
mod options;
mod report;
mod rows;
mod run;
mod set;

pub use options::{Episodes, ExportOptions, Filter};
pub use report::{ExportReport, LeftOut};
pub use run::export;
pub use set::export_set;

pub(crate) use index::Index;
