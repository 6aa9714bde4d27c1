//! Harbor task directories, a `dataset.toml` for each split and a `registry.json` for all, for everything that reads Harbor's own forms.

use std::path::Path;

use fs_err as fs;
use ident::Digest;
use rayon::prelude::*;
use record::Split;
use serde::Serialize;
use task::TaskDir;

use super::{ExportInput, splits};
use crate::copy::{copy_task, set_mode};
use crate::{DatasetError, FrozenTask, Manifest};

/// Harbor's `dataset.toml`, schema 1.0.
#[derive(Serialize)]
struct DatasetToml<'a> {
    schema_version: &'a str,
    dataset: DatasetSection<'a>,
    tasks: Vec<TaskEntry>,
    metadata: Metadata<'a>,
}

#[derive(Serialize)]
struct DatasetSection<'a> {
    name: String,
    version: &'a str,
    description: String,
}

#[derive(Serialize)]
struct TaskEntry {
    name: String,
    digest: String,
}

#[derive(Serialize)]
struct Metadata<'a> {
    set: &'a str,
    split: String,
    semantic_digest: String,
    content_hash: String,
}

/// An entry of a `registry.json`, Harbor's older form of a list of data sets.
#[derive(Serialize)]
struct RegistryEntry<'a> {
    name: String,
    version: &'a str,
    description: String,
    tasks: Vec<RegistryTask<'a>>,
}

/// A task of such an entry. Harbor takes its path from the working directory.
#[derive(Serialize)]
struct RegistryTask<'a> {
    name: &'a str,
    path: String,
}

pub(super) fn write(input: &ExportInput<'_>, manifest: &Manifest, root: &Path) -> Result<(), DatasetError> {
    let mut registry = Vec::new();
    for (split, tasks) in splits(manifest) {
        let directory = root.join(split.to_string());
        fs::create_dir(&directory).map_err(DatasetError::io(&directory))?;
        set_mode(&directory, 0o755)?;
        let entries: Vec<TaskEntry> = tasks
            .par_iter()
            .map(|task| {
                let from = input.task(task);
                copy_task(&task.task_id, &from, &directory.join(task.task_id.as_str()))?;
                let name = package_name(input.organisation, task, &from)?;
                Ok(TaskEntry { name, digest: task.content_hash.prefixed() })
            })
            .collect::<Result<_, DatasetError>>()?;
        let text = dataset_toml(input.organisation, manifest, split, entries, &tasks)?;
        artifact::write_atomic(&directory.join("dataset.toml"), text.as_bytes())?;
        registry.push(RegistryEntry {
            name: format!("{}-{split}", manifest.name),
            version: &manifest.version,
            description: description(manifest, split, tasks.len()),
            tasks: tasks
                .iter()
                .map(|task| RegistryTask {
                    name: task.task_id.as_str(),
                    path: format!("{split}/{}", task.task_id),
                })
                .collect(),
        });
    }
    let mut text = serde_json::to_vec_pretty(&registry)
        .map_err(ident::CanonicalError::from)
        .map_err(artifact::ArtifactError::from)?;
    text.push(b'\n');
    artifact::write_atomic(&root.join("registry.json"), &text)?;
    Ok(())
}

fn description(manifest: &Manifest, split: Split, tasks: usize) -> String {
    format!("The {split} split of {}: {tasks} tasks", manifest.directory())
}

fn dataset_toml(
    organisation: &str,
    manifest: &Manifest,
    split: Split,
    entries: Vec<TaskEntry>,
    tasks: &[&FrozenTask],
) -> Result<String, DatasetError> {
    // Harbor's hash of a data set covers the tasks' hashes in sorted order and no names.
    let mut hashes: Vec<String> = tasks.iter().map(|task| task.content_hash.hex()).collect();
    hashes.sort();
    let set = manifest.directory();
    let document = DatasetToml {
        schema_version: "1.0",
        dataset: DatasetSection {
            name: format!("{organisation}/{}-{split}", manifest.name),
            version: &manifest.version,
            description: description(manifest, split, tasks.len()),
        },
        tasks: entries,
        metadata: Metadata {
            set: &set,
            split: split.to_string(),
            semantic_digest: manifest.semantic_digest.prefixed(),
            content_hash: Digest::of(hashes.join(",")).prefixed(),
        },
    };
    Ok(toml::to_string(&document)?)
}

/// The name that the task gives itself, or one made of the organisation and the task's id.
fn package_name(organisation: &str, task: &FrozenTask, directory: &Path) -> Result<String, DatasetError> {
    let wrap = |source| DatasetError::Task { task_id: task.task_id.clone(), source };
    let opened = TaskDir::open(directory).map_err(wrap)?;
    let own = opened.config().package.as_ref().map(|package| package.name.clone());
    let name = own.unwrap_or_else(|| format!("{organisation}/{}", task.task_id));
    let part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphanumeric())
            && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
    };
    let fits = name.split_once('/').is_some_and(|(left, right)| part(left) && part(right));
    if fits && !name.contains("..") {
        Ok(name)
    } else {
        Err(DatasetError::PackageName { task_id: task.task_id.clone(), name })
    }
}
