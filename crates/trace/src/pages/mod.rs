//! What is seen on pages: statistics, and single trials.

mod canary;
mod stats;
mod trial;

pub use canary::canary_page;
pub use stats::stats_page;
pub use trial::{TrialPage, read_trial_page};
