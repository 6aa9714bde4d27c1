//! `seatrial export`: the frozen set in the formats of trainers.

use std::path::Path;

use dataset::{ExportFormat, ExportInput, Exported};
use serde_json::json;

use crate::cli;
use crate::failure::Result;
use crate::hub;
use crate::output::Output;
use crate::project::Project;
use crate::stage::freeze;

/// Directory of exports.
pub const EXPORTS: &str = "exports";

/// The command.
pub fn run(output: Output, project: &Project, arguments: &cli::Export) -> Result {
    let frozen = freeze::current(project)?;
    let formats = if arguments.formats.is_empty() { wanted(project) } else { arguments.formats.clone() };
    let exported = write(output, project, &frozen, &formats)?;
    let paths: Vec<_> = exported.iter().map(|exported| exported.path.display().to_string()).collect();
    let Some(place) = &arguments.push else { return output.json(&json!({ "exports": paths })) };
    let pushed = hub::push(output, project, &frozen, place, arguments.public)?;
    output.json(&json!({
        "exports": paths,
        "pushed": {
            "repo": place.repo,
            "commit": pushed.commit,
            "changed": pushed.changed,
            "removed": pushed.removed,
            "stored": pushed.stored,
        },
    }))
}

/// The formats of the recipe.
pub fn wanted(project: &Project) -> Vec<ExportFormat> {
    let format = |export: &recipe::ExportRecipe| match export.format {
        recipe::ExportFormat::Harbor => ExportFormat::Harbor,
        recipe::ExportFormat::TaskParquet => ExportFormat::TaskParquet,
        recipe::ExportFormat::Verl => ExportFormat::Verl,
        recipe::ExportFormat::SkyRl => ExportFormat::SkyRl,
        recipe::ExportFormat::NemoGym => ExportFormat::NemoGym,
        recipe::ExportFormat::Slime => ExportFormat::Slime,
        recipe::ExportFormat::Package => ExportFormat::Package,
    };
    project.recipe.exports.iter().map(format).collect()
}

/// Writes a frozen set in some formats.
pub fn write(
    output: Output,
    project: &Project,
    frozen: &Path,
    formats: &[ExportFormat],
) -> Result<Vec<Exported>> {
    let aliases = project.aliases()?;
    let mut all = Vec::new();
    for format in formats.iter().copied() {
        let exported = dataset::export(&ExportInput {
            frozen,
            exports: &project.path(EXPORTS),
            format,
            organisation: &project.recipe.materialize.organisation,
            aliases: &aliases,
        })
        .map_err(|error| freeze::failure(&error))?;
        output.stage("export", format_args!("{}: {}", format.name(), exported.path.display()));
        all.push(exported);
    }
    Ok(all)
}
