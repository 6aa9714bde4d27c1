//! `seatrial freeze`: the chosen tasks, copied and described for good; and `seatrial freeze --check`.

use std::path::{Path, PathBuf};

use dataset::{DatasetError, FreezeInput, Frozen};
use ident::AliasTable;
use serde_json::json;

use crate::cli;
use crate::failure::{Exit, Failure, OrExit, Result};
use crate::output::{Output, count};
use crate::project::Project;
use crate::stage::materialize::{self, TASKS};
use crate::stage::{prove, resolve};

/// No inventory of a host comes near this size.
const HOST_LIMIT: u64 = 64 << 20;
/// Directory of frozen sets.
pub const FROZEN: &str = "frozen";

/// The command in both forms.
pub fn run(output: Output, directory: &Path, arguments: &cli::Freeze) -> Result {
    match &arguments.check {
        None => {
            let project = Project::open(directory)?;
            let _claim = project.claim()?;
            let frozen = write(output, &project)?;
            output.json(&json!({
                "directory": frozen.path.display().to_string(),
                "tasks": frozen.manifest.counts.tasks,
                "semantic_digest": frozen.manifest.semantic_digest,
                "existed": frozen.existed,
            }))
        }
        Some(Some(path)) => check(output, &directory.join(path), &AliasTable::default()),
        Some(None) => {
            let project = Project::open(directory)?;
            check(output, &current(&project)?, &project.aliases()?)
        }
    }
}

/// Freezes the selection.
pub fn write(output: Output, project: &Project) -> Result<Frozen> {
    let (selection, selection_digest) = resolve::load(project)?;
    let (materialized, _) = materialize::load(project)?;
    let (proofs, _) = prove::load(project)?;
    let mut inputs = resolve::inputs(project)?;
    inputs.insert(resolve::SELECTION.to_owned(), selection_digest);
    let host = project.path(prove::HOST);
    let host_inventory = if host.exists() { Some(artifact::read_bounded(&host, HOST_LIMIT)?) } else { None };
    let frozen = dataset::freeze(&FreezeInput {
        name: &project.recipe.dataset.name,
        version: &project.recipe.dataset.version,
        plan_rules: plan::RULES,
        selection: &selection,
        materialized: &materialized,
        proofs: &proofs,
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
    Ok(frozen)
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

fn check(output: Output, directory: &Path, aliases: &AliasTable) -> Result {
    if !["manifest.json", "SHA256SUMS"].iter().any(|file| directory.join(file).exists()) {
        let message =
            format!("{} is no frozen set: it has neither manifest.json nor SHA256SUMS", directory.display());
        return Err(Failure::new(Exit::Usage, message).hint("name one of the directories below frozen/"));
    }
    let verification = dataset::verify(directory, aliases).or_exit(Exit::Failed)?;
    for problem in &verification.problems {
        output.print(problem)?;
    }
    output.json(&json!({
        "directory": directory.display().to_string(),
        "files": verification.files,
        "problems": verification.problems,
    }))?;
    match verification.problems.len() {
        0 => output.print(format_args!("{} files verified in {}", verification.files, directory.display())),
        n => {
            let message = format!("{} is not as it was frozen: {}", directory.display(), count(n, "problem"));
            Err(Failure::new(Exit::Conflict, message).silent())
        }
    }
}

/// The exit code of an error of this stage or of exports.
pub fn failure(error: &DatasetError) -> Failure {
    let exit = match error {
        DatasetError::Io { .. } | DatasetError::Task { .. } => Exit::Failed,
        DatasetError::Empty => Exit::Refused,
        DatasetError::Name { .. } | DatasetError::Alias(_) => Exit::Usage,
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
