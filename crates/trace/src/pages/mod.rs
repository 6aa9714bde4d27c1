//! What is seen on pages: statistics, and single trials.

mod stats;
mod trial;

pub use stats::stats_page;
pub use trial::{TrialPage, read_trial_page};
