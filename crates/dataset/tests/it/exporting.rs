//! Exports for Harbor.

use dataset::{DatasetError, ExportFormat, ExportInput, Exported, Frozen, export};
use ident::{AliasTable, Digest};
use record::Split;

use crate::project::{Project, contents, write};

fn run(project: &Project, frozen: &Frozen) -> Result<Exported, DatasetError> {
    export(&ExportInput {
        frozen: &frozen.path,
        exports: &project.directory.path().join("exports"),
        format: ExportFormat::Harbor,
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
