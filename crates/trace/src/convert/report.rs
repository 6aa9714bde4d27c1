//! What a conversion found, kept, cleaned and left out.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::export::LeftOut;
use crate::read::ReadReport;

/// What a conversion found, kept, cleaned and left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ConvertReport {
    /// Trials with a conversation.
    pub trials: u64,
    /// Trials that became samples, or parts of some.
    pub kept: u64,
    /// Samples: rows that were written.
    pub samples: u64,
    /// Trials that were left out, by reason.
    pub left_out: BTreeMap<&'static str, u64>,
    /// Trials of jobs that were malformed, by name.
    pub quarantined: Vec<LeftOut>,
    /// Files of jobs that were malformed, and what could not be looked into.
    pub odd: Vec<LeftOut>,
    /// Changes by step of cleaning.
    pub cleaned: BTreeMap<&'static str, u64>,
    /// Where secrets were masked.
    pub masked: Vec<LeftOut>,
    /// Groups of samples.
    pub groups: u64,
    /// Turns whose prompt does not begin with all of the turn before.
    pub prefix_breaks: u64,
    /// Rows that are no trials of their own: earlier turns and helpers.
    pub other_rows: u64,
    /// Trials that are equal copies of others.
    pub copies: u64,
    /// What was found while sets were read.
    pub read: ReadReport,
}

impl ConvertReport {
    pub(super) fn leave_out(&mut self, why: &'static str) {
        *self.left_out.entry(why).or_default() += 1;
    }
}
