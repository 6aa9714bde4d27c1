//! What is seen on pages: statistics, comparisons, canaries and single trials.

mod canary;
mod compare;
mod stats;
mod trial;

pub use canary::canary_page;
pub use compare::compare_page;
pub use stats::stats_page;
pub use trial::{TrialPage, read_trial_page};
