//! What the runs of one kind came to, counted: the order in which they ended is gone.

use std::collections::BTreeMap;

use record::{Observation, Outcome, Reason};

/// Runs of one kind on one key.
#[derive(Debug, Default)]
pub(crate) struct Runs<'o> {
    /// How often each reward was given.
    rewards: BTreeMap<Answer, u32>,
    /// For each test the statuses that it had, and how often.
    tests: BTreeMap<&'o str, BTreeMap<&'o str, u32>>,
    /// Failures that another run may not have.
    pub passing: Failures<'o>,
    /// Failures that every run will have.
    pub lasting: Failures<'o>,
}

/// Failures of one sort by reason, each with its details.
#[derive(Debug, Default)]
pub(crate) struct Failures<'o>(BTreeMap<Reason, Vec<&'o str>>);

/// When a reward says that the task is solved.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Gate {
    /// Exactly 1, as is asked of the solution.
    Exactly,
    /// Everything that is not below 1, where it must stay below: no odd reward helps a task along.
    Below,
}

impl Gate {
    pub(crate) fn is_solved(self, reward: f64) -> bool {
        match self {
            Self::Exactly => reward.to_bits() == 1.0_f64.to_bits(),
            Self::Below => reward >= 1.0 || reward.is_nan(),
        }
    }
}

/// A reward as a key: ordered, and equal when its bits are. Zero has one sign.
#[derive(Debug, Clone, Copy)]
struct Answer(f64);

impl PartialEq for Answer {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Answer {}

impl PartialOrd for Answer {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Answer {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl<'o> Runs<'o> {
    /// Adds one run. A cancelled run says nothing and is as good as not run.
    pub(crate) fn add(&mut self, observation: &'o Observation) {
        match &observation.outcome {
            Outcome::Reward(reward) => {
                *self.rewards.entry(Answer(reward + 0.0)).or_default() += 1;
                for (test, status) in &observation.tests {
                    *self.tests.entry(test).or_default().entry(status).or_default() += 1;
                }
            }
            Outcome::Failed { reason: Reason::Cancelled, .. } => {}
            Outcome::Failed { reason, retryable, detail, .. } => {
                let failures = if *retryable { &mut self.passing } else { &mut self.lasting };
                failures.add(*reason, detail);
            }
        }
    }

    /// Runs that gave a reward.
    pub(crate) fn finished(&self) -> u32 {
        self.rewards.values().sum()
    }

    /// Whether there are runs, and each says that the task is solved.
    pub(crate) fn all_solved(&self, gate: Gate) -> bool {
        !self.rewards.is_empty() && self.rewards.keys().all(|answer| gate.is_solved(answer.0))
    }

    /// Whether there are runs, and none says that the task is solved.
    pub(crate) fn none_solved(&self, gate: Gate) -> bool {
        !self.rewards.is_empty() && !self.rewards.keys().any(|answer| gate.is_solved(answer.0))
    }

    /// Whether two runs differ, in the reward or in the status of a test that both report.
    pub(crate) fn disagree(&self) -> bool {
        self.rewards.len() > 1 || self.varied().next().is_some()
    }

    /// How often a test had which status.
    pub(crate) fn statuses(&self, test: &str) -> BTreeMap<String, u32> {
        let statuses = self.tests.get(test).into_iter().flatten();
        statuses.map(|(status, count)| ((*status).to_owned(), *count)).collect()
    }

    /// Tests with more than one status.
    pub(crate) fn varied(&self) -> impl Iterator<Item = (&'o str, &BTreeMap<&'o str, u32>)> {
        self.tests.iter().filter(|(_, statuses)| statuses.len() > 1).map(|(test, statuses)| (*test, statuses))
    }

    /// The rewards and their counts, the most frequent first: `1 x 7, 0 x 3`.
    pub(crate) fn answers(&self) -> String {
        let mut answers: Vec<_> = self.rewards.iter().map(|(answer, count)| (answer.0, *count)).collect();
        answers.sort_by(|a, b| b.1.cmp(&a.1).then(b.0.total_cmp(&a.0)));
        let answers: Vec<_> = answers.iter().map(|(reward, count)| format!("{reward} x {count}")).collect();
        if answers.is_empty() { "no reward".to_owned() } else { answers.join(", ") }
    }

    /// Tests with more than one status and how often each was seen.
    pub(crate) fn varied_tests(&self) -> Vec<String> {
        self.varied().map(|(test, statuses)| format!("{test} ({})", counted(statuses))).collect()
    }

    /// How many tests there are, when no run saw a single one of them.
    pub(crate) fn unseen(&self) -> Option<usize> {
        let unseen = |statuses: &BTreeMap<&str, u32>| statuses.keys().all(|status| *status == "missing");
        (!self.tests.is_empty() && self.tests.values().all(unseen)).then_some(self.tests.len())
    }

    /// Tests that did not pass in some run: failed ones before skipped ones, whose skipping may be in order.
    pub(crate) fn failing_tests(&self) -> Vec<String> {
        let mut failing: Vec<_> = self
            .tests
            .iter()
            .filter(|(_, statuses)| statuses.keys().any(|status| !matches!(*status, "passed" | "xpass")))
            .collect();
        failing.sort_by_key(|(_, statuses)| {
            statuses.keys().all(|status| matches!(*status, "passed" | "xpass" | "skipped"))
        });
        failing.into_iter().map(|(test, statuses)| format!("{test} ({})", counted(statuses))).collect()
    }
}

impl<'o> Failures<'o> {
    pub(crate) fn add(&mut self, reason: Reason, detail: &'o str) {
        self.0.entry(reason).or_default().push(detail);
    }

    pub(crate) fn count(&self) -> u32 {
        self.0.values().map(|details| details.len() as u32).sum()
    }

    /// The most frequent reason, how often it occurred, and one of its details.
    pub(crate) fn foremost(&self) -> Option<(Reason, u32, &str)> {
        let (reason, details) =
            self.0.iter().max_by_key(|(reason, details)| (details.len(), std::cmp::Reverse(**reason)))?;
        Some((*reason, details.len() as u32, details.iter().min().copied().unwrap_or_default()))
    }
}

fn counted(statuses: &BTreeMap<&str, u32>) -> String {
    let mut statuses: Vec<_> = statuses.iter().collect();
    statuses.sort_by_key(|(status, count)| (std::cmp::Reverse(**count), **status));
    let statuses: Vec<_> = statuses.iter().map(|(status, count)| format!("{status} x {count}")).collect();
    statuses.join(", ")
}

/// The first five entries of a list and how many more there are.
pub(crate) fn first_five(mut entries: Vec<String>) -> String {
    let more = entries.len().saturating_sub(5);
    entries.truncate(5);
    let text = entries.join(", ");
    if more > 0 { format!("{text} and {more} more") } else { text }
}
