//! The check stage: static rules over the materialized tasks.

use std::collections::{BTreeMap, BTreeSet};

use check::{CheckOptions, Profile, SetOptions, accepted, check_all, check_set};
use ident::{Digest, RepoKey};
use recipe::HeldOut;
use record::{CheckDocument, CheckedTask, Finding, Severity};

use crate::failure::{Exit, Failure, OrExit, Result};
use crate::output::{Output, count, one_line, print_line};
use crate::project::{Project, section_digest};
use crate::stage::materialize::{self, MATERIALIZE, TASKS};

/// Name of the document.
pub const CHECKS: &str = "checks.json";

/// No list of repositories comes near this size.
const HELD_OUT_LIMIT: u64 = 4 << 20;

/// The command without paths.
pub fn run(output: Output, project: &Project, sarif: bool) -> Result {
    let document = write(output, project)?;
    if sarif {
        let places: Vec<String> =
            document.tasks.iter().map(|task| format!("{TASKS}/{}", task.task_id)).collect();
        print_sarif(places.iter().map(String::as_str).zip(document.tasks.iter().map(|task| &task.findings)))?;
    } else {
        for task in &document.tasks {
            show(output, task.task_id.as_str(), &task.findings)?;
        }
    }
    let rejected = document.tasks.iter().filter(|task| !task.accepted).count();
    output.json(&document)?;
    match rejected {
        0 => Ok(()),
        _ => Err(Failure::new(
            Exit::Failed,
            format!("findings of severity error in {}", count(rejected, "task")),
        )
        .silent()),
    }
}

/// Checks every materialized task and writes the document.
pub fn write(output: Output, project: &Project) -> Result<CheckDocument> {
    let (materialized, digest) = materialize::load(project)?;
    let paths: Vec<_> =
        materialized.tasks.iter().map(|task| project.path(TASKS).join(task.task_id.as_str())).collect();
    let options = CheckOptions::of(Profile::Materialized);
    let checked: std::result::Result<Vec<_>, _> = check_all(&paths, &options).into_iter().collect();
    let mut checked = checked.or_exit(Exit::Failed)?;
    for (task, checked) in materialized.tasks.iter().zip(&mut checked) {
        checked.digest.repo = Some(task.repo.clone());
    }
    let set = SetOptions { aliases: project.aliases()?, held_out: held_out(project)? };
    let similar = check_set(&mut checked, &set, &options);
    let tasks = materialized.tasks.iter().zip(checked).map(|(task, checked)| CheckedTask {
        task_id: task.task_id.clone(),
        tree_digest: task.tree_digest,
        accepted: accepted(&checked.findings),
        findings: checked.findings,
    });
    let document = CheckDocument {
        schema: <CheckDocument as artifact::Document>::SCHEMA.into(),
        inputs: inputs(project, digest)?,
        tasks: tasks.collect(),
        similar,
    };
    artifact::store(&project.path(CHECKS), &document)?;
    let rejected = document.tasks.iter().filter(|task| !task.accepted).count();
    let findings: usize = document.tasks.iter().map(|task| task.findings.len()).sum();
    output.stage(
        "check",
        format_args!("{} tasks, {rejected} rejected, {findings} findings", document.tasks.len()),
    );
    Ok(document)
}

/// The document and its digest; refused when the tasks or the rules have changed since.
pub fn load(project: &Project) -> Result<(CheckDocument, Digest)> {
    let (document, digest) = artifact::load::<CheckDocument>(&project.path(CHECKS))?;
    if document.inputs == inputs(project, materialize::file_digest(&project.path(MATERIALIZE))?)? {
        Ok((document, digest))
    } else {
        let message =
            format!("{CHECKS} was made from another {MATERIALIZE}, another recipe, or by other rules");
        Err(Failure::new(Exit::Conflict, message).hint("run `seatrial check`, or `seatrial up`"))
    }
}

fn inputs(project: &Project, materialized: Digest) -> Result<artifact::Inputs> {
    let lines = check::rules().iter().map(|rule| format!("{} {:?}\n", rule.name, rule.materialized));
    let rules = lines.collect::<Vec<_>>().concat();
    Ok(BTreeMap::from([
        (MATERIALIZE.to_owned(), materialized),
        ("rules".to_owned(), Digest::of(format!("{}\n{rules}", env!("CARGO_PKG_VERSION")))),
        ("seatrial.toml".to_owned(), section_digest(&(held_out(project)?, project.alias_names()))?),
    ]))
}

/// The repositories that the recipe holds out, wherever it names them.
fn held_out(project: &Project) -> Result<BTreeSet<RepoKey>> {
    let (place, names) = match &project.recipe.check.held_out {
        HeldOut::Names(names) => ("`held_out` of seatrial.toml".to_owned(), names.clone()),
        HeldOut::File(file) => {
            let path = project.path(file);
            let text =
                String::from_utf8(artifact::read_bounded(&path, HELD_OUT_LIMIT)?).or_exit(Exit::Usage)?;
            let lines = text.trim_start_matches('\u{feff}').lines().map(str::trim);
            let names = lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned);
            (path.display().to_string(), names.collect())
        }
    };
    let key = |name: String| {
        RepoKey::parse(&name).map_err(|error| Failure::new(Exit::Usage, format!("{place}: {error}")))
    };
    names.into_iter().map(key).collect()
}

/// Prints findings as one SARIF log; each task comes with where it lies.
pub fn print_sarif<'a>(tasks: impl Iterator<Item = (&'a str, &'a Vec<Finding>)>) -> Result {
    let tasks = tasks.map(|(place, findings)| (place, findings.as_slice()));
    print_line(serde_json::to_string(&check::sarif(tasks, env!("CARGO_PKG_VERSION"))).or_exit(Exit::Failed)?)
}

/// Prints the findings of one task, each with its place and what to do.
pub fn show(output: Output, task: &str, findings: &[Finding]) -> Result {
    for finding in findings {
        let (line, fix) = (line(task, finding), one_line(&finding.fix));
        output.print(format_args!("{line}\n    fix: {fix}"))?;
    }
    Ok(())
}

/// One finding without its fix.
pub fn line(task: &str, finding: &Finding) -> String {
    let severity = severity(finding.severity);
    let line = finding.line.map(|line| format!(":{line}")).unwrap_or_default();
    let file = if finding.file.is_empty() { String::new() } else { format!("/{}", finding.file) };
    let place = one_line(format_args!("{task}{file}{line}"));
    format!("{place}: {severity}[{}]: {}", finding.rule, one_line(&finding.message))
}

/// A severity in one word.
pub fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    }
}
