//! `seatrial freeze`: the chosen tasks, copied and described for good; and `seatrial freeze --check`.

mod beside;
mod check;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use dataset::{DatasetError, FreezeInput, Frozen, ProofDemand};
use ident::TaskId;
use jiff::Timestamp;
use serde_json::json;

use crate::cli;
use crate::failure::{Exit, Failure, Result};
use crate::output::Output;
use crate::project::Project;
use crate::sources::LOCK;
use crate::stage::materialize::{TASKS, file_digest};
use crate::stage::{images, prove, resolve};

/// No inventory of a host comes near this size.
const HOST_LIMIT: u64 = 64 << 20;
/// Directory of frozen sets.
pub const FROZEN: &str = "frozen";

/// The command in both forms.
pub fn run(output: Output, directory: &Path, arguments: &cli::Freeze) -> Result {
    if let Some(set) = &arguments.check {
        return check::run(output, directory, set.as_deref(), arguments);
    }
    let project = Project::open(directory)?;
    let _claim = project.claim()?;
    let frozen = write(output, &project, arguments.key.as_deref())?;
    let signature = dataset::signature_path(&frozen.path);
    output.json(&json!({
        "directory": frozen.path.display().to_string(),
        "tasks": frozen.manifest.counts.tasks,
        "semantic_digest": frozen.manifest.semantic_digest,
        "existed": frozen.existed,
        "report": dataset::report_path(&frozen.path).display().to_string(),
        "attestation": dataset::attestation_path(&frozen.path).display().to_string(),
        "signature": signature.exists().then(|| signature.display().to_string()),
    }))
}

/// Freezes the selection, and writes the report and the attestation beside it where they are not there yet.
pub fn write(output: Output, project: &Project, key: Option<&Path>) -> Result<Frozen> {
    let begun = Timestamp::now();
    let signer = beside::signer(project, key)?;
    let (selection, _) = resolve::load(project)?;
    let documents = resolve::Documents::load(project)?;
    let resolve::Documents { plan, materialized, checks, proofs, .. } = &documents;
    let chosen: BTreeSet<&TaskId> = selection.tasks.iter().map(|task| &task.task_id).collect();
    let tasks: Vec<_> = materialized.tasks.iter().filter(|task| chosen.contains(&task.task_id)).collect();
    let images = images::frozen(output, project, &tasks)?;
    // What differs from run to run has no place in a set that others should be able to make again.
    let mut inputs = resolve::inputs(project)?;
    inputs.remove(prove::PROOFS);
    inputs.insert(LOCK.to_owned(), file_digest(&project.path(LOCK))?);
    let host = project.path(prove::HOST);
    let host_inventory = if host.exists() { Some(artifact::read_bounded(&host, HOST_LIMIT)?) } else { None };
    let frozen = dataset::freeze(&FreezeInput {
        name: &project.recipe.dataset.name,
        version: &project.recipe.dataset.version,
        plan,
        selection: &selection,
        materialized,
        checks,
        proofs,
        proof_rule: demand(project),
        images: &images,
        inputs: &inputs,
        aliases: project.alias_names(),
        host_inventory: host_inventory.as_deref(),
        tasks: &project.path(TASKS),
        frozen: &project.path(FROZEN),
    })
    .map_err(|error| failure(&error))?;
    let how = if frozen.existed { "as before" } else { "new" };
    output.stage(
        "freeze",
        format_args!("{} tasks, {how}: {}", frozen.manifest.counts.tasks, frozen.path.display()),
    );
    beside::write(output, project, &frozen, &documents, &selection, begun, signer.as_ref())?;
    Ok(frozen)
}

/// How much proof the recipe asks for.
fn demand(project: &Project) -> ProofDemand {
    let recipe = &project.recipe.prove;
    let bound = ledger::flake_bound(recipe.nop_runs.min(recipe.oracle_runs));
    ProofDemand {
        nop_runs: recipe.nop_runs,
        oracle_runs: recipe.oracle_runs,
        confirm_runs: recipe.confirm_runs,
        flake_bound_permille: (bound * 1000.0).ceil() as u32,
    }
}

/// The frozen set that belongs to the selection as it stands.
pub fn current(project: &Project) -> Result<PathBuf> {
    let (selection, _) = resolve::load(project)?;
    let path = project.path(FROZEN).join(project.frozen_name(selection.tasks.len()));
    if path.is_dir() {
        Ok(path)
    } else {
        Err(Failure::new(Exit::Usage, format!("{} is missing; run `seatrial freeze` first", path.display())))
    }
}

/// The exit code of an error of this stage or of exports.
pub fn failure(error: &DatasetError) -> Failure {
    let exit = match error {
        DatasetError::Io { source, .. } if artifact::is_disk_full(source) => Exit::Budget,
        DatasetError::Io { .. } | DatasetError::Task { .. } | DatasetError::Unfit { .. } => Exit::Failed,
        DatasetError::Empty | DatasetError::Images(_) => Exit::Refused,
        DatasetError::Name { .. } | DatasetError::Alias(_) | DatasetError::Key { .. } => Exit::Usage,
        _ => Exit::Conflict,
    };
    let failure = Failure::from_error(exit, error);
    match error {
        DatasetError::Unsound { .. } => failure.hint(
            "put the files back, or remove that directory and run `seatrial freeze` again; verdicts are kept",
        ),
        _ => failure,
    }
}
