//! Sets on disk: whole or not there, the same bytes every time.

use std::collections::BTreeMap;
use std::path::Path;

use trace::{
    Advantage, Columns, ConvertOptions, Episodes, ExportOptions, Filter, Form, Message, Outcome, Role, Row,
    RowSet, TraceError, Wanted, export_set, gather, read_rows, set_files,
};

pub(crate) const TRAJECTORY: &str = r#"{"schema_version": "ATIF-v1.6", "agent": {"name": "coder", "version": "1",
    "model_name": "org/m-1"}, "steps": [{"step_id": 1, "source": "user", "message": "repair calc"},
    {"step_id": 2, "source": "agent", "message": "look", "tool_calls": [{"tool_call_id": "1", "function_name": "bash",
    "arguments": {"command": "ls"}}], "observation": {"results": [{"source_call_id": "1", "content": "calc.py"}]},
    "metrics": {"prompt_tokens": 100, "completion_tokens": 10}},
    {"step_id": 3, "source": "agent", "message": "done", "metrics": {"prompt_tokens": 130, "completion_tokens": 5}}]}"#;

/// Writes a trial as Harbor does.
pub(crate) fn trial(job: &Path, task: &str, name: &str, result: &str, trajectory: Option<&str>) {
    let directory = job.join(name);
    std::fs::create_dir_all(directory.join("agent")).unwrap();
    std::fs::create_dir_all(directory.join("verifier")).unwrap();
    let head = format!(
        r#"{{"task_name": "{task}", "trial_name": "{name}", "started_at": "2026-03-01T10:00:00Z", "finished_at":
        "2026-03-01T10:01:00Z", "config": {{"job_id": "run-1", "agent": {{"name": "coder"}}}},
        "agent_info": {{"name": "coder", "version": "1", "model_info": {{"name": "m-1", "provider": "org"}}}}, {result}}}"#
    );
    std::fs::write(directory.join("result.json"), head).unwrap();
    std::fs::write(directory.join("verifier/test-stdout.txt"), "1 passed\r\n").unwrap();
    if let Some(trajectory) = trajectory {
        std::fs::write(directory.join("agent/trajectory.json"), trajectory).unwrap();
    }
}

pub(crate) fn reward(reward: &str) -> String {
    format!("\"verifier_result\": {{\"rewards\": {{\"reward\": {reward}}}}}")
}

fn all() -> ExportOptions {
    ExportOptions {
        episodes: Episodes::All,
        verifier_output: true,
        helpers: true,
        ..ExportOptions::default()
    }
}

fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_dir() {
            files.extend(
                self::files(&entry.path()).into_iter().map(|(file, bytes)| (format!("{name}/{file}"), bytes)),
            );
        } else {
            files.insert(name, std::fs::read(entry.path()).unwrap());
        }
    }
    files
}

#[test]
fn the_same_jobs_give_the_same_bytes_in_shards_with_a_card() {
    let temporary = tempfile::tempdir().unwrap();
    let job = temporary.path().join("job");
    for number in [3, 1, 2] {
        trial(&job, "tiny", &format!("tiny__{number}"), &reward("1"), Some(TRAJECTORY));
    }
    let write = |name: &str, shard_bytes| {
        let out = temporary.path().join(name);
        export_set(std::slice::from_ref(&job), all(), true, shard_bytes, &out).unwrap();
        files(&out)
    };
    let first = write("first", u64::MAX);
    assert_eq!(first, write("second", u64::MAX));
    assert_eq!(first.keys().collect::<Vec<_>>(), ["README.md", "data/train-00000-of-00001.parquet"]);
    let card = String::from_utf8(first["README.md"].clone()).unwrap();
    assert!(card.contains("num_examples: 6"), "{card}");
    assert!(card.contains("conversations_sharegpt"), "{card}");
    let shards = write("shards", 1);
    assert_eq!(shards.len(), 7, "every row in a shard of its own, and a card");
    let again = export_set(&[job], all(), true, 1, &temporary.path().join("shards"));
    assert!(matches!(again, Err(TraceError::Occupied { .. })));
}

#[test]
fn every_trial_is_counted_once() {
    let temporary = tempfile::tempdir().unwrap();
    let job = temporary.path().join("job");
    trial(&job, "tiny", "tiny__good", &reward("1.0"), Some(TRAJECTORY));
    trial(
        &job,
        "tiny",
        "tiny__late",
        &format!("{}, \"exception_info\": {{\"exception_type\": \"AgentTimeoutError\"}}", reward("1.0")),
        Some(TRAJECTORY),
    );
    trial(&job, "tiny", "tiny__none", &reward("0"), None);
    trial(
        &job,
        "tiny",
        "tiny__idle",
        &reward("0"),
        Some(r#"{"steps": [{"source": "user", "message": "x"}]}"#),
    );
    trial(&job, "tiny", "tiny__bad", &reward("0"), Some("{\"steps\": ["));
    trial(
        &job,
        "tiny",
        "tiny__half",
        &reward("0"),
        Some(r#"{"steps": [{"source": "agent", "message": "a\ud83d"}]}"#),
    );
    std::fs::write(job.join("tiny__cut"), "").unwrap();
    std::fs::create_dir_all(job.join("tiny__open/agent")).unwrap();
    std::fs::write(job.join("tiny__open/config.json"), "{}").unwrap();
    std::os::unix::fs::symlink("/etc", job.join("link")).unwrap();
    let out = temporary.path().join("rows.jsonl");
    let (report, _) = export_set(std::slice::from_ref(&job), all(), false, 1, &out).unwrap();
    assert_eq!((report.trials, report.exported, report.rows), (7, 3, 5));
    assert_eq!((report.without_trajectory, report.without_turn, report.surrogates), (1, 1, 1));
    let left: Vec<_> = report.quarantined.iter().map(ToString::to_string).collect();
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(left[0].ends_with("tiny__bad: agent/trajectory.json ends in the middle, at byte 11"), "{left:?}");
    assert!(left[1].contains("tiny__open: has no readable result: no_result"), "{left:?}");
    assert!(report.odd.iter().any(|odd| odd.path.ends_with("link")), "{:?}", report.odd);
    let text = std::fs::read_to_string(&out).unwrap();
    assert!(text.contains("\"result\":\"AgentTimeoutError\""));
    assert!(text.contains("\"verifier_output\":\"1 passed\\n\""));
    let count = |filter| {
        let options = ExportOptions { filter: Some(filter), episodes: Episodes::Last, ..all() };
        let out = temporary.path().join("filtered.jsonl");
        export_set(std::slice::from_ref(&job), options, false, 1, &out).unwrap().0.rows
    };
    assert_eq!((count(Filter::Success), count(Filter::Exception), count(Filter::Failure)), (1, 1, 2));
}

#[test]
fn a_directory_beside_trials_is_a_trial_that_wrote_nothing() {
    let temporary = tempfile::tempdir().unwrap();
    let jobs = temporary.path().join("jobs");
    trial(&jobs.join("job"), "tiny", "tiny__a", &reward("1.0"), Some(TRAJECTORY));
    std::fs::create_dir_all(jobs.join("job/tiny__b")).unwrap();
    std::fs::write(jobs.join("job/tiny__b/agent.log"), "started\n").unwrap();
    std::fs::create_dir_all(jobs.join("job/.hidden")).unwrap();
    // Where no trial lies, nothing says that a directory is one.
    std::fs::create_dir_all(jobs.join("notes/drafts")).unwrap();
    let gathered = gather(std::slice::from_ref(&jobs)).unwrap();
    let outcomes: Vec<_> = gathered.trials.iter().map(|trial| (&*trial.trial, &trial.outcome)).collect();
    assert_eq!(outcomes.len(), 2, "{outcomes:?}");
    assert!(outcomes.contains(&("tiny__b", &Outcome::Incomplete)), "{outcomes:?}");
    let view = job::read_job(&jobs.join("job")).unwrap();
    assert_eq!((view.tally.rewarded, view.tally.incomplete), (1, 1), "the reader of jobs says the same");
    let out = temporary.path().join("rows.jsonl");
    let (report, _) = export_set(&[jobs], all(), false, 1, &out).unwrap();
    assert_eq!((report.trials, report.exported, report.quarantined.len()), (2, 1, 1));
    let left = report.quarantined[0].to_string();
    assert!(left.contains("tiny__b: has no readable result: no_result"), "{left}");
}

#[test]
fn groups_that_are_encoded_at_once_stay_in_order() {
    let temporary = tempfile::tempdir().unwrap();
    let rows: Vec<_> = (0..2000)
        .map(|number| Row {
            // Some groups have a hundred times as much to do as others.
            conversations: (0..if number / 128 % 3 == 0 { 100 } else { 1 })
                .map(|message| Message { role: Role::User, content: format!("{number} {message}").into() })
                .collect(),
            trial_name: Some(format!("{number:05}").into()),
            ..Row::default()
        })
        .collect();
    let write = |name: &str, shard_bytes| {
        let out = temporary.path().join(name);
        let mut set = RowSet::create(&out, Columns::field(false, false, false), shard_bytes).unwrap();
        for row in &rows {
            set.write(row.clone()).unwrap();
        }
        let written = set.finish().unwrap();
        let mut again = Vec::new();
        read_rows(&set_files(&out).unwrap().unwrap().files, Wanted::Rows, &mut |_, row| {
            again.push(row);
            Ok(())
        })
        .unwrap();
        assert!(again == rows, "{name}: rows come back as they were, in their order");
        written.files.len()
    };
    assert_eq!(write("one.parquet", u64::MAX), 1);
    assert!(write("shards", 20_000) > 5);
}

#[test]
fn copies_of_a_trial_are_dropped_and_contradictions_named() {
    let temporary = tempfile::tempdir().unwrap();
    let (one, two) = (temporary.path().join("one"), temporary.path().join("two"));
    trial(&one, "tiny", "tiny__a", &reward("1"), Some(TRAJECTORY));
    trial(&two, "tiny", "tiny__a", &reward("1"), Some(TRAJECTORY));
    let out = temporary.path().join("rows.parquet");
    let (report, written) = export_set(&[one.clone(), two.clone()], all(), false, 1, &out).unwrap();
    assert_eq!((report.copies, written.unwrap().rows), (1, 2));
    trial(&two, "tiny", "tiny__a", &reward("0"), Some(TRAJECTORY));
    let error = export_set(&[one, two], all(), false, 1, &out).unwrap_err().to_string();
    assert!(
        error.contains("one/tiny__a and ") && error.contains("two/tiny__a say different things"),
        "{error}"
    );
}

#[test]
fn a_continuation_leads_nowhere_else() {
    let temporary = tempfile::tempdir().unwrap();
    for (name, reference) in [("up", "../../secret.json"), ("own", "trajectory.json"), ("lost", "gone.json")]
    {
        let job = temporary.path().join(name);
        let text = TRAJECTORY.replacen('{', &format!("{{\"continued_trajectory_ref\": \"{reference}\", "), 1);
        trial(&job, "tiny", "tiny__a", &reward("1"), Some(&text));
        std::fs::write(temporary.path().join("secret.json"), TRAJECTORY).unwrap();
        let out = temporary.path().join("rows.jsonl");
        let (report, _) = export_set(&[job], all(), false, 1, &out).unwrap();
        assert_eq!((report.rows, report.quarantined.len()), (0, 1), "{name}");
    }
}

/// Samples of chats, nothing cleaned and nothing left out.
pub(crate) fn forms() -> ConvertOptions {
    ConvertOptions {
        form: Form::Sft,
        clean: Vec::new(),
        filter: None,
        advantage: Advantage::Std,
        drop_constant_groups: false,
    }
}
