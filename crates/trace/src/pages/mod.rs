//! Pages for people: one file each, which needs nothing else, on a screen or on paper.

mod html;
mod stats;
mod svg;
mod trial;

pub use stats::stats_page;
pub use trial::{TrialPage, read_trial_page};
