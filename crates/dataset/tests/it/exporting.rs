//! Exports for trainers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use dataset::{DatasetError, ExportFormat, ExportInput, Exported, Frozen, export};
use ident::{AliasTable, Digest};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row, RowAccessor};
use record::Split;
use serde_json::{Value, json};
use tar::EntryType;

use crate::project::{Project, contents, write};

fn run(project: &Project, frozen: &Frozen) -> Result<Exported, DatasetError> {
    run_as(project, frozen, ExportFormat::Harbor)
}

fn run_as(project: &Project, frozen: &Frozen, format: ExportFormat) -> Result<Exported, DatasetError> {
    export(&ExportInput {
        frozen: &frozen.path,
        exports: &project.directory.path().join("exports"),
        format,
        organisation: "acme",
        aliases: &AliasTable::default(),
    })
}

#[test]
fn every_split_is_a_data_set_of_its_own() {
    let project = Project::sample();
    let frozen = project.freeze().unwrap();
    let exported = run(&project, &frozen).unwrap();
    assert!(exported.path.ends_with("exports/sample-4-v1/harbor"));
    for (split, count) in [("train", 2), ("validation", 1), ("test", 1)] {
        let directory = exported.path.join(split);
        let text = std::fs::read_to_string(directory.join("dataset.toml")).unwrap();
        let parsed: toml::Table = text.parse().unwrap();
        assert_eq!(parsed["schema_version"].as_str(), Some("1.0"));
        assert_eq!(parsed["dataset"]["name"].as_str(), Some(format!("acme/sample-{split}").as_str()));
        let tasks = parsed["tasks"].as_array().unwrap();
        assert_eq!(tasks.len(), count);
        let mut hashes = Vec::new();
        for task in tasks {
            let id = task["name"].as_str().unwrap().strip_prefix("acme/").unwrap();
            let digests = task::digest_task(&directory.join(id)).unwrap();
            assert_eq!(task["digest"].as_str(), Some(digests.content_hash.prefixed().as_str()));
            hashes.push(digests.content_hash.hex());
        }
        hashes.sort();
        let whole = Digest::of(hashes.join(",")).prefixed();
        assert_eq!(parsed["metadata"]["content_hash"].as_str(), Some(whole.as_str()));
    }
    let check = std::process::Command::new("sha256sum")
        .args(["--check", "--strict", "--quiet", "SHA256SUMS"])
        .current_dir(&exported.path)
        .status();
    match check {
        Ok(status) => assert!(status.success()),
        Err(error) => eprintln!("skipped: sha256sum cannot be run: {error}"),
    }
}

#[test]
fn exporting_twice_gives_the_same_bytes() {
    let (one, other) = (Project::sample(), Project::sample());
    let first = run(&one, &one.freeze().unwrap()).unwrap();
    let second = run(&other, &other.freeze().unwrap()).unwrap();
    assert_eq!(contents(&first.path), contents(&second.path));
    assert!(run(&one, &one.freeze().unwrap()).unwrap().existed);
}

#[test]
fn a_split_without_tasks_is_left_out() {
    let project = Project::new(&[("acme/widgets", Split::Train)]);
    let exported = run(&project, &project.freeze().unwrap()).unwrap();
    assert!(exported.path.join("train").is_dir() && !exported.path.join("test").exists());
}

#[test]
fn a_tampered_set_is_not_exported() {
    let project = Project::sample();
    let frozen = project.freeze().unwrap();
    let task = frozen.path.join("tasks").join(frozen.manifest.tasks[0].task_id.as_str());
    write(&task.join("tests/test.sh"), "exit 0\n");
    let error = run(&project, &frozen).unwrap_err();
    assert!(error.to_string().contains("tests/test.sh: was changed"), "{error}");
    assert!(!project.directory.path().join("exports").exists());
}

#[test]
fn a_tampered_export_is_named() {
    let project = Project::sample();
    let frozen = project.freeze().unwrap();
    let exported = run(&project, &frozen).unwrap();
    write(&exported.path.join("train/dataset.toml"), "");
    let error = run(&project, &frozen).unwrap_err();
    assert!(
        matches!(&error, DatasetError::Unsound { problems, .. } if problems[0].file == "train/dataset.toml"),
        "{error}"
    );
}

#[test]
fn unknown_formats_name_the_known_ones() {
    assert_eq!("harbor".parse(), Ok(ExportFormat::Harbor));
    let error = "parquet".parse::<ExportFormat>().unwrap_err();
    assert!(error.to_string().contains("known are harbor"), "{error}");
}

/// The rows of an exported table as JSON.
fn rows(path: &Path) -> Vec<Value> {
    let reader = SerializedFileReader::new(std::fs::File::open(path).unwrap()).unwrap();
    reader.get_row_iter(None).unwrap().map(|row| object(&row.unwrap())).collect()
}

fn object(row: &Row) -> Value {
    row.get_column_iter().map(|(name, field)| (name.clone(), value(field))).collect()
}

fn value(field: &Field) -> Value {
    match field {
        Field::Str(text) => json!(text),
        Field::Long(number) => json!(number),
        Field::Group(row) => object(row),
        Field::ListInternal(list) => list.elements().iter().map(value).collect(),
        other => panic!("no export has {other}"),
    }
}

#[test]
fn archives_hold_every_file_of_a_task() {
    let project = Project::sample();
    let frozen = project.freeze().unwrap();
    let exported = run_as(&project, &frozen, ExportFormat::TaskParquet).unwrap();
    let mut seen = Vec::new();
    for split in ["train", "validation", "test"] {
        let file = std::fs::File::open(exported.path.join(format!("{split}.parquet"))).unwrap();
        for row in SerializedFileReader::new(file).unwrap().get_row_iter(None).unwrap() {
            let row = row.unwrap();
            let id = row.get_string(0).unwrap().clone();
            let unpacked = tempfile::tempdir().unwrap();
            let archive = flate2::read::GzDecoder::new(row.get_bytes(1).unwrap().data());
            for entry in tar::Archive::new(archive).entries().unwrap() {
                let mut entry = entry.unwrap();
                assert!(matches!(entry.header().entry_type(), EntryType::Regular | EntryType::Directory));
                assert_eq!((entry.header().mtime().unwrap(), entry.header().uid().unwrap()), (0, 0));
                assert!(entry.unpack_in(unpacked.path()).unwrap());
            }
            let original = frozen.path.join("tasks").join(&id);
            assert_eq!(followed(unpacked.path()), followed(&original), "{id}");
            seen.push(id);
        }
    }
    seen.sort();
    let ids: Vec<String> = frozen.manifest.tasks.iter().map(|task| task.task_id.to_string()).collect();
    assert_eq!(seen, ids);
    let again = run_as(&project, &frozen, ExportFormat::TaskParquet).unwrap();
    assert!(again.existed, "the same bytes");
}

/// Every name below a directory with its content, links followed.
fn followed(root: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let entries = walkdir::WalkDir::new(root).min_depth(1).follow_links(true);
    let content = |path: &Path| path.is_file().then(|| std::fs::read(path).unwrap());
    let all = entries.into_iter().map(|entry| entry.unwrap().into_path());
    all.map(|path| (path.strip_prefix(root).unwrap().to_owned(), content(&path))).collect()
}

#[test]
fn prompts_lead_back_to_their_tasks() {
    let project = Project::sample();
    let frozen = project.freeze().unwrap();
    run(&project, &frozen).unwrap();
    for (format, environment) in [(ExportFormat::Verl, None), (ExportFormat::SkyRl, Some("harbor"))] {
        let exported = run_as(&project, &frozen, format).unwrap();
        let rows = rows(&exported.path.join("train.parquet"));
        assert_eq!(rows.len(), 2);
        for (index, row) in rows.iter().enumerate() {
            assert_eq!(row["prompt"], json!([{ "role": "user", "content": "Repair it.\n" }]));
            assert_eq!((&row["data_source"], &row["ability"]), (&json!("sample"), &json!("code")));
            assert_eq!(row.get("env_class").and_then(Value::as_str), environment);
            let extra = &row["extra_info"];
            assert_eq!((&extra["index"], &extra["prompt_chars"]), (&json!(index), &json!(11)));
            assert_eq!(row["reward_model"]["ground_truth"], extra["task_id"]);
            let task = &extra["tools_kwargs"]["task"];
            let directory = exported.path.parent().unwrap().join(task["path"].as_str().unwrap());
            let digests = task::digest_task(&directory).unwrap();
            assert_eq!(task["digest"], digests.content_hash.prefixed());
        }
        let one = rows_of_schema(&exported.path.join("train.parquet"));
        assert_eq!(one, rows_of_schema(&exported.path.join("test.parquet")), "all files have one schema");
    }
}

fn rows_of_schema(path: &Path) -> String {
    let reader = SerializedFileReader::new(std::fs::File::open(path).unwrap()).unwrap();
    format!("{:?}", reader.metadata().file_metadata().schema())
}

#[test]
fn rows_for_nemo_gym_name_an_alias_and_a_task() {
    let project = Project::sample();
    let frozen = project.freeze().unwrap();
    let exported = run_as(&project, &frozen, ExportFormat::NemoGym).unwrap();
    let text = std::fs::read_to_string(exported.path.join("validation.jsonl")).unwrap();
    let [line] = text.lines().collect::<Vec<_>>()[..] else { panic!("one row: {text}") };
    let row: Value = serde_json::from_str(line).unwrap();
    let (alias, task) = row["instance_id"].as_str().unwrap().split_once("::").unwrap();
    assert_eq!(alias, "sample-validation");
    assert!(frozen.manifest.tasks.iter().any(|found| found.task_id.as_str() == task), "{row}");
    assert_eq!(row["agent_ref"]["name"], "harbor_agent");
}

#[test]
fn a_registry_lists_the_tasks_of_every_split() {
    let project = Project::sample();
    let frozen = project.freeze().unwrap();
    let exported = run(&project, &frozen).unwrap();
    let text = std::fs::read_to_string(exported.path.join("registry.json")).unwrap();
    let registry: Vec<Value> = serde_json::from_str(&text).unwrap();
    let names: Vec<_> = registry.iter().map(|set| set["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["sample-train", "sample-validation", "sample-test"]);
    for task in registry.iter().flat_map(|set| set["tasks"].as_array().unwrap()) {
        let path = exported.path.join(task["path"].as_str().unwrap());
        assert!(path.join("task.toml").is_file() && path.ends_with(task["name"].as_str().unwrap()));
    }
}

/// Gives every task the verifier of Seatrial's, for a suite in `workdir` that passes once `fixed` is true.
fn with_verifiers(project: &mut Project, workdir: &Path, extra: usize) {
    for n in 0..project.selection.tasks.len() {
        let task = project.task(n);
        std::fs::remove_dir_all(task.join("tests")).unwrap();
        for file in grade::vendored::FILES {
            write(&task.join("tests").join(file.name), file.text);
        }
        let mut noise = Digest::of("noise").hex();
        while noise.len() < extra {
            noise = format!("{noise}{}", Digest::of(&noise));
        }
        write(&task.join("tests/noise"), &noise);
        let mut surface = tar::Builder::new(Vec::new());
        // A name that every version of Python writes alike.
        let suite = "import unittest, widget\n\n\
                     class Test(unittest.TestCase):\n    \
                     def test_fixed(self):\n        self.assertTrue(widget.fixed)\n    \
                     def __str__(self):\n        return 'test_fixed (test_widget.Test)'\n";
        let mut header = tar::Header::new_ustar();
        header.set_size(suite.len() as u64);
        header.set_mode(0o644);
        surface.append_data(&mut header, "test_widget.py", suite.as_bytes()).unwrap();
        let surface = surface.into_inner().unwrap();
        std::fs::write(task.join("tests/surface.tar"), &surface).unwrap();
        let config = json!({
            "schema": "seatrial.verifier/1",
            "instance_id": "x",
            "workdir": workdir,
            "framework": "unittest",
            "command": ["python3", "-m", "unittest", "-v"],
            "env": {},
            "timeout_sec": 60,
            "p2p_only": false,
            "fail_to_pass": ["test_fixed (test_widget.Test)"],
            "pass_to_pass": [],
            "surface": {
                "archive": "surface.tar",
                "sha256": Digest::of(&surface),
                "patterns": ["test_*.py"],
                "keep_folders": [],
                "ancestor_files": [],
                "tree_plugins": false,
            },
        });
        write(&task.join("tests/config.json"), &config.to_string());
        let archive = {
            let mut tar = tar::Builder::new(Vec::new());
            let mut header = tar::Header::new_ustar();
            header.set_size(14);
            header.set_mode(0o644);
            tar.append_data(&mut header, "widget.py", &b"fixed = False\n"[..]).unwrap();
            tar.into_inner().unwrap()
        };
        std::fs::write(task.join("environment/workspace.tar"), archive).unwrap();
        let dockerfile = format!(
            "FROM registry.invalid/base:1\nRUN [\"rm\", \"-rf\", \"--\", \"{0}/it's gone\"]\n\
             ADD workspace.tar {0}/\nWORKDIR {0}\nENV A=\"b\"\n",
            workdir.display()
        );
        write(&task.join("environment/Dockerfile"), &dockerfile);
        project.redigest(n);
    }
}

/// What a row of slime's says about an attempt, as slime finds it out: a clean workspace, its commands, the attempt, the grading.
fn graded(row: &Value, workdir: &Path, attempt: &str) -> bool {
    let metadata = &row["metadata"];
    assert_eq!(metadata["workdir"].as_str(), workdir.to_str());
    let _ = std::fs::remove_dir_all(workdir);
    std::fs::create_dir_all(workdir).unwrap();
    write(&workdir.join("it's gone"), "x");
    let shell = |command: String| {
        let output = std::process::Command::new("bash").args(["-lc", &command]).output().unwrap();
        output.status.success()
    };
    for command in metadata["pre_commands"].as_array().unwrap() {
        assert!(shell(format!("set -e\n{}", command.as_str().unwrap())));
    }
    assert!(!workdir.join("it's gone").exists() && workdir.join("widget.py").exists());
    write(&workdir.join("widget.py"), attempt);
    match metadata["eval_cmd"].as_str() {
        Some(command) => shell(format!("cd {} && {command}", workdir.display())),
        None => {
            let script = metadata["remote_env_info"]["f2p_script"].as_str().unwrap();
            let file = workdir.with_extension("grade.py");
            write(&file, script);
            shell(format!("cd {} && python3 {}", workdir.display(), file.display()))
        }
    }
}

#[test]
fn rows_for_slime_grade_by_themselves() {
    let place = tempfile::tempdir().unwrap();
    let workdir = place.path().join("testbed");
    for (extra, key) in [(0, "eval_cmd"), (300_000, "remote_env_info")] {
        let mut project = Project::new(&[("acme/widgets", Split::Train)]);
        with_verifiers(&mut project, &workdir, extra);
        let exported = run_as(&project, &project.freeze().unwrap(), ExportFormat::Slime).unwrap();
        let text = std::fs::read_to_string(exported.path.join("train.jsonl")).unwrap();
        let [line] = text.lines().collect::<Vec<_>>()[..] else { panic!("one row: {text}") };
        let row: Value = serde_json::from_str(line).unwrap();
        assert_eq!(
            (&row["prompt"], &row["label"]),
            (&json!("Repair it.\n"), &row["metadata"]["instance_id"])
        );
        assert_eq!(row["metadata"]["image"], "registry.invalid/base:1");
        assert!(row["metadata"].get(key).is_some(), "{key}");
        assert!(graded(&row, &workdir, "fixed = True\n"), "{key}: a fix");
        assert!(!graded(&row, &workdir, "fixed = False\n"), "{key}: nothing");
        assert!(!graded(&row, &workdir, "raise SystemExit(0)\n"), "{key}: a trick");
    }
}

#[test]
fn what_slime_cannot_run_is_refused_by_name() {
    let project = Project::sample();
    let error = run_as(&project, &project.freeze().unwrap(), ExportFormat::Slime).unwrap_err().to_string();
    assert!(error.contains("cannot be exported as slime: its verifier is not Seatrial's"), "{error}");
    let mut project = Project::new(&[("acme/widgets", Split::Train)]);
    with_verifiers(&mut project, Path::new("/testbed"), 0);
    write(&project.task(0).join("environment/Dockerfile"), "FROM registry.invalid/base:1\nRUN make\n");
    project.redigest(0);
    let error = run_as(&project, &project.freeze().unwrap(), ExportFormat::Slime).unwrap_err().to_string();
    assert!(error.contains("line 2 of its Dockerfile has to be built"), "{error}");
}
