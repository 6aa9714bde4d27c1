//! What a check is told besides the task.

use std::collections::BTreeSet;

/// How a check is to be done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckOptions {
    /// Where the tasks come from.
    pub profile: Profile,
    /// Names of rules whose findings are left out.
    pub skip: BTreeSet<String>,
}

impl CheckOptions {
    /// Options for tasks of `profile`, with every rule.
    pub fn of(profile: Profile) -> Self {
        Self { profile, skip: BTreeSet::new() }
    }
}

/// Where tasks come from, which decides how sure a rule can be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Profile {
    /// Written by somebody else, in any style that Harbor accepts.
    #[default]
    Foreign,
    /// Written by this program: a vendored verifier and a workspace archive whose contents are known, so that every
    /// departure is a fault.
    Materialized,
}
