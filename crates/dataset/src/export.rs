//! Exports: a frozen set in the form that a trainer reads.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use fs_err as fs;
use ident::{AliasTable, Digest};
use rayon::prelude::*;
use record::Split;
use serde::Serialize;
use task::TaskDir;

use crate::copy::{copy_task, set_mode};
use crate::place::place;
use crate::{DatasetError, FrozenTask, Manifest, verify};

/// A form of export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExportFormat {
    /// Harbor task directories with a `dataset.toml`, one directory per split.
    Harbor,
}

/// A format that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no export format; known are {known}", known = ExportFormat::ALL.map(ExportFormat::name).join(", "))]
pub struct ParseFormatError(String);

impl ExportFormat {
    /// All formats.
    pub const ALL: [Self; 1] = [Self::Harbor];

    /// The format's name, also that of its directory.
    pub fn name(self) -> &'static str {
        match self {
            Self::Harbor => "harbor",
        }
    }
}

impl FromStr for ExportFormat {
    type Err = ParseFormatError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|format| format.name() == text)
            .ok_or_else(|| ParseFormatError(text.into()))
    }
}

/// What is exported.
#[derive(Debug, Clone, Copy)]
pub struct ExportInput<'a> {
    /// The directory of the frozen set.
    pub frozen: &'a Path,
    /// The directory that holds exports.
    pub exports: &'a Path,
    /// The form.
    pub format: ExportFormat,
    /// Organisation in package names.
    pub organisation: &'a str,
    /// Renames that became known after the set was frozen.
    pub aliases: &'a AliasTable,
}

/// An export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exported {
    /// Its directory.
    pub path: PathBuf,
    /// The manifest of the set.
    pub manifest: Manifest,
    /// Whether the same export was there before.
    pub existed: bool,
}

/// Exports a frozen set that verifies, to `<exports>/<name>-<n>-<version>/<format>`.
pub fn export(input: &ExportInput<'_>) -> Result<Exported, DatasetError> {
    let verified = verify(input.frozen, input.aliases)?;
    let unsound = |problems| DatasetError::Unsound { path: input.frozen.to_owned(), problems };
    let manifest = match verified.manifest {
        Some(manifest) if verified.problems.is_empty() => manifest,
        _ => return Err(unsound(verified.problems)),
    };
    let parent = input.exports.join(manifest.directory());
    let placed = place(&parent, input.format.name(), |root| match input.format {
        ExportFormat::Harbor => harbor(input, &manifest, root),
    })?;
    Ok(Exported { path: placed.path, manifest, existed: placed.existed })
}

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

fn harbor(input: &ExportInput<'_>, manifest: &Manifest, root: &Path) -> Result<(), DatasetError> {
    for split in [Split::Train, Split::Validation, Split::Test] {
        let tasks: Vec<&FrozenTask> = manifest.tasks.iter().filter(|task| task.split == split).collect();
        if tasks.is_empty() {
            continue;
        }
        let directory = root.join(split.to_string());
        fs::create_dir(&directory).map_err(DatasetError::io(&directory))?;
        set_mode(&directory, 0o755)?;
        let entries: Vec<TaskEntry> = tasks
            .par_iter()
            .map(|task| {
                let from = input.frozen.join("tasks").join(task.task_id.as_str());
                copy_task(&task.task_id, &from, &directory.join(task.task_id.as_str()))?;
                let name = package_name(input.organisation, task, &from)?;
                Ok(TaskEntry { name, digest: task.content_hash.prefixed() })
            })
            .collect::<Result<_, DatasetError>>()?;
        let text = dataset_toml(input.organisation, manifest, split, entries, &tasks)?;
        artifact::write_atomic(&directory.join("dataset.toml"), text.as_bytes())?;
    }
    Ok(())
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
            description: format!("The {split} split of {set}: {} tasks", tasks.len()),
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
