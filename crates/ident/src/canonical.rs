//! Canonical JSON: one text for one value.

use serde::Serialize;
use serde_json::Value;

/// Why a value has no canonical text.
#[derive(Debug, thiserror::Error)]
pub enum CanonicalError {
    /// The value does not fit into JSON.
    #[error("the value cannot be written as JSON: {0}")]
    Serialize(#[from] serde_json::Error),
}

/// Writes `value` as canonical JSON: object keys sorted by their UTF-8 bytes, no white space, no final newline, text as
/// raw UTF-8 with only the escapes that JSON demands, integers as such.
///
/// Documents that carry digests hold no floating point numbers, so number formatting never decides a digest.
pub fn to_canonical_json<T: Serialize + ?Sized>(value: &T) -> Result<String, CanonicalError> {
    let mut value = serde_json::to_value(value)?;
    sort_keys(&mut value);
    Ok(serde_json::to_string(&value)?)
}

fn sort_keys(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.sort_keys();
            map.values_mut().for_each(sort_keys);
        }
        Value::Array(items) => items.iter_mut().for_each(sort_keys),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_are_sorted_at_every_depth() {
        let value = json!({"b": [{"z": 1, "a": "ü\n"}], "a": null});
        assert_eq!(to_canonical_json(&value).unwrap(), "{\"a\":null,\"b\":[{\"a\":\"ü\\n\",\"z\":1}]}");
    }
}
