//! Reads what one source consists of as the records of its role.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use artifact::ArtifactError;
use ident::{Digest, TaskId};
use record::{ImageState, Instance, Profile, RewardMean, SourceRole, Trajectory};

use crate::SourceError;
use crate::file::{FileIdentity, FileInput, Format, KnownDigests};
use crate::gather::{Content, Gathered, gather_local};
use crate::lock::{LockedFile, LockedSource};
use crate::manifest::{MANIFEST_LIMIT, ManifestTasks, read_manifest};
use crate::read::{Faults, Place, RawError, RowFault, RowProblem};
use crate::rows::{
    Columns, IDS, IMAGE_STATES, INSTANCE_KEYS, INSTANCES, InstanceKey, PROFILES, REWARD_MEANS, TRAJECTORIES,
    TableReader, TaskDirectory, hash_task_directories, list_task_directories,
};
use crate::spec::{SourcePlace, SourceSpec};

/// The records of one source.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded<T> {
    /// What is kept of the records, in the source's order.
    pub rows: Vec<T>,
    /// Digests of what was read, for the lock and for documents made from it.
    pub input: LockedSource,
    /// What was noticed on the way.
    pub report: LoadReport,
}

/// What was noticed while a source was read.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct LoadReport {
    /// Number of records, kept or not.
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
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reading {
    /// Whether a row that cannot be read refuses its source; else it is left out and reported.
    pub strict: bool,
    /// What stays in memory.
    pub keep: Keep,
}

/// What stays in memory of the rows. All of them are read, counted and held against each other whatever is kept;
/// profiles and the paths of task directories are kept always, as there are few.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Keep {
    /// Every record.
    #[default]
    Records,
    /// What a plan asks for: evidence, ids, and of instances their keys.
    Keys {
        /// Whether the other columns of instances are read all the same, and rows of one id compared.
        whole: bool,
    },
    /// The instances of these tasks.
    Tasks(Arc<BTreeSet<TaskId>>),
    /// Nothing: the rows are only counted.
    Counts,
}

impl Keep {
    /// What is kept of a record that a plan asks for, and nobody after it.
    fn for_plan<T>(&self, record: T) -> Option<T> {
        matches!(self, Self::Records | Self::Keys { .. }).then_some(record)
    }

    fn instance(&self, instance: Instance) -> Option<Instance> {
        match self {
            Self::Records => Some(instance),
            Self::Tasks(wanted) => wanted.contains(&instance.instance_id).then_some(instance),
            Self::Keys { .. } | Self::Counts => None,
        }
    }
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
    pub fn input(&self) -> &LockedSource {
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

/// The columns that are read of a role's rows.
pub(crate) fn columns(role: SourceRole) -> &'static [&'static str] {
    match role {
        SourceRole::Instances => INSTANCES.wanted,
        SourceRole::Ids => IDS.wanted,
        SourceRole::Tasks => &[],
        SourceRole::Trajectories => TRAJECTORIES.wanted,
        SourceRole::RewardMeans => REWARD_MEANS.wanted,
        SourceRole::ImageStates => IMAGE_STATES.wanted,
        SourceRole::Profiles => PROFILES.wanted,
    }
}

/// Reads a source on this machine; paths are relative to `base`, the recipe's directory.
pub fn load(spec: &SourceSpec, base: &Path, reading: &Reading) -> Result<Records, SourceError> {
    spec.check()?;
    let gathered = gather_local(spec, base)?.ok_or_else(|| SourceError::Elsewhere(spec.name.clone()))?;
    load_gathered(spec, gathered, reading, None)
}

/// Reads what was gathered of a source. Files and directories that are `known` and have not changed are
/// not hashed.
pub(crate) fn load_gathered(
    spec: &SourceSpec,
    gathered: Gathered,
    reading: &Reading,
    known: Option<&Arc<KnownDigests>>,
) -> Result<Records, SourceError> {
    let Gathered { revision, content, notes } = gathered;
    let place = Location { spec, revision, notes, strict: reading.strict, known };
    let keep = &reading.keep;
    Ok(match (content, spec.role) {
        (Content::Directory { root, prefix }, SourceRole::Tasks) => {
            Records::Tasks(place.task_directories(&root, &prefix)?)
        }
        (Content::Directory { root, prefix }, _) => Records::Ids(place.directory_names(&root, &prefix)?),
        (Content::Manifest { input, dataset, fetched }, SourceRole::Tasks) => {
            Records::Tasks(place.listed_directories(&input, dataset.as_deref(), &fetched)?)
        }
        (Content::Manifest { input, dataset, .. }, _) => {
            Records::Ids(place.listed_names(&input, dataset.as_deref())?)
        }
        (Content::Files(files), role) => match role {
            SourceRole::Instances => match keep {
                Keep::Keys { whole: false } => {
                    Records::InstanceKeys(place.table(&files, &INSTANCE_KEYS, &Some)?)
                }
                Keep::Keys { whole: true } => {
                    let key = |instance: Instance| Some(InstanceKey::of(&instance));
                    Records::InstanceKeys(place.table(&files, &INSTANCES, &key)?)
                }
                _ => Records::Instances(place.table(&files, &INSTANCES, &|row| keep.instance(row))?),
            },
            SourceRole::Trajectories => {
                Records::Trajectories(place.table(&files, &TRAJECTORIES, &|row| keep.for_plan(row))?)
            }
            SourceRole::RewardMeans => {
                Records::RewardMeans(place.table(&files, &REWARD_MEANS, &|row| keep.for_plan(row))?)
            }
            SourceRole::ImageStates => {
                Records::ImageStates(place.table(&files, &IMAGE_STATES, &|row| keep.for_plan(row))?)
            }
            SourceRole::Profiles => Records::Profiles(place.table(&files, &PROFILES, &Some)?),
            // `check` has refused files of task directories.
            SourceRole::Ids | SourceRole::Tasks => {
                Records::Ids(place.table(&files, &IDS, &|row| keep.for_plan(row))?)
            }
        },
    })
}

/// A source whose data is on this machine.
struct Location<'s> {
    spec: &'s SourceSpec,
    revision: Option<String>,
    /// What was noticed while the data was gathered.
    notes: Vec<String>,
    strict: bool,
    known: Option<&'s Arc<KnownDigests>>,
}

impl Location<'_> {
    fn table<T, U>(
        self,
        files: &BTreeMap<String, FileInput>,
        columns: &Columns<T>,
        keep: &dyn Fn(T) -> Option<U>,
    ) -> Result<Loaded<U>, SourceError> {
        let mut reader = TableReader::new(columns, self.strict, keep);
        let mut locked = BTreeMap::new();
        for (key, input) in files {
            if input.form.format == Format::TextLines && !columns.bare {
                return Err(SourceError::Format {
                    name: self.spec.name.clone(),
                    path: input.shown.clone(),
                    role: self.spec.role,
                    remedy: "name it .parquet, .jsonl for one JSON object a line, .json for one array of objects, or .csv",
                });
            }
            let input = FileInput { known: self.known.cloned(), ..input.clone() };
            let facts = reader.read(&input).map_err(|error| self.refuse(&input.shown, error))?;
            let FileIdentity { sha256, size } = facts.identity;
            locked.insert(key.clone(), LockedFile { sha256, size, rows: facts.rows });
        }
        let table =
            reader.finish().map_err(|faults| SourceError::Rows { name: self.spec.name.clone(), faults })?;
        let mut notes = table.notes.sentences();
        if table.read == 0 && table.faults.is_empty() {
            notes.push("there are no rows".to_owned());
        }
        let report =
            LoadReport { rows: table.read, blank_lines: table.blank_lines, notes, faults: table.faults };
        Ok(self.loaded(table.rows, locked, report))
    }

    fn loaded<T>(
        self,
        rows: Vec<T>,
        files: BTreeMap<String, LockedFile>,
        mut report: LoadReport,
    ) -> Loaded<T> {
        report.notes.splice(0..0, self.notes);
        let input = LockedSource {
            origin: self.spec.place.origin(),
            revision: self.revision,
            files,
            rows: report.rows,
            left_out: report.faults.total,
        };
        Loaded { rows, input, report }
    }

    fn directory_names(self, root: &Path, prefix: &str) -> Result<Loaded<TaskId>, SourceError> {
        let (tasks, report) = self.listing(root)?;
        let rows: Vec<_> = tasks.into_iter().map(|task| task.id).collect();
        let names: String = rows.iter().flat_map(|id| [id.as_str(), "\n"]).collect();
        // Only the names are read, so only they are locked.
        let size = names.len() as u64;
        let file = LockedFile { sha256: Digest::of(names), size, rows: report.rows };
        let key = format!("{}: names", prefix.trim_end_matches('/'));
        Ok(self.loaded(rows, BTreeMap::from([(key, file)]), report))
    }

    fn task_directories(self, root: &Path, prefix: &str) -> Result<Loaded<TaskDirectory>, SourceError> {
        let (rows, report) = self.listing(root)?;
        self.directories(rows, prefix, report)
    }

    fn directories(
        self,
        rows: Vec<TaskDirectory>,
        prefix: &str,
        report: LoadReport,
    ) -> Result<Loaded<TaskDirectory>, SourceError> {
        let known = self.known.map(Arc::as_ref);
        let hashed =
            hash_task_directories(&rows, known).map_err(|source| self.io(Path::new(prefix), source))?;
        let files = hashed
            .into_iter()
            .map(|(id, sha256, size)| (format!("{prefix}{id}"), LockedFile { sha256, size, rows: 1 }));
        let files = files.collect();
        Ok(self.loaded(rows, files, report))
    }

    fn listing(&self, root: &Path) -> Result<(Vec<TaskDirectory>, LoadReport), SourceError> {
        let shown = match &self.spec.place {
            SourcePlace::Dir(path) => path,
            _ => root,
        };
        let metadata = fs_err::metadata(root).map_err(|source| self.io(shown, source))?;
        if !metadata.is_dir() {
            return Err(self.wrong_place(shown, "a directory"));
        }
        let listing = list_task_directories(root).map_err(|source| self.io(root, source))?;
        if !listing.faults.is_empty() {
            let mut faults = Faults::default();
            let file: Arc<str> = root.to_string_lossy().into();
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

    fn listed_names(self, input: &FileInput, dataset: Option<&str>) -> Result<Loaded<TaskId>, SourceError> {
        let (manifest, file) = manifest(self.spec, input, dataset)?;
        let report = LoadReport { rows: file.rows, notes: manifest.notes, ..LoadReport::default() };
        let rows = manifest.tasks.into_iter().map(|task| task.id).collect();
        Ok(self.loaded(rows, BTreeMap::from([(input.shown.to_string_lossy().into_owned(), file)]), report))
    }

    /// The directories of a manifest, which must lie beside or below it, or have been fetched.
    fn listed_directories(
        self,
        input: &FileInput,
        dataset: Option<&str>,
        fetched: &BTreeMap<TaskId, PathBuf>,
    ) -> Result<Loaded<TaskDirectory>, SourceError> {
        let (manifest, file) = manifest(self.spec, input, dataset)?;
        let base = input.path.parent().unwrap_or(Path::new(".")).to_owned();
        let wrong = |detail: String| SourceError::Document {
            name: self.spec.name.clone(),
            path: input.shown.clone(),
            detail,
        };
        let mut rows = Vec::new();
        for task in manifest.tasks {
            let relative = task.path.clone().unwrap_or_else(|| task.id.to_string());
            let path = match (&task.repository, fetched.get(&task.id)) {
                (_, Some(path)) => path.clone(),
                (Some(place), None) => {
                    let detail =
                        format!("task `{}` lies in {} and was not fetched; pull it", task.id, place.url);
                    return Err(wrong(detail));
                }
                (None, None) => base.join(&relative),
            };
            let plain = Path::new(&relative)
                .components()
                .all(|part| matches!(part, std::path::Component::Normal(_) | std::path::Component::CurDir));
            if !plain {
                return Err(wrong(format!(
                    "task `{}` has the path {relative:?}, which leads elsewhere",
                    task.id
                )));
            }
            let is_file = fs_err::symlink_metadata(path.join("task.toml")).is_ok_and(|found| found.is_file());
            if !is_file {
                let there = task.repository.as_ref().map_or("beside it", |_| "of its repository");
                let detail = format!("task `{}`: there is no task.toml in {relative:?} {there}", task.id);
                return Err(wrong(detail));
            }
            rows.push(TaskDirectory { id: task.id, path });
        }
        let report = LoadReport { rows: file.rows, notes: manifest.notes, ..LoadReport::default() };
        let key = input.shown.to_string_lossy().into_owned();
        let mut loaded = self.directories(rows, "", report)?;
        loaded.input.files.insert(key, LockedFile { rows: 0, ..file });
        Ok(loaded)
    }

    fn refuse(&self, shown: &Path, error: RawError) -> SourceError {
        match error {
            RawError::Io(source) => self.io(shown, source),
            RawError::NotAFile => self.wrong_place(shown, "a regular file"),
            RawError::Document(detail) => {
                SourceError::Document { name: self.spec.name.clone(), path: shown.to_owned(), detail }
            }
        }
    }

    fn io(&self, path: &Path, source: std::io::Error) -> SourceError {
        io_error(self.spec, path, source)
    }

    fn wrong_place(&self, path: &Path, expected: &'static str) -> SourceError {
        SourceError::WrongPlace { name: self.spec.name.clone(), path: path.to_owned(), expected }
    }
}

/// Reads the tasks of a manifest, and tells what the lock says of the manifest itself.
pub(crate) fn manifest(
    spec: &SourceSpec,
    input: &FileInput,
    dataset: Option<&str>,
) -> Result<(ManifestTasks, LockedFile), SourceError> {
    let bytes = artifact::read_bounded(&input.path, MANIFEST_LIMIT).map_err(|error| match error {
        ArtifactError::Io { source, .. } => io_error(spec, &input.shown, source),
        other => other.into(),
    })?;
    let manifest = read_manifest(&input.shown, &bytes, dataset).map_err(|detail| SourceError::Document {
        name: spec.name.clone(),
        path: input.shown.clone(),
        detail,
    })?;
    let rows = manifest.tasks.len() as u64;
    Ok((manifest, LockedFile { sha256: Digest::of(&bytes), size: bytes.len() as u64, rows }))
}

fn io_error(spec: &SourceSpec, path: &Path, source: std::io::Error) -> SourceError {
    let (name, path) = (spec.name.clone(), path.to_owned());
    if source.kind() == std::io::ErrorKind::NotFound {
        return SourceError::Absent { name, path };
    }
    SourceError::Io { name, path, source }
}
