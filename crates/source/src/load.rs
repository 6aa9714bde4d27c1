//! Loads one source as the records of its role.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ident::{Digest, TaskId};
use record::{ImageState, Instance, Profile, RewardMean, SourceInput, Trajectory};

use crate::SourceError;
use crate::file::{FileInput, Format};
use crate::read::{Faults, Place, RawError, RowFault, RowProblem};
use crate::rows::{
    Columns, IDS, IMAGE_STATES, INSTANCE_KEYS, INSTANCES, InstanceKey, PROFILES, REWARD_MEANS, TRAJECTORIES,
    TableReader, TaskDirectory, hash_task_directories, list_task_directories,
};
use crate::spec::{Role, SourceKind, SourceSpec};

/// The records of one source.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded<T> {
    /// The records in the source's order.
    pub rows: Vec<T>,
    /// Digests of what was read, for the lock and for documents made from it.
    pub input: SourceInput,
    /// What was noticed on the way.
    pub report: LoadReport,
}

/// What was noticed while a source was read.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct LoadReport {
    /// Number of records.
    pub rows: u64,
    /// Lines that hold white space at most.
    pub blank_lines: u64,
    /// Sentences for people, in a fixed order.
    pub notes: Vec<String>,
    /// Rows that were left out because they cannot be read.
    #[serde(serialize_with = "crate::read::serialize_faults")]
    pub faults: Faults,
}

/// How sources are read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reading {
    /// Whether a row that cannot be read refuses its source; else it is left out and reported.
    pub strict: bool,
    /// Whether of instances only the keys are read.
    pub keys_only: bool,
}

/// The records of one source, by role.
#[derive(Debug, Clone, PartialEq)]
pub enum Records {
    /// Task candidates.
    Instances(Loaded<Instance>),
    /// Task candidates, by what a plan asks of them.
    InstanceKeys(Loaded<InstanceKey>),
    /// Task ids.
    Ids(Loaded<TaskId>),
    /// Task directories.
    Tasks(Loaded<TaskDirectory>),
    /// Published agent runs.
    Trajectories(Loaded<Trajectory>),
    /// Mean rewards.
    RewardMeans(Loaded<RewardMean>),
    /// States of images.
    ImageStates(Loaded<ImageState>),
    /// Test profiles.
    Profiles(Loaded<Profile>),
}

impl Records {
    /// Digests of what was read.
    pub fn input(&self) -> &SourceInput {
        match self {
            Self::Instances(loaded) => &loaded.input,
            Self::InstanceKeys(loaded) => &loaded.input,
            Self::Ids(loaded) => &loaded.input,
            Self::Tasks(loaded) => &loaded.input,
            Self::Trajectories(loaded) => &loaded.input,
            Self::RewardMeans(loaded) => &loaded.input,
            Self::ImageStates(loaded) => &loaded.input,
            Self::Profiles(loaded) => &loaded.input,
        }
    }

    /// What was noticed.
    pub fn report(&self) -> &LoadReport {
        match self {
            Self::Instances(loaded) => &loaded.report,
            Self::InstanceKeys(loaded) => &loaded.report,
            Self::Ids(loaded) => &loaded.report,
            Self::Tasks(loaded) => &loaded.report,
            Self::Trajectories(loaded) => &loaded.report,
            Self::RewardMeans(loaded) => &loaded.report,
            Self::ImageStates(loaded) => &loaded.report,
            Self::Profiles(loaded) => &loaded.report,
        }
    }
}

/// Reads a source; paths are relative to `base`, the recipe's directory.
pub fn load(spec: &SourceSpec, base: &Path, reading: Reading) -> Result<Records, SourceError> {
    spec.check()?;
    let place = Location { spec, path: base.join(&spec.path), strict: reading.strict };
    Ok(match (spec.kind, spec.role) {
        (_, Role::Tasks) => Records::Tasks(place.task_directories()?),
        (SourceKind::Dir, _) => Records::Ids(place.directory_names()?),
        (SourceKind::File, Role::Ids) => Records::Ids(place.table(&IDS)?),
        (SourceKind::File, Role::Instances) if reading.keys_only => {
            Records::InstanceKeys(place.table(&INSTANCE_KEYS)?)
        }
        (SourceKind::File, Role::Instances) => Records::Instances(place.table(&INSTANCES)?),
        (SourceKind::File, Role::Trajectories) => Records::Trajectories(place.table(&TRAJECTORIES)?),
        (SourceKind::File, Role::RewardMeans) => Records::RewardMeans(place.table(&REWARD_MEANS)?),
        (SourceKind::File, Role::ImageStates) => Records::ImageStates(place.table(&IMAGE_STATES)?),
        (SourceKind::File, Role::Profiles) => Records::Profiles(place.table(&PROFILES)?),
    })
}

struct Location<'s> {
    spec: &'s SourceSpec,
    path: PathBuf,
    strict: bool,
}

impl Location<'_> {
    fn input(&self) -> FileInput {
        FileInput::new(self.path.clone(), self.spec.path.clone())
    }

    fn table<T>(&self, columns: &Columns<T>) -> Result<Loaded<T>, SourceError> {
        let input = self.input();
        if input.form.format == Format::TextLines && !columns.bare {
            return Err(SourceError::Format {
                name: self.spec.name.clone(),
                path: self.spec.path.clone(),
                role: self.spec.role,
                remedy: "name it .parquet, .jsonl for one JSON object a line, .json for one array of objects, or .csv",
            });
        }
        let mut reader = TableReader::new(columns, self.strict);
        let facts = reader.read(&input).map_err(|error| self.refuse(error))?;
        let table =
            reader.finish().map_err(|faults| SourceError::Rows { name: self.spec.name.clone(), faults })?;
        let rows = table.rows.len() as u64;
        let sha256 = BTreeMap::from([(self.key(), facts.digest)]);
        Ok(Loaded {
            rows: table.rows,
            input: SourceInput { revision: None, sha256, rows },
            report: LoadReport {
                rows,
                blank_lines: table.blank_lines,
                notes: table.notes.sentences(),
                faults: table.faults,
            },
        })
    }

    fn directory_names(&self) -> Result<Loaded<TaskId>, SourceError> {
        let (tasks, report) = self.listing()?;
        let rows: Vec<_> = tasks.into_iter().map(|task| task.id).collect();
        let names: String = rows.iter().flat_map(|id| [id.as_str(), "\n"]).collect();
        // Only the names are read, so only they are locked.
        let sha256 = BTreeMap::from([(format!("{}: names", self.key()), Digest::of(names))]);
        let input = SourceInput { revision: None, sha256, rows: report.rows };
        Ok(Loaded { rows, input, report })
    }

    fn task_directories(&self) -> Result<Loaded<TaskDirectory>, SourceError> {
        let (rows, report) = self.listing()?;
        let digests = hash_task_directories(&rows).map_err(|source| self.io(source))?;
        let sha256 =
            digests.into_iter().map(|(id, digest)| (format!("{}/{id}", self.key()), digest)).collect();
        let input = SourceInput { revision: None, sha256, rows: report.rows };
        Ok(Loaded { rows, input, report })
    }

    fn listing(&self) -> Result<(Vec<TaskDirectory>, LoadReport), SourceError> {
        let metadata = fs_err::metadata(&self.path).map_err(|source| self.io(source))?;
        if !metadata.is_dir() {
            return Err(self.wrong_place("a directory"));
        }
        let listing = list_task_directories(&self.path).map_err(|source| self.io(source))?;
        if !listing.faults.is_empty() {
            let mut faults = Faults::default();
            let file: Arc<str> = self.key().into();
            for (number, (path, problem)) in listing.faults.into_iter().enumerate() {
                faults.push(RowFault {
                    file: Arc::clone(&file),
                    place: Place::Entry(number as u64 + 1),
                    offset: 0,
                    id: path.file_name().map(|name| name.to_string_lossy().into_owned()),
                    field: None,
                    problem: RowProblem::Value(problem.to_string()),
                });
            }
            return Err(SourceError::Rows { name: self.spec.name.clone(), faults });
        }
        let rows = listing.tasks.len() as u64;
        Ok((listing.tasks, LoadReport { rows, notes: listing.notes, ..LoadReport::default() }))
    }

    /// The path as the recipe writes it: the lock must not depend on where a project lies.
    fn key(&self) -> String {
        self.spec.path.to_string_lossy().into_owned()
    }

    fn refuse(&self, error: RawError) -> SourceError {
        match error {
            RawError::Io(source) => self.io(source),
            RawError::NotAFile => self.wrong_place("a regular file"),
            RawError::Document(detail) => {
                SourceError::Document { name: self.spec.name.clone(), path: self.spec.path.clone(), detail }
            }
        }
    }

    fn io(&self, source: std::io::Error) -> SourceError {
        SourceError::Io { name: self.spec.name.clone(), path: self.spec.path.clone(), source }
    }

    fn wrong_place(&self, expected: &'static str) -> SourceError {
        SourceError::WrongPlace { name: self.spec.name.clone(), path: self.spec.path.clone(), expected }
    }
}
