//! `seatrial run`: an agent on task directories, as one Harbor-compatible job.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;
use record::Outcome;
use serde_json::json;
use trial::{Job, JobIdentity, JobSpec, Plan, Ran, TrialReport, TrialTask, resumable};

use crate::cli;
use crate::failure::{Exit, Failure, OrExit, Result};
use crate::interruption;
use crate::output::{Output, table};
use crate::progress;
use crate::workbench::{Places, Workbench, timed_job};

/// More trials than these are not listed; `seatrial jobs show` does.
const TABLE_LIMIT: usize = 100;

/// Runs the agents; exits with 0 when every trial ended with a reward.
pub fn run(output: Output, directory: &Path, arguments: &cli::Run) -> Result {
    let tasks = open_tasks(directory, &arguments.paths)?;
    let jobs_dir = directory.join(&arguments.output);
    let places = Places {
        engine: arguments.engine.into(),
        state: directory.join(".seatrial"),
        private: vec![directory.to_owned(), jobs_dir.clone()],
        ..Places::default()
    };
    let bench = Workbench::open(places, &arguments.jobs)?;
    let mut agents = arguments.agents.clone();
    agents.sort();
    agents.dedup();
    let identity = JobIdentity::new(
        bench.engine.name(),
        &agents,
        arguments.attempts,
        settings(arguments),
        tasks.iter().map(AsRef::as_ref),
    );
    let name = job_name(output, &jobs_dir, arguments, &identity)?;
    let plan = Plan::new(&name, &tasks, &agents, arguments.attempts).or_exit(Exit::Usage)?;
    let planned = plan.trials().len();
    let spec = JobSpec {
        name,
        jobs_dir,
        agents,
        attempts: arguments.attempts,
        planned,
        max_retries: arguments.max_retries,
        budgets: arguments.limits.budgets(),
        network_allowed: arguments.network,
    };
    let (ran, directory) = bench.run_job(async {
        let (events, receiver) = tokio::sync::mpsc::unbounded_channel();
        let reporter = tokio::spawn(progress::show(output, "run", planned as u64, receiver));
        let job = Job::open(spec, &identity, &tasks, bench.resources(events))?;
        let ran = job.run_plan(&plan, arguments.rerun.into()).await?;
        if ran.left == 0 {
            job.finish()?;
        }
        let directory = job.path().to_owned();
        drop(job);
        let _ = reporter.await;
        Ok((ran, directory))
    })?;
    show(output, &ran, &directory)
}

/// What changes the outcome of trials beside tasks, agents and engine, so that a job goes on only as what it was.
fn settings(arguments: &cli::Run) -> BTreeMap<String, String> {
    let mut settings: BTreeMap<String, String> = arguments
        .limits
        .named()
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?.to_string())))
        .collect();
    if arguments.network {
        settings.insert("network".into(), "as tasks ask".into());
    }
    settings
}

/// The tasks at the paths, in their order.
fn open_tasks(directory: &Path, paths: &[PathBuf]) -> Result<Vec<Arc<TrialTask>>> {
    let mut found = Vec::new();
    for path in paths {
        found.extend(task_directories(&directory.join(path))?);
    }
    found
        .par_iter()
        .map(|(directory, source)| {
            TrialTask::open(directory, source.as_deref())
                .map(Arc::new)
                .map_err(|error| Failure::new(Exit::Usage, format!("task {}: {error}", directory.display())))
        })
        .collect()
}

/// The name of the job: the given one, that of the same job that was stopped before its end, or a new one.
fn job_name(output: Output, jobs_dir: &Path, arguments: &cli::Run, identity: &JobIdentity) -> Result<String> {
    if let Some(name) = &arguments.job_name {
        // A job is one directory below the jobs.
        let job = name.parse::<ident::TaskId>().map_err(|_| {
            Failure::new(Exit::Usage, format!("`{name}` cannot name a job"))
                .hint("use one plain directory name")
        })?;
        return Ok(job.as_str().to_owned());
    }
    match resumable(jobs_dir, identity) {
        Some(name) if !arguments.new => {
            output.stage("run", format_args!("goes on with {name}, which was stopped; --new begins another"));
            Ok(name)
        }
        _ => timed_job(jobs_dir, ""),
    }
}

fn show(output: Output, ran: &Ran, directory: &Path) -> Result {
    for report in &ran.reports {
        output.json(&json!({
            "task": report.task,
            "trial": report.trial,
            "directory": report.directory.display().to_string(),
            "outcome": report.outcome,
            "reward": report.reward,
            "earlier": report.earlier,
            "wall_ms": u64::try_from(report.wall.as_millis()).unwrap_or(u64::MAX),
        }))?;
    }
    let rewards: Vec<f64> = ran.reports.iter().filter_map(|report| report.reward).collect();
    let errored = ran.reports.len() - rewards.len();
    let sum = rewards.iter().sum::<f64>();
    let (graded, all) = (rewards.len(), ran.reports.len() + ran.left);
    let mean = |over: usize| (over > 0).then(|| sum / over as f64);
    output.json(&json!({
        "job": directory.display().to_string(),
        "rewarded": graded,
        "errored": errored,
        "pending": ran.left,
        "mean_of_rewarded": mean(graded),
        "mean_of_all_with_errors_as_0": mean(all).filter(|_| ran.left == 0),
    }))?;
    if all <= TABLE_LIMIT {
        output.print(table(["task", "outcome", "wall", "trial"], ran.reports.iter().map(row)))?;
    }
    if let (Some(of_rewarded), Some(of_all)) = (mean(graded), mean(all)) {
        output.print(format_args!(
            "mean reward {of_rewarded:.3} over {graded} rewarded; {of_all:.3} over all {all} with {errored} errored and {} \
             pending as 0",
            ran.left
        ))?;
    }
    output.print(format_args!("{}", directory.display()))?;
    match (ran.left, errored) {
        (0, 0) => Ok(()),
        (0, _) => {
            Err(Failure::new(Exit::Failed, format!("{errored} of {all} trials have no reward")).silent())
        }
        _ => Err(interruption::failure()),
    }
}

fn row(report: &TrialReport) -> [String; 4] {
    let outcome = match (report.reward, &report.outcome) {
        (_, Outcome::Reward(reward)) => format!("reward {reward}"),
        (None, Outcome::Failed { reason, .. }) => progress::name_of(*reason),
        (Some(reward), Outcome::Failed { reason, .. }) => {
            format!("reward {reward}, {}", progress::name_of(*reason))
        }
    };
    [report.task.clone(), outcome, format!("{:.2} s", report.wall.as_secs_f64()), report.trial.clone()]
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
