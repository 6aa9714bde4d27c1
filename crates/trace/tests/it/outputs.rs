//! What stands where an output goes.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use trace::{ConvertOptions, ExportOptions, Form, TraceError, convert, export_set, merge};

use crate::sets::{TRAJECTORY, forms, reward, trial};

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn without_a_row_the_file_that_was_there_stays() {
    let temporary = tempfile::tempdir().unwrap();
    let job = temporary.path().join("job");
    trial(&job, "tiny", "tiny__a", &reward("1"), None);
    let place = temporary.path().join("out");
    std::fs::create_dir(&place).unwrap();
    let set = temporary.path().join("utf16.jsonl");
    std::fs::write(&set, [0xff, 0xfe, b'{', 0, b'}', 0, b'\n', 0]).unwrap();
    for name in ["keep.jsonl", "keep.parquet"] {
        let out = place.join(name);
        std::fs::write(&out, "precious").unwrap();
        let (report, written) =
            export_set(std::slice::from_ref(&job), ExportOptions::default(), false, 1, &out).unwrap();
        assert_eq!((report.trials, report.rows, written), (1, 0, None));
        for form in [Form::Sft, Form::Rl, Form::Preference, Form::Tokens] {
            let report =
                convert(std::slice::from_ref(&job), &ConvertOptions { form, ..forms() }, &out).unwrap();
            assert_eq!(report.samples, 0);
        }
        let (report, written) = merge(std::slice::from_ref(&set), 1, &out).unwrap();
        assert_eq!((report.rows, written), (0, None));
        assert!(!report.read.skipped.is_empty());
        assert_eq!(std::fs::read_to_string(&out).unwrap(), "precious");
    }
    let (_, written) = export_set(&[job], ExportOptions::default(), false, 1, &place.join("set")).unwrap();
    assert_eq!(written, None);
    assert_eq!(names(&place), ["keep.jsonl", "keep.parquet"], "nothing half-written is left");
}

#[test]
fn a_name_says_the_form_whatever_its_case() {
    let temporary = tempfile::tempdir().unwrap();
    let job = temporary.path().join("job");
    trial(&job, "tiny", "tiny__a", &reward("1"), Some(TRAJECTORY));
    for name in ["x.PARQUET", "x.JsonL"] {
        let out = temporary.path().join(name);
        export_set(std::slice::from_ref(&job), ExportOptions::default(), false, 1, &out).unwrap();
        assert!(out.is_file(), "{name}");
        assert_eq!(trace::gather(&[out]).unwrap().trials.len(), 1, "{name}");
    }
}

#[test]
fn what_stands_in_the_way_is_said_before_any_work() {
    let temporary = tempfile::tempdir().unwrap();
    let path = |name: &str| temporary.path().join(name);
    let job = path("job");
    trial(&job, "tiny", "tiny__a", &reward("1"), Some(TRAJECTORY));
    symlink("nowhere", path("dangling")).unwrap();
    std::fs::write(path("file"), "").unwrap();
    std::fs::create_dir(path("folder.jsonl")).unwrap();
    std::fs::create_dir(path("full")).unwrap();
    std::fs::write(path("full/file"), "").unwrap();
    let export = |name: &str| {
        export_set(std::slice::from_ref(&job), ExportOptions::default(), false, 1, &path(name)).unwrap_err()
    };
    for (name, message) in [
        ("dangling", "is a link"),
        ("file", "is no directory"),
        ("folder.jsonl", "is no regular file"),
        ("full", "is not empty"),
    ] {
        let error = export(name).to_string();
        assert!(error.contains(name) && error.contains(message), "{error}");
    }
    assert!(path("dangling").is_symlink());
}

#[test]
fn a_set_that_appears_meanwhile_stays() {
    let temporary = tempfile::tempdir().unwrap();
    let out = temporary.path().join("set");
    let set = trace::RowSet::create(&out, trace::Columns::field(false, false, false), 1).unwrap();
    std::fs::create_dir(&out).unwrap();
    std::fs::write(out.join("README.md"), "of somebody else").unwrap();
    let error = set.finish().unwrap_err();
    assert!(matches!(error, TraceError::Overtaken { .. }), "{error}");
    assert_eq!(names(temporary.path()), ["set"]);
}

#[test]
fn outputs_have_the_permissions_of_any_new_file() {
    let temporary = tempfile::tempdir().unwrap();
    let job = temporary.path().join("job");
    trial(&job, "tiny", "tiny__a", &reward("1"), Some(TRAJECTORY));
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let place = |name: &str| temporary.path().join(name);
    std::fs::write(place("plain"), "").unwrap();
    std::fs::create_dir(place("folder")).unwrap();
    export_set(std::slice::from_ref(&job), ExportOptions::default(), false, 1, &place("x.jsonl")).unwrap();
    export_set(std::slice::from_ref(&job), ExportOptions::default(), false, 1, &place("set")).unwrap();
    convert(&[job], &forms(), &place("x.parquet")).unwrap();
    assert_eq!(mode(&place("x.jsonl")), mode(&place("plain")));
    assert_eq!(mode(&place("x.parquet")), mode(&place("plain")));
    assert_eq!(mode(&place("set")), mode(&place("folder")));
    assert_eq!(mode(&place("set/README.md")), mode(&place("plain")));
}
