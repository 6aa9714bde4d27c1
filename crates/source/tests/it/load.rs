//! Files of every role, well-formed and not.

use std::fs;
use std::path::Path;

use ident::Digest;
use record::SourceRole;
use serde_json::{Value, json};
use source::{Faults, Keep, Place, Reading, Records, RowProblem, SourceError, SourceSpec, Spot, load};

fn read(base: &Path, path: &str, role: SourceRole) -> Result<Records, SourceError> {
    reading(base, path, role, &Reading::default())
}

fn reading(base: &Path, path: &str, role: SourceRole, reading: &Reading) -> Result<Records, SourceError> {
    let spec = SourceSpec::file("s", path, role);
    load(&spec, base, reading)
}

fn read_text(file: &str, text: impl AsRef<[u8]>, role: SourceRole) -> Result<Records, SourceError> {
    let base = tempfile::tempdir().unwrap();
    fs::write(base.path().join(file), text).unwrap();
    read(base.path(), file, role)
}

fn instance(id: &str) -> Value {
    json!({"instance_id": id, "patch": "--- a/x\n+++ b/x\n", "FAIL_TO_PASS": ["t.py::a"], "PASS_TO_PASS": [],
           "image_name": "i", "repo": "r", "problem_statement": "repair it"})
}

type Fault = (u64, Option<String>, Option<String>, RowProblem);

/// The faults that refuse the source, or else those that were left out.
fn faults(result: Result<Records, SourceError>) -> Vec<Fault> {
    let faults = match result {
        Err(SourceError::Rows { faults, .. }) => faults,
        Err(other) => panic!("the source was refused otherwise: {other}"),
        Ok(records) => records.report().faults.clone(),
    };
    let shown = faults.shown.into_iter().map(|fault| {
        let (Place::Line(number) | Place::Row(number) | Place::Entry(number)) = fault.place else {
            panic!("no row group was read");
        };
        (number, fault.id, fault.field, fault.problem)
    });
    shown.collect()
}

fn strictly(file: &str, text: impl AsRef<[u8]>, role: SourceRole) -> Faults {
    let base = tempfile::tempdir().unwrap();
    fs::write(base.path().join(file), text).unwrap();
    match reading(base.path(), file, role, &Reading { strict: true, ..Reading::default() }) {
        Err(SourceError::Rows { faults, .. }) => faults,
        other => panic!("the rows were accepted, or refused otherwise: {other:?}"),
    }
}

#[test]
fn instances_come_as_lines_or_as_one_array_and_lists_may_be_texts() {
    let mut encoded = instance("a.1");
    encoded["FAIL_TO_PASS"] = json!("[\"t.py::a\"]");
    encoded["PASS_TO_PASS"] = json!("[]");
    encoded["created_at"] = json!({"any": [1, 2.5, null]});
    let lines = format!("\u{feff}{}\r\n\r\n{encoded}", instance("a.0"));
    let Records::Instances(as_lines) = read_text("x.jsonl", &lines, SourceRole::Instances).unwrap() else {
        panic!("another role came back");
    };
    let array = json!([instance("a.0"), instance("a.1")]).to_string();
    let Records::Instances(as_array) = read_text("x.json", array, SourceRole::Instances).unwrap() else {
        panic!("another role came back");
    };
    assert_eq!(as_lines.rows, as_array.rows);
    assert_eq!((as_lines.report.rows, as_lines.report.blank_lines), (2, 1));
    assert_eq!(
        as_lines.report.notes,
        [
            "the file begins with a byte order mark, which was skipped",
            "columns that are not read, with their row counts: created_at (1)"
        ]
    );
    assert_eq!(as_lines.input.files["x.jsonl"].sha256, Digest::of(lines));
    assert_eq!(as_lines.input.rows, 2);
}

#[test]
fn every_broken_row_is_named_with_its_place() {
    let good = instance("a.1").to_string();
    let mut missing = instance("a.2");
    missing.as_object_mut().unwrap().remove("patch");
    let mut mistyped = instance("a.3");
    mistyped["PASS_TO_PASS"] = json!([1]);
    let duplicate = good.replacen('{', "{\"patch\": \"\", ", 1);
    let surrogate = instance("a.5").to_string().replace("repair it", "\\ud83d");
    let nan = "{\"instance_id\": \"a.6\", \"patch\": NaN}";
    let bad_id = instance("../a").to_string();
    let cut = &instance("a.8").to_string()[..60];
    let lines =
        [&missing.to_string(), &mistyped.to_string(), &duplicate, &surrogate, nan, &bad_id, "[1]", cut];
    let offset = lines[..7].iter().map(|line| line.len() as u64 + 1).sum::<u64>();
    let message = strictly("x.jsonl", lines.join("\n"), SourceRole::Instances).to_string();
    assert!(message.contains("rows that cannot be read: 8"), "{message}");
    assert!(message.contains(&format!("x.jsonl, line 8 (byte {})", offset + 59)), "{message}");
    // Without `strict` the same rows are left out, and the good ones stay.
    let text = format!("{}\n{}\n", lines[..7].join("\n"), instance("a.9"));
    let found = read_text("x.jsonl", text, SourceRole::Instances);
    let records = found.as_ref().unwrap();
    assert_eq!((records.input().rows, records.report().rows, records.report().faults.total), (1, 1, 7));
    let found = read_text("x.jsonl", lines.join("\n"), SourceRole::Instances);
    let shown: Vec<_> = faults(found)
        .into_iter()
        .map(|(line, id, field, problem)| (line, id.unwrap_or_default(), field.unwrap_or_default(), problem))
        .collect();
    let ids: Vec<_> = shown.iter().map(|fault| (fault.0, fault.1.as_str(), fault.2.as_str())).collect();
    assert_eq!(
        ids,
        [
            (1, "a.2", "patch"),
            (2, "a.3", "PASS_TO_PASS[0]"),
            (3, "a.1", ""),
            (4, "a.5", ""),
            (5, "a.6", ""),
            (6, "../a", "instance_id"),
            (7, "", ""),
            (8, "a.8", "")
        ]
    );
    assert_eq!(shown[0].3, RowProblem::Missing);
    assert_eq!(shown[2].3, RowProblem::DuplicateKey("patch".into()));
    assert_eq!(shown[3].3, RowProblem::LoneSurrogate("d83d".into()));
    assert_eq!(shown[4].3, RowProblem::NonFinite("NaN"));
    assert!(matches!(shown[5].3, RowProblem::TaskId(_)));
    assert!(matches!(shown[6].3, RowProblem::WrongType { found: "a list", .. }));
    assert_eq!(shown[7].3, RowProblem::Cut);
}

#[test]
fn all_faults_are_counted_and_the_first_twenty_are_shown() {
    let message = strictly("x.jsonl", "{}\n".repeat(50), SourceRole::RewardMeans).to_string();
    assert!(message.contains("rows that cannot be read: 50"), "{message}");
    assert!(message.contains("line 20 ") && !message.contains("line 21 "), "{message}");
    assert!(message.ends_with("and 30 more"), "{message}");
}

#[test]
fn instances_that_contradict_or_collide_are_refused_and_repetitions_are_counted() {
    let mut other = instance("a.1");
    other["patch"] = json!("other");
    let lines = [instance("a.1"), other, instance("A.1"), instance("a.1 ")].map(|row| row.to_string());
    let found = faults(read_text("x.jsonl", lines[..3].join("\n"), SourceRole::Instances));
    let first = Spot { file: "x.jsonl".into(), place: Place::Line(1) };
    assert_eq!(found[0].3, RowProblem::Contradiction { first: first.clone() });
    assert_eq!(found[1].3, RowProblem::CaseOnly { other: "a.1".into(), first: first.clone() });
    // White space: the other id is named, whichever stands first.
    let other = "a.1".to_owned();
    let found = faults(read_text("x.jsonl", [&*lines[0], &lines[3]].join("\n"), SourceRole::Instances));
    assert_eq!(found[0].3, RowProblem::WhiteSpaceOnly { other: other.clone(), first });
    let found = faults(read_text("x.jsonl", [&*lines[3], &lines[0]].join("\n"), SourceRole::Instances));
    let second = Spot { file: "x.jsonl".into(), place: Place::Line(2) };
    assert_eq!(found[0].3, RowProblem::WhiteSpaceOnly { other, first: second });
    assert!(matches!(
        faults(read_text("x.jsonl", &lines[3], SourceRole::Instances))[0].3,
        RowProblem::TaskId(_)
    ));
    let repeated = [lines[0].as_str(), &lines[0]].join("\n");
    let records = read_text("x.jsonl", repeated, SourceRole::Instances).unwrap();
    assert_eq!(records.report().rows, 2);
    assert_eq!(
        records.report().notes,
        ["rows that repeat an earlier row exactly: 1, first at x.jsonl, line 2"]
    );
}

#[test]
fn evidence_is_mended_and_counted_where_instances_are_refused() {
    let text = r#"{"traj_id": "t.\ud83d", "instance_id": "a", "resolved": true, "model": null, "messages": "\udc00"}"#;
    let Records::Trajectories(loaded) = read_text("x.jsonl", text, SourceRole::Trajectories).unwrap() else {
        panic!("another role came back");
    };
    assert_eq!(loaded.rows[0].traj_id, "t.\u{fffd}");
    assert_eq!(
        loaded.report.notes,
        [
            "lone surrogates that were replaced by U+FFFD: 2, first at x.jsonl, line 1",
            "rows without a model: 1, first at x.jsonl, line 1",
            "columns that are not read, with their row counts: messages (1)"
        ]
    );
    let text = r#"{"traj_id": "t", "instance_id": "a", "resolved": "true"}"#;
    assert_eq!(
        faults(read_text("x.jsonl", text, SourceRole::Trajectories))[0].2.as_deref(),
        Some("resolved")
    );
}

#[test]
fn reward_means_keep_their_exact_value() {
    let row = |value: &str| format!("{{\"instance_id_or_commit_hash\": \"a\", \"reward_mean\": {value}}}");
    let text = ["0.9999999999999999", "1", "0.14285714285714285"].map(row).join("\n");
    let Records::RewardMeans(loaded) = read_text("x.jsonl", text, SourceRole::RewardMeans).unwrap() else {
        panic!("another role came back");
    };
    let values: Vec<_> = loaded.rows.iter().map(|row| row.reward_mean.to_bits()).collect();
    let next_below_one = 1.0_f64.to_bits() - 1;
    assert_eq!(values, [next_below_one, 1.0_f64.to_bits(), (1.0_f64 / 7.0).to_bits()]);
    for value in ["1.5", "-0.1", "\"1\"", "true", "null", "1e999", "NaN", "-Infinity"] {
        assert_eq!(faults(read_text("x.jsonl", row(value), SourceRole::RewardMeans)).len(), 1, "{value}");
    }
    // What is no mean refuses the list as a whole; what is no row of it is left out.
    for value in ["1.5", "1e999", "NaN", "-Infinity"] {
        assert!(read_text("x.jsonl", row(value), SourceRole::RewardMeans).is_err(), "{value}");
    }
    for value in ["\"1\"", "true", "null"] {
        assert!(read_text("x.jsonl", row(value), SourceRole::RewardMeans).is_ok(), "{value}");
    }
}

#[test]
fn states_and_profiles_are_closed_where_they_must_be() {
    let text = "{\"task_id\": \"a\", \"status\": \"completed\"}\n{\"task_id\": \"b\", \"status\": \"done\"}";
    let found = faults(read_text("x.jsonl", text, SourceRole::ImageStates));
    assert_eq!((found.len(), found[0].0, found[0].2.as_deref()), (1, 2, Some("status")));

    let profile = json!({"repo": "r", "test_cmd": "pytest", "env": {"A": "1"}, "timeout_sec": 60,
                         "sdist": "p-1.0.tar.gz", "sha256": Digest::of("x"), "suite_seconds_seen": 1.5});
    let Records::Profiles(loaded) =
        read_text("x.json", json!([profile]).to_string(), SourceRole::Profiles).unwrap()
    else {
        panic!("another role came back");
    };
    assert_eq!(loaded.rows[0].env["A"], "1");
    for (field, value) in [
        ("sha256", json!("x")),
        ("test_cmd", json!(" ")),
        ("timeout_sec", json!(0)),
        ("env", json!({"A": 1})),
    ] {
        let mut wrong = profile.clone();
        wrong[field] = value;
        assert_eq!(
            faults(read_text("x.json", json!([wrong]).to_string(), SourceRole::Profiles)).len(),
            1,
            "{field}"
        );
    }
    let mut other = profile.clone();
    other["test_cmd"] = json!("true");
    let twice = json!([profile, other]).to_string();
    assert!(matches!(
        faults(read_text("x.json", twice, SourceRole::Profiles))[0].3,
        RowProblem::Contradiction { first: Spot { place: Place::Row(1), .. } }
    ));
}

#[test]
fn id_lists_are_lines_texts_or_objects() {
    let ids = |file, text: &str| {
        let Records::Ids(loaded) = read_text(file, text, SourceRole::Ids).unwrap() else {
            panic!("another role came back");
        };
        let ids: Vec<_> = loaded.rows.iter().map(ToString::to_string).collect();
        (ids.join(" "), loaded.report)
    };
    let (found, report) = ids("x.txt", "a.1\r\n\r\na.2\na.1");
    assert_eq!((found.as_str(), report.blank_lines), ("a.1 a.2 a.1", 1));
    assert_eq!(report.notes, ["ids that stand in the list more than once: 1, first at x.txt, line 4"]);
    assert_eq!(
        ids("x.json", "[\"a.1\", {\"task_id\": \"a.2\"}, {\"instance_id\": \"a.3\"}]").0,
        "a.1 a.2 a.3"
    );
    assert_eq!(ids("x.jsonl", "\"a.1\"\n").0, "a.1");
    let found = faults(read_text("x.txt", "a.1\n a.2\na/3\n\u{202e}a\n", SourceRole::Ids));
    assert_eq!(found.iter().map(|fault| fault.0).collect::<Vec<_>>(), [2, 3, 4]);
    assert!(matches!(faults(read_text("x.txt", b"a\xff", SourceRole::Ids))[0].3, RowProblem::NotUtf8));
}

#[test]
fn places_that_are_no_data_are_refused_by_name() {
    let base = tempfile::tempdir().unwrap();
    let missing = read(base.path(), "missing.jsonl", SourceRole::Ids).unwrap_err();
    assert!(matches!(missing, SourceError::Absent { .. }));
    assert_eq!(missing.to_string().matches("missing.jsonl").count(), 1, "{missing}");
    fs::create_dir(base.path().join("d.jsonl")).unwrap();
    assert!(matches!(read(base.path(), "d.jsonl", SourceRole::Ids), Err(SourceError::WrongPlace { .. })));
    assert!(matches!(read_text("x.txt", "a,b", SourceRole::Instances), Err(SourceError::Format { .. })));
    assert!(matches!(read_text("x.json", "{}", SourceRole::Instances), Err(SourceError::Document { .. })));
    let empty = read_text("x.jsonl", "", SourceRole::Instances).unwrap();
    assert_eq!(empty.report().rows, 0);
}

#[test]
fn a_directory_gives_ids_or_task_directories() {
    let base = tempfile::tempdir().unwrap();
    for id in ["b.1", "a.1"] {
        fs::create_dir_all(base.path().join("tasks").join(id)).unwrap();
        fs::write(base.path().join("tasks").join(id).join("task.toml"), "").unwrap();
    }
    let read = |role| {
        let spec = SourceSpec::dir("t", "tasks", role);
        load(&spec, base.path(), &Reading::default())
    };
    let Records::Ids(ids) = read(SourceRole::Ids).unwrap() else { panic!("another role came back") };
    let Records::Tasks(tasks) = read(SourceRole::Tasks).unwrap() else { panic!("another role came back") };
    assert_eq!(ids.rows.iter().map(ToString::to_string).collect::<Vec<_>>(), ["a.1", "b.1"]);
    assert_eq!(tasks.rows.iter().map(|task| task.id.clone()).collect::<Vec<_>>(), ids.rows);
    assert_eq!(tasks.input.files.keys().collect::<Vec<_>>(), ["tasks/a.1", "tasks/b.1"]);
    fs::write(base.path().join("tasks/a.1/instruction.md"), "x").unwrap();
    let Records::Tasks(changed) = read(SourceRole::Tasks).unwrap() else { panic!("another role came back") };
    assert_ne!(changed.input.files["tasks/a.1"].sha256, tasks.input.files["tasks/a.1"].sha256);
    assert_eq!(changed.input.files["tasks/b.1"].sha256, tasks.input.files["tasks/b.1"].sha256);
    fs::create_dir(base.path().join("tasks/bad ")).unwrap();
    fs::write(base.path().join("tasks/bad /task.toml"), "").unwrap();
    let message = read(SourceRole::Ids).unwrap_err().to_string();
    assert!(message.contains("entry 1, \"bad \""), "{message}");
}

#[test]
fn csv_and_json_lines_give_the_same_evidence() {
    let runs = |file, text: &str| match read_text(file, text, SourceRole::Trajectories).unwrap() {
        Records::Trajectories(loaded) => (loaded.rows, loaded.report),
        other => panic!("another role came back: {other:?}"),
    };
    let csv = "\u{feff}model,resolved,traj_id,instance_id,extra\r\ngpt-4o,True,r1,a,x\r\n,false,r2,\"b,c\",\r\nm,maybe,r3,d,\r\nm,true\r\n";
    let lines = r#"{"model": "gpt-4o", "resolved": true, "traj_id": "r1", "instance_id": "a"}
{"resolved": false, "traj_id": "r2", "instance_id": "b,c"}"#;
    let (rows, report) = runs("x.csv", csv);
    assert_eq!(rows, runs("x.jsonl", lines).0);
    assert_eq!(report.faults.total, 2);
    assert_eq!(
        (report.faults.shown[0].place, report.faults.shown[0].field.as_deref()),
        (Place::Row(3), Some("resolved"))
    );
    assert_eq!((report.faults.shown[1].place, &report.faults.shown[1].field), (Place::Row(4), &None));
    let mean = |text: &str| {
        read_text(
            "x.csv",
            format!("instance_id_or_commit_hash,reward_mean\na,{text}\n"),
            SourceRole::RewardMeans,
        )
    };
    let Records::RewardMeans(loaded) = mean("0.9999999999999999").unwrap() else {
        panic!("another role came back");
    };
    assert_eq!(loaded.rows[0].reward_mean.to_bits(), 1.0_f64.to_bits() - 1);
    for wrong in ["nan", "inf", "1.5", "-1"] {
        assert!(mean(wrong).is_err(), "{wrong}");
    }
    assert_eq!(mean("high").unwrap_or_else(|_| panic!("a word was taken for a mean")).report().rows, 0);
}

#[test]
fn torn_lines_cost_no_other_line() {
    let line = |id: &str| format!(r#"{{"task_id": "{id}", "status": "completed"}}"#);
    let torn = line("b").replacen("\", \"", "\",\n\"", 1);
    let text = format!("{}\n{torn}\n{}{}\n{}", line("a"), line("c"), line("d"), &line("e")[..20]);
    let Records::ImageStates(loaded) = read_text("x.jsonl", text, SourceRole::ImageStates).unwrap() else {
        panic!("another role came back");
    };
    assert_eq!(loaded.rows.iter().map(|row| row.task_id.as_str()).collect::<Vec<_>>(), ["a"]);
    let places: Vec<_> = loaded.report.faults.shown.iter().map(|fault| fault.place).collect();
    assert_eq!(places, [2, 3, 4, 5].map(Place::Line));
    assert_eq!(loaded.report.faults.shown[3].problem, RowProblem::Cut);
}

#[test]
fn control_characters_survive_and_a_column_may_be_null_for_long() {
    let row = |n: usize, model: &str| {
        format!(
            r#"{{"traj_id": "r{n}", "instance_id": "a\u0000\u0007", "resolved": true, "model": {model}}}"#
        )
    };
    let mut lines: Vec<String> = (0..2000).map(|n| row(n, "null")).collect();
    lines.push(row(2000, "\"m\\u001f\""));
    let Records::Trajectories(loaded) =
        read_text("x.jsonl", lines.join("\n"), SourceRole::Trajectories).unwrap()
    else {
        panic!("another role came back");
    };
    assert_eq!(loaded.rows.len(), 2001);
    assert_eq!(loaded.rows[2000].model.as_deref(), Some("m\u{1f}"));
    assert_eq!(loaded.rows[0].instance_id, "a\0\u{7}");
}

#[test]
fn keys_are_read_without_the_columns_that_nobody_asks_for() {
    let keys = |text: &str| {
        let base = tempfile::tempdir().unwrap();
        fs::write(base.path().join("x.jsonl"), text).unwrap();
        let found = reading(
            base.path(),
            "x.jsonl",
            SourceRole::Instances,
            &Reading { keep: Keep::Keys { whole: false }, ..Reading::default() },
        );
        match found {
            Ok(Records::InstanceKeys(loaded)) => loaded,
            other => panic!("another role came back: {other:?}"),
        }
    };
    let mut broken = instance("a.2");
    broken["patch"] = json!(null);
    let loaded = keys(&format!("{}\n{broken}\n{}\n", instance("a.1"), instance("a.1")));
    // The row without a patch is only found when its patch is asked for, and repetitions are for the reader to compare.
    let ids: Vec<_> = loaded.rows.iter().map(|row| row.instance_id.as_str()).collect();
    assert_eq!(ids, ["a.1", "a.2", "a.1"]);
    assert_eq!((loaded.rows[0].repo.as_str(), loaded.rows[0].image_name.as_str()), ("r", "i"));
}

#[test]
fn faults_of_rows_and_between_rows_are_told_at_once() {
    let rows = ["a.1", "A.1", "a.1 ", "a.2"].map(|id| instance(id).to_string());
    let found = faults(read_text("x.jsonl", rows.join("\n"), SourceRole::Instances));
    let ids: Vec<_> = found.iter().map(|fault| (fault.0, fault.1.as_deref())).collect();
    assert_eq!(ids, [(3, Some("a.1 ")), (2, Some("A.1"))]);
    assert!(matches!(&found[1].3, RowProblem::CaseOnly { other, .. } if other == "a.1"));
}
