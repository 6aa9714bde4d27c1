//! `seatrial export`: the frozen set in the formats of trainers.

use std::path::Path;

use dataset::{ExportFormat, ExportInput, Exported};
use serde_json::json;

use crate::failure::Result;
use crate::output::Output;
use crate::project::Project;
use crate::stage::freeze;

/// Directory of exports.
pub const EXPORTS: &str = "exports";

/// The command.
pub fn run(output: Output, project: &Project) -> Result {
    let exported = write(output, project, &freeze::current(project)?)?;
    let paths: Vec<_> = exported.iter().map(|exported| exported.path.display().to_string()).collect();
    output.json(&json!({"exports": paths}))
}

/// Writes every format of the recipe.
pub fn write(output: Output, project: &Project, frozen: &Path) -> Result<Vec<Exported>> {
    let aliases = project.aliases()?;
    let mut all = Vec::new();
    for recipe in &project.recipe.exports {
        let format = match recipe.format {
            recipe::ExportFormat::Harbor => ExportFormat::Harbor,
            recipe::ExportFormat::TaskParquet => ExportFormat::TaskParquet,
            recipe::ExportFormat::Verl => ExportFormat::Verl,
            recipe::ExportFormat::SkyRl => ExportFormat::SkyRl,
            recipe::ExportFormat::NemoGym => ExportFormat::NemoGym,
        };
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
