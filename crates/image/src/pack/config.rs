//! The configuration of a packed image.

use serde_json::{Map, Value, json};

use crate::ImageConfig;
use crate::manifest::architecture;

/// Who is said to have made a layer.
const CREATED_BY: &str = "seatrial";

/// The configuration of an image that has `diff_ids` over those of its base, and is started as `config` says. What the base says
/// beside that, such as ports, is kept.
pub(super) fn document(base: Option<&Value>, config: &ImageConfig, diff_ids: &[String]) -> Value {
    let mut image = base.and_then(Value::as_object).cloned().unwrap_or_default();
    image.entry("architecture").or_insert_with(|| architecture().into());
    image.entry("os").or_insert_with(|| "linux".into());
    // Of the base's build alone, and no part of the specification.
    for stale in ["container", "container_config", "docker_version", "id", "parent"] {
        image.remove(stale);
    }
    let mut started = image.remove("config").and_then(into_object).unwrap_or_default();
    let words = |words: &[String]| if words.is_empty() { Value::Null } else { json!(words) };
    let text = |text: Option<&String>| text.map_or(Value::Null, |text| json!(text));
    let pairs: Vec<String> = config.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let labels = if config.labels.is_empty() { Value::Null } else { json!(config.labels) };
    for (key, value) in [
        ("Env", words(&pairs)),
        ("Entrypoint", words(&config.entrypoint)),
        ("Cmd", words(&config.cmd)),
        ("Shell", words(&config.shell)),
        ("WorkingDir", text(config.workdir.as_ref())),
        ("User", text(config.user.as_ref())),
        ("Labels", labels),
    ] {
        match value {
            Value::Null => started.remove(key),
            value => started.insert(key.into(), value),
        };
    }
    image.insert("config".into(), Value::Object(started));
    let mut rootfs = image.remove("rootfs").and_then(into_object).unwrap_or_default();
    let mut all = rootfs.remove("diff_ids").and_then(into_array).unwrap_or_default();
    all.extend(diff_ids.iter().map(|id| json!(id)));
    image.insert("rootfs".into(), json!({ "type": "layers", "diff_ids": all }));
    // A history that is there has to name every layer.
    if let Some(history) = image.get_mut("history").and_then(Value::as_array_mut) {
        history.extend(diff_ids.iter().map(|_| json!({ "created_by": CREATED_BY })));
    }
    sorted(Value::Object(image))
}

/// Keys in order at every depth, so that equal content gives equal bytes.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut pairs: Vec<(String, Value)> =
                map.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            pairs.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(pairs.into_iter().collect())
        }
        Value::Array(values) => Value::Array(values.into_iter().map(sorted).collect()),
        other => other,
    }
}

fn into_object(value: Value) -> Option<Map<String, Value>> {
    match value {
        Value::Object(map) => Some(map),
        _ => None,
    }
}

fn into_array(value: Value) -> Option<Vec<Value>> {
    match value {
        Value::Array(values) => Some(values),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_base_is_kept_where_the_build_says_nothing() {
        let base = json!({
            "os": "linux", "architecture": "amd64", "container": "x", "created": "2020-01-01T00:00:00Z",
            "config": { "ExposedPorts": { "80/tcp": {} }, "Env": ["A=1"], "Cmd": ["old"], "User": "u" },
            "rootfs": { "type": "layers", "diff_ids": ["sha256:1"] },
            "history": [{ "created_by": "base" }],
        });
        let config = ImageConfig {
            env: BTreeMap::from([("B".into(), "2".into()), ("A".into(), "1".into())]),
            workdir: Some("/testbed".into()),
            ..ImageConfig::default()
        };
        let made = document(Some(&base), &config, &["sha256:2".into()]);
        assert_eq!(made["config"]["ExposedPorts"], json!({ "80/tcp": {} }));
        assert_eq!(made["config"]["Env"], json!(["A=1", "B=2"]));
        assert_eq!((made["config"].get("Cmd"), made["config"].get("User")), (None, None));
        assert_eq!(made["rootfs"]["diff_ids"], json!(["sha256:1", "sha256:2"]));
        assert_eq!(made["history"].as_array().map(Vec::len), Some(2));
        assert_eq!(made.get("container"), None);
        let keys: Vec<&String> = made.as_object().unwrap().keys().collect();
        assert!(keys.is_sorted(), "{keys:?}");

        let alone = document(None, &ImageConfig::default(), &[]);
        assert_eq!(alone["os"], "linux");
        assert_eq!(alone.get("history"), None);
    }
}
