//! Trials turned into samples for trainers, in one of several forms, with every step of cleaning named and counted.

mod clean;
mod difficulty;
mod forms;
mod options;
mod pairs;
mod report;
mod run;
mod samples;
mod table;
mod tokens;

pub use clean::Step as CleanStep;
pub use options::{Advantage, ConvertOptions, Form};
pub use report::ConvertReport;
pub use run::convert;

pub(crate) use samples::{each_sample, is_helper};
