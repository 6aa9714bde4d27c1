//! What the observations of a task prove, and what to run next.
//!
//! | observed | status |
//! |---|---|
//! | every nop reward below 1 and every oracle reward exactly 1, as many of each as the rule asks for, and no cheat that it asks for gets the reward | accepted |
//! | the environment knows other commits than the one that is checked out | rejected, `history_leak` |
//! | every nop reward 1 | rejected, `nop_passed` |
//! | every oracle reward below 1 | rejected, `oracle_failed` |
//! | runs of one kind differ, in the reward or in the status of a test | after `confirm_runs` of each kind rejected, `flaky` |
//! | all of that is in order, and a cheat gets the reward | rejected, `cheatable` |
//! | a failure that another run will have as well (no reward file, an invalid task, ...) | error, not retryable |
//! | more passing failures of one kind than `retries`, and still runs to make | error, retryable |
//! | a cancelled run | nothing: it is as good as not run |
//! | anything less | pending |
//!
//! A verifier that runs into its own time limit and writes reward 0 has answered: the nop of an endless bug counts as
//! unsolved. A verifier that had to be stopped from outside has not answered, and is a failure by its class.

use std::collections::BTreeMap;
use std::sync::Arc;

use ident::{Digest, TaskId};
use record::{CheatName, FlakyTest, Limits, Observation, Reason, Status, TrialKind};

use crate::cheats::{self, Standing};
use crate::runs::{Gate, Runs, first_five};

/// Stable names of the reasons for which a proof rejects a task.
pub mod reason {
    /// The untouched task already gets reward 1.
    pub const NOP_PASSED: &str = "nop_passed";
    /// The gold solution does not get reward 1.
    pub const ORACLE_FAILED: &str = "oracle_failed";
    /// Runs of one kind differ.
    pub const FLAKY: &str = "flaky";
    /// The environment knows other commits than the one that is checked out.
    pub const HISTORY_LEAK: &str = "history_leak";
    /// A cheat gets the reward.
    pub const CHEATABLE: &str = "cheatable";
}

/// What a verdict is about. Observations of anything else say nothing about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProofKey {
    /// The task.
    pub task_id: TaskId,
    /// Tree digest of the task directory.
    pub tree_digest: Digest,
    /// Tree digest of its tests.
    pub verifier_digest: Digest,
    /// Identity of the root file system.
    pub image_digest: String,
    /// The limits.
    pub limits: Limits,
    /// The engine.
    pub engine: String,
    /// What cheats of other tasks speak for, where they count: see [`AskedCheat::shared`].
    pub cheat_group: Option<Digest>,
}

/// A cheat that must get nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedCheat {
    /// Its name.
    pub name: CheatName,
    /// Whether it is enough that another task of the group withstood it. One that fell to it says nothing about the others:
    /// each of them is then tried by itself.
    pub shared: bool,
}

/// How much proof is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProofRule {
    /// Nop runs that must all stay below 1; at least one.
    pub nop_runs: u32,
    /// Oracle runs that must all give 1; at least one.
    pub oracle_runs: u32,
    /// Runs of each kind after any disagreement.
    pub confirm_runs: u32,
    /// Passing failures of one kind that are made good by another run.
    pub retries: u32,
    /// Cheats that must get nothing, in the order in which they are tried.
    pub cheats: Arc<[AskedCheat]>,
}

impl Default for ProofRule {
    fn default() -> Self {
        Self { nop_runs: 3, oracle_runs: 3, confirm_runs: 10, retries: 2, cheats: Arc::default() }
    }
}

/// The verdict on a task so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The verdict; pending while `next` or `next_cheat` ask for runs, and only then.
    pub status: Status,
    /// Nop runs that gave a reward.
    pub nop_runs: u32,
    /// Oracle runs that gave a reward.
    pub oracle_runs: u32,
    /// Passing failures, of the kind that has more of them. Whoever wants to try an errored task again adds this number
    /// to [`ProofRule::retries`].
    pub passing_failures: u32,
    /// What to run before the next decision.
    pub next: Needed,
    /// The cheat to try before the next decision, once nops and oracles are as they should be.
    pub next_cheat: Option<CheatName>,
    /// Cheats that are known to get nothing, in the rule's order.
    pub cheats: Vec<CheatName>,
    /// Tests that had more than one status in runs of one kind.
    pub flaky_tests: BTreeMap<String, FlakyTest>,
}

impl Decision {
    /// Whether there is nothing to run.
    pub fn is_settled(&self) -> bool {
        self.next.is_nothing() && self.next_cheat.is_none()
    }
}

/// Runs to be made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Needed {
    /// Nop runs.
    pub nop: u32,
    /// Oracle runs.
    pub oracle: u32,
}

impl Needed {
    /// Whether there is nothing to run.
    pub fn is_nothing(self) -> bool {
        self == Self::default()
    }
}

impl ProofKey {
    /// What an observation is about.
    pub fn of(observation: &Observation) -> Self {
        Self {
            task_id: observation.task_id.clone(),
            tree_digest: observation.tree_digest,
            verifier_digest: observation.verifier_digest,
            image_digest: observation.image_digest.clone(),
            limits: observation.limits.clone(),
            engine: observation.engine.clone(),
            cheat_group: observation.cheat_group,
        }
    }

    /// Whether an observation is about this very thing.
    pub fn matches(&self, observation: &Observation) -> bool {
        self.task_id == observation.task_id
            && self.tree_digest == observation.tree_digest
            && self.verifier_digest == observation.verifier_digest
            && self.image_digest == observation.image_digest
            && self.limits == observation.limits
            && self.engine == observation.engine
    }
}

/// Decides on `key` from observations in any order; those about anything else are passed over, but for cheats on tasks of the
/// same group.
///
/// The first runs asked for are one of each kind, which refuse most bad tasks; the rest follows.
pub fn decide(key: &ProofKey, observations: &[Observation], rule: &ProofRule) -> Decision {
    let (mut nop, mut oracle) = (Runs::default(), Runs::default());
    for observation in observations.iter().filter(|observation| key.matches(observation)) {
        match observation.kind {
            TrialKind::Nop => nop.add(observation),
            TrialKind::Oracle => oracle.add(observation),
            TrialKind::Cheat(_) => {}
        }
    }
    let (mut status, next) = judge(&nop, &oracle, rule);
    let tried = cheats::standing(key, observations, rule);
    let mut next_cheat = None;
    if status == Status::Accepted {
        match tried.standing {
            Standing::Withstood => {}
            Standing::Fell(cheat, detail) => {
                status = rejected(reason::CHEATABLE, format!("the cheat {cheat} gets the reward: {detail}"));
            }
            Standing::Failed { cheat, reason, retryable, detail } => {
                status = error(reason, retryable, format!("cheat {cheat}, {detail}"));
            }
            Standing::Untried(cheat) => (status, next_cheat) = (Status::Pending, Some(cheat)),
        }
    }
    Decision {
        status,
        nop_runs: nop.finished(),
        oracle_runs: oracle.finished(),
        passing_failures: nop.passing.count().max(oracle.passing.count()).max(tried.passing_failures),
        next,
        next_cheat,
        cheats: tried.withstood,
        flaky_tests: flaky_tests(&nop, &oracle),
    }
}

/// The tests that varied under one kind of run, with what they came to under both.
fn flaky_tests(nop: &Runs<'_>, oracle: &Runs<'_>) -> BTreeMap<String, FlakyTest> {
    let varied = nop.varied().chain(oracle.varied()).map(|(test, _)| test);
    varied
        .map(|test| (test.to_owned(), FlakyTest { nop: nop.statuses(test), oracle: oracle.statuses(test) }))
        .collect()
}

/// The flake rate above which `runs` runs that agreed would have shown a difference with a probability of 95%: 1 − 0.05^(1/runs).
pub fn flake_bound(runs: u32) -> f64 {
    if runs == 0 { 1.0 } else { 1.0 - 0.05_f64.powf(1.0 / f64::from(runs)) }
}

fn judge(nop: &Runs<'_>, oracle: &Runs<'_>, rule: &ProofRule) -> (Status, Needed) {
    let done = |status| (status, Needed::default());
    if let Some(status) = lasting_failure(nop, oracle) {
        return done(status);
    }
    let wanted = Needed { nop: rule.nop_runs.max(1), oracle: rule.oracle_runs.max(1) };
    let missing = |wanted: Needed| Needed {
        nop: wanted.nop.saturating_sub(nop.finished()),
        oracle: wanted.oracle.saturating_sub(oracle.finished()),
    };
    let left = missing(wanted);
    let next = if nop.disagree() || oracle.disagree() {
        let confirmed =
            Needed { nop: wanted.nop.max(rule.confirm_runs), oracle: wanted.oracle.max(rule.confirm_runs) };
        let left = missing(confirmed);
        if left.is_nothing() {
            return done(rejected(reason::FLAKY, disagreement(nop, oracle)));
        }
        left
    } else if nop.all_solved(Gate::Below) {
        if left.nop == 0 {
            let detail = format!("the untouched task gets the reward (nop: {})", nop.answers());
            return done(rejected(reason::NOP_PASSED, detail));
        }
        Needed { nop: left.nop, oracle: 0 }
    } else if oracle.none_solved(Gate::Exactly) {
        if left.oracle == 0 {
            return done(rejected(reason::ORACLE_FAILED, oracle_failure(oracle)));
        }
        Needed { nop: 0, oracle: left.oracle }
    } else if left.is_nothing() {
        return done(Status::Accepted);
    } else if nop.finished() == 0 || oracle.finished() == 0 {
        let first = |runs: &Runs<'_>| u32::from(runs.finished() == 0);
        Needed { nop: first(nop), oracle: first(oracle) }
    } else {
        left
    };
    match exhausted(nop, oracle, next, rule) {
        Some(status) => done(status),
        None => (Status::Pending, next),
    }
}

/// The verdict on a failure that no other run can make good.
fn lasting_failure(nop: &Runs<'_>, oracle: &Runs<'_>) -> Option<Status> {
    let of = |kind: &str, runs: &Runs<'_>| {
        let (why, count, detail) = runs.lasting.foremost()?;
        if why == Reason::HistoryLeak {
            return Some(rejected(reason::HISTORY_LEAK, detail.to_owned()));
        }
        Some(error(why, false, format!("{kind}, {}: {detail}", times(count))))
    };
    of("nop", nop).or_else(|| of("oracle", oracle))
}

/// The verdict when runs are needed and too many of that kind have failed.
fn exhausted(nop: &Runs<'_>, oracle: &Runs<'_>, next: Needed, rule: &ProofRule) -> Option<Status> {
    let of = |kind: &str, runs: &Runs<'_>, needed: u32| {
        if needed == 0 || runs.passing.count() <= rule.retries {
            return None;
        }
        let (reason, count, detail) = runs.passing.foremost()?;
        Some(error(reason, true, format!("{kind}, {}: {detail}", times(count))))
    };
    of("nop", nop, next.nop).or_else(|| of("oracle", oracle, next.oracle))
}

fn disagreement(nop: &Runs<'_>, oracle: &Runs<'_>) -> String {
    let mut parts = vec![format!("nop: {}; oracle: {}", nop.answers(), oracle.answers())];
    for (kind, runs) in [("oracle", oracle), ("nop", nop)] {
        let varied = runs.varied_tests();
        if !varied.is_empty() {
            parts.push(format!("tests that varied under {kind}: {}", first_five(varied)));
        }
    }
    parts.join("; ")
}

fn oracle_failure(oracle: &Runs<'_>) -> String {
    let failing = oracle.failing_tests();
    let tests = if failing.is_empty() {
        "the verifier names no test".to_owned()
    } else if let Some(count) = oracle.unseen() {
        // Naming some of them would only hide that all is wrong, mostly for want of a package.
        format!(
            "none of its {count} tests was seen: wrong ids, or a suite that broke down, see suite.log of a trial"
        )
    } else {
        format!("tests that did not pass: {}", first_five(failing))
    };
    format!("the gold solution does not get the reward (oracle: {}); {tests}", oracle.answers())
}

fn rejected(reason: &str, detail: String) -> Status {
    Status::Rejected { reason: reason.to_owned(), detail }
}

fn error(reason: Reason, retryable: bool, detail: String) -> Status {
    Status::Error { reason: reason_name(reason), retryable, detail }
}

/// The name under which documents know a reason.
fn reason_name(reason: Reason) -> String {
    match serde_json::to_value(reason) {
        Ok(serde_json::Value::String(name)) => name,
        _ => format!("{reason:?}"),
    }
}

pub(crate) fn times(count: u32) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

#[cfg(test)]
mod tests;
