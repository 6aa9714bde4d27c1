//! `lock.json` of jobs and trials: what exactly was run.

use ident::Digest;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{RetryConfig, TrialConfig, utc};

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

/// The lock of a job from the locks of its trials, in the order of the plan.
///
/// Harbor names its own version in it and compares everything but that and the time. Seatrial names no version of Harbor.
pub fn job_lock(
    created_at: Timestamp,
    n_concurrent_trials: usize,
    retry: &RetryConfig,
    trials: &[Value],
) -> Result<Value, serde_json::Error> {
    Ok(without_nulls(json!({
        "schema_version": 3,
        "created_at": utc(created_at),
        "harbor": {},
        "n_concurrent_trials": n_concurrent_trials,
        "retry": value(retry)?,
        "trials": trials,
    })))
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
        let lock =
            job_lock(Timestamp::UNIX_EPOCH, 4, &RetryConfig::default(), &[json!({"a": null})]).unwrap();
        let keys: Vec<_> = lock.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(
            keys,
            ["schema_version", "created_at", "harbor", "n_concurrent_trials", "retry", "trials"]
        );
        assert_eq!(lock["created_at"], "1970-01-01T00:00:00.000000Z");
        assert_eq!(lock["trials"], json!([{}]));
        let retry: Vec<_> = lock["retry"].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(
            retry,
            ["max_retries", "exclude_exceptions", "wait_multiplier", "min_wait_sec", "max_wait_sec"]
        );
    }
}
