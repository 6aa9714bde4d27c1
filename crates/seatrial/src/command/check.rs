//! `seatrial check`: the static rules, over a recipe's tasks or over any task directories.

use std::path::Path;

use check::{CheckOptions, Profile, check_all};
use serde_json::json;

use crate::cli;
use crate::command::run::task_directories;
use crate::failure::{Exit, Failure, OrExit, Result};
use crate::output::{Output, table};
use crate::project::Project;
use crate::stage;
use crate::stage::check::severity;

/// The command in all its forms.
pub fn run(output: Output, directory: &Path, arguments: &cli::Check) -> Result {
    if arguments.list {
        return list(output);
    }
    if let Some(rule) = &arguments.explain {
        return explain(output, rule);
    }
    if arguments.paths.is_empty() {
        let project = Project::open(directory)?;
        let _claim = project.claim()?;
        return stage::check::run(output, &project);
    }
    let mut paths = Vec::new();
    for path in &arguments.paths {
        match task_directories(&directory.join(path)) {
            Ok(directories) => paths.extend(directories.into_iter().map(|(directory, _)| directory)),
            // A directory with other parts of a task is one that lacks its task.toml.
            Err(_) if is_part_of_a_task(&directory.join(path)) => paths.push(directory.join(path)),
            Err(failure) => return Err(failure),
        }
    }
    let mut rejected = 0;
    let results = check_all(&paths, &CheckOptions::of(Profile::Foreign));
    let count = results.len();
    for (path, findings) in results {
        let findings = findings.or_exit(Exit::Failed)?;
        rejected += usize::from(!check::accepted(&findings));
        stage::check::show(output, &path.display().to_string(), &findings)?;
        output.json(&json!({"path": path.display().to_string(), "findings": findings}))?;
    }
    output.say(format_args!("{count} tasks checked, {rejected} with findings of severity error"));
    match rejected {
        0 => Ok(()),
        _ => Err(Failure::new(Exit::Failed, format!("{rejected} of {count} tasks are rejected")).silent()),
    }
}

fn is_part_of_a_task(directory: &Path) -> bool {
    ["instruction.md", "environment", "tests", "solution"].iter().any(|part| directory.join(part).exists())
}

fn list(output: Output) -> Result {
    for rule in check::rules() {
        output.json(&json!({
            "name": rule.name,
            "family": rule.family.to_string(),
            "severity": rule.severity,
            "summary": rule.summary,
        }))?;
    }
    let rows = check::rules().iter().map(|rule| {
        [
            rule.name.to_owned(),
            rule.family.to_string(),
            severity(rule.severity).to_owned(),
            rule.summary.to_owned(),
        ]
    });
    output.print(table(["rule", "family", "severity", "what it finds"], rows))
}

fn explain(output: Output, name: &str) -> Result {
    let rule = check::explain(name).ok_or_else(|| {
        Failure::new(Exit::Usage, format!("no rule is called `{name}`"))
            .hint("`seatrial check --list` names them all")
    })?;
    output.json(&json!({
        "name": rule.name,
        "family": rule.family.to_string(),
        "severity": rule.severity,
        "summary": rule.summary,
        "explanation": rule.explanation,
        "fix": rule.fix,
    }))?;
    output.print(format_args!(
        "{} ({}, {})\n{}\n\n{}\n\nfix: {}",
        rule.name,
        rule.family,
        severity(rule.severity),
        rule.summary,
        rule.explanation,
        rule.fix
    ))
}
