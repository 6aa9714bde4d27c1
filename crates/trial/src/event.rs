//! What a job tells while it runs. Reporters and recorders read the same stream; nothing flows back.

use std::path::PathBuf;
use std::time::Duration;

use record::{Outcome, Reason};

use crate::Agent;

/// One thing that happened.
#[derive(Debug, Clone)]
pub enum Event {
    /// A job goes on: so many of its trials had ended before.
    TakenOver {
        /// With a reward that counts.
        rewarded: usize,
        /// Without.
        errored: usize,
    },
    /// A trial has begun.
    Started {
        /// Task name.
        task: String,
        /// Agent.
        agent: Agent,
        /// Trial name.
        trial: String,
    },
    /// A trial failed for a passing reason and is tried again.
    Retried {
        /// Task name.
        task: String,
        /// Agent.
        agent: Agent,
        /// Trial name.
        trial: String,
        /// Why.
        outcome: Outcome,
    },
    /// A trial has ended, with a reward or without.
    Finished {
        /// Task name.
        task: String,
        /// Agent.
        agent: Agent,
        /// Trial name.
        trial: String,
        /// Its directory.
        directory: PathBuf,
        /// What came out.
        outcome: Outcome,
        /// The reward that counts, whether or not a failure stands beside it.
        reward: Option<f64>,
        /// What is doubtful about the reward.
        flags: Vec<(Reason, String)>,
        /// Wall-clock time.
        wall: Duration,
    },
}
