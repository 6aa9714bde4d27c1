//! `seatrial prove PATH...`: proofs of any task directories, without a recipe.

use std::collections::BTreeMap;
use std::path::Path;

use check::{CheckOptions, Profile, check_all};
use ident::TaskId;
use ledger::ProofRule;
use prove::{Candidate, cheats};
use record::{ProvedTask, Severity, Status};
use serde_json::json;

use crate::cli;
use crate::command::run::open_tasks;
use crate::failure::{Exit, Failure, OrExit, Result};
use crate::output::{Output, count, table};
use crate::project::{bases_in, cluster_of};
use crate::proof::{Proof, RETRIES, histories};
use crate::stage::{self, life};
use crate::workbench::{Places, Workbench};

/// Proves the tasks, each by itself: by the usual numbers of runs, and with the whole cheat set. Exits with 0 when all of them
/// are accepted.
pub fn run(output: Output, directory: &Path, arguments: &cli::Prove) -> Result {
    let tasks = open_tasks(directory, &arguments.paths)?;
    trial::distinct_names(&tasks).or_exit(Exit::Usage)?;
    let mut places: BTreeMap<TaskId, String> = BTreeMap::new();
    let mut candidates = Vec::with_capacity(tasks.len());
    for task in tasks {
        let place = task.directory.display().to_string();
        let name = task.directory.file_name().map(|name| name.to_string_lossy().into_owned());
        // The ledger knows tasks by the names of their directories, as a recipe's tasks are called.
        let task_id = name.unwrap_or_default().parse::<TaskId>().map_err(|error| {
            Failure::new(Exit::Usage, format!("{place} has a name that cannot be a task's: {error}"))
        })?;
        if let Some(first) = places.insert(task_id.clone(), place.clone()) {
            let message = format!("two task directories are called `{task_id}`: {first} and {place}");
            return Err(Failure::new(Exit::Usage, message).hint("prove them one after the other"));
        }
        candidates.push(Candidate { task_id, task, origin: None });
    }
    tell_faults(output, &candidates);
    let jobs_dir = directory.join("jobs");
    let ledger = directory.join(&arguments.ledger);
    let bench = Workbench::open(
        Places {
            engine: arguments.engine.unwrap_or_default().into(),
            state: directory.join(".seatrial"),
            private: vec![directory.to_owned(), jobs_dir.clone(), ledger.clone()],
            cluster: cluster_of(arguments.engine.unwrap_or_default().into(), directory)?,
            bases: bases_in(output, directory),
            ..Places::default()
        },
        &arguments.jobs,
    )?;
    let proof = Proof {
        rule: ProofRule { retries: RETRIES, cheats: cheats::asked(false).into(), ..ProofRule::default() },
        confirm: arguments.confirm,
        histories: histories(directory, &arguments.reconcile)?,
        dry_run: arguments.dry_run,
        history: prove::history::Allowed::Ancestors,
        root: directory.to_owned(),
        ledger,
        jobs_dir,
        host: None,
    };
    let proved = proof.run(output, &bench, &candidates, |_| Ok(()))?;
    if arguments.dry_run {
        return Ok(());
    }
    show(output, &proved)
}

/// Tells what the static rules hold against the tasks, since a verdict on a task with such a fault is about the fault. Tasks of a
/// recipe with one are not proved at all; whoever names a task himself gets what he asks for.
fn tell_faults(output: Output, candidates: &[Candidate]) {
    let directories: Vec<&Path> =
        candidates.iter().map(|candidate| candidate.task.directory.as_path()).collect();
    let checked = check_all(&directories, &CheckOptions::of(Profile::Foreign));
    for (checked, directory) in checked.into_iter().zip(directories) {
        // What cannot be read has been told by whoever opened the task.
        let findings = checked.map(|task| task.findings).unwrap_or_default();
        for finding in findings.iter().filter(|finding| finding.severity == Severity::Error) {
            output.warn(stage::check::line(&directory.display().to_string(), finding));
        }
    }
}

fn show(output: Output, proved: &[ProvedTask]) -> Result {
    for task in proved {
        output.json(&json!(task))?;
    }
    output.print(table(
        ["task", "verdict", "runs"],
        proved
            .iter()
            .map(|task| [task.task_id.to_string(), life::described(&task.verdict), life::runs(task)]),
    ))?;
    match proved.iter().filter(|task| task.verdict != Status::Accepted).count() {
        0 => Ok(()),
        rest => Err(Failure::new(Exit::Failed, format!("{} not accepted", count(rest, "task"))).silent()),
    }
}
