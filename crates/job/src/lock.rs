//! A trial's `lock.json`: what exactly was run.

use ident::Digest;
use serde::Serialize;
use serde_json::{Value, json};

use crate::TrialConfig;

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
        "agent": value(&config.agent)?,
        "bridge_inputs": {},
        "skills": [],
        "environment": value(&config.environment)?,
        "verifier": verifier,
        "artifacts": [],
        "override_error_policy": {},
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
