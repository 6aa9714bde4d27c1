//! `result.json`, `config.json` and `lock.json` of jobs, as far as they are looked at.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::field::{Field, Length, Object, Time};
use super::harbor::AgentConfig;

/// A job's `result.json`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct JobResultDocument {
    pub(super) schema_version: Field<u64>,
    pub(super) id: Field<String>,
    pub(super) started_at: Field<Time>,
    pub(super) updated_at: Field<Time>,
    pub(super) finished_at: Field<Time>,
    pub(super) n_total_trials: Field<u64>,
    pub(super) stats: Field<Object<Stats>>,
    pub(super) trial_results: Field<Length>,
    /// Only a trial's result has this.
    pub(super) trial_name: Field<String>,
}

/// The counts of a job. Before 0.26 only the last two numbers were written.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Stats {
    pub(super) n_completed_trials: Field<u64>,
    pub(super) n_errored_trials: Field<u64>,
    pub(super) n_cancelled_trials: Field<u64>,
    pub(super) n_trials: Field<u64>,
    pub(super) n_errors: Field<u64>,
    pub(super) evals: Field<BTreeMap<String, Field<Object<Eval>>>>,
}

/// What a job says of one agent on one source of tasks.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Eval {
    pub(super) metrics: Field<Vec<Field<Metric>>>,
    pub(super) reward_stats: Field<BTreeMap<String, Field<Lists>>>,
    pub(super) exception_stats: Field<Lists>,
}

/// A metric's numbers by name.
pub(super) type Metric = BTreeMap<String, Field<f64>>;

/// Trial names by reward or by exception.
pub(super) type Lists = BTreeMap<String, Field<Vec<Field<String>>>>;

/// A job's `config.json`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct JobConfigDocument {
    pub(super) job_name: Field<String>,
    pub(super) n_attempts: Field<u64>,
    pub(super) agents: Field<Vec<Field<Object<AgentConfig>>>>,
    /// Only a trial's configuration has this.
    pub(super) trial_name: Field<String>,
}

/// A job's `lock.json`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct JobLockDocument {
    pub(super) trials: Field<Length>,
}
