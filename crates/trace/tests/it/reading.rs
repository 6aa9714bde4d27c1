//! Sets that others wrote.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use trace::{Columns, ReadReport, Row, RowSet, Wanted, read_rows, set_files};

fn read(path: &Path) -> (Vec<Row>, ReadReport) {
    let files = set_files(path).unwrap().unwrap().files;
    let mut rows = Vec::new();
    let report = read_rows(&files, Wanted::Rows, &mut |_, row| {
        rows.push(row);
        Ok(())
    })
    .unwrap();
    (rows, report)
}

fn lines(directory: &Path, text: &[u8]) -> PathBuf {
    let path = directory.join("rows.jsonl");
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn rows_come_back_from_both_formats() {
    let temporary = tempfile::tempdir().unwrap();
    let text = "{\"conversations\":[{\"content\":\"a\\u0000b\\u001b[31m\\u007f\",\"role\":\"user\"}],\"agent\":\"x\",\
                \"result\":null,\"trial_name\":\"t\"}\n{\"conversations\":[],\"result\":\"1.0\"}\n";
    let (rows, _) = read(&lines(temporary.path(), text.as_bytes()));
    for name in ["set.parquet", "set", "again.jsonl"] {
        let path = temporary.path().join(name);
        let mut set = RowSet::create(&path, Columns::field(true, true, true), 1 << 20).unwrap();
        for row in &rows {
            set.write(row.clone()).unwrap();
        }
        set.finish().unwrap();
        let (again, report) = read(&path);
        assert_eq!(again, rows, "{name}");
        assert_eq!((report.rows, report.skipped.len()), (2, 0));
    }
}

#[test]
fn odd_lines_are_skipped_with_their_place() {
    let temporary = tempfile::tempdir().unwrap();
    let row = "{\"messages\": [{\"from\": \"human\", \"value\": \"x\"}], \"instance_id\": \"t\", \"resolved\": true}";
    let text = format!("\u{feff}{row}\r\n\r\n  \n[1]\n{{\"messages\": 3}}\n{row}\n{}", &row[..20]);
    let (rows, report) = read(&lines(temporary.path(), text.as_bytes()));
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0].task.as_deref(), Some("t"));
    assert_eq!(rows[0].result.as_deref(), Some("1.0"));
    assert_eq!(rows[0].conversations[0].role.name(), "user");
    let why: Vec<_> = report.skipped.iter().map(ToString::to_string).collect();
    assert_eq!(why.len(), 3);
    assert!(why[0].contains("line 4, byte ") && why[0].ends_with("is a list instead of a row"), "{why:?}");
    assert!(why[1].ends_with("the messages are a number instead of a list"), "{why:?}");
    assert!(why[2].ends_with("ends in the middle, at byte 20"), "{why:?}");
}

#[test]
fn cases_of_texts() {
    let Some(case) = corpus::case("traj-lone-surrogate") else { return };
    let (rows, report) = read(&case);
    assert_eq!((rows.len(), report.surrogates), (3, 1));
    assert_eq!(&*rows[1].conversations[1].content, "half \u{fffd} pair");
    let (rows, _) = read(&corpus::case("jsonl-bom-crlf-blank").unwrap());
    assert_eq!(rows.len(), 3);
    let (rows, report) = read(&corpus::case("jsonl-cut-last-line").unwrap());
    assert_eq!(rows.len(), 2);
    assert!(report.skipped[0].place.contains("line 3, byte "), "{report:?}");
    let (rows, report) = read(&corpus::case("traj-mixed-content-types").unwrap());
    assert!(rows.len() >= 4);
    assert_eq!((report.skipped.len(), report.media, report.tool_calls), (0, 1, 1));
    assert!(report.parts >= 1 && report.empty_contents >= 2);
    let calls = &rows[2].conversations[0].content;
    assert_eq!(&**calls, "<tool_call>\n{\"name\": \"bash\", \"arguments\": {\"cmd\": \"ls\"}}\n</tool_call>");
    let (rows, _) = read(&corpus::case("traj-first-column-all-null").unwrap());
    assert!(rows.len() > 2000 && rows[0].result.is_none());
    assert!(rows.last().unwrap().result.is_some());
}

#[test]
fn cases_of_parquet() {
    let Some(case) = corpus::case("parquet-large-string") else { return };
    let files = set_files(&case).unwrap().unwrap().files;
    assert_eq!(files.len(), 4);
    let first = read(&files[0]).0;
    for file in &files[1..] {
        assert_eq!(read(file).0, first, "{}", file.display());
    }
    let (rows, report) = read(&corpus::case("parquet-nested-row-groups").unwrap());
    assert_eq!((rows.len() as u64, report.skipped.len()), (report.rows, 0));
    assert!(rows.len() >= 3 && rows.iter().all(|row| !row.conversations.is_empty()));
    let dates: Vec<_> = ["date32", "naive", "string", "utc"]
        .iter()
        .map(|name| {
            let path = corpus::case("parquet-timestamps").unwrap().join(format!("{name}.parquet"));
            read(&path).0[0].date.clone().unwrap().to_string()
        })
        .collect();
    assert_eq!(dates[0].len(), 10, "{dates:?}");
    assert!(!dates[1].ends_with('Z') && dates[3].ends_with('Z'), "{dates:?}");
    assert_eq!(dates[1].get(..19), dates[3].get(..19), "no shift by a zone: {dates:?}");
    let (rows, report) = read(&corpus::case("parquet-extra-and-missing-columns").unwrap());
    assert!(rows.len() >= 2);
    assert_eq!(report.missing.get("trace_source"), Some(&1), "{report:?}");
    assert_eq!(report.others.len(), 1, "{report:?}");
}

#[test]
fn what_is_no_set_is_named() {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("x.parquet");
    std::fs::write(&path, b"PAR1 nothing PAR1").unwrap();
    let error = read_rows(&[path], Wanted::Rows, &mut |_, _| Ok(())).unwrap_err().to_string();
    assert!(error.contains("x.parquet: is no Parquet file"), "{error}");
}

#[test]
fn rows_of_another_kind_are_no_set() {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("predictions.jsonl");
    std::fs::write(&path, "\n{\"instance_id\": \"a\", \"model_patch\": \"\"}\n").unwrap();
    let error = trace::gather(std::slice::from_ref(&path)).unwrap_err().to_string();
    assert!(
        error.ends_with("; line 2") && error.contains("predictions.jsonl: is no set of traces"),
        "{error}"
    );
    // Behind a row, what is none is passed over by name.
    std::fs::write(&path, "{\"messages\": null, \"task\": \"t\"}\n{\"a\": 1}\n").unwrap();
    let (rows, report) = read(&path);
    assert_eq!((rows.len(), report.skipped.len()), (1, 1));
    assert!(report.skipped[0].to_string().contains("line 2, byte 32: has no column"), "{report:?}");
}

#[test]
fn a_trajectory_without_a_trial_is_called_as_its_directory() {
    let temporary = tempfile::tempdir().unwrap();
    let text = r#"{"steps": [{"source": "user", "message": "x"}, {"source": "agent", "message": "y"}]}"#;
    for path in ["run/a/trajectory.json", "run/b.trajectory.json", "run/c/c.traj"] {
        let path = temporary.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let gathered = trace::gather(&[temporary.path().to_owned()]).unwrap();
    let names: Vec<_> = gathered.trials.iter().map(|trial| (&*trial.run_id, &*trial.trial)).collect();
    assert_eq!(names, [("run", "a"), ("run", "b"), ("run", "c")]);
    assert!(gathered.trials.iter().all(|trial| trial.turns == Some(1)), "{gathered:?}");
    std::fs::create_dir_all(temporary.path().join("run/d/agent")).unwrap();
    let named = temporary.path().join("run/d/agent/trajectory.json");
    std::fs::write(&named, text).unwrap();
    let gathered = trace::gather(&[named]).unwrap();
    assert_eq!((&*gathered.trials[0].run_id, &*gathered.trials[0].trial), ("run", "d"));
}

/// Every trajectory that agents left is read, or named.
#[test]
fn real_trajectories_of_other_agents() {
    let Some(trajectories) = corpus::find("data/trajectories") else { return };
    let temporary = tempfile::tempdir().unwrap();
    let options = trace::ExportOptions::default();
    let out = temporary.path().join("rows.parquet");
    let (report, written) =
        trace::export_set(std::slice::from_ref(&trajectories), options, false, u64::MAX, &out).unwrap();
    assert_eq!(report.quarantined, [], "all are well formed");
    assert!(report.exported >= 18 && written.unwrap().rows == report.rows, "{report:?}");
    for file in [
        "OpenHands__OpenHands/tests/runtime/trajs/basic_interactions.json",
        "SWE-agent__mini-swe-agent/tests/test_data/github_issue.traj.json",
    ] {
        let out = temporary.path().join("one.jsonl");
        let (report, _) = trace::export_set(&[trajectories.join(file)], options, false, 1, &out).unwrap();
        assert_eq!((report.exported, report.rows), (1, 1), "{file}: {report:?}");
    }
}

/// A set of a few rows, as the bytes of a Parquet file.
fn small_set() -> Vec<u8> {
    let temporary = tempfile::tempdir().unwrap();
    let text = "{\"conversations\":[{\"content\":\"a\",\"role\":\"user\"},{\"content\":\"b\",\"role\":\"assistant\"}],\
                \"agent\":\"x\",\"result\":\"1.0\"}\n{\"conversations\":[],\"task\":\"t\"}\n";
    let (rows, _) = read(&lines(temporary.path(), text.as_bytes()));
    let path = temporary.path().join("set.parquet");
    let mut set = RowSet::create(&path, Columns::field(true, true, true), 1 << 20).unwrap();
    for row in rows {
        set.write(row).unwrap();
    }
    set.finish().unwrap();
    std::fs::read(path).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn damaged_files_never_harm(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)
    ) {
        static WHOLE: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
        let mut bytes = WHOLE.get_or_init(small_set).clone();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("x.parquet");
        std::fs::write(&path, bytes).unwrap();
        // Whatever is read or refused, the reader comes back.
        for wanted in [Wanted::Rows, Wanted::Facts] {
            let _ = read_rows(std::slice::from_ref(&path), wanted, &mut |_, _| Ok(()));
        }
    }
}
