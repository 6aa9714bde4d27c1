//! Status sums that close, or the tasks for which they do not.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use ident::TaskId;
use record::Status;

/// How many tasks have which status.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// All tasks.
    pub total: u64,
    /// Accepted ones.
    pub accepted: u64,
    /// Rejected ones by reason.
    pub rejected: BTreeMap<String, u64>,
    /// Undecided ones by reason.
    pub error: BTreeMap<String, u64>,
    /// Those not yet decided.
    pub pending: u64,
}

/// Tasks that keep the sums from closing. Nothing is counted while there are any.
#[derive(Debug, Clone, Default, PartialEq, Eq, thiserror::Error)]
pub struct TallyError {
    /// Tasks that stand in the set more than once.
    pub listed_twice: BTreeSet<TaskId>,
    /// Tasks with more than one status, and their statuses.
    pub several: BTreeMap<TaskId, Vec<&'static str>>,
    /// Tasks of the set without a status.
    pub without: BTreeSet<TaskId>,
    /// Tasks with a status that are not in the set.
    pub unknown: BTreeSet<TaskId>,
}

impl Tally {
    /// All rejected tasks.
    pub fn rejected_total(&self) -> u64 {
        self.rejected.values().sum()
    }

    /// All undecided tasks.
    pub fn error_total(&self) -> u64 {
        self.error.values().sum()
    }

    /// Whether every task has exactly one status.
    pub fn closes(&self) -> bool {
        self.total == self.accepted + self.rejected_total() + self.error_total() + self.pending
    }

    fn add(&mut self, status: &Status) {
        self.total += 1;
        match status {
            Status::Accepted => self.accepted += 1,
            Status::Rejected { reason, .. } => *self.rejected.entry(reason.clone()).or_default() += 1,
            Status::Error { reason, .. } => *self.error.entry(reason.clone()).or_default() += 1,
            Status::Pending => self.pending += 1,
        }
    }
}

/// Counts statuses by pool. Every task of the set must have exactly one status, and nothing else may have one.
pub fn tally<'a>(
    tasks: impl IntoIterator<Item = (&'a TaskId, &'a str)>,
    statuses: impl IntoIterator<Item = (&'a TaskId, &'a Status)>,
) -> Result<BTreeMap<String, Tally>, TallyError> {
    let mut wrong = TallyError::default();
    let mut pools: BTreeMap<&TaskId, &str> = BTreeMap::new();
    for (task, pool) in tasks {
        if pools.insert(task, pool).is_some() {
            wrong.listed_twice.insert(task.clone());
        }
    }
    let mut found: BTreeMap<&TaskId, Vec<&Status>> = BTreeMap::new();
    for (task, status) in statuses {
        found.entry(task).or_default().push(status);
    }
    let mut tallies: BTreeMap<String, Tally> = BTreeMap::new();
    for (task, pool) in &pools {
        match found.get(task).map(Vec::as_slice) {
            Some([status]) => tallies.entry((*pool).to_owned()).or_default().add(status),
            Some(several) => {
                wrong.several.insert((*task).clone(), several.iter().map(|status| name(status)).collect());
            }
            None => {
                wrong.without.insert((*task).clone());
            }
        }
    }
    wrong.unknown =
        found.keys().filter(|task| !pools.contains_key(*task)).map(|task| (*task).clone()).collect();
    if wrong == TallyError::default() { Ok(tallies) } else { Err(wrong) }
}

fn name(status: &Status) -> &'static str {
    match status {
        Status::Accepted => "accepted",
        Status::Rejected { .. } => "rejected",
        Status::Error { .. } => "error",
        Status::Pending => "pending",
    }
}

impl fmt::Display for TallyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Enough to see the kind of fault.
        const SHOWN: usize = 5;
        f.write_str("the status sums do not close")?;
        let mut part = |what: &str, tasks: Vec<String>| {
            if tasks.is_empty() {
                return Ok(());
            }
            let more = tasks.len().saturating_sub(SHOWN);
            let shown: Vec<_> = tasks.into_iter().take(SHOWN).collect();
            write!(f, "; {what}: {}", shown.join(", "))?;
            if more > 0 { write!(f, " and {more} more") } else { Ok(()) }
        };
        let plain = |tasks: &BTreeSet<TaskId>| tasks.iter().map(|task| format!("`{task}`")).collect();
        part("listed more than once", plain(&self.listed_twice))?;
        let several = self.several.iter().map(|(task, names)| format!("`{task}` ({})", names.join(", ")));
        part("with more than one status", several.collect())?;
        part("without a status", plain(&self.without))?;
        part("with a status but not in the set", plain(&self.unknown))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id(text: &str) -> TaskId {
        TaskId::new(text).unwrap()
    }

    fn rejected(reason: &str) -> Status {
        Status::Rejected { reason: reason.into(), detail: String::new() }
    }

    fn error(reason: &str) -> Status {
        Status::Error { reason: reason.into(), retryable: true, detail: String::new() }
    }

    #[test]
    fn statuses_are_counted_by_pool_and_reason() {
        let ids = ["a", "b", "c", "d", "e"].map(id);
        let pools = ["x", "x", "y", "y", "y"];
        let statuses =
            [Status::Accepted, rejected("flaky"), rejected("flaky"), error("engine_lost"), Status::Pending];
        let tallies = tally(ids.iter().zip(pools), ids.iter().zip(&statuses)).unwrap();
        assert_eq!(tallies["x"].accepted, 1);
        assert_eq!(tallies["y"].rejected["flaky"], 1);
        assert_eq!(tallies["y"].error["engine_lost"], 1);
        assert_eq!((tallies["y"].total, tallies["y"].pending), (3, 1));
        assert!(tallies.values().all(Tally::closes));
    }

    #[test]
    fn a_task_in_two_lists_is_named_and_nothing_is_counted() {
        let ids = ["a", "b", "c"].map(id);
        let statuses =
            [(&ids[0], Status::Accepted), (&ids[1], Status::Accepted), (&ids[1], rejected("oracle_failed"))];
        let statuses: Vec<_> = statuses.iter().map(|(id, status)| (*id, status)).collect();
        let wrong = tally(ids.iter().map(|id| (id, "x")), statuses.iter().copied()).unwrap_err();
        assert_eq!(
            wrong.to_string(),
            "the status sums do not close; with more than one status: `b` (accepted, rejected); without a status: `c`"
        );
        let wrong = tally([(&ids[0], "x"), (&ids[0], "y")], statuses).unwrap_err();
        assert_eq!(wrong.listed_twice, BTreeSet::from([ids[0].clone()]));
        assert_eq!(wrong.unknown, BTreeSet::from([ids[1].clone()]));
    }

    proptest! {
        #[test]
        fn sums_close_or_name_somebody(
            listed in prop::collection::vec((0_u8..6, 0_u8..2), 0..8),
            stated in prop::collection::vec((0_u8..6, 0_u8..4), 0..8),
        ) {
            let ids: Vec<_> = (0..6).map(|number| id(&format!("t{number}"))).collect();
            let statuses = [Status::Accepted, rejected("flaky"), error("disk_full"), Status::Pending];
            let result = tally(
                listed.iter().map(|(task, pool)| (&ids[usize::from(*task)], ["x", "y"][usize::from(*pool)])),
                stated.iter().map(|(task, status)| (&ids[usize::from(*task)], &statuses[usize::from(*status)])),
            );
            let once = |tasks: Vec<u8>| {
                let set: BTreeSet<_> = tasks.iter().copied().collect();
                (set.len() == tasks.len()).then_some(set)
            };
            let tasks = once(listed.iter().map(|(task, _)| *task).collect());
            let named = once(stated.iter().map(|(task, _)| *task).collect());
            let fits = tasks.is_some() && tasks == named;
            prop_assert_eq!(result.is_ok(), fits);
            if let Ok(tallies) = result {
                prop_assert!(tallies.values().all(Tally::closes));
                prop_assert_eq!(tallies.values().map(|tally| tally.total).sum::<u64>(), listed.len() as u64);
            }
        }
    }
}
