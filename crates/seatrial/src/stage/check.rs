//! The check stage: static rules over the materialized tasks.

use std::collections::BTreeMap;

use check::{CheckOptions, Profile, accepted, check_all};
use ident::Digest;
use record::{CheckDocument, CheckedTask, Finding, Severity};

use crate::failure::{Exit, Failure, OrExit, Result};
use crate::output::{Output, count};
use crate::project::Project;
use crate::stage::materialize::{self, MATERIALIZE, TASKS};

/// Name of the document.
pub const CHECKS: &str = "checks.json";

/// The command without paths.
pub fn run(output: Output, project: &Project) -> Result {
    let document = write(output, project)?;
    for task in &document.tasks {
        show(output, task.task_id.as_str(), &task.findings)?;
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
    let results = check_all(&paths, &CheckOptions::of(Profile::Materialized));
    let mut tasks = Vec::new();
    for (task, (_, findings)) in materialized.tasks.iter().zip(results) {
        let findings = findings.or_exit(Exit::Failed)?;
        tasks.push(CheckedTask {
            task_id: task.task_id.clone(),
            tree_digest: task.tree_digest,
            accepted: accepted(&findings),
            findings,
        });
    }
    let document = CheckDocument {
        schema: <CheckDocument as artifact::Document>::SCHEMA.into(),
        inputs: inputs(digest),
        tasks,
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
    if document.inputs == inputs(materialize::file_digest(&project.path(MATERIALIZE))?) {
        Ok((document, digest))
    } else {
        let message = format!("{CHECKS} was made from another {MATERIALIZE} or by other rules");
        Err(Failure::new(Exit::Conflict, message).hint("run `seatrial check`, or `seatrial up`"))
    }
}

fn inputs(materialized: Digest) -> artifact::Inputs {
    let lines = check::rules().iter().map(|rule| format!("{} {:?}\n", rule.name, rule.materialized));
    let rules = lines.collect::<Vec<_>>().concat();
    BTreeMap::from([
        (MATERIALIZE.to_owned(), materialized),
        ("rules".to_owned(), Digest::of(format!("{}\n{rules}", env!("CARGO_PKG_VERSION")))),
    ])
}

/// Prints the findings of one task, each with its place and what to do.
pub fn show(output: Output, task: &str, findings: &[Finding]) -> Result {
    for finding in findings {
        let severity = severity(finding.severity);
        let line = finding.line.map(|line| format!(":{line}")).unwrap_or_default();
        output.print(format_args!(
            "{task}/{}{line}: {severity}[{}]: {}\n    fix: {}",
            finding.file, finding.rule, finding.message, finding.fix
        ))?;
    }
    Ok(())
}

/// A severity in one word.
pub fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    }
}
