//! What is written, held against what Harbor wrote.

use std::path::Path;

use serde_json::Value;

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// The keys at every depth, in order.
fn keys(value: &Value) -> Vec<String> {
    match value {
        Value::Object(map) => map
            .iter()
            .flat_map(|(key, value)| {
                std::iter::once(key.clone())
                    .chain(keys(value).into_iter().map(move |inner| format!("{key}.{inner}")))
            })
            .collect(),
        _ => Vec::new(),
    }
}

#[test]
fn retry_defaults_are_harbors() {
    let Some(jobs) = corpus::find("data/harbor-0.26-jobs") else { return };
    let written = serde_json::to_value(job::RetryConfig::default()).unwrap();
    assert_eq!(written, json(&jobs.join("odd/config.json"))["retry"]);
}

#[test]
fn the_lock_of_a_job_has_harbors_shape() {
    let Some(jobs) = corpus::find("data/harbor-0.26-jobs") else { return };
    let theirs = json(&jobs.join("one/lock.json"));
    let trials = theirs["trials"].as_array().unwrap().iter().cloned().map(Ok);
    let retry = job::RetryConfig::default();
    let ours = job::job_lock_text(jiff::Timestamp::UNIX_EPOCH, 1, &retry, trials).unwrap();
    let ours: Value = serde_json::from_str(&ours).unwrap();
    let without_version =
        |keys: Vec<String>| keys.into_iter().filter(|key| !key.starts_with("harbor.")).collect::<Vec<_>>();
    assert_eq!(without_version(keys(&ours)), without_version(keys(&theirs)));
    assert_eq!((&ours["retry"], &ours["trials"]), (&theirs["retry"], &theirs["trials"]));
}

#[test]
fn a_manifest_is_written_as_harbor_writes_it() {
    let Some(jobs) = corpus::find("data/harbor-0.26-jobs") else { return };
    let mut seen = 0;
    for trial in std::fs::read_dir(jobs.join("eight-n4")).unwrap() {
        let path = trial.unwrap().path().join("artifacts/manifest.json");
        let Ok(text) = std::fs::read_to_string(path) else { continue };
        let entries: Vec<job::ArtifactEntry> = serde_json::from_str(&text).unwrap();
        assert_eq!(job::manifest_text(&entries).unwrap(), text);
        seen += 1;
    }
    assert_eq!(seen, 8);
}

#[test]
fn policies_are_those_that_harbor_wrote() {
    let Some(jobs) = corpus::find("data/harbor-0.26-jobs") else { return };
    let odd = job::read_job(&jobs.join("odd")).unwrap();
    let failures: Vec<_> = odd.trials.iter().filter_map(|trial| trial.state.failure()).collect();
    assert_eq!(failures.len(), 1);
    assert_eq!(failures[0].policy, job::policy_of(&failures[0].exception));
}
