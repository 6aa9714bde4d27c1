//! Which trials a job is to run, and what makes two jobs the same.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ident::Digest;

use crate::{Agent, TrialTask, name};

/// The trials of one job, in the order in which they start: every task gets its first attempt before any gets its second.
#[derive(Debug, Clone)]
pub struct Plan {
    trials: Vec<PlannedTrial>,
}

/// One trial that a job is to run.
#[derive(Debug, Clone)]
pub struct PlannedTrial {
    /// The trial's name and the name of its directory.
    pub name: String,
    /// The task.
    pub task: Arc<TrialTask>,
    /// The agent.
    pub agent: Agent,
    /// Which attempt of this agent at this task, from 0.
    pub attempt: u32,
}

/// Two tasks of one job that cannot be told apart by name.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("two tasks are called `{name}`: {first} and {second}; run them in two jobs, or rename one")]
pub struct NameTaken {
    /// The name.
    pub name: String,
    /// Directory of one.
    pub first: String,
    /// Directory of the other.
    pub second: String,
}

impl Plan {
    /// Plans `attempts` trials of every agent on every task for the job called `job`.
    ///
    /// Trial names follow from the job's name, the task's name, the agent and the attempt: planning the same job again gives
    /// the same names, which is how a resumed job finds what is finished.
    pub fn new(
        job: &str,
        tasks: &[Arc<TrialTask>],
        agents: &[Agent],
        attempts: u32,
    ) -> Result<Self, NameTaken> {
        distinct_names(tasks)?;
        let mut taken = BTreeSet::new();
        let mut trials = Vec::with_capacity(tasks.len() * agents.len() * attempts as usize);
        for attempt in 0..attempts {
            for task in tasks {
                for &agent in agents {
                    let name = free_name(&mut taken, job, &task.name, agent, attempt);
                    trials.push(PlannedTrial { name, task: Arc::clone(task), agent, attempt });
                }
            }
        }
        Ok(Self { trials })
    }

    /// The trials in the order in which they start.
    pub fn trials(&self) -> &[PlannedTrial] {
        &self.trials
    }
}

/// Refuses tasks that cannot be told apart by name.
pub fn distinct_names(tasks: &[Arc<TrialTask>]) -> Result<(), NameTaken> {
    let mut directories = BTreeMap::new();
    for task in tasks {
        if let Some(first) = directories.insert(&task.name, &task.directory) {
            return Err(NameTaken {
                name: task.name.clone(),
                first: first.display().to_string(),
                second: task.directory.display().to_string(),
            });
        }
    }
    Ok(())
}

/// A name that no other trial of the plan has.
fn free_name(taken: &mut BTreeSet<String>, job: &str, task: &str, agent: Agent, attempt: u32) -> String {
    for round in 0_u32.. {
        let seed = [job, task, agent.name(), &attempt.to_string(), &round.to_string()].join("\0");
        let name = name::derived(task, &Digest::of(seed));
        if taken.insert(name.clone()) {
            return name;
        }
    }
    unreachable!("one of all names is free")
}
