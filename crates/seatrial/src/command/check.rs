//! `seatrial check`: the static rules, over a recipe's tasks or over any task directories.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use check::{CheckOptions, Profile, SetOptions, check_all, check_patch, check_set};
use record::Finding;
use serde::Serialize;
use serde_json::json;

use crate::cli;
use crate::command::run::{named, task_directories};
use crate::failure::{Exit, Failure, Result};
use crate::output::{Output, count, table};
use crate::project::Project;
use crate::stage;
use crate::stage::check::severity;

/// No patch comes near this size.
const PATCH_LIMIT: u64 = 64 << 20;

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
        return stage::check::run(output, &project, arguments.sarif);
    }
    let subjects = subjects(output, directory, &arguments.paths)?;
    let asked = subjects.len();
    let (subjects, found): (Vec<Subject>, Vec<Vec<Finding>>) =
        findings(output, subjects)?.into_iter().unzip();
    let unread = asked - subjects.len();
    let labels: Vec<String> = subjects.iter().map(|subject| subject.path().display().to_string()).collect();
    if arguments.sarif {
        let places: Vec<String> = subjects.iter().map(|subject| place(directory, subject.path())).collect();
        stage::check::print_sarif(places.iter().map(String::as_str).zip(&found))?;
    } else {
        for (label, findings) in labels.iter().zip(&found) {
            stage::check::show(output, label, findings)?;
        }
        let documents = labels.iter().zip(&found).map(|(path, findings)| Document { path, findings });
        output.json_lines(documents)?;
    }
    let (all, rejected) = (found.len(), found.iter().filter(|findings| !check::accepted(findings)).count());
    output.say(format_args!("{} checked, {rejected} with findings of severity error", count(all, "task")));
    let message = match (rejected, unread) {
        (0, 0) => return Ok(()),
        (_, 0) => format!("rejected: {rejected} of {}", count(all, "task")),
        _ => format!("rejected: {rejected} of {}; {unread} more could not be read", count(all, "task")),
    };
    Err(Failure::new(Exit::Failed, message).silent())
}

/// What is said of one task in JSON.
#[derive(Serialize)]
struct Document<'a> {
    path: &'a str,
    findings: &'a [Finding],
}

/// What is checked by itself.
enum Subject {
    Task(PathBuf),
    Patch(PathBuf),
}

impl Subject {
    fn path(&self) -> &Path {
        let (Self::Task(path) | Self::Patch(path)) = self;
        path
    }
}

/// What the paths name, each once, in the order of the paths and, inside a directory of tasks, by name. Links in such a
/// directory are told and not followed.
fn subjects(output: Output, directory: &Path, paths: &[PathBuf]) -> Result<Vec<Subject>> {
    let mut subjects = Vec::new();
    for path in paths {
        let path = named(directory, path);
        let patch = path.extension().is_some_and(|ending| ending == "patch" || ending == "diff");
        if patch && path.is_file() {
            subjects.push(Subject::Patch(path));
            continue;
        }
        match task_directories(&path) {
            Ok(found) => {
                for (task, set) in found {
                    if set.is_some() && task.is_symlink() {
                        output.warn(format_args!("{} is a link and was not checked", printed(&task)));
                    } else {
                        subjects.push(Subject::Task(task));
                    }
                }
            }
            // A directory with other parts of a task is one that lacks its task.toml.
            Err(_) if is_part_of_a_task(&path) => subjects.push(Subject::Task(path)),
            Err(failure) => return Err(failure),
        }
    }
    if paths.len() < 2 {
        // One path leads to no task twice.
        return Ok(subjects);
    }
    let mut seen = BTreeSet::new();
    subjects.retain(|subject| {
        let path = subject.path();
        seen.insert(path.canonicalize().unwrap_or_else(|_| path.to_owned()))
    });
    Ok(subjects)
}

/// The findings on each subject; the tasks among them are also judged as a set. A task that cannot be read is told and left out.
fn findings(output: Output, subjects: Vec<Subject>) -> Result<Vec<(Subject, Vec<Finding>)>> {
    let options = CheckOptions::of(Profile::Foreign);
    let tasks: Vec<&Path> =
        subjects.iter().filter(|subject| matches!(subject, Subject::Task(_))).map(Subject::path).collect();
    let results = check_all(&tasks, &options);
    let mut is_read = Vec::with_capacity(results.len());
    let mut checked = Vec::with_capacity(results.len());
    for (result, path) in results.into_iter().zip(tasks) {
        is_read.push(result.is_ok());
        match result {
            Ok(task) => checked.push(task),
            Err(error) => {
                output.warn(format_args!("{}: not checked: {error}", printed(path)));
                output.json(&json!({"path": path.display().to_string(), "error": error.to_string()}))?;
            }
        }
    }
    check_set(&mut checked, &SetOptions::default(), &options);
    let (mut checked, mut is_read) = (checked.into_iter(), is_read.into_iter());
    let mut found = Vec::with_capacity(subjects.len());
    for subject in subjects {
        match &subject {
            Subject::Task(_) if is_read.next() == Some(false) => {}
            Subject::Task(_) => {
                let findings = checked.next().map(|task| task.findings).unwrap_or_default();
                found.push((subject, findings));
            }
            Subject::Patch(path) => {
                let findings = check_patch("", &artifact::read_bounded(path, PATCH_LIMIT)?, &options);
                found.push((subject, findings));
            }
        }
    }
    Ok(found)
}

/// A path in a line.
fn printed(path: &Path) -> String {
    task::printable(path.as_os_str().as_encoded_bytes())
}

/// Where a subject lies, as logs for code review name it: from the directory where the check was started, else absolute.
fn place(directory: &Path, path: &Path) -> String {
    let plain =
        |path: &Path| path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    let inside = path.strip_prefix(directory).ok().filter(|inside| plain(inside));
    match inside {
        Some(inside) => {
            let parts = inside.components().filter(|part| matches!(part, Component::Normal(_)));
            let parts: Vec<_> = parts.map(|part| part.as_os_str().to_string_lossy()).collect();
            parts.join("/")
        }
        None => path.canonicalize().unwrap_or_else(|_| path.to_owned()).display().to_string(),
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
