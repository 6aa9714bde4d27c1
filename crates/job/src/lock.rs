//! `lock.json` of jobs and trials: what exactly was run.

use std::cell::RefCell;

use ident::Digest;
use jiff::Timestamp;
use serde::ser::{Error as _, SerializeSeq};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::{RetryConfig, TrialConfig, to_text, utc};

/// The lock of a trial on a local task. Nulls are left out at every depth, as Harbor does; two task locks are equal when
/// their digests are.
pub fn trial_lock(
    config: &TrialConfig,
    task_name: &str,
    content_hash: &Digest,
) -> Result<Value, serde_json::Error> {
    let mut verifier = value(&config.verifier)?;
    verifier["environment_mode"] = json!("shared");
    Ok(without_nulls(json!({
        "schema_version": 2,
        "task": {
            "name": task_name,
            "type": "local",
            "digest": content_hash.prefixed(),
            "source": config.task.source,
            "path": config.task.path,
        },
        "install_only": config.install_only,
        "timeout_multiplier": config.timeout_multiplier,
        "agent_timeout_multiplier": config.agent_timeout_multiplier,
        "verifier_timeout_multiplier": config.verifier_timeout_multiplier,
        "agent_setup_timeout_multiplier": config.agent_setup_timeout_multiplier,
        "environment_build_timeout_multiplier": config.environment_build_timeout_multiplier,
        "agent": value(&config.agent)?,
        "user_agent": config.user_agent,
        "bridge_inputs": {},
        "skills": [],
        "environment": value(&config.environment)?,
        "verifier": verifier,
        "artifacts": config.artifacts,
        "override_error_policy": config.override_error_policy,
        "source_trial": config.source_trial,
    })))
}

/// The text of a job's lock from the locks of its trials, in the order of the plan; no more than one of them is in memory as a
/// value at a time.
///
/// Harbor names its own version in it and compares everything but that and the time. Seatrial names no version of Harbor.
pub fn job_lock_text(
    created_at: Timestamp,
    n_concurrent_trials: usize,
    retry: &RetryConfig,
    trials: impl Iterator<Item = Result<Value, serde_json::Error>>,
) -> Result<String, serde_json::Error> {
    let lock = JobLock {
        schema_version: 3,
        created_at: utc(created_at),
        harbor: Map::new(),
        n_concurrent_trials,
        retry: without_nulls(value(retry)?),
        trials: Trials(RefCell::new(trials)),
    };
    to_text(&lock)
}

#[derive(Serialize)]
#[serde(bound = "Trials<I>: Serialize")]
struct JobLock<I> {
    schema_version: u32,
    created_at: String,
    harbor: Map<String, Value>,
    n_concurrent_trials: usize,
    retry: Value,
    trials: Trials<I>,
}

/// The rest of an iterator as a list.
struct Trials<I>(RefCell<I>);

impl<I: Iterator<Item = Result<Value, serde_json::Error>>> Serialize for Trials<I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        for trial in &mut *self.0.borrow_mut() {
            list.serialize_element(&trial.map_err(S::Error::custom)?)?;
        }
        list.end()
    }
}

fn value<T: Serialize>(part: &T) -> Result<Value, serde_json::Error> {
    serde_json::to_value(part)
}

fn without_nulls(mut value: Value) -> Value {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(map) => {
                map.retain(|_, inner| !inner.is_null());
                map.values_mut().for_each(strip);
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            _ => {}
        }
    }
    strip(&mut value);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_lock_has_harbors_keys_in_harbors_order() {
        let trials = [Ok(json!({"a": 1})), Ok(json!({}))].into_iter();
        let text = job_lock_text(Timestamp::UNIX_EPOCH, 4, &RetryConfig::default(), trials).unwrap();
        let lock: Value = serde_json::from_str(&text).unwrap();
        let keys: Vec<_> = lock.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(
            keys,
            ["schema_version", "created_at", "harbor", "n_concurrent_trials", "retry", "trials"]
        );
        assert_eq!(lock["created_at"], "1970-01-01T00:00:00.000000Z");
        assert_eq!(lock["trials"], json!([{"a": 1}, {}]));
        let retry: Vec<_> = lock["retry"].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(
            retry,
            ["max_retries", "exclude_exceptions", "wait_multiplier", "min_wait_sec", "max_wait_sec"]
        );
    }
}
