//! `seatrial run`: an agent on task directories, as one Harbor-compatible job.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use job::{Mean, Tally};
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
/// No job holds more trials: all of them are planned before the first begins.
const MOST_TRIALS: usize = 1_000_000;
/// As many tasks that cannot be run are named.
const WRONG_SHOWN: usize = 10;

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
    trial::distinct_names(&tasks).or_exit(Exit::Usage)?;
    let wanted = tasks.len().saturating_mul(agents.len()).saturating_mul(arguments.attempts as usize);
    if wanted > MOST_TRIALS {
        let message = format!("{wanted} trials are more than the {MOST_TRIALS} that one job may have");
        return Err(Failure::new(Exit::Usage, message).hint("lower --attempts, or run several jobs"));
    }
    // Only now, since it may make the directory.
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

/// The tasks at the paths, in their order; one that is named twice is taken once.
pub fn open_tasks(directory: &Path, paths: &[PathBuf]) -> Result<Vec<Arc<TrialTask>>> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for path in paths {
        for (directory, source) in task_directories(&directory.join(path))? {
            if seen.insert(directory.canonicalize().unwrap_or_else(|_| directory.clone())) {
                found.push((directory, source));
            }
        }
    }
    let (mut tasks, mut wrong) = (Vec::new(), Vec::new());
    let opened: Vec<_> =
        found.par_iter().map(|(directory, source)| TrialTask::open(directory, source.as_deref())).collect();
    for (task, (directory, _)) in opened.into_iter().zip(&found) {
        match task {
            Ok(task) => tasks.push(Arc::new(task)),
            Err(error) => {
                let (error, place) = (error.to_string(), directory.display().to_string());
                // Some errors begin with the place themselves.
                wrong.push(if error.starts_with(&place) { error } else { format!("{place}: {error}") });
            }
        }
    }
    if wrong.is_empty() {
        return Ok(tasks);
    }
    let (many, shown) = (wrong.len(), wrong.len().min(WRONG_SHOWN));
    let more = if many > shown { format!("\nand {} more", many - shown) } else { String::new() };
    let listed = wrong[..shown].join("\n");
    let message = format!("{many} of {} tasks cannot be run:\n{listed}{more}", found.len());
    Err(Failure::new(Exit::Usage, message)
        .hint("nothing was started; `seatrial check PATH` lists everything that is wrong"))
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
    // Whoever wants trials of a job to be run again means a finished one too.
    let finished_too = !matches!(arguments.rerun, cli::Rerun::Nothing);
    match resumable(jobs_dir, identity, finished_too) {
        Some(name) if !arguments.new => {
            output.stage("run", format_args!("goes on with {name}; --new begins another"));
            Ok(name)
        }
        _ => timed_job(jobs_dir, ""),
    }
}

fn show(output: Output, ran: &Ran, directory: &Path) -> Result {
    for report in &ran.reports {
        output.json(&json!({
            "task": report.task,
            "agent": report.agent,
            "attempt": report.attempt,
            "trial": report.trial,
            "directory": report.directory.display().to_string(),
            "outcome": report.outcome,
            "reward": report.reward,
            "earlier": report.earlier,
            "wall_ms": u64::try_from(report.wall.as_millis()).unwrap_or(u64::MAX),
        }))?;
    }
    let all = tally(&ran.reports);
    output.json(&json!({
        "job": directory.display().to_string(),
        "rewarded": all.rewarded,
        "errored": all.errored,
        "pending": ran.left,
        "mean_of_rewarded": all.graded().map(|graded| graded.mean),
        "mean_with_errored_as_0": all.errors_as_zero().map(|all| all.mean),
    }))?;
    if ran.reports.len() + ran.left <= TABLE_LIMIT {
        output.print(trial_table(&ran.reports))?;
    }
    let agents: BTreeSet<&str> = ran.reports.iter().map(|report| report.agent.as_str()).collect();
    for agent in agents {
        let own = tally(ran.reports.iter().filter(|report| report.agent == agent));
        output.print(format_args!("{agent}: {}", means(&own)))?;
    }
    if ran.left > 0 {
        output.print(format_args!("{} pending", ran.left))?;
    }
    output.print(format_args!("{}", directory.display()))?;
    match (ran.left, all.errored) {
        (0, 0) => Ok(()),
        (0, errored) => {
            let message = format!("{errored} of {} trials have no reward", ran.reports.len());
            Err(Failure::new(Exit::Failed, message).silent())
        }
        _ => Err(interruption::failure()),
    }
}

fn tally<'a>(reports: impl IntoIterator<Item = &'a TrialReport>) -> Tally {
    let mut tally = Tally::default();
    reports.into_iter().for_each(|report| tally.add_ended(report.reward));
    tally
}

/// The means of an agent's trials in words.
fn means(tally: &Tally) -> String {
    let errored = tally.errored;
    match (tally.graded(), tally.errors_as_zero()) {
        (Some(Mean { mean, over }), Some(all)) => {
            let rewarded = format!("mean reward {mean:.3} over {over} rewarded");
            if errored == 0 {
                rewarded
            } else {
                format!("{rewarded}; {:.3} with {errored} errored as 0", all.mean)
            }
        }
        _ => format!("no reward; {errored} errored"),
    }
}

/// The trials, with agents and attempts where there are several.
fn trial_table(reports: &[TrialReport]) -> String {
    let agents = reports.iter().any(|report| report.agent != reports[0].agent);
    let attempts = reports.iter().any(|report| report.attempt > 0);
    let columns = [
        ("task", true),
        ("agent", agents),
        ("attempt", attempts),
        ("outcome", true),
        ("wall", true),
        ("trial", true),
    ];
    let row = |report: &TrialReport| {
        let outcome = match (report.reward, &report.outcome) {
            (_, Outcome::Reward(reward)) => format!("reward {reward}"),
            (None, Outcome::Failed { reason, .. }) => reason.to_string(),
            (Some(reward), Outcome::Failed { reason, .. }) => format!("reward {reward}, {reason}"),
        };
        let cells = [
            report.task.clone(),
            report.agent.clone(),
            (report.attempt + 1).to_string(),
            outcome,
            format!("{:.2} s", report.wall.as_secs_f64()),
            report.trial.clone(),
        ];
        cells
            .into_iter()
            .zip(columns)
            .filter(|(_, (_, shown))| *shown)
            .map(|(cell, _)| cell)
            .collect::<Vec<_>>()
    };
    let head: Vec<&str> = columns.into_iter().filter(|(_, shown)| *shown).map(|(name, _)| name).collect();
    table(head, reports.iter().map(row))
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
