//! `seatrial check`: the static rules, over a recipe's tasks or over any task directories.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use check::{CheckOptions, Profile, SetOptions, check_all, check_patch, check_set};
use record::Finding;
use serde_json::json;

use crate::cli;
use crate::command::run::task_directories;
use crate::failure::{Exit, Failure, OrExit, Result};
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
    let subjects = subjects(directory, &arguments.paths)?;
    let found = findings(&subjects)?;
    let labels: Vec<String> = subjects.iter().map(|subject| subject.path().display().to_string()).collect();
    if arguments.sarif {
        let places: Vec<String> = subjects.iter().map(|subject| place(directory, subject.path())).collect();
        stage::check::print_sarif(places.iter().map(String::as_str).zip(&found))?;
    } else {
        for (label, findings) in labels.iter().zip(&found) {
            stage::check::show(output, label, findings)?;
            output.json(&json!({"path": label, "findings": findings}))?;
        }
    }
    let (all, rejected) = (found.len(), found.iter().filter(|findings| !check::accepted(findings)).count());
    output.say(format_args!("{} checked, {rejected} with findings of severity error", count(all, "task")));
    match rejected {
        0 => Ok(()),
        _ => {
            Err(Failure::new(Exit::Failed, format!("{rejected} of {} are rejected", count(all, "task")))
                .silent())
        }
    }
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

/// What the paths name, each once, in the order of the paths and, inside a directory of tasks, by name.
fn subjects(directory: &Path, paths: &[PathBuf]) -> Result<Vec<Subject>> {
    let mut subjects = Vec::new();
    for path in paths {
        // `.` and `./` in the middle say nothing to anybody.
        let path: PathBuf = directory.join(path).components().collect();
        let patch = path.extension().is_some_and(|ending| ending == "patch" || ending == "diff");
        if patch && path.is_file() {
            subjects.push(Subject::Patch(path));
            continue;
        }
        match task_directories(&path) {
            Ok(found) => subjects.extend(found.into_iter().map(|(task, _)| Subject::Task(task))),
            // A directory with other parts of a task is one that lacks its task.toml.
            Err(_) if is_part_of_a_task(&path) => subjects.push(Subject::Task(path)),
            Err(failure) => return Err(failure),
        }
    }
    let mut seen = BTreeSet::new();
    subjects.retain(|subject| {
        let path = subject.path();
        seen.insert(path.canonicalize().unwrap_or_else(|_| path.to_owned()))
    });
    Ok(subjects)
}

/// The findings on each subject; the tasks among them are also judged as a set.
fn findings(subjects: &[Subject]) -> Result<Vec<Vec<Finding>>> {
    let options = CheckOptions::of(Profile::Foreign);
    let tasks: Vec<&Path> =
        subjects.iter().filter(|subject| matches!(subject, Subject::Task(_))).map(Subject::path).collect();
    let checked: std::result::Result<Vec<_>, _> = check_all(&tasks, &options).into_iter().collect();
    let mut checked = checked.or_exit(Exit::Failed)?;
    check_set(&mut checked, &SetOptions::default(), &options);
    let mut checked = checked.into_iter();
    subjects
        .iter()
        .map(|subject| match subject {
            Subject::Task(_) => Ok(checked.next().map(|task| task.findings).unwrap_or_default()),
            Subject::Patch(path) => {
                Ok(check_patch("", &artifact::read_bounded(path, PATCH_LIMIT)?, &options))
            }
        })
        .collect()
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
