//! Synthetic histories in the shape of the ones that real sets have.

use std::collections::BTreeMap;
use std::path::Path;

use ident::{Digest, TaskId};
use ledger::{Ledger, ProofKey, ProofRule};
use record::{FailureClass, Limits, Observation, Outcome, Reason, Status, TrialKind};
use serde_json::json;
use task::TaskDigests;

use super::{Current, Fate, History, HistoryError, Ignored, Reconciled, Settled, read, reconciled};

fn key(name: &str) -> ProofKey {
    ProofKey {
        task_id: TaskId::new(name).unwrap(),
        tree_digest: Digest::of([name, "tree"].concat()),
        verifier_digest: Digest::of([name, "tests"].concat()),
        image_digest: format!("sha256:{}", Digest::of([name, "image"].concat()).hex()),
        limits: Limits { verifier_sec: 180, memory_mb: Some(4096), millicpus: None },
        engine: "native".into(),
        cheat_group: None,
    }
}

fn digests(key: &ProofKey) -> TaskDigests {
    let name = key.task_id.to_string();
    TaskDigests {
        content_hash: Digest::of([&name, "content"].concat()),
        task_checksum: Digest::of([&name, "checksum"].concat()),
        tree_digest: key.tree_digest,
        verifier_digest: key.verifier_digest,
    }
}

fn failed(reason: Reason, retryable: bool) -> Outcome {
    Outcome::Failed { reason, class: FailureClass::Task, retryable, detail: "as recorded".into() }
}

fn seen(key: &ProofKey, kind: TrialKind, number: u32, outcome: Outcome) -> Observation {
    Observation {
        task_id: key.task_id.clone(),
        kind,
        tree_digest: key.tree_digest,
        verifier_digest: key.verifier_digest,
        image_digest: key.image_digest.clone(),
        limits: key.limits.clone(),
        engine: key.engine.clone(),
        outcome,
        tests: BTreeMap::new(),
        wall_ms: 1_000 + u64::from(number),
        trial: format!("../../jobs/{number}"),
        ended_at: format!("2026-08-15T00:00:{number:02}Z"),
        cheat_group: None,
    }
}

/// Three runs of each kind that accept a task.
fn accepted(key: &ProofKey) -> Vec<Observation> {
    let runs = (0..3).flat_map(|number| {
        [
            seen(key, TrialKind::Nop, number, Outcome::Reward(0.0)),
            seen(key, TrialKind::Oracle, number + 10, Outcome::Reward(1.0)),
        ]
    });
    runs.collect()
}

fn write(directory: &Path, name: &str, lines: impl IntoIterator<Item = serde_json::Value>) -> History {
    let lines: Vec<String> = lines.into_iter().map(|line| line.to_string()).collect();
    std::fs::write(directory.join(name), lines.join("\n")).unwrap();
    read(&directory.join(name)).unwrap()
}

fn lines(observations: &[Observation]) -> Vec<serde_json::Value> {
    observations.iter().map(|seen| serde_json::to_value(seen).unwrap()).collect()
}

/// Reconciles, and puts what is taken over where the ledger would have it.
fn reconcile(histories: &[History], keys: &[ProofKey], known: &mut Vec<Observation>) -> Reconciled {
    let rule = ProofRule::default();
    let all: Vec<_> = keys.iter().map(digests).collect();
    let tasks: Vec<_> = keys
        .iter()
        .zip(&all)
        .map(|(key, digests)| Current {
            key,
            digests,
            rule: &rule,
            settled: Settled::default(),
            known: known.iter().filter(|seen| key.matches(seen)).cloned().collect(),
        })
        .collect();
    let (table, taken) = reconciled(histories, &tasks);
    known.extend(taken);
    table
}

fn count(table: &Reconciled, fate: Fate) -> usize {
    table.lines.iter().filter(|line| line.fate == fate).count()
}

#[test]
fn accepted_and_terminal_results_are_reused_and_passing_failures_retried() {
    let directory = tempfile::tempdir().unwrap();
    let named = |part: &str, count: usize| -> Vec<ProofKey> {
        (0..count).map(|number| key(&format!("example__till.00000001.{part}__{number:08}"))).collect()
    };
    let (good, timed_out, broken) = (named("good", 177), named("late", 103), named("broken", 4));
    let mut history: Vec<Observation> = good.iter().flat_map(accepted).collect();
    history.extend(
        timed_out.iter().map(|key| seen(key, TrialKind::Oracle, 0, failed(Reason::VerifierTimeout, false))),
    );
    history
        .extend(broken.iter().map(|key| seen(key, TrialKind::Oracle, 0, failed(Reason::EngineLost, true))));
    let unseen = named("new", 9);
    let keys = [good, timed_out.clone(), broken, unseen].concat();

    let histories = [write(directory.path(), "history.jsonl", lines(&history))];
    let mut known = Vec::new();
    let table = reconcile(&histories, &keys, &mut known);
    let fates = [Fate::Reused, Fate::Retried, Fate::Continued, Fate::Run].map(|fate| count(&table, fate));
    assert_eq!(fates, [177 + 103, 4, 0, 9]);
    let is_accepted = |line: &&super::Line| line.verdict == Status::Accepted;
    assert_eq!(table.lines.iter().filter(is_accepted).count(), 177);
    let late = &table.lines[177].verdict;
    assert!(
        matches!(late, Status::Error { reason, retryable: false, .. } if reason == "verifier_timeout"),
        "{late:?}"
    );
    // What a history says of places is shown, and is no path.
    let digest = &histories[0].digest.hex()[..12];
    assert_eq!(known[0].trial, format!("history.jsonl@{digest}: ../../jobs/0"));

    // A second time nothing is new, in whatever form the same results come.
    let before = known.clone();
    let path = directory.path().join("other.db");
    Ledger::open(&path).unwrap().append(&history).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let again = reconcile(&[histories[0].clone(), read(&path).unwrap()], &keys, &mut known);
    assert_eq!(known, before);
    assert_eq!(again.lines[0].ignored, BTreeMap::from([(Ignored::Known, 12)]));
    assert_eq!(count(&again, Fate::Reused), 280);
    assert_eq!(std::fs::read(&path).unwrap(), bytes, "a history is not changed");

    // Under another limit a timeout says nothing any more.
    let mut longer = timed_out;
    for key in &mut longer {
        key.limits.verifier_sec = 600;
    }
    let table = reconcile(&histories, &longer, &mut Vec::new());
    assert_eq!(count(&table, Fate::Run), 103);
    assert_eq!(table.lines[0].ignored, BTreeMap::from([(Ignored::OtherLimits, 1)]));
    assert_eq!(table.strangers, history.len() - 103);
}

#[test]
fn a_result_fits_only_what_is_the_same_in_everything() {
    type Change = fn(&mut ProofKey);
    let directory = tempfile::tempdir().unwrap();
    let key = key("example__till.00000001.good__00000001");
    let earlier = accepted(&key);
    let histories = [write(directory.path(), "a.jsonl", lines(&earlier))];
    let changes: [(Change, Ignored); 6] = [
        (|key| key.tree_digest = Digest::of("x"), Ignored::OtherTree),
        (|key| key.verifier_digest = Digest::of("x"), Ignored::OtherVerifier),
        (|key| key.image_digest = "sha256:x".into(), Ignored::OtherImage),
        (|key| key.image_digest = String::new(), Ignored::OtherImage),
        (|key| key.limits.memory_mb = None, Ignored::OtherLimits),
        (|key| key.engine = "docker".into(), Ignored::OtherEngine),
    ];
    for (change, why) in changes {
        let mut other = key.clone();
        change(&mut other);
        let table = reconcile(&histories, &[other], &mut Vec::new());
        assert_eq!((table.lines[0].fate, &table.lines[0].ignored), (Fate::Run, &BTreeMap::from([(why, 6)])));
    }
    // Half of the runs are continued.
    let half = [write(directory.path(), "b.jsonl", lines(&earlier[..2]))];
    assert_eq!(reconcile(&half, &[key], &mut Vec::new()).lines[0].fate, Fate::Continued);
}

#[test]
fn harbors_hash_stands_for_tree_and_tests() {
    let directory = tempfile::tempdir().unwrap();
    let key = key("example__till.00000001.good__00000001");
    let rows = lines(&accepted(&key)).into_iter().map(|mut row| {
        let row_fields = row.as_object_mut().unwrap();
        row_fields.remove("tree_digest");
        row_fields.remove("verifier_digest");
        row_fields.insert("content_hash".into(), digests(&key).content_hash.hex().into());
        row_fields.insert("task_id".into(), "another name".into());
        row
    });
    let histories = [write(directory.path(), "a.jsonl", rows)];
    let table = reconcile(&histories, &[key], &mut Vec::new());
    assert_eq!((table.lines[0].fate, table.lines[0].taken), (Fate::Reused, 6));
}

#[test]
fn lines_that_are_no_results_are_refused_with_their_place() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.jsonl");
    let good = serde_json::to_value(&accepted(&key("example__till.00000001.good__00000001"))[0]).unwrap();
    let mut homeless = good.clone();
    homeless.as_object_mut().unwrap().remove("tree_digest");
    let mut extra = good.clone();
    extra.as_object_mut().unwrap().insert("rewrd".into(), 1.into());
    for (line, word) in [
        ("{".to_owned(), "EOF"),
        (homeless.to_string(), "neither tree_digest nor content_hash"),
        (extra.to_string(), "rewrd"),
        ("[]".into(), "invalid"),
    ] {
        std::fs::write(&path, format!("{good}\n\n{line}\n")).unwrap();
        let error = read(&path).unwrap_err();
        assert!(matches!(&error, HistoryError::Line { line: 3, .. }), "{error}");
        assert!(error.to_string().contains(word), "{error}");
    }
    assert!(matches!(read(&directory.path().join("nowhere")), Err(HistoryError::Io { .. })));
    std::fs::write(&path, format!("\u{feff}{good}\r\n")).unwrap();
    assert_eq!(read(&path).unwrap().results.len(), 1);
}

/// A job as Harbor leaves it: one trial of the solution of a task.
fn job_of_another(directory: &Path, key: &ProofKey, environment: &serde_json::Value) -> History {
    let trial = directory.join("till__1");
    std::fs::create_dir_all(&trial).unwrap();
    let write = |path: std::path::PathBuf, value: serde_json::Value| {
        std::fs::write(path, value.to_string()).unwrap();
    };
    let task = json!({"path": "tasks/till"});
    write(directory.join("config.json"), json!({"job_name": "one", "environment": environment}));
    let config = json!({
        "task": task, "trial_name": "till__1", "agent": {"name": "oracle"}, "environment": environment,
    });
    write(trial.join("config.json"), config.clone());
    let result = json!({
        "task_name": "till", "trial_name": "till__1", "trial_uri": "file:///till__1", "task_id": task,
        "task_checksum": digests(key).task_checksum.hex(), "config": config,
        "agent_info": {"name": "oracle", "version": "1.0.0", "model_info": null},
        "verifier_result": {"rewards": {"reward": 1.0}}, "exception_info": null,
        "started_at": "2026-08-15T00:00:00Z", "finished_at": "2026-08-15T00:00:09Z",
    });
    write(trial.join("result.json"), result);
    read(directory).unwrap()
}

#[test]
fn trials_that_say_nothing_are_counted_by_the_reason() {
    let directory = tempfile::tempdir().unwrap();
    let job = directory.path();
    let key = key("example__till.00000001.good__00000001");
    assert_eq!(job_of_another(job, &key, &json!({})).passed_over, BTreeMap::new());
    let text = |trial: &str, file: &str| {
        std::fs::read_to_string(job.join("till__1").join(file)).unwrap().replace("till__1", trial)
    };
    for trial in ["till__2", "till__3"] {
        std::fs::create_dir(job.join(trial)).unwrap();
        std::fs::write(job.join(trial).join("config.json"), text(trial, "config.json")).unwrap();
    }
    // One is still running, the other is somebody's work.
    let other = text("till__3", "result.json").replace("\"oracle\"", "\"goose\"");
    std::fs::write(job.join("till__3/result.json"), other).unwrap();
    let history = read(job).unwrap();
    assert_eq!(history.results.len(), 1);
    assert_eq!(history.passed_over, BTreeMap::from([("of another agent", 1), ("without an end", 1)]));
}

#[test]
fn what_a_task_fixes_itself_is_known_of_results_of_others() {
    let directory = tempfile::tempdir().unwrap();
    let mut key = key("example__till.00000001.good__00000001");
    key.engine = "docker".into();
    let docker = json!({"type": "docker", "force_build": false, "mounts": null, "kwargs": {}});
    let built = json!({"type": "docker", "force_build": true});
    let mounted = json!({"type": "docker", "mounts": [{"type": "bind", "source": "/x", "target": "/y"}]});
    let fixed = Settled { images: true, offline: true };
    let cases = [
        (&docker, fixed, None),
        (&docker, Settled { images: false, ..fixed }, Some(Ignored::OtherImage)),
        (&docker, Settled { offline: false, ..fixed }, Some(Ignored::OtherNetwork)),
        (&built, fixed, Some(Ignored::OtherImage)),
        (&mounted, fixed, Some(Ignored::OtherImage)),
    ];
    for (number, (environment, settled, why)) in cases.into_iter().enumerate() {
        let job = directory.path().join(number.to_string());
        let history = job_of_another(&job, &key, environment);
        let about = |key: &ProofKey| {
            let (digests, rule) = (digests(key), ProofRule::default());
            let task = Current { key, digests: &digests, rule: &rule, settled, known: Vec::new() };
            let (table, taken) = reconciled(std::slice::from_ref(&history), &[task]);
            (table.lines[0].ignored.clone(), taken)
        };
        let (ignored, taken) = about(&key);
        assert_eq!(ignored.into_keys().next(), why, "{environment}");
        assert_eq!(taken.len(), usize::from(why.is_none()));
        for taken in taken {
            assert_eq!((&taken.image_digest, &taken.engine), (&key.image_digest, &key.engine));
        }
        // Another engine is another one still.
        let native = ProofKey { engine: "native".into(), ..key.clone() };
        assert_eq!(about(&native).0.into_keys().next(), why.or(Some(Ignored::OtherEngine)));
    }
}

#[test]
fn a_task_fixes_its_images_by_digests_and_its_network_by_having_none() {
    let of = |text: &str| {
        let text = text.replace("PINNED", &format!("example.invalid/till@sha256:{}", "a".repeat(64)));
        let settled = Settled::of(&task::config::read_config(text.as_bytes()).unwrap().config);
        (settled.images, settled.offline)
    };
    let image = "[environment]\ndocker_image = 'PINNED'\n";
    let offline = format!("{image}network_mode = 'no-network'\n");
    assert_eq!(of("[environment]\ndocker_image = 'example.invalid/till:1'\n"), (false, false));
    assert_eq!(of("[environment]\nnetwork_mode = 'no-network'\n"), (false, true));
    assert_eq!(of(image), (true, false));
    assert_eq!(of(&offline), (true, true));
    assert_eq!(of(&format!("{offline}[agent]\nnetwork_mode = 'public'\n")), (true, false));
    let separate = format!("{offline}[verifier]\nenvironment_mode = 'separate'\n");
    assert_eq!(of(&separate), (false, true));
    let own = format!("{separate}[verifier.environment]\ndocker_image = 'PINNED'\n");
    assert_eq!(of(&own), (true, false));
    assert_eq!(of(&format!("{own}network_mode = 'no-network'\n")), (true, true));
}

/// The recorded case of a resumed run, where the corpus is at hand: what each of its four results becomes.
#[test]
fn the_recorded_history_is_resumed_as_its_note_says() {
    let Some(folder) = corpus::find("cases") else { return };
    let case = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.to_string_lossy().ends_with("resume-terminal-vs-retryable"))
        .expect("the corpus has the case");
    let json = |name: &str| -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(case.join(name)).unwrap()).unwrap()
    };
    let now = json("current.json")["verifier_fp"].as_str().unwrap().to_owned();
    let mut keys = Vec::new();
    let mut rows = Vec::new();
    for entry in json("history.json").as_array().unwrap() {
        let name = format!("example__till.00000001.{}", entry["task"].as_str().unwrap());
        let mut current = key(&name);
        current.verifier_digest = Digest::of(&now);
        let mut then = current.clone();
        then.verifier_digest = Digest::of(entry["verifier_fp"].as_str().unwrap());
        then.limits.verifier_sec = entry["limit_s"].as_u64().unwrap_or(180);
        let oracle = |outcome| vec![seen(&then, TrialKind::Oracle, 0, outcome)];
        rows.extend(match (entry["status"].as_str().unwrap(), entry["reason"].as_str()) {
            ("accepted", _) => accepted(&then),
            ("rejected", _) => oracle(failed(Reason::VerifierTimeout, false)),
            (_, Some("RuntimeError")) => oracle(failed(Reason::EngineLost, true)),
            other => panic!("{other:?}"),
        });
        keys.push(current);
    }
    let directory = tempfile::tempdir().unwrap();
    let histories = [write(directory.path(), "history.jsonl", lines(&rows))];
    let table = reconcile(&histories, &keys, &mut Vec::new());
    let fates: Vec<_> = table.lines.iter().map(|line| line.fate).collect();
    assert_eq!(fates, [Fate::Reused, Fate::Retried, Fate::Run, Fate::Reused]);
}

/// Jobs that Harbor itself ran, where the corpus is at hand.
#[test]
fn jobs_of_harbor_are_known_by_its_hash_and_say_nothing_without_an_image() {
    let Some(folder) = corpus::find("data/harbor-0.26-jobs") else { return };
    let digests = task::digest_task(&folder.join("tasks/trivial-00")).unwrap();
    let mut current = key("example__till.00000001.good__00000001");
    (current.tree_digest, current.verifier_digest) = (digests.tree_digest, digests.verifier_digest);
    let histories = ["one", "nop"].map(|job| read(&folder.join(job)).unwrap());
    let kinds: Vec<_> = histories.iter().map(|history| history.results[0].kind.clone()).collect();
    assert_eq!(kinds, [TrialKind::Oracle, TrialKind::Nop]);
    assert_eq!(histories[0].results[0].outcome, Outcome::Reward(1.0));

    let rule = ProofRule::default();
    let about = |key: &ProofKey, settled| {
        let task = Current { key, digests: &digests, rule: &rule, settled, known: Vec::new() };
        reconciled(&histories, &[task]).0
    };
    let table = about(&current, Settled::default());
    assert_eq!(table.lines[0].ignored, BTreeMap::from([(Ignored::OtherImage, 2)]));
    // Did the task fix its image and ask for no network, they would count.
    current.engine = "docker".into();
    assert_eq!(about(&current, Settled { images: true, offline: true }).lines[0].taken, 2);
    assert_eq!(table.strangers, histories.iter().map(|history| history.results.len()).sum::<usize>() - 2);
}
