//! `canary.json`: what was run and what came out.

use std::collections::BTreeMap;

use artifact::Document;
use ident::Digest;
use serde::{Deserialize, Serialize};

/// `canary.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CanaryDocument {
    /// `seatrial.canary/1`.
    pub schema: String,
    /// Name of the job that ran it.
    pub job: String,
    /// Name of the model.
    pub model: String,
    /// Where the tasks come from: a set and its split, or a directory.
    pub tasks_from: String,
    /// What changes outcomes, by name: engine, agent, limits.
    pub settings: BTreeMap<String, String>,
    /// Attempts at each task.
    pub repeats: u32,
    /// The tasks in the order in which they were drawn.
    pub tasks: Vec<CanaryTask>,
    /// The trials that have ended, by the id of the task and by attempt.
    pub trials: Vec<CanaryTrial>,
}

/// A task of a canary.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CanaryTask {
    /// Its id, which is the name of its directory.
    pub id: String,
    /// Its repository, where that is known.
    pub repository: Option<String>,
    /// Digest of its directory.
    pub tree_digest: Digest,
}

/// A trial of a canary.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CanaryTrial {
    /// Id of the task.
    pub task: String,
    /// Which attempt it is, from 0.
    pub attempt: u32,
    /// Name of the trial.
    pub trial: String,
    /// The reward that counts; `None` where there is none.
    pub reward: Option<f64>,
    /// What went wrong; a reward may stand beside it.
    pub exception: Option<String>,
    /// How long it took in milliseconds.
    pub wall_ms: u64,
}

impl Document for CanaryDocument {
    const SCHEMA: &'static str = "seatrial.canary/1";
    const STAGE: &'static str = "canary";
}
