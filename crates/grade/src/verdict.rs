//! Decides what a run is worth.
//!
//! The first row that applies decides (`vendored/verify.py` holds the same table):
//!
//! | what is seen | outcome | reason | reward |
//! |---|---|---|---|
//! | `fail_to_pass` is empty and not waived, or both lists are | invalid | `f2p_empty` | none |
//! | the suite reached its time limit | invalid | `timeout` | 0 |
//! | report or log tampered with | invalid | `forged` | 0 |
//! | pytest ended with 2, 3, 4 | invalid | `interrupted`, `internal_error`, `usage_error` | 0 |
//! | ended with 5, or complete and not one test collected | invalid | `nothing_collected` | 0 |
//! | ended with another status than 0 or 1, or by a signal | invalid | `abnormal_exit` | 0 |
//! | no end record or end mark | invalid | `incomplete` | 0 |
//! | exit 0 with a failure, exit 1 without one, or the end record names another exit | invalid | `contradiction` | 0 |
//! | all that is wrong are ids off by a blank, a quote or a cut | invalid | `id_mismatch` | none |
//! | every F2P test passed and no P2P test regressed | resolved | | 1 |
//! | otherwise | unresolved | | 0 |
//!
//! | required test is | passed | xpass | skipped | xfail | failed | error | missing |
//! |---|---|---|---|---|---|---|---|
//! | fail-to-pass | good | good | bad | bad | bad | bad | bad |
//! | pass-to-pass | good | good | good | bad | bad | bad | bad |
//!
//! What the tree under test can bring about is reward 0; only what is the task's own fault gives no reward. Suites
//! whose other tests fail end with 1 by right: the failures are in the map, so nothing is contradicted. A skip that
//! names only a place cannot be matched to an id: such a pass-to-pass test counts as missing.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{Completion, StatusMap, SuiteRun, TestStatus};

/// Names the schema of verdicts and of the verifier's `report.json`.
pub const VERDICT_SCHEMA: &str = "seatrial.verdict/1";

/// The tests a task is graded by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Required<'a> {
    /// Tests that must pass.
    pub fail_to_pass: &'a [String],
    /// Tests that must not regress.
    pub pass_to_pass: &'a [String],
    /// Allows an empty `fail_to_pass`.
    pub pass_to_pass_only: bool,
}

/// What a run came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Everything required holds.
    Resolved,
    /// The run counts, and something required does not hold.
    Unresolved,
    /// The run does not count; [`Verdict::reason`] says why.
    Invalid,
}

/// Why a run does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// There is nothing to prove.
    F2pEmpty,
    /// The suite reached its time limit.
    Timeout,
    /// The report or log holds what the runner cannot have written.
    Forged,
    /// Exit status 2: interrupted, among others by errors while collecting.
    Interrupted,
    /// Exit status 3.
    InternalError,
    /// Exit status 4: bad options, a missing path, or a conftest that cannot be imported.
    UsageError,
    /// Exit status 5, or a complete run without a single test.
    NothingCollected,
    /// Any other exit status, or a signal.
    AbnormalExit,
    /// The end is missing.
    Incomplete,
    /// Exit status and results do not agree.
    Contradiction,
    /// Required ids differ from the runner's by a trailing blank or quote, or are cut at a blank.
    IdMismatch,
}

impl Reason {
    /// Gives the stable name, as it stands in records.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::F2pEmpty => "f2p_empty",
            Self::Timeout => "timeout",
            Self::Forged => "forged",
            Self::Interrupted => "interrupted",
            Self::InternalError => "internal_error",
            Self::UsageError => "usage_error",
            Self::NothingCollected => "nothing_collected",
            Self::AbnormalExit => "abnormal_exit",
            Self::Incomplete => "incomplete",
            Self::Contradiction => "contradiction",
            Self::IdMismatch => "id_mismatch",
        }
    }

    /// Says whether such a run has reward 0; otherwise it has none, because the task is at fault.
    pub const fn is_reward_zero(self) -> bool {
        !matches!(self, Self::F2pEmpty | Self::IdMismatch)
    }
}

/// The required tests of one list by what they came to, each sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tally {
    /// Passed.
    pub passed: Vec<String>,
    /// Failed.
    pub failed: Vec<String>,
    /// Erred in set-up, teardown or collection.
    pub error: Vec<String>,
    /// Skipped.
    pub skipped: Vec<String>,
    /// Failed as expected by a mark.
    pub xfail: Vec<String>,
    /// Passed against a mark.
    pub xpass: Vec<String>,
    /// Not shown by the run.
    pub missing: Vec<String>,
}

impl Tally {
    fn of(required: &[String], statuses: &StatusMap) -> Self {
        let mut tally = Self::default();
        for id in required.iter().collect::<BTreeSet<_>>() {
            let list = match statuses.get(id) {
                Some(TestStatus::Passed) => &mut tally.passed,
                Some(TestStatus::Failed) => &mut tally.failed,
                Some(TestStatus::Error) => &mut tally.error,
                Some(TestStatus::Skipped) => &mut tally.skipped,
                Some(TestStatus::Xfail) => &mut tally.xfail,
                Some(TestStatus::Xpass) => &mut tally.xpass,
                None => &mut tally.missing,
            };
            list.push(id.clone());
        }
        tally
    }

    /// Goes through the tests that count against the run.
    fn bad(&self, skips_are_kept: bool) -> impl Iterator<Item = &str> {
        let skipped = if skips_are_kept { &[][..] } else { &self.skipped };
        [&self.failed, &self.error, &self.xfail, &self.missing]
            .into_iter()
            .flatten()
            .chain(skipped)
            .map(String::as_str)
    }
}

/// The verdict on one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    /// Always [`VERDICT_SCHEMA`].
    pub schema: String,
    /// What the run came to.
    pub outcome: Outcome,
    /// Why an invalid run does not count.
    pub reason: Option<Reason>,
    /// What was wrong with a forged report.
    pub detail: Option<String>,
    /// 1 or 0; `None` when there is none to give.
    pub reward: Option<u8>,
    /// Exit status of the suite, negative for a signal; `None` when not recorded or the suite was stopped.
    pub exit_status: Option<i32>,
    /// The fail-to-pass tests.
    pub fail_to_pass: Tally,
    /// The pass-to-pass tests.
    pub pass_to_pass: Tally,
    /// Missing required ids with the id the run probably shows them under.
    pub near_names: BTreeMap<String, String>,
    /// Required tests whose results disagreed or that were run again, sorted.
    pub flaky: Vec<String>,
}

impl Verdict {
    /// Says whether everything required holds.
    pub fn is_resolved(&self) -> bool {
        self.outcome == Outcome::Resolved
    }
}

/// What the verifier writes to `report.json`: a verdict, or the harness's fault that left no reward.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VerifierReport {
    /// Always [`VERDICT_SCHEMA`].
    pub schema: String,
    /// The task, as its configuration names it; absent beside a fault.
    #[serde(default)]
    pub instance_id: Option<String>,
    /// Wall time of the suite in seconds.
    #[serde(default)]
    pub suite_seconds: Option<f64>,
    /// What was restored before the suite ran.
    #[serde(default)]
    pub surface: Option<RestoredSurface>,
    /// The verdict.
    #[serde(default)]
    pub verdict: Option<Verdict>,
    /// `no_python`, `no_runner`, `report_missing`, `surface_unrestorable`, `config_unreadable` or `internal`.
    #[serde(default)]
    pub fault: Option<String>,
    /// The fault in words.
    #[serde(default)]
    pub detail: Option<String>,
}

/// What the verifier did to the test surface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoredSurface {
    /// How many archived files were put back.
    pub restored: u64,
    /// Files that did not belong there and were removed, sorted; at most 1,000 names.
    pub removed: Vec<String>,
    /// How many were removed in all.
    pub removed_count: u64,
}

/// Decides what a run is worth. `exit_status` is the process's own: negative for a signal, `None` when unknown.
pub fn decide(required: Required<'_>, run: &SuiteRun, exit_status: Option<i32>) -> Verdict {
    let fail_to_pass = Tally::of(required.fail_to_pass, &run.statuses);
    let pass_to_pass = Tally::of(required.pass_to_pass, &run.statuses);
    let bad: BTreeSet<&str> = fail_to_pass.bad(false).chain(pass_to_pass.bad(true)).collect();
    let near_names: BTreeMap<String, String> = fail_to_pass
        .missing
        .iter()
        .chain(&pass_to_pass.missing)
        .filter_map(|id| Some((id.clone(), near_name(id, &run.statuses)?)))
        .collect();
    let only_mismatches = !bad.is_empty() && bad.iter().all(|&id| near_names.contains_key(id));
    let reason =
        invalid_reason(required, run, exit_status).or_else(|| only_mismatches.then_some(Reason::IdMismatch));
    let (outcome, reward) = match reason {
        Some(reason) => (Outcome::Invalid, reason.is_reward_zero().then_some(0)),
        None if bad.is_empty() => (Outcome::Resolved, Some(1)),
        None => (Outcome::Unresolved, Some(0)),
    };
    let flaky: BTreeSet<&String> = required
        .fail_to_pass
        .iter()
        .chain(required.pass_to_pass)
        .filter(|id| run.statuses.is_flaky(id))
        .collect();
    Verdict {
        schema: VERDICT_SCHEMA.to_owned(),
        outcome,
        reason,
        detail: run.detail.clone(),
        reward,
        exit_status,
        flaky: flaky.into_iter().cloned().collect(),
        near_names,
        fail_to_pass,
        pass_to_pass,
    }
}

fn invalid_reason(required: Required<'_>, run: &SuiteRun, exit_status: Option<i32>) -> Option<Reason> {
    let nothing_to_prove =
        required.fail_to_pass.is_empty() && (!required.pass_to_pass_only || required.pass_to_pass.is_empty());
    if nothing_to_prove {
        return Some(Reason::F2pEmpty);
    }
    match run.completion {
        Completion::TimedOut => return Some(Reason::Timeout),
        Completion::Forged => return Some(Reason::Forged),
        Completion::Complete | Completion::Incomplete => {}
    }
    match exit_status {
        None | Some(0 | 1) => {}
        Some(2) => return Some(Reason::Interrupted),
        Some(3) => return Some(Reason::InternalError),
        Some(4) => return Some(Reason::UsageError),
        Some(5) => return Some(Reason::NothingCollected),
        Some(_) => return Some(Reason::AbnormalExit),
    }
    if run.completion == Completion::Incomplete {
        return Some(Reason::Incomplete);
    }
    if run.statuses.is_empty() && run.placed_skips == 0 {
        return Some(Reason::NothingCollected);
    }
    let exit_status = exit_status?;
    let other_exit = run.end_exit.is_some_and(|named| named != exit_status);
    (other_exit || run.statuses.has_failures() != (exit_status == 1)).then_some(Reason::Contradiction)
}

/// Finds the id a missing required one probably means: equal up to trailing blanks and quotes, or the only one
/// that goes on after a blank where the required id ends.
fn near_name(required: &str, statuses: &StatusMap) -> Option<String> {
    const TRAILING: [char; 4] = [' ', '\t', '\'', '"'];
    let plain = required.trim_end_matches(TRAILING);
    let ids = || statuses.iter().map(|(id, _)| id);
    if let Some(same) = ids().find(|id| id.trim_end_matches(TRAILING) == plain) {
        return Some(same.to_owned());
    }
    let mut cut = ids().filter(|id| id.strip_prefix(required).is_some_and(|rest| rest.starts_with(' ')));
    match (cut.next(), cut.next()) {
        (Some(only), None) => Some(only.to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    fn run(results: &[(&str, TestStatus)]) -> SuiteRun {
        let mut run = SuiteRun { completion: Completion::Complete, ..SuiteRun::default() };
        for (id, status) in results {
            run.statuses.record(id, *status);
        }
        run
    }

    fn verdict(f2p: &[&str], p2p: &[&str], run: &SuiteRun, exit: Option<i32>) -> Verdict {
        let (f2p, p2p) = (ids(f2p), ids(p2p));
        decide(Required { fail_to_pass: &f2p, pass_to_pass: &p2p, pass_to_pass_only: false }, run, exit)
    }

    #[test]
    fn each_status_counts_by_the_table() {
        use TestStatus::{Error, Failed, Passed, Skipped, Xfail, Xpass};
        let table =
            [(Passed, 1, 1), (Xpass, 1, 1), (Skipped, 0, 1), (Xfail, 0, 0), (Failed, 0, 0), (Error, 0, 0)];
        for (status, as_f2p, as_p2p) in table {
            let exit = Some(i32::from(status.is_failure()));
            let seen = run(&[("a", status), ("b", Passed)]);
            assert_eq!(verdict(&["a"], &["b"], &seen, exit).reward, Some(as_f2p), "{status:?} F2P");
            assert_eq!(verdict(&["b"], &["a"], &seen, exit).reward, Some(as_p2p), "{status:?} P2P");
        }
        assert_eq!(verdict(&["b"], &["gone"], &run(&[("b", Passed)]), Some(0)).reward, Some(0));
        assert_eq!(verdict(&["gone"], &["b"], &run(&[("b", Passed)]), Some(0)).reward, Some(0));
    }

    #[test]
    fn exit_status_must_agree_with_the_results() {
        let passed = run(&[("a", TestStatus::Passed)]);
        let other_failed = run(&[("a", TestStatus::Passed), ("z", TestStatus::Failed)]);
        let reason = |run: &SuiteRun, exit| verdict(&["a"], &[], run, exit).reason;
        assert_eq!(reason(&passed, Some(0)), None);
        assert_eq!(reason(&passed, None), None);
        assert_eq!(reason(&passed, Some(1)), Some(Reason::Contradiction));
        assert_eq!(reason(&other_failed, Some(1)), None);
        assert_eq!(reason(&other_failed, Some(0)), Some(Reason::Contradiction));
        assert_eq!(reason(&passed, Some(2)), Some(Reason::Interrupted));
        assert_eq!(reason(&passed, Some(3)), Some(Reason::InternalError));
        assert_eq!(reason(&passed, Some(4)), Some(Reason::UsageError));
        assert_eq!(reason(&passed, Some(5)), Some(Reason::NothingCollected));
        assert_eq!(reason(&passed, Some(-9)), Some(Reason::AbnormalExit));
        let renamed = SuiteRun { end_exit: Some(1), ..passed };
        assert_eq!(reason(&renamed, Some(0)), Some(Reason::Contradiction));
    }

    #[test]
    fn runs_that_do_not_count_are_never_rewarded() {
        let passed = run(&[("a", TestStatus::Passed)]);
        for completion in [Completion::Incomplete, Completion::Forged, Completion::TimedOut] {
            let run = SuiteRun { completion, ..passed.clone() };
            let verdict = verdict(&["a"], &[], &run, Some(0));
            assert_eq!((verdict.outcome, verdict.reward), (Outcome::Invalid, Some(0)));
        }
        let empty = verdict(&[], &["a"], &passed, Some(0));
        assert_eq!((empty.reason, empty.reward), (Some(Reason::F2pEmpty), None));
        assert_eq!(verdict(&["a"], &[], &run(&[]), Some(0)).reason, Some(Reason::NothingCollected));
    }

    #[test]
    fn reasons_are_written_by_their_stable_names() {
        for reason in [
            Reason::F2pEmpty,
            Reason::Timeout,
            Reason::Forged,
            Reason::Interrupted,
            Reason::InternalError,
            Reason::UsageError,
            Reason::NothingCollected,
            Reason::AbnormalExit,
            Reason::Incomplete,
            Reason::Contradiction,
            Reason::IdMismatch,
        ] {
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
        }
    }

    #[test]
    fn an_empty_list_can_be_waived() {
        let p2p = ids(&["a"]);
        let required = Required { fail_to_pass: &[], pass_to_pass: &p2p, pass_to_pass_only: true };
        assert_eq!(decide(required, &run(&[("a", TestStatus::Passed)]), Some(0)).reward, Some(1));
        let nothing = Required { pass_to_pass: &[], ..required };
        assert_eq!(decide(nothing, &run(&[]), Some(0)).reason, Some(Reason::F2pEmpty));
    }

    #[test]
    fn damaged_ids_are_named_and_not_called_failures() {
        let seen = run(&[("t[a b]", TestStatus::Passed), ("n ", TestStatus::Passed)]);
        let verdict = verdict(&["n"], &["t[a"], &seen, Some(0));
        assert_eq!((verdict.reason, verdict.reward), (Some(Reason::IdMismatch), None));
        assert_eq!(verdict.near_names["n"], "n ");
        assert_eq!(verdict.near_names["t[a"], "t[a b]");
    }

    #[test]
    fn a_mismatch_beside_a_failure_stays_a_failure() {
        let seen = run(&[("n ", TestStatus::Passed), ("x", TestStatus::Failed)]);
        let verdict = verdict(&["n", "x"], &[], &seen, Some(1));
        assert_eq!((verdict.outcome, verdict.reward), (Outcome::Unresolved, Some(0)));
    }
}
