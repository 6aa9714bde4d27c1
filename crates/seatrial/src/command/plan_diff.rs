//! `seatrial plan diff`: what one plan does otherwise than another.

use std::path::Path;

use artifact::ArtifactError;
use plan::{InputChange, PlanDiff};
use record::{PlanDocument, PlannedTask, PoolSummary};
use serde_json::json;

use crate::cli;
use crate::failure::{Exit, Failure, Result};
use crate::output::{Output, table};
use crate::project::RECIPE;
use crate::stage::plan::{PLAN, RESERVES};

/// The command.
pub fn run(output: Output, directory: &Path, arguments: &cli::PlanDiff) -> Result {
    let (before, after) = (directory.join(&arguments.before), directory.join(&arguments.after));
    if let Some(missing) = [&before, &after].into_iter().find(|path| !path.exists()) {
        return Err(no_plan(format!("there is no {}", missing.display())));
    }
    let documents: Vec<(&str, PlanDiff)> = match (before.is_dir(), after.is_dir()) {
        (true, true) => [PLAN, RESERVES]
            .into_iter()
            .map(|name| Ok((name, compare(&before.join(name), &after.join(name))?)))
            .collect::<Result<_>>()?,
        (false, false) => vec![(PLAN, compare(&before, &after)?)],
        _ => {
            let message = format!(
                "{} and {} cannot be compared: one is a directory and one is not",
                arguments.before.display(),
                arguments.after.display()
            );
            return Err(Failure::new(Exit::Usage, message));
        }
    };
    if documents.iter().all(|(_, diff)| diff.is_empty()) {
        output.print("the plans are the same")?;
    }
    for (at, (name, diff)) in documents.iter().enumerate().filter(|(_, (_, diff))| !diff.is_empty()) {
        if documents.len() > 1 {
            output.print(format_args!("{}{name}", if at > 0 { "\n" } else { "" }))?;
        }
        show(output, diff)?;
    }
    let documents: serde_json::Map<_, _> =
        documents.into_iter().map(|(name, diff)| (name.to_owned(), json!(diff))).collect();
    output.json(&json!({ "documents": documents }))
}

fn compare(before: &Path, after: &Path) -> Result<PlanDiff> {
    Ok(PlanDiff::of(&document(before)?, &document(after)?))
}

/// A document that somebody has named, which may be anything: that it is no plan says nothing about the project.
fn document(path: &Path) -> Result<PlanDocument> {
    match artifact::load::<PlanDocument>(path) {
        Ok((document, _)) => Ok(document),
        Err(ArtifactError::Missing { path, .. }) => Err(no_plan(format!("there is no {}", path.display()))),
        Err(ArtifactError::Invalid { path, detail, .. }) => {
            Err(no_plan(format!("{} is no plan: {detail}", path.display())))
        }
        Err(error) => Err(error.into()),
    }
}

fn no_plan(message: String) -> Failure {
    let hint = "name a plan.json or a reserves.json, or a directory that holds both";
    Failure::new(Exit::Usage, message).hint(hint)
}

fn show(output: Output, diff: &PlanDiff) -> Result {
    for (name, change) in &diff.inputs {
        let what = match change {
            InputChange::Added => "is new".to_owned(),
            InputChange::Removed => "is gone".to_owned(),
            // A recipe has no rows that tell anything.
            InputChange::Changed(_) if name == RECIPE => "decides otherwise".to_owned(),
            InputChange::Changed(change) => {
                let rows = |input: &Option<record::SourceInput>| input.as_ref().map_or(0, |input| input.rows);
                match (rows(&change.before), rows(&change.after)) {
                    (before, after) if before == after => format!("differs: {after} rows, as before"),
                    (before, after) => format!("differs: {before} rows before, {after} after"),
                }
            }
        };
        output.print(format_args!("input `{name}` {what}"))?;
    }
    for change in &diff.pools {
        let shown = |pool: &Option<PoolSummary>| {
            pool.as_ref().map_or_else(
                || "nothing".to_owned(),
                |pool| {
                    let PoolSummary { target, cap, relaxed, selected, .. } = pool;
                    let raised = if *relaxed > 0 { format!(" raised by {relaxed}") } else { String::new() };
                    format!("{selected} of {target}, cap {cap}{raised}")
                },
            )
        };
        let stage = change.after.as_ref().or(change.before.as_ref()).map_or("", |pool| &pool.stage);
        output.print(format_args!(
            "pool `{stage}`: {} -> {}",
            shown(&change.before),
            shown(&change.after)
        ))?;
    }
    let mut rows: Vec<[String; 4]> = Vec::new();
    let mut list = |sign: &str, tasks: &[PlannedTask]| {
        rows.extend(tasks.iter().map(|task| {
            let tier = task.evidence_tier.map_or_else(|| "no tier".to_owned(), |tier| format!("tier {tier}"));
            [sign.to_owned(), task.task_id.to_string(), task.stage.clone(), tier]
        }));
    };
    list("+", &diff.added);
    list("-", &diff.removed);
    for change in &diff.changed {
        let fields: Vec<_> = change
            .fields
            .iter()
            .map(|(name, (before, after))| format!("{name}: {before} -> {after}"))
            .collect();
        rows.push(["~".into(), change.task_id.clone(), fields.join("; "), String::new()]);
    }
    if !rows.is_empty() {
        output.print(table(["", "task", "pool or change", "evidence"], rows))?;
    }
    output.print(format_args!(
        "{} added, {} removed, {} changed, {} in another order",
        diff.added.len(),
        diff.removed.len(),
        diff.changed.len(),
        diff.moved
    ))
}
