//! `seatrial run`: an agent on task directories, as one Harbor-compatible job.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use record::Outcome;
use serde_json::json;
use tokio::sync::Semaphore;
use trial::{JobSpec, TrialReport, TrialTask};

use crate::cli;
use crate::failure::{Exit, Failure, OrExit, Result};
use crate::output::{Output, table};
use crate::progress;
use crate::workbench::{Places, Workbench};

/// Runs the agent; exits with 0 when every trial ended with a reward.
pub fn run(output: Output, directory: &Path, arguments: &cli::Run) -> Result {
    let mut tasks = Vec::new();
    for path in &arguments.paths {
        for (directory, source) in task_directories(&directory.join(path))? {
            let task = TrialTask::open(&directory, source.as_deref()).map_err(|error| {
                Failure::new(Exit::Usage, format!("task {}: {error}", directory.display()))
            })?;
            tasks.push(Arc::new(task));
        }
    }
    if let Some(name) = &arguments.job_name {
        // A job is one directory below the jobs, and nothing is written over another.
        let job = name.parse::<ident::TaskId>().map_err(|_| {
            Failure::new(Exit::Usage, format!("`{name}` cannot name a job"))
                .hint("use one plain directory name")
        })?;
        if directory.join(&arguments.output).join(job.as_str()).exists() {
            let message = format!("a job called `{name}` is there already in {}", arguments.output.display());
            return Err(Failure::new(Exit::Usage, message).hint("choose another name"));
        }
    }
    let jobs_dir = directory.join(&arguments.output);
    let places = Places {
        state: directory.join(".seatrial"),
        private: vec![directory.to_owned(), jobs_dir.clone()],
        ..Places::default()
    };
    let bench = Workbench::open(places, &arguments.jobs)?;
    let planned = tasks.len() * arguments.attempts as usize;
    let spec = JobSpec {
        name: arguments.job_name.clone().unwrap_or_default(),
        jobs_dir,
        agents: vec![arguments.agent],
        attempts: arguments.attempts,
        concurrency: bench.concurrency,
        planned,
    };
    let reports = bench.run(async {
        let (events, receiver) = tokio::sync::mpsc::unbounded_channel();
        let reporter = tokio::spawn(progress::show(output, "run", planned as u64, receiver));
        let job = match arguments.job_name {
            Some(_) => bench.job(spec, events),
            None => bench.timed_job(&spec, events),
        };
        let job = job.or_exit(Exit::Failed)?;
        let slots = Semaphore::new(bench.concurrency);
        let mut running: FuturesUnordered<_> = (0..arguments.attempts)
            .flat_map(|_| &tasks)
            .map(async |task| {
                let _slot = slots.acquire().await.expect("the semaphore is never closed");
                job.run(task, arguments.agent, None).await.map(|report| (task.name.clone(), report))
            })
            .collect();
        let mut reports = Vec::new();
        while let Some(report) = running.next().await {
            reports.push(report.or_exit(Exit::Failed)?);
        }
        drop(running);
        job.finish().or_exit(Exit::Failed)?;
        drop(job);
        let _ = reporter.await;
        Ok(reports)
    })?;
    show(output, reports)
}

fn show(output: Output, mut reports: Vec<(String, TrialReport)>) -> Result {
    reports.sort_by(|a, b| (&a.0, &a.1.trial).cmp(&(&b.0, &b.1.trial)));
    let failed =
        reports.iter().filter(|(_, report)| matches!(report.outcome, Outcome::Failed { .. })).count();
    let rewards: Vec<f64> = reports
        .iter()
        .filter_map(|(_, report)| match report.outcome {
            Outcome::Reward(reward) => Some(reward),
            Outcome::Failed { .. } => None,
        })
        .collect();
    for (task, report) in &reports {
        output.json(&json!({
            "task": task,
            "trial": report.trial,
            "directory": report.directory.display().to_string(),
            "outcome": report.outcome,
            "wall_ms": u64::try_from(report.wall.as_millis()).unwrap_or(u64::MAX),
        }))?;
    }
    let rows = reports.iter().map(|(task, report)| {
        let outcome = match &report.outcome {
            Outcome::Reward(reward) => format!("reward {reward}"),
            Outcome::Failed { reason, .. } => progress::name_of(*reason),
        };
        [task.clone(), outcome, format!("{:.2} s", report.wall.as_secs_f64()), report.trial.clone()]
    });
    output.print(table(["task", "outcome", "wall", "trial"], rows))?;
    if !rewards.is_empty() {
        let mean = rewards.iter().sum::<f64>() / rewards.len() as f64;
        output
            .print(format_args!("mean reward {mean:.3} over {} rewarded, {failed} errored", rewards.len()))?;
    }
    match failed {
        0 => Ok(()),
        _ => Err(Failure::new(Exit::Failed, format!("{failed} of {} trials have no reward", reports.len()))
            .silent()),
    }
}

/// The task directories at `path`: itself, or its children in order of their names, with the set's name.
pub fn task_directories(path: &Path) -> Result<Vec<(PathBuf, Option<String>)>> {
    if path.join("task.toml").exists() {
        return Ok(vec![(path.to_owned(), None)]);
    }
    let source = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let entries = fs_err::read_dir(path).or_exit(Exit::Usage)?;
    let mut directories: Vec<_> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|child| child.join("task.toml").exists())
        .collect();
    if directories.is_empty() {
        let message = format!("{} is no task directory and holds none", path.display());
        return Err(Failure::new(Exit::Usage, message).hint("a task directory has a task.toml"));
    }
    directories.sort();
    Ok(directories.into_iter().map(|directory| (directory, source.clone())).collect())
}
