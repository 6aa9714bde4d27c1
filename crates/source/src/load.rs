//! Reads what one source consists of as the records of its role.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use ident::{Digest, TaskId};
use record::{ImageState, Instance, Profile, RewardMean, SourceRole, Trajectory};

use crate::SourceError;
use crate::file::{FileInput, Format};
use crate::gather::{Content, Gathered, gather_local};
use crate::lock::{LockedFile, LockedSource};
use crate::manifest::{MANIFEST_LIMIT, ManifestTasks, read_manifest};
use crate::read::{Faults, Place, RawError, RowFault, RowProblem};
use crate::rows::{
    Columns, IDS, IMAGE_STATES, INSTANCE_KEYS, INSTANCES, InstanceKey, PROFILES, REWARD_MEANS, TRAJECTORIES,
    TableReader, TaskDirectory, hash_task_directories, list_task_directories,
};
use crate::spec::SourceSpec;

/// The records of one source.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded<T> {
    /// The records in the source's order.
    pub rows: Vec<T>,
    /// Digests of what was read, for the lock and for documents made from it.
    pub input: LockedSource,
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
pub fn load(spec: &SourceSpec, base: &Path, reading: Reading) -> Result<Records, SourceError> {
    spec.check()?;
    let gathered = gather_local(spec, base)?.ok_or_else(|| SourceError::Elsewhere(spec.name.clone()))?;
    load_gathered(spec, gathered, reading)
}

/// Reads what was gathered of a source.
pub(crate) fn load_gathered(
    spec: &SourceSpec,
    gathered: Gathered,
    reading: Reading,
) -> Result<Records, SourceError> {
    let Gathered { revision, content, notes } = gathered;
    let place = Location { spec, revision, notes, strict: reading.strict };
    Ok(match (content, spec.role) {
        (Content::Directory { root, prefix }, SourceRole::Tasks) => {
            Records::Tasks(place.task_directories(&root, &prefix)?)
        }
        (Content::Directory { root, prefix }, _) => Records::Ids(place.directory_names(&root, &prefix)?),
        (Content::Manifest { input, dataset }, SourceRole::Tasks) => {
            Records::Tasks(place.listed_directories(&input, dataset.as_deref())?)
        }
        (Content::Manifest { input, dataset }, _) => {
            Records::Ids(place.listed_names(&input, dataset.as_deref())?)
        }
        (Content::Files(files), role) => match role {
            SourceRole::Instances if reading.keys_only => {
                Records::InstanceKeys(place.table(&files, &INSTANCE_KEYS)?)
            }
            SourceRole::Instances => Records::Instances(place.table(&files, &INSTANCES)?),
            SourceRole::Trajectories => Records::Trajectories(place.table(&files, &TRAJECTORIES)?),
            SourceRole::RewardMeans => Records::RewardMeans(place.table(&files, &REWARD_MEANS)?),
            SourceRole::ImageStates => Records::ImageStates(place.table(&files, &IMAGE_STATES)?),
            SourceRole::Profiles => Records::Profiles(place.table(&files, &PROFILES)?),
            // `check` has refused files of task directories.
            SourceRole::Ids | SourceRole::Tasks => Records::Ids(place.table(&files, &IDS)?),
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
}

impl Location<'_> {
    fn table<T>(
        self,
        files: &BTreeMap<String, FileInput>,
        columns: &Columns<T>,
    ) -> Result<Loaded<T>, SourceError> {
        let mut reader = TableReader::new(columns, self.strict);
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
            let facts = reader.read(input).map_err(|error| self.refuse(&input.shown, error))?;
            let size = self.size(&input.path, &input.shown)?;
            locked.insert(key.clone(), LockedFile { sha256: facts.digest, size, rows: facts.rows });
        }
        let table =
            reader.finish().map_err(|faults| SourceError::Rows { name: self.spec.name.clone(), faults })?;
        let report = LoadReport {
            rows: table.rows.len() as u64,
            blank_lines: table.blank_lines,
            notes: table.notes.sentences(),
            faults: table.faults,
        };
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
        let hashed = hash_task_directories(&rows).map_err(|source| self.io(Path::new(prefix), source))?;
        let files = hashed
            .into_iter()
            .map(|(id, sha256, size)| (format!("{prefix}{id}"), LockedFile { sha256, size, rows: 1 }));
        let files = files.collect();
        Ok(self.loaded(rows, files, report))
    }

    fn listing(&self, root: &Path) -> Result<(Vec<TaskDirectory>, LoadReport), SourceError> {
        let metadata = fs_err::metadata(root).map_err(|source| self.io(root, source))?;
        if !metadata.is_dir() {
            return Err(self.wrong_place(root, "a directory"));
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
        let (manifest, file) = self.manifest(input, dataset)?;
        let report = LoadReport { rows: file.rows, notes: manifest.notes, ..LoadReport::default() };
        let rows = manifest.tasks.into_iter().map(|task| task.id).collect();
        Ok(self.loaded(rows, BTreeMap::from([(input.shown.to_string_lossy().into_owned(), file)]), report))
    }

    /// The directories of a manifest, which must lie beside or below it.
    fn listed_directories(
        self,
        input: &FileInput,
        dataset: Option<&str>,
    ) -> Result<Loaded<TaskDirectory>, SourceError> {
        let (manifest, file) = self.manifest(input, dataset)?;
        let base = input.path.parent().unwrap_or(Path::new(".")).to_owned();
        let wrong = |detail: String| SourceError::Document {
            name: self.spec.name.clone(),
            path: input.shown.clone(),
            detail,
        };
        let mut rows = Vec::new();
        for task in manifest.tasks {
            if let Some(repository) = &task.repository {
                return Err(wrong(format!(
                    "task `{}` lies in the git repository {repository}; \
                     clone it and read its directory with kind `dir`, or read the list as `ids`",
                    task.id
                )));
            }
            let relative = task.path.clone().unwrap_or_else(|| task.id.to_string());
            let plain = Path::new(&relative)
                .components()
                .all(|part| matches!(part, std::path::Component::Normal(_) | std::path::Component::CurDir));
            if !plain {
                return Err(wrong(format!(
                    "task `{}` has the path {relative:?}, which leads elsewhere",
                    task.id
                )));
            }
            let path = base.join(&relative);
            let is_file = fs_err::symlink_metadata(path.join("task.toml")).is_ok_and(|found| found.is_file());
            if !is_file {
                let detail = format!("task `{}`: there is no task.toml in {relative:?} beside it", task.id);
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

    fn manifest(
        &self,
        input: &FileInput,
        dataset: Option<&str>,
    ) -> Result<(ManifestTasks, LockedFile), SourceError> {
        let bytes = artifact::read_bounded(&input.path, MANIFEST_LIMIT)?;
        let wrong = |detail: String| SourceError::Document {
            name: self.spec.name.clone(),
            path: input.shown.clone(),
            detail,
        };
        let manifest = read_manifest(&input.shown, &bytes, dataset).map_err(wrong)?;
        let rows = manifest.tasks.len() as u64;
        Ok((manifest, LockedFile { sha256: Digest::of(&bytes), size: bytes.len() as u64, rows }))
    }

    fn size(&self, path: &Path, shown: &Path) -> Result<u64, SourceError> {
        fs_err::metadata(path).map(|metadata| metadata.len()).map_err(|source| self.io(shown, source))
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
        SourceError::Io { name: self.spec.name.clone(), path: path.to_owned(), source }
    }

    fn wrong_place(&self, path: &Path, expected: &'static str) -> SourceError {
        SourceError::WrongPlace { name: self.spec.name.clone(), path: path.to_owned(), expected }
    }
}
