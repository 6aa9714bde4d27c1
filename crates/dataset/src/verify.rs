//! Verifying a frozen set: everything that its manifest and its sums say is computed again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use artifact::ArtifactError;
use fs_err as fs;
use ident::{AliasTable, to_canonical_json};
use rayon::prelude::*;
use serde::Serialize;
use task::{TaskDigests, TaskError, digest_task_and_files, printable};

use crate::copy::shape_of;
use crate::isolation::leaks;
use crate::sums::{self, SUMS, Sums};
use crate::{Counts, DatasetError, FrozenTask, Manifest, Placed};

/// A bound for the file with the sums.
const SUMS_LIMIT: u64 = 1 << 30;
const MANIFEST: &str = "manifest.json";

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verification {
    /// The manifest, where it can be read.
    pub manifest: Option<Manifest>,
    /// How many files were hashed.
    pub files: u64,
    /// Everything that is wrong, by file.
    pub problems: Vec<Problem>,
}

/// One thing that is not as it was frozen.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Problem {
    /// The file or directory below the set, made printable.
    pub file: String,
    /// What is wrong with it.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file, self.message)
    }
}

/// Verifies the frozen set in `directory`.
///
/// Every file is compared with `SHA256SUMS`, every task tree with the manifest, the manifest with its own digests and
/// counts, and the splits are searched for leaks, under the manifest's aliases and `aliases` as well. What the set says
/// is never used as a path before it was checked. Fails only when the system does.
pub fn verify(directory: &Path, aliases: &AliasTable) -> Result<Verification, DatasetError> {
    let mut problems = Problems::default();
    let manifest = read_manifest(directory, &mut problems)?;
    let listing = sums::list(directory)?;
    let tasks = manifest.as_ref().map(|manifest| manifest.tasks.as_slice()).unwrap_or_default();
    // Every file is read once: what the digests of a task are made of are the digests of its files.
    let mut digested: Vec<Digested> = tasks.par_iter().map(|task| Digested::of(directory, task)).collect();
    let known = digested.iter_mut().flat_map(|task| std::mem::take(&mut task.files)).collect();
    let hashed = sums::complete(directory, &listing.files, known)?;
    let recorded = read_sums(directory, &mut problems)?;
    compare_sums(&recorded, &hashed, &mut problems);
    for other in &listing.others {
        let path = other.as_os_str().as_bytes();
        if !path.starts_with(b"tasks/") {
            problems.add(printable(path), "is neither a file nor a directory, and was not frozen");
        }
    }
    if let Some(manifest) = &manifest {
        check_manifest(manifest, aliases, &mut problems);
        check_directories(directory, manifest, &mut problems)?;
        let found: Vec<Problems> = tasks
            .par_iter()
            .zip(&digested)
            .map(|(task, digested)| check_task(directory, task, digested, &problems))
            .collect::<Result<_, DatasetError>>()?;
        for more in found {
            problems.0.extend(more.0);
        }
    }
    let problems = problems.0.into_iter().collect();
    Ok(Verification { manifest, files: hashed.len() as u64, problems })
}

#[derive(Debug, Default)]
struct Problems(BTreeSet<Problem>);

impl Problems {
    fn add(&mut self, file: impl Into<String>, message: impl Into<String>) {
        self.0.insert(Problem { file: file.into(), message: message.into() });
    }

    /// Whether something is wrong below a directory.
    fn below(&self, directory: &str) -> bool {
        self.0.iter().any(|problem| problem.file.starts_with(directory))
    }
}

/// Reads the manifest; one that cannot be read is a problem.
fn read_manifest(directory: &Path, problems: &mut Problems) -> Result<Option<Manifest>, DatasetError> {
    let path = directory.join(MANIFEST);
    let (manifest, digest) = match artifact::load::<Manifest>(&path) {
        Ok(loaded) => loaded,
        Err(error @ ArtifactError::Io { .. }) => return Err(error.into()),
        Err(ArtifactError::Missing { .. }) => {
            problems.add(MANIFEST, "is missing");
            return Ok(None);
        }
        Err(ArtifactError::Invalid { detail, .. }) => {
            problems.add(MANIFEST, format!("is no manifest: {detail}"));
            return Ok(None);
        }
        Err(_) => {
            problems.add(MANIFEST, "is not a regular file of sensible size");
            return Ok(None);
        }
    };
    let mut canonical = to_canonical_json(&manifest).map_err(ArtifactError::from)?;
    canonical.push('\n');
    if ident::Digest::of(canonical) != digest {
        problems.add(MANIFEST, "is not in canonical form");
    }
    Ok(Some(manifest))
}

fn read_sums(directory: &Path, problems: &mut Problems) -> Result<Sums, DatasetError> {
    match artifact::read_bounded(&directory.join(SUMS), SUMS_LIMIT) {
        Ok(text) => {
            let (recorded, faults) = sums::parse(&text);
            for fault in faults {
                problems.add(SUMS, fault);
            }
            if sums::write(&recorded) != text && !problems.below(SUMS) {
                problems.add(SUMS, "is not in the order or form in which it was written");
            }
            Ok(recorded)
        }
        Err(ArtifactError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            problems.add(SUMS, "is missing");
            Ok(Sums::new())
        }
        Err(error @ ArtifactError::Io { .. }) => Err(error.into()),
        Err(_) => {
            problems.add(SUMS, "is not a regular file of sensible size");
            Ok(Sums::new())
        }
    }
}

fn compare_sums(recorded: &Sums, found: &Sums, problems: &mut Problems) {
    for (path, digest) in recorded {
        match found.get(path) {
            None => problems.add(printable(path), "is missing"),
            Some(other) if other != digest => problems.add(printable(path), "was changed"),
            Some(_) => {}
        }
    }
    for path in found.keys().filter(|path| !recorded.contains_key(*path)) {
        problems.add(printable(path), "was added");
    }
}

/// Checks what the manifest says about itself.
fn check_manifest(manifest: &Manifest, aliases: &AliasTable, problems: &mut Problems) {
    if manifest.semantics().ok() != Some(manifest.semantic_digest) {
        problems.add(MANIFEST, "the semantic digest is not that of the content");
    }
    if Counts::of(&manifest.tasks) != manifest.counts {
        problems.add(MANIFEST, "the counts are not those of the tasks");
    }
    if !manifest.tasks.is_sorted_by_key(|task| &task.task_id) {
        problems.add(MANIFEST, "the tasks are not in ascending order");
    }
    for task in &manifest.tasks {
        for path in task.executable.iter().chain(task.links.keys()) {
            if let Some(problem) = sums::path_fault(path.as_bytes()) {
                problems.add(
                    MANIFEST,
                    format!("task `{}` names the path `{path}`, which {problem}", task.task_id),
                );
            }
        }
    }
    let pairs = manifest.aliases.iter().map(|(old, new)| (old.as_str(), new.as_str()));
    let recorded = AliasTable::new(pairs).unwrap_or_else(|error| {
        problems.add(MANIFEST, error.to_string());
        AliasTable::default()
    });
    let placed: Vec<Placed> = manifest.tasks.iter().map(placed).collect();
    // A rename that the set was frozen with still counts when the caller knows of others.
    let renamed: Vec<Placed> = placed
        .iter()
        .map(|task| Placed { repo: recorded.canonical(task.repo.clone()), ..task.clone() })
        .collect();
    let together = &manifest.together;
    let found = [leaks(&placed, &recorded, together), leaks(&renamed, aliases, together)].concat();
    for leak in found {
        problems.add(MANIFEST, leak.to_string());
    }
}

fn placed(task: &FrozenTask) -> Placed {
    Placed {
        task_id: task.task_id.clone(),
        split: task.split,
        repo: task.repo.clone(),
        content: Some(task.tree_digest),
    }
}

/// Finds directories below `tasks/` that the manifest does not name.
fn check_directories(
    directory: &Path,
    manifest: &Manifest,
    problems: &mut Problems,
) -> Result<(), DatasetError> {
    let tasks = directory.join("tasks");
    if !std::fs::symlink_metadata(&tasks).is_ok_and(|metadata| metadata.is_dir()) {
        problems.add("tasks", "is not a directory");
        return Ok(());
    }
    let known: BTreeSet<&[u8]> = manifest.tasks.iter().map(|task| task.task_id.as_str().as_bytes()).collect();
    for entry in fs::read_dir(&tasks).map_err(DatasetError::io(&tasks))? {
        let name = entry.map_err(DatasetError::io(&tasks))?.file_name();
        if !known.contains(name.as_bytes()) {
            problems.add(format!("tasks/{}", printable(name.as_bytes())), "is not a task of the manifest");
        }
    }
    Ok(())
}

/// What the tree of one task comes to.
struct Digested {
    /// Its digests; nothing where there is no such directory.
    digests: Option<Result<TaskDigests, TaskError>>,
    /// The digests of its files as seen from the set, where the tree could be read.
    files: Sums,
}

impl Digested {
    fn of(directory: &Path, task: &FrozenTask) -> Self {
        let path = directory.join("tasks").join(task.task_id.as_str());
        if !std::fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_dir()) {
            return Self { digests: None, files: Sums::new() };
        }
        match digest_task_and_files(&path) {
            Ok((digests, files)) => {
                let files = sums::below(&format!("tasks/{}", task.task_id), files).collect();
                Self { digests: Some(Ok(digests)), files }
            }
            Err(error) => Self { digests: Some(Err(error)), files: Sums::new() },
        }
    }
}

/// Compares one task tree with the manifest. When single files were found to differ before, they say enough.
fn check_task(
    directory: &Path,
    task: &FrozenTask,
    digested: &Digested,
    known: &Problems,
) -> Result<Problems, DatasetError> {
    let mut problems = Problems::default();
    let name = format!("tasks/{}", task.task_id);
    let below = format!("{name}/");
    let path = directory.join("tasks").join(task.task_id.as_str());
    let Some(digests) = &digested.digests else {
        problems.add(name, "is not a directory, or is missing");
        return Ok(problems);
    };
    let shape = shape_of(&path)?;
    let recorded: BTreeSet<&String> = task.executable.iter().collect();
    let found: BTreeSet<&String> = shape.executable.iter().collect();
    // A path that leads elsewhere was reported with the manifest; the system is not asked about it.
    let plain = |file: &&&String| sums::path_fault(file.as_bytes()).is_none();
    for file in recorded.difference(&found).filter(plain) {
        if std::fs::symlink_metadata(path.join(file)).is_ok() {
            problems.add(format!("{below}{file}"), "is no longer executable");
        }
    }
    for file in found.difference(&recorded) {
        problems.add(format!("{below}{file}"), "became executable");
    }
    let links: BTreeMap<&String, [Option<&String>; 2]> = task
        .links
        .keys()
        .chain(shape.links.keys())
        .map(|link| (link, [task.links.get(link), shape.links.get(link)]))
        .collect();
    for (link, sides) in links {
        match sides {
            [Some(was), Some(is)] if was != is => {
                problems.add(format!("{below}{link}"), format!("pointed at `{was}` and points at `{is}`"));
            }
            [Some(_), None] => problems.add(format!("{below}{link}"), "is missing"),
            [None, Some(_)] => problems.add(format!("{below}{link}"), "was added"),
            _ => {}
        }
    }
    let digests = match digests {
        Ok(digests) => digests,
        Err(error) => {
            problems.add(name, error.to_string());
            return Ok(problems);
        }
    };
    if known.below(&below) || problems.below(&below) {
        return Ok(problems);
    }
    for (what, recorded, found) in [
        ("tree digest", task.tree_digest, digests.tree_digest),
        ("content hash", task.content_hash, digests.content_hash),
        ("task checksum", task.task_checksum, digests.task_checksum),
        ("verifier digest", task.verifier_digest, digests.verifier_digest),
    ] {
        if recorded != found {
            problems.add(&name, format!("the {what} is {found}, and the manifest says {recorded}"));
        }
    }
    Ok(problems)
}
