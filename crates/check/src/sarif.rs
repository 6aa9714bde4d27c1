//! Findings as a SARIF 2.1.0 log, which code hosts show beside the lines that they are about.

use std::fmt::Write as _;

use ident::Digest;
use record::{Finding, Severity};
use serde_json::{Value, json};

use crate::rule::{Rule, rules};

/// The schema that the log follows.
const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";
/// What paths are relative to. Hosts that know the name put the root of the checkout in its place.
const BASE: &str = "%SRCROOT%";

/// Writes the findings of tasks as one run of one log.
///
/// Each task comes with its path, `/` between the components: relative to where the check was started, or absolute where
/// it lies elsewhere. Paths of files are relative to the same place, and `version` is the program's. The same findings give
/// the same log on every machine: it names no host, no time and no absolute path of its own.
pub fn sarif<'a>(tasks: impl IntoIterator<Item = (&'a str, &'a [Finding])>, version: &str) -> Value {
    let results =
        tasks.into_iter().flat_map(|(task, findings)| findings.iter().map(move |found| result(task, found)));
    let results: Vec<Value> = results.collect();
    let described: Vec<Value> = rules().iter().map(descriptor).collect();
    json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": {
                "driver": {
                    "name": "seatrial",
                    "semanticVersion": version,
                    "rules": described,
                },
            },
            "originalUriBaseIds": {
                BASE: { "description": { "text": "The directory in which the check was started." } },
            },
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

fn descriptor(rule: &Rule) -> Value {
    json!({
        "id": rule.name,
        "shortDescription": { "text": rule.summary },
        "fullDescription": { "text": rule.explanation },
        "help": { "text": format!("{}\n\nFix: {}.", rule.explanation, rule.fix) },
        "defaultConfiguration": { "level": level(rule.severity) },
        "properties": { "tags": [rule.family.to_string()] },
    })
}

fn result(task: &str, found: &Finding) -> Value {
    let path = match (task, found.file.as_str()) {
        (task, "") => task.to_owned(),
        ("" | ".", file) => file.to_owned(),
        (task, file) => format!("{}/{file}", task.trim_end_matches('/')),
    };
    let artifact = if path.starts_with('/') {
        json!({ "uri": format!("file://{}", encoded(&path)) })
    } else {
        json!({ "uri": encoded(&path), "uriBaseId": BASE })
    };
    let mut location = json!({ "artifactLocation": artifact });
    if let Some(line) = found.line {
        location["region"] = json!({ "startLine": line.max(1) });
    }
    // Without the line, so that a finding stays the same when something above it changes.
    let fingerprint = Digest::of([&found.rule, &path, &found.message].map(String::as_str).join("\0"));
    let mut result = json!({
        "ruleId": found.rule,
        "level": level(found.severity),
        "message": { "text": format!("{}. Fix: {}.", found.message, found.fix) },
        "locations": [{ "physicalLocation": location }],
        "partialFingerprints": { "seatrial/1": fingerprint.hex() },
    });
    if let Ok(index) = rules().binary_search_by_key(&found.rule.as_str(), |rule| rule.name) {
        result["ruleIndex"] = json!(index);
    }
    result
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    }
}

/// A path as a part of a URI: everything but unreserved characters and slashes becomes a percent sign and two digits.
fn encoded(path: &str) -> String {
    let mut uri = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                uri.push(char::from(byte));
            }
            _ => write!(uri, "%{byte:02X}").expect("a text takes everything"),
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::rules::testing::{findings, task_with};

    /// Holds a log against what the standard asks of the properties that are written here.
    fn validate(log: &Value) {
        assert_eq!(log["version"], "2.1.0");
        let runs = log["runs"].as_array().unwrap();
        assert_eq!(runs.len(), 1);
        let driver = &runs[0]["tool"]["driver"];
        assert!(driver["name"].is_string());
        let rules = driver["rules"].as_array().unwrap();
        let ids: BTreeSet<&str> = rules.iter().map(|rule| rule["id"].as_str().unwrap()).collect();
        assert_eq!(ids.len(), rules.len());
        let levels = ["none", "note", "warning", "error"];
        for rule in rules {
            for text in ["shortDescription", "fullDescription", "help"] {
                assert!(!rule[text]["text"].as_str().unwrap().is_empty());
            }
            assert!(levels.contains(&rule["defaultConfiguration"]["level"].as_str().unwrap()));
        }
        for result in runs[0]["results"].as_array().unwrap() {
            let index = result["ruleIndex"].as_u64().unwrap() as usize;
            assert_eq!(rules[index]["id"], result["ruleId"]);
            assert!(levels.contains(&result["level"].as_str().unwrap()));
            assert!(result["message"]["text"].is_string());
            assert!(result["partialFingerprints"].as_object().unwrap().values().all(Value::is_string));
            let location = &result["locations"][0]["physicalLocation"];
            let uri = location["artifactLocation"]["uri"].as_str().unwrap();
            assert!(uri.is_ascii() && !uri.contains([' ', '\\', '<', '"']), "{uri}");
            match location["artifactLocation"].get("uriBaseId") {
                Some(base) => {
                    assert!(runs[0]["originalUriBaseIds"].get(base.as_str().unwrap()).is_some());
                    assert!(!uri.starts_with('/') && !uri.contains("://"));
                }
                None => assert!(uri.starts_with("file:///")),
            }
            if let Some(region) = location.get("region") {
                assert!(region["startLine"].as_u64().unwrap() >= 1);
            }
        }
    }

    #[test]
    fn a_log_has_rules_places_and_levels() {
        let view = task_with(&[
            ("task.toml", "[verifer]\ntimeout_sec = 1\n"),
            ("tests/test.sh", "#!/bin/sh\npip install x\necho 1 > /logs/verifier/reward.txt\n"),
            ("environment/a b%.sh~", "x"),
        ]);
        let found = findings(&view);
        let log =
            sarif([("tasks/add", found.as_slice()), ("/srv/ä", &found[..1]), (".", &found[..1])], "1.2.3");
        validate(&log);
        let results = log["runs"][0]["results"].as_array().unwrap();
        let brief = |result: &Value| {
            let place = &result["locations"][0]["physicalLocation"];
            format!(
                "{} {} {} {}",
                result["ruleId"],
                result["level"],
                place["artifactLocation"]["uri"],
                place["region"]["startLine"]
            )
        };
        let expected = [
            r#""extraneous-file" "note" "tasks/add/environment/a%20b%25.sh~" null"#,
            r#""config-key-misspelt" "error" "tasks/add/task.toml" 1"#,
            r#""verifier-network" "warning" "tasks/add/tests/test.sh" 2"#,
            r#""verifier-unpinned-install" "warning" "tasks/add/tests/test.sh" 2"#,
            r#""extraneous-file" "note" "file:///srv/%C3%A4/environment/a%20b%25.sh~" null"#,
            r#""extraneous-file" "note" "environment/a%20b%25.sh~" null"#,
        ];
        assert_eq!(results.iter().map(brief).collect::<Vec<_>>(), expected);
        assert_eq!(
            log,
            sarif([("tasks/add", found.as_slice()), ("/srv/ä", &found[..1]), (".", &found[..1])], "1.2.3")
        );
    }

    #[test]
    fn fingerprints_do_not_move_with_the_lines() {
        let at = |line| Finding {
            file: "a".into(),
            line: Some(line),
            rule: "script-crlf".into(),
            severity: Severity::Error,
            message: "m".into(),
            fix: "f".into(),
        };
        let print = |line| {
            sarif([("t", &[at(line)][..])], "1")["runs"][0]["results"][0]["partialFingerprints"].clone()
        };
        assert_eq!(print(1), print(7));
        validate(&sarif([("t", &[at(0)][..])], "1"));
    }
}
