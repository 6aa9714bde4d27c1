//! Rows by Harbor's rules are Harbor's rows.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use trace::{Episodes, ExportOptions, Filter, TraceError, export_set};

/// Reads `CASE.EPISODES.FILTER[.VARIANT]`.
fn options(name: &str) -> (String, ExportOptions, bool) {
    let parts: Vec<_> = name.split('.').collect();
    let variant = parts.get(3).copied();
    let options = ExportOptions {
        episodes: if parts[1] == "all" { Episodes::All } else { Episodes::Last },
        filter: match parts[2] {
            "success" => Some(Filter::Success),
            "failure" => Some(Filter::Failure),
            _ => None,
        },
        instruction: variant != Some("bare"),
        verifier_output: variant != Some("bare"),
        tools: true,
        helpers: variant != Some("nosub"),
        harbor: true,
        ..ExportOptions::default()
    };
    (parts[0].to_owned(), options, variant == Some("sharegpt"))
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let number =
        |row: &Value| row["episode"].as_str().unwrap().trim_start_matches("episode-").parse::<u64>().unwrap();
    let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
    rows.sort_by_key(|row| (text(row, "trial_name"), text(row, "trace_source"), number(row)));
    rows
}

#[test]
fn every_golden_row_is_equal() {
    let Some(golden) = corpus::find("data/harbor-0.26-golden/traces") else { return };
    let temporary = tempfile::tempdir().unwrap();
    let summary = std::fs::read_to_string(golden.join("summary.tsv")).unwrap();
    let mut compared = 0;
    for line in summary.lines().skip(1) {
        let name = line.split('\t').next().unwrap();
        let (case, options, sharegpt) = options(name);
        let out = temporary.path().join(format!("{name}.jsonl"));
        let input = golden.join("input").join(case);
        let result = export_set(&[input], options, sharegpt, u64::MAX, &out);
        if line.contains("\tERROR\t") {
            let error = result.unwrap_err();
            assert!(
                matches!(&error, TraceError::Harbor { trial, .. } if trial == "hello-world__brokenF"),
                "{error}"
            );
            assert!(!out.exists(), "a set that failed leaves nothing behind");
            continue;
        }
        let expected = lines(&golden.join("expected").join(format!("{name}.jsonl")));
        let Some(_) = result.unwrap().1 else {
            assert_eq!(expected.len(), 0, "{name}: no rows");
            continue;
        };
        let ours = lines(&out);
        assert_eq!(ours.len(), expected.len(), "{name}: number of rows");
        for (ours, expected) in ours.iter().zip(&expected) {
            let keys = |row: &Value| row.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
            assert_eq!(keys(ours), keys(expected), "{name}: columns");
            for (key, value) in expected.as_object().unwrap() {
                assert_eq!(&ours[key], value, "{name}: {key} of {}", expected["trial_name"]);
            }
            compared += 1;
        }
    }
    assert!(compared >= 365, "{compared} rows only");
}

#[test]
fn our_own_rows_say_the_same_in_twelve_columns() {
    let Some(golden) = corpus::find("data/harbor-0.26-golden/traces") else { return };
    let temporary = tempfile::tempdir().unwrap();
    for case in ["openclaw-job", "terminus2-subagents", "terminus2-plain", "edge-tools", "edge-notools", "t2"]
    {
        let out = temporary.path().join(format!("{case}.jsonl"));
        let options = ExportOptions {
            episodes: Episodes::All,
            verifier_output: true,
            helpers: true,
            ..ExportOptions::default()
        };
        let (report, written) =
            export_set(&[golden.join("input").join(case)], options, false, u64::MAX, &out).unwrap();
        let ours = lines(&out);
        let expected = lines(&golden.join("expected").join(format!("{case}.all.nofilter.jsonl")));
        assert_eq!(ours.len(), expected.len(), "{case}");
        assert_eq!(written.map_or(0, |written| written.rows), report.rows);
        assert_eq!(report.quarantined, []);
        let mut columns = BTreeSet::new();
        for (ours, expected) in ours.iter().zip(&expected) {
            columns.insert(ours.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" "));
            for key in ["agent", "date", "task", "episode", "trial_name", "verifier_output"] {
                assert_eq!(ours[key], expected[key], "{case}: {key} of {}", expected["trial_name"]);
            }
            // Two differences are wanted: all parts of an observation, and no reward out of a truth value.
            if !case.starts_with("edge") {
                assert_eq!(ours["conversations"], expected["conversations"], "{case}");
                assert_eq!(ours["result"], expected["result"], "{case}");
            }
        }
        assert_eq!(
            columns.into_iter().collect::<Vec<_>>(),
            [
                "conversations agent model model_provider date task episode run_id trial_name result verifier_output trace_source"
            ]
        );
    }
}
