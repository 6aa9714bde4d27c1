//! Statuses of single tests and how several results of one test are merged.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// What one test came to, by pytest's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TestStatus {
    /// The body ran through.
    Passed,
    /// Marked as expected to fail, but the body ran through.
    Xpass,
    /// Marked as expected to fail, and it did.
    Xfail,
    /// Did not run.
    Skipped,
    /// The body failed, or one of its subtests did.
    Failed,
    /// Set-up, teardown or collection failed.
    Error,
}

impl TestStatus {
    /// Ranks statuses: when a test has several, the one with the highest rank counts.
    const fn severity(self) -> u8 {
        match self {
            Self::Passed => 0,
            Self::Xpass => 1,
            Self::Xfail => 2,
            Self::Skipped => 3,
            Self::Failed => 4,
            Self::Error => 5,
        }
    }

    /// Says whether pytest ends with status 1 because of such a test.
    pub const fn is_failure(self) -> bool {
        matches!(self, Self::Failed | Self::Error)
    }
}

/// Test ids with their statuses.
///
/// The worst result of a test counts, and a failing subtest fails its test. An error beside another status is the teardown or set-up of the same test and
/// no disagreement; any other pair of different statuses, and every rerun, marks the test as flaky.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusMap {
    statuses: BTreeMap<String, TestStatus>,
    flaky: BTreeSet<String>,
    failed_parts: BTreeSet<String>,
}

impl StatusMap {
    /// Adds one result of a test.
    pub fn record(&mut self, id: &str, status: TestStatus) {
        let Some(before) = self.statuses.get_mut(id) else {
            self.statuses.insert(id.to_owned(), status);
            return;
        };
        if *before == status {
            return;
        }
        if *before != TestStatus::Error && status != TestStatus::Error && !self.failed_parts.contains(id) {
            self.flaky.insert(id.to_owned());
        }
        if status.severity() > before.severity() {
            *before = status;
        }
    }

    /// Adds the failure of a subtest, which fails its test whatever the test's own result is.
    pub fn record_failed_part(&mut self, id: &str) {
        self.failed_parts.insert(id.to_owned());
        self.record(id, TestStatus::Failed);
    }

    /// Adds the result of one of several tests that share a name: the worst counts, and differing is no flakiness.
    pub(crate) fn record_namesake(&mut self, id: &str, status: TestStatus) {
        let kept = self.statuses.entry(id.to_owned()).or_insert(status);
        if status.severity() > kept.severity() {
            *kept = status;
        }
    }

    /// Notes that the runner ran a test again after a failure.
    pub fn record_rerun(&mut self, id: &str) {
        self.flaky.insert(id.to_owned());
    }

    /// Gives the status of a test, or `None` when the run did not show it.
    pub fn get(&self, id: &str) -> Option<TestStatus> {
        self.statuses.get(id).copied()
    }

    /// Says whether a status of this test is known.
    pub fn contains(&self, id: &str) -> bool {
        self.statuses.contains_key(id)
    }

    /// Goes through the tests in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = (&str, TestStatus)> {
        self.statuses.iter().map(|(id, status)| (id.as_str(), *status))
    }

    /// Gives the ids whose results disagreed or that were run again, sorted.
    pub fn flaky(&self) -> impl Iterator<Item = &str> {
        self.flaky.iter().map(String::as_str)
    }

    /// Says whether results of this test disagreed or it was run again.
    pub fn is_flaky(&self, id: &str) -> bool {
        self.flaky.contains(id)
    }

    /// Counts the tests.
    pub fn len(&self) -> usize {
        self.statuses.len()
    }

    /// Says whether no test is known.
    pub fn is_empty(&self) -> bool {
        self.statuses.is_empty()
    }

    /// Says whether any test failed or erred.
    pub fn has_failures(&self) -> bool {
        self.statuses.values().any(|status| status.is_failure())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_result_counts_and_disagreement_is_flaky() {
        let mut map = StatusMap::default();
        map.record("a", TestStatus::Failed);
        map.record("a", TestStatus::Passed);
        map.record("b", TestStatus::Passed);
        map.record("b", TestStatus::Passed);
        assert_eq!(map.get("a"), Some(TestStatus::Failed));
        assert_eq!(map.flaky().collect::<Vec<_>>(), ["a"]);
        assert!(map.has_failures());
    }

    #[test]
    fn an_error_in_teardown_is_no_disagreement() {
        let mut map = StatusMap::default();
        map.record("a", TestStatus::Passed);
        map.record("a", TestStatus::Error);
        assert_eq!(map.get("a"), Some(TestStatus::Error));
        assert!(!map.is_flaky("a"));
    }

    #[test]
    fn a_failing_subtest_is_no_disagreement() {
        for subtest_first in [true, false] {
            let mut map = StatusMap::default();
            if !subtest_first {
                map.record("a", TestStatus::Passed);
            }
            map.record_failed_part("a");
            map.record("a", TestStatus::Passed);
            assert_eq!(map.get("a"), Some(TestStatus::Failed));
            assert!(!map.is_flaky("a"));
        }
    }

    #[test]
    fn a_rerun_is_flaky_but_keeps_the_final_status() {
        let mut map = StatusMap::default();
        map.record_rerun("a");
        map.record("a", TestStatus::Passed);
        assert_eq!(map.get("a"), Some(TestStatus::Passed));
        assert!(map.is_flaky("a"));
    }
}
