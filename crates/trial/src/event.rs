//! What a job tells while it runs. Reporters and recorders read the same stream; nothing flows back.

use std::path::PathBuf;
use std::time::Duration;

use record::Outcome;

use crate::Agent;

/// One thing that happened.
#[derive(Debug, Clone)]
pub enum Event {
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
        /// Wall-clock time.
        wall: Duration,
    },
}
