//! Samples for trainers, statistics and merged sets.

use std::path::{Path, PathBuf};

use serde_json::Value;
use trace::{
    Advantage, CleanStep, ConvertOptions, ConvertReport, Form, Outcome, TraceError, Wanted, convert, gather,
    merge, read_rows, scan, set_files, stats,
};

use crate::sets::{TRAJECTORY, reward, trial};

fn options(form: Form) -> ConvertOptions {
    ConvertOptions {
        form,
        clean: Vec::new(),
        filter: None,
        advantage: Advantage::Std,
        drop_constant_groups: false,
    }
}

fn converted(paths: &[PathBuf], options: &ConvertOptions) -> (Vec<Value>, ConvertReport) {
    let temporary = tempfile::tempdir().unwrap();
    let out = temporary.path().join("out.jsonl");
    let report = convert(paths, options, &out).unwrap();
    assert_eq!(out.exists(), report.samples > 0, "a file without samples is not written");
    let text = std::fs::read_to_string(&out).unwrap_or_default();
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len() as u64, report.samples);
    // The same as Parquet has as many rows.
    let parquet = temporary.path().join("out.parquet");
    convert(paths, options, &parquet).unwrap();
    assert_eq!(parquet.exists(), report.samples > 0);
    (rows, report)
}

/// A job with three trials of one task, of which one failed without a reward that counts.
fn job(directory: &Path) -> PathBuf {
    let job = directory.join("job");
    let failed = TRAJECTORY.replace("done", "gave up");
    trial(&job, "tiny", "tiny__a", &reward("1"), Some(TRAJECTORY));
    trial(&job, "tiny", "tiny__b", &reward("0"), Some(&failed));
    let lost =
        format!("{}, \"exception_info\": {{\"exception_type\": \"VerifierTimeoutError\"}}", reward("1"));
    trial(&job, "tiny", "tiny__c", &lost, Some(TRAJECTORY));
    job
}

#[test]
fn every_form_of_a_job() {
    let temporary = tempfile::tempdir().unwrap();
    let job = [job(temporary.path())];
    let (rows, _) = converted(&job, &options(Form::Sft));
    assert_eq!(rows.len(), 3);
    let roles: Vec<_> =
        rows[0]["messages"].as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "user", "assistant"]);
    assert_eq!(rows[0]["reward"], 1.0);
    assert_eq!(rows[2]["reward"], Value::Null, "a reward that does not count is no reward");
    assert_eq!(rows[2]["result"], "VerifierTimeoutError");
    let (rows, _) = converted(&job, &options(Form::Sharegpt));
    assert_eq!(rows[0]["conversations"][1]["from"], "gpt");
    let (rows, _) = converted(&job, &options(Form::LlamaFactory));
    assert_eq!(rows[0]["conversations"].as_array().unwrap().len() % 2, 0);
    let (rows, _) = converted(&job, &options(Form::Masked));
    assert_eq!(rows[0]["loss_mask"], serde_json::json!([1, 0, 1]));
    assert_eq!(rows[0]["prompt"].as_array().unwrap().len(), 1);
    let (rows, report) = converted(&job, &options(Form::Rl));
    assert_eq!(rows.len(), 2);
    assert_eq!(report.left_out.get("something went wrong and no reward counts"), Some(&1));
    assert!((rows[0]["advantage"].as_f64().unwrap() - 0.707_105).abs() < 1e-4);
    assert_eq!((&rows[1]["sample_index"], &rows[1]["group_size"]), (&Value::from(1), &Value::from(2)));
    let mean = ConvertOptions { advantage: Advantage::Mean, ..options(Form::Rl) };
    assert_eq!(converted(&job, &mean).0[1]["advantage"], -0.5);
    let (rows, _) = converted(&job, &options(Form::Preference));
    assert_eq!(rows.len(), 1);
    assert_eq!(
        (&rows[0]["chosen_trial"], &rows[0]["rejected_trial"]),
        (&"tiny__a".into(), &"tiny__b".into())
    );
    let (rows, report) = converted(&job, &options(Form::Tokens));
    assert_eq!((rows.len(), report.left_out["no tokens"]), (0, 3));
}

#[test]
fn tokens_fit_together_or_the_turn_is_named() {
    let temporary = tempfile::tempdir().unwrap();
    let write = |name: &str, first: &str, second: &str| {
        let step =
            |metrics: &str| format!(r#"{{"source": "agent", "message": "x", "metrics": {{{metrics}}}}}"#);
        let text = format!("{{\"steps\": [{}, {}]}}", step(first), step(second));
        let job = temporary.path().join(name);
        trial(&job, "tiny", "tiny__a", &reward("1"), Some(&text));
        job
    };
    let first = r#""prompt_token_ids": [1, 2], "completion_token_ids": [3], "logprobs": [-0.5]"#;
    let good = write(
        "good",
        first,
        r#""prompt_token_ids": [1, 2, 3, 4], "completion_token_ids": [5, 6], "logprobs": [-1, -2]"#,
    );
    let (rows, report) = converted(&[good], &options(Form::Tokens));
    assert_eq!((rows.len(), report.prefix_breaks), (2, 0));
    assert_eq!(rows[1]["completion_token_ids"], serde_json::json!([5, 6]));
    let broken = write("broken", first, r#""prompt_token_ids": [9], "completion_token_ids": [5]"#);
    assert_eq!(converted(&[broken], &options(Form::Tokens)).1.prefix_breaks, 1);
    let out = temporary.path().join("x.jsonl");
    for (name, second, message) in [
        (
            "short",
            r#""prompt_token_ids": [9], "completion_token_ids": [5], "logprobs": [1, 2]"#,
            "turn 1: has 1 tokens and 2 log",
        ),
        ("none", "", "turn 1: has no tokens, while other turns have"),
        ("half", r#""completion_token_ids": [5]"#, "turn 1: has no `prompt_token_ids`"),
    ] {
        let error = convert(&[write(name, first, second)], &options(Form::Tokens), &out).unwrap_err();
        assert!(matches!(error, TraceError::Tokens { turn: 1, .. }));
        assert!(error.to_string().contains(message), "{error}");
    }
    // Harbor's own record, a list a turn.
    let job = temporary.path().join("details");
    let details = r#""agent_result": {"rollout_details": [{"prompt_token_ids": [[1], [1, 2, 3]], "completion_token_ids": [[2], [4]],
        "logprobs": [[-0.1], [-0.2]]}]}"#;
    trial(&job, "tiny", "tiny__a", &format!("{}, {details}", reward("1")), Some(TRAJECTORY));
    assert_eq!(converted(&[job], &options(Form::Tokens)).0.len(), 2);
}

#[test]
fn cases_of_training() {
    let Some(case) = corpus::case("infra-error-as-completed") else { return };
    let set = |name: &str| corpus::case(name).unwrap().join("traces.jsonl");
    for form in [Form::Sft, Form::Rl] {
        let (rows, report) = converted(&[case.join("traces.jsonl")], &options(form));
        assert_eq!((rows.len(), report.left_out["no turn of the agent"]), (1, 1));
    }
    let idle = stats(&gather(&[case.join("traces.jsonl")]).unwrap().trials, 1.0).without_turn;
    assert_eq!((idle.trials, idle.rewarded, idle.mean), (1, 1, Some(0.0)), "told apart from other failures");
    let unread = gather(&[corpus::case("result-json-nan").unwrap()]).unwrap();
    let named =
        |key: &str| unread.odd.iter().any(|odd| odd.why.contains(key) && odd.path.ends_with("trial-a"));
    assert!(
        named("`verifier_result.rewards.reward` is NaN") && named("`agent_result.cost_usd` is Infinity"),
        "{unread:?}"
    );
    let half = gather(&[corpus::case("result-half-written").unwrap()]).unwrap();
    let incomplete = half.trials.iter().filter(|trial| trial.outcome == Outcome::Incomplete).count();
    assert_eq!((half.trials.len(), incomplete), (3, 2));
    let trials = gather(&[set("zero-variance-groups")]).unwrap();
    let groups = stats(&trials.trials, 1.0).groups;
    assert!(
        groups.all_one >= 1 && groups.all_zero >= 1 && groups.mixed >= 1 && groups.too_few >= 1,
        "{groups:?}"
    );
    let out = tempfile::tempdir().unwrap();
    let duplicates = set("duplicate-trials");
    let error = convert(std::slice::from_ref(&duplicates), &options(Form::Sft), &out.path().join("x.jsonl"))
        .unwrap_err();
    assert!(error.to_string().contains("line 1 and ") && error.to_string().contains("line 3 say"), "{error}");
    let gathered = gather(std::slice::from_ref(&duplicates)).unwrap();
    assert_eq!((gathered.trials.len(), gathered.copies, gathered.contradictions.len()), (1, 1, 1));
    let error = merge(&[duplicates], 1 << 20, &out.path().join("merged.parquet")).unwrap_err();
    assert!(matches!(error, TraceError::Conflict { .. }), "{error}");
}

#[test]
fn secrets_are_masked_with_their_place() {
    let temporary = tempfile::tempdir().unwrap();
    let token = format!("hf_{}", "ABCDEFGHIJKLMNOPQ".repeat(2));
    let bearer = "abcdefghij".repeat(4);
    let content = format!(
        "{token}\nAuthorization: Bearer {bearer}\n-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----"
    );
    let row = serde_json::json!({"conversations": [{"role": "user", "content": "go"}, {"role": "assistant", "content": content}],
        "task": "t", "run_id": "r", "trial_name": "t__1", "result": "1.0", "episode": "episode-0"});
    let path = temporary.path().join("set.jsonl");
    std::fs::write(&path, format!("{row}\n")).unwrap();
    let paths = [path];
    let found = scan(&paths).unwrap();
    assert_eq!((found.trials_with_secrets, found.hits.len()), (1, 3));
    assert!(found.hits.iter().all(|hit| hit.message == 1 && hit.text.chars().count() <= 5), "{found:?}");
    let masking = ConvertOptions { clean: vec![CleanStep::Secrets], ..options(Form::Sft) };
    let (rows, report) = converted(&paths, &masking);
    assert_eq!((report.cleaned["secrets"], report.masked.len()), (3, 3));
    let text = rows[0].to_string();
    assert!(!text.contains(&token) && !text.contains(&bearer) && !text.contains("AAAA"), "{text}");
}

#[test]
fn merged_sets_are_sorted_and_every_row_is_there_once() {
    let temporary = tempfile::tempdir().unwrap();
    let row = |trial: &str, episode: u32| {
        format!(
            "{{\"conversations\": [], \"run_id\": \"r\", \"trial_name\": \"{trial}\", \"episode\": \"episode-{episode}\", \"task\": \"t\"}}\n"
        )
    };
    let write = |name: &str, rows: &[String]| {
        let path = temporary.path().join(name);
        std::fs::write(&path, rows.concat()).unwrap();
        path
    };
    let one = write("one.jsonl", &[row("a", 2), row("a", 10), row("c", 0)]);
    let two = write("two.jsonl", &[row("c", 0), row("b", 0), row("a", 2)]);
    let mut bytes = Vec::new();
    for order in [[one.clone(), two.clone()], [two, one]] {
        let out = temporary.path().join("merged.parquet");
        let (report, written) = merge(&order, 1 << 20, &out).unwrap();
        assert_eq!((written.unwrap().rows, report.copies, report.unsorted_files), (4, 2, 1));
        let mut keys = Vec::new();
        read_rows(&set_files(&out).unwrap().unwrap().files, Wanted::Facts, &mut |_, row| {
            keys.push((row.trial_name.clone().unwrap().to_string(), row.key().episode));
            Ok(())
        })
        .unwrap();
        let expected =
            [("a", 2), ("a", 10), ("b", 0), ("c", 0)].map(|(trial, episode)| (trial.to_owned(), episode));
        assert_eq!(keys, expected);
        bytes.push(std::fs::read(&out).unwrap());
    }
    assert_eq!(bytes[0], bytes[1]);
}

/// The numbers of exceptions and rewards that were counted by hand over all real trials.
#[test]
fn an_exception_does_not_mean_that_there_is_no_reward() {
    let Some(trials) = corpus::find("data/trials") else { return };
    let gathered = gather(&[trials]).unwrap();
    let count = |exception: Option<&str>, reward: Option<f64>| {
        let found = gathered.trials.iter().filter(|trial| {
            trial.outcome.exception().map(|name| &**name) == exception && trial.outcome.written() == reward
        });
        found.filter(|trial| !matches!(trial.outcome, Outcome::Incomplete)).count()
    };
    for (exception, reward, number) in [
        ("AgentTimeoutError", Some(0.0), 20),
        ("AgentTimeoutError", Some(1.0), 9),
        ("AttributeError", None, 1),
        ("CancelledError", None, 1),
        ("JSONDecodeError", None, 1),
        ("NonZeroAgentExitCodeError", Some(0.0), 3),
        ("ProcessLookupError", None, 7),
        ("RewardFileNotFoundError", None, 1),
        ("RuntimeError", None, 15),
    ] {
        assert_eq!(count(Some(exception), reward), number, "{exception} {reward:?}");
    }
    for (reward, number) in [(0.33, 1), (0.9429, 1)] {
        assert_eq!(count(None, Some(reward)), number, "no exception and {reward}");
    }
    assert_eq!(gathered.contradictions, [], "trials of different runs are different trials");
}

/// Directories are gone through in any order: only sums are looked at.
fn each_json(directory: &Path, found: &mut impl FnMut(&Path, Value)) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            each_json(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "json")
            && let Ok(value) = serde_json::from_slice(&std::fs::read(&path).unwrap())
        {
            found(&path, value);
        }
    }
}

/// The versions that were counted by hand over all real trajectories, those of helpers and those that lie elsewhere included.
#[test]
fn every_real_trajectory_is_read_in_its_version() {
    let Some(trials) = corpus::find("data/trials") else { return };
    let (mut versions, mut steps) = (std::collections::BTreeMap::new(), 0);
    each_json(&trials, &mut |path, value| {
        let Some(version) = value["schema_version"].as_str().filter(|text| text.starts_with("ATIF")) else {
            return;
        };
        *versions.entry(version.to_owned()).or_insert(0) += 1;
        steps += value["steps"].as_array().unwrap().len();
        let read = gather(&[path.to_owned()]).unwrap();
        assert_eq!(read.trials.len(), 1, "{}", path.display());
        assert_eq!(read.trials[0].format.as_deref(), Some(version), "{}", path.display());
    });
    let counted = [("ATIF-v1.4", 12), ("ATIF-v1.5", 2), ("ATIF-v1.6", 37), ("ATIF-v1.7", 9)];
    assert_eq!(versions.into_iter().collect::<Vec<_>>(), counted.map(|(version, n)| (version.to_owned(), n)));
    assert_eq!(steps, 1453);
}

#[test]
fn a_conversion_without_samples_writes_no_file() {
    let temporary = tempfile::tempdir().unwrap();
    let job = temporary.path().join("job");
    trial(&job, "tiny", "tiny__a", &reward("1"), None);
    for form in [Form::Sft, Form::Rl, Form::Preference, Form::Tokens] {
        let (rows, report) = converted(std::slice::from_ref(&job), &options(form));
        assert_eq!((rows.len(), report.samples), (0, 0), "{form:?}");
    }
}
