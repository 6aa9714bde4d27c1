//! `seatrial datasets`: the sets that were registered.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use dataset::Registration;
use serde_json::json;

use crate::cli::{self, Datasets};
use crate::command::register::{attestation, registry};
use crate::failure::Result;
use crate::output::{Output, table};

/// The command in its three forms.
pub fn run(output: Output, directory: &Path, command: &Datasets) -> Result {
    match command {
        Datasets::List(place) => list(output, directory, place),
        Datasets::Show(arguments) => show(output, directory, arguments),
        Datasets::Path(arguments) => {
            let registry = registry(directory, &arguments.place)?;
            let registration = registry.find(&arguments.set)?;
            let path = registry.set(&registration).display().to_string();
            output.json(&json!({ "path": path }))?;
            output.print(path)
        }
    }
}

fn list(output: Output, directory: &Path, place: &cli::RegistryPlace) -> Result {
    let registry = registry(directory, place)?;
    let (registrations, faults) = registry.list()?;
    for fault in &faults {
        output.warn(format_args!("{}: {}", fault.path.display(), fault.problem));
    }
    let row = |found: &Registration| {
        json!({
            "name": found.name,
            "version": found.version,
            "tasks": found.tasks,
            "semantic_digest": found.semantic_digest,
            "origin": found.origin,
            "package_digest": found.package_digest,
            "path": registry.set(found).display().to_string(),
            "attestation": attestation(&registry.set(found)),
        })
    };
    output.json(&json!({
        "registry": registry.root().display().to_string(),
        "datasets": registrations.iter().map(row).collect::<Vec<_>>(),
        "faults": faults,
    }))?;
    if registrations.is_empty() {
        return output.print(format_args!("no set is registered in {}", registry.root().display()));
    }
    output.print(table(
        ["set", "tasks", "digest", "from"],
        registrations.iter().map(|found| {
            let called = format!("{}@{}", found.name, found.version);
            let digest = found.semantic_digest.hex().chars().take(12).collect();
            [called, found.tasks.to_string(), digest, found.origin.clone()]
        }),
    ))
}

fn show(output: Output, directory: &Path, arguments: &cli::DatasetsOne) -> Result {
    let registry = registry(directory, &arguments.place)?;
    let registration = registry.find(&arguments.set)?;
    let manifest = registry.manifest(&registration)?;
    let path = registry.set(&registration);
    let tasks = manifest.tasks.iter().map(|task| {
        json!({
            "task_id": task.task_id,
            "split": task.split,
            "repo": task.repo,
            "content_hash": task.content_hash,
            "base_image": task.base_image,
            "portable": task.portable,
            "path": path.join("tasks").join(task.task_id.as_str()).display().to_string(),
        })
    });
    output.json(&json!({
        "name": registration.name,
        "version": registration.version,
        "semantic_digest": registration.semantic_digest,
        "origin": registration.origin,
        "package_digest": registration.package_digest,
        "path": path.display().to_string(),
        "attestation": attestation(&path),
        "splits": manifest.counts.splits,
        "tasks": tasks.collect::<Vec<_>>(),
    }))?;
    let mut repositories: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for task in &manifest.tasks {
        repositories.entry(task.split).or_default().insert(&task.repo);
    }
    output.print(format_args!(
        "{}@{}\n  path    {}\n  digest  {}\n  from    {}\n",
        registration.name,
        registration.version,
        path.display(),
        registration.semantic_digest,
        registration.origin
    ))?;
    output.print(table(
        ["split", "tasks", "repositories"],
        manifest.counts.splits.iter().map(|(split, tasks)| {
            let repositories = repositories.get(split).map_or(0, BTreeSet::len);
            [split.to_string(), tasks.to_string(), repositories.to_string()]
        }),
    ))
}
