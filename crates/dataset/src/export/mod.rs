//! Exports: a frozen set in the form that a trainer reads.

mod archive;
mod gym;
mod harbor;
mod prompts;
mod slime;
mod table;

use std::path::{Path, PathBuf};
use std::str::FromStr;

use ident::AliasTable;
use record::Split;

use crate::attest::{attestation_path, carry_attestation};
use crate::place::place;
use crate::{DatasetError, FrozenTask, Manifest, verify};

/// A form of export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExportFormat {
    /// Harbor task directories with a `dataset.toml`, one directory per split.
    Harbor,
    /// Task directories as archives in Parquet, a file per split: `path` and `task_binary`.
    TaskParquet,
    /// Prompts for verl, a Parquet file per split.
    Verl,
    /// Prompts for SkyRL, a Parquet file per split.
    SkyRl,
    /// Rows for NeMo-Gym's agent for Harbor tasks, a file of JSON lines per split.
    NemoGym,
    /// Rows for slime's coding agents, a file of JSON lines per split.
    Slime,
    /// The whole frozen set as one archive, for `seatrial register`.
    Package,
}

/// A format that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no export format; known are {known}", known = ExportFormat::ALL.map(ExportFormat::name).join(", "))]
pub struct ParseFormatError(String);

impl ExportFormat {
    /// All formats.
    pub const ALL: [Self; 7] =
        [Self::Harbor, Self::TaskParquet, Self::Verl, Self::SkyRl, Self::NemoGym, Self::Slime, Self::Package];

    /// The format's name, also that of its directory.
    pub fn name(self) -> &'static str {
        match self {
            Self::Harbor => "harbor",
            Self::TaskParquet => "task-parquet",
            Self::Verl => "verl",
            Self::SkyRl => "skyrl",
            Self::NemoGym => "nemo-gym",
            Self::Slime => "slime",
            Self::Package => "package",
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

/// Exports a frozen set that verifies, to `<exports>/<name>-<n>-<version>/<format>`. The attestation of the set goes with its package
/// and is no part of it.
pub fn export(input: &ExportInput<'_>) -> Result<Exported, DatasetError> {
    let verified = verify(input.frozen, input.aliases)?;
    let unsound = |problems| DatasetError::Unsound { path: input.frozen.to_owned(), problems };
    let manifest = match verified.manifest {
        Some(manifest) if verified.problems.is_empty() => manifest,
        _ => return Err(unsound(verified.problems)),
    };
    let parent = input.exports.join(manifest.directory());
    let placed = place(&parent, input.format.name(), |root| match input.format {
        ExportFormat::Harbor => harbor::write(input, &manifest, root),
        ExportFormat::TaskParquet => archive::write(input, &manifest, root),
        ExportFormat::Verl => prompts::write(input, &manifest, root, prompts::Reader::Verl),
        ExportFormat::SkyRl => prompts::write(input, &manifest, root, prompts::Reader::SkyRl),
        ExportFormat::NemoGym => gym::write(&manifest, root),
        ExportFormat::Slime => slime::write(input, &manifest, root),
        ExportFormat::Package => crate::package::pack(input.frozen, &manifest, root),
    })?;
    if input.format == ExportFormat::Package {
        carry_attestation(&attestation_path(input.frozen), &placed.path.join(manifest.directory()))?;
    }
    Ok(Exported { path: placed.path, manifest, existed: placed.existed })
}

/// The splits that have tasks, with their tasks in the order of the manifest.
fn splits(manifest: &Manifest) -> impl Iterator<Item = (Split, Vec<&FrozenTask>)> {
    [Split::Train, Split::Validation, Split::Test].into_iter().filter_map(|split| {
        let tasks: Vec<&FrozenTask> = manifest.tasks.iter().filter(|task| task.split == split).collect();
        (!tasks.is_empty()).then_some((split, tasks))
    })
}

impl ExportInput<'_> {
    /// The directory of a task in the frozen set.
    fn task(&self, task: &FrozenTask) -> PathBuf {
        self.frozen.join("tasks").join(task.task_id.as_str())
    }
}
