//! `seatrial run`: an agent on task directories, as one Harbor-compatible job.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent::installed::Spec;
use job::{Mean, Tally};
use rayon::prelude::*;
use record::Outcome;
use serde_json::json;
use trial::{Agent, Job, JobIdentity, JobSpec, Model, Plan, Ran, TrialReport, TrialTask, resumable};

use crate::cli;
use crate::failure::{Exit, Failure, OrExit, Result};
use crate::interruption;
use crate::output::{Output, table};
use crate::progress;
use crate::project::{bases_in, cluster_of};
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
        cluster: cluster_of(arguments.engine.into(), directory)?,
        bases: bases_in(output, directory),
        ..Places::default()
    };
    let bench = Workbench::open(places, &arguments.jobs)?;
    let mut agents = agents(directory, arguments)?;
    agents.sort();
    agents.dedup();
    let model = open_model(directory, arguments, &agents)?;
    let identity = JobIdentity::new(
        bench.engine.name(),
        &agents,
        arguments.attempts,
        settings(arguments, &agents, model.as_deref())?,
        tasks.iter().map(AsRef::as_ref),
    );
    trial::distinct_names(&tasks).or_exit(Exit::Usage)?;
    let wanted = tasks.len().saturating_mul(agents.len()).saturating_mul(arguments.attempts as usize);
    if wanted > MOST_TRIALS {
        let message = format!("{wanted} trials are more than the {MOST_TRIALS} that one job may have");
        return Err(Failure::new(Exit::Usage, message).hint("lower --attempts, or run several jobs"));
    }
    // Only now, since it may make the directory.
    // Whoever wants trials of a job to be run again means a finished one too.
    let finished_too = !matches!(arguments.rerun, cli::Rerun::Nothing);
    let given = arguments.job_name.as_deref();
    let name = job_name(output, "run", &jobs_dir, given, arguments.new, finished_too, &identity)?;
    let work = Work {
        stage: "run",
        name,
        jobs_dir,
        agents,
        attempts: arguments.attempts,
        max_retries: arguments.max_retries,
        budgets: arguments.limits.budgets(),
        network_allowed: arguments.network,
        model,
        rerun: arguments.rerun.into(),
    };
    let (ran, directory) = work.run(output, &bench, &tasks, &identity)?;
    show(output, &ran, arguments.attempts, &directory)
}

/// The agents that were named, and those of specifications; without either the oracle.
fn agents(directory: &Path, arguments: &cli::Run) -> Result<Vec<Agent>> {
    /// No specification is larger.
    const MOST_BYTES: u64 = 1 << 20;
    let mut agents = arguments.agents.clone();
    for path in &arguments.agent_spec {
        let path = directory.join(path);
        let wrong =
            |what: &dyn std::fmt::Display| Failure::new(Exit::Usage, format!("{}: {what}", path.display()));
        let bytes = artifact::read_bounded(&path, MOST_BYTES).map_err(|error| wrong(&error))?;
        let text = String::from_utf8(bytes).map_err(|error| wrong(&error))?;
        let spec = Spec::parse(&text).map_err(|error| wrong(&error))?;
        if let Some(form) = spec.form.as_deref().filter(|form| !trace::TRAJECTORY_FORMS.contains(form)) {
            let known = trace::TRAJECTORY_FORMS.join(", ");
            return Err(wrong(&format!("no trajectory has the form `{form}`; there are {known}")));
        }
        if agents.iter().any(|agent| agent.name() == spec.name) {
            return Err(wrong(&format!("two agents are called `{}`", spec.name)));
        }
        // Agents are names that live as long as the program, of which there are a few.
        agents.push(Agent::Installed(Box::leak(Box::new(spec))));
    }
    if agents.is_empty() {
        agents.push(Agent::Oracle);
    }
    Ok(agents)
}

/// A job that is to be run.
pub struct Work {
    /// The command, for its line of progress.
    pub stage: &'static str,
    /// Name of the job.
    pub name: String,
    /// The directory of all jobs.
    pub jobs_dir: PathBuf,
    /// Who works.
    pub agents: Vec<Agent>,
    /// Attempts of every agent at every task.
    pub attempts: u32,
    /// How often a trial that failed for a passing reason is tried again.
    pub max_retries: u32,
    /// What is laid over the limits of tasks.
    pub budgets: trial::Budgets,
    /// Whether tasks get the network that they ask for.
    pub network_allowed: bool,
    /// The model, where an agent asks one.
    pub model: Option<Arc<Model>>,
    /// Which ended trials are run again.
    pub rerun: trial::Rerun,
}

impl Work {
    /// Runs what is left of the job. Returns what has ended, and the job's directory.
    pub fn run(
        self,
        output: Output,
        bench: &Workbench,
        tasks: &[Arc<TrialTask>],
        identity: &JobIdentity,
    ) -> Result<(Ran, PathBuf)> {
        let Self {
            stage,
            name,
            jobs_dir,
            agents,
            attempts,
            max_retries,
            budgets,
            network_allowed,
            model,
            rerun,
        } = self;
        let plan = Plan::new(&name, tasks, &agents, attempts).or_exit(Exit::Usage)?;
        let planned = plan.trials().len();
        let spec = JobSpec {
            name,
            jobs_dir,
            agents,
            attempts,
            planned,
            max_retries,
            budgets,
            network_allowed,
            model,
        };
        bench.run_job(async {
            let (events, receiver) = tokio::sync::mpsc::unbounded_channel();
            let reporter = tokio::spawn(progress::show(output, stage, planned as u64, receiver));
            let job = Job::open(spec, identity, tasks, bench.resources(events))?;
            let ran = job.run_plan(&plan, rerun).await?;
            if ran.left == 0 {
                job.finish()?;
            }
            let directory = job.path().to_owned();
            drop(job);
            let _ = reporter.await;
            Ok((ran, directory))
        })
    }
}

/// The model, where an agent asks one.
fn open_model(directory: &Path, arguments: &cli::Run, agents: &[Agent]) -> Result<Option<Arc<Model>>> {
    if agents.iter().any(|agent| agent.asks_model()) {
        return arguments.model.open(directory).map(Some);
    }
    match &arguments.model.model {
        Some(model) => Err(Failure::new(Exit::Usage, format!("no agent asks the model `{model}`"))
            .hint("add -a shell, the agent that does")),
        None => Ok(None),
    }
}

/// What changes the outcome of trials beside tasks, agents and engine, so that a job goes on only as what it was.
fn settings(
    arguments: &cli::Run,
    agents: &[Agent],
    model: Option<&Model>,
) -> Result<BTreeMap<String, String>> {
    let mut settings = cli::named_limits(&arguments.limits);
    if arguments.network {
        settings.insert("network".into(), "as tasks ask".into());
    }
    settings.extend(model.map(crate::model::settings).unwrap_or_default());
    for agent in agents {
        if let Agent::Installed(spec) = agent {
            let text = ident::to_canonical_json(spec).or_exit(Exit::Failed)?;
            settings.insert(format!("agent {}", spec.name), ident::Digest::of(text).hex());
        }
    }
    Ok(settings)
}

/// The tasks at the paths, in their order; one that is named twice is taken once.
pub fn open_tasks(directory: &Path, paths: &[PathBuf]) -> Result<Vec<Arc<TrialTask>>> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for path in paths {
        for (directory, source) in task_directories(&named(directory, path))? {
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
pub fn job_name(
    output: Output,
    stage: &str,
    jobs_dir: &Path,
    given: Option<&str>,
    new: bool,
    finished_too: bool,
    identity: &JobIdentity,
) -> Result<String> {
    if let Some(name) = given {
        // A job is one directory below the jobs.
        let job = name.parse::<ident::TaskId>().ok().filter(|name| !name.as_str().starts_with('.'));
        let job = job.ok_or_else(|| {
            Failure::new(Exit::Usage, format!("`{name}` cannot name a job"))
                .hint("use one plain directory name that is not hidden")
        })?;
        return Ok(job.as_str().to_owned());
    }
    match resumable(jobs_dir, identity, finished_too) {
        Some(name) if !new => {
            output.stage(stage, format_args!("goes on with {name}; --new begins another"));
            Ok(name)
        }
        _ => timed_job(jobs_dir, if stage == "run" { "" } else { "canary-" }),
    }
}

fn show(output: Output, ran: &Ran, attempts: u32, directory: &Path) -> Result {
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
    let groups = (attempts > 1).then(|| Groups::of(&ran.reports, attempts));
    let mut sum = json!({
        "job": directory.display().to_string(),
        "rewarded": all.rewarded,
        "errored": all.errored,
        "pending": ran.left,
        "mean_of_rewarded": all.graded().map(|graded| graded.mean),
        "mean_with_errored_as_0": all.errors_as_zero().map(|all| all.mean),
    });
    if let Some(groups) = &groups {
        sum["groups"] = groups.json();
    }
    output.json(&sum)?;
    if ran.reports.len() + ran.left <= TABLE_LIMIT {
        output.print(trial_table(&ran.reports))?;
    }
    let agents: BTreeSet<&str> = ran.reports.iter().map(|report| report.agent.as_str()).collect();
    for agent in agents {
        let own = tally(ran.reports.iter().filter(|report| report.agent == agent));
        output.print(format_args!("{agent}: {}", means(&own)))?;
    }
    if let Some(groups) = &groups {
        output.print(groups.text())?;
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

/// The attempts of an agent at a task are a group, from which trainers learn only when it has rewards that differ.
struct Groups<'a> {
    attempts: u32,
    whole: usize,
    /// Groups in which a reward is missing, with the number of rewards that are there.
    partial: Vec<(&'a str, &'a str, usize)>,
    /// Whole groups whose rewards are all equal.
    constant: usize,
}

impl<'a> Groups<'a> {
    fn of(reports: &'a [TrialReport], attempts: u32) -> Self {
        let mut rewards: BTreeMap<(&str, &str), Vec<f64>> = BTreeMap::new();
        for report in reports {
            rewards.entry((&report.task, &report.agent)).or_default().extend(report.reward);
        }
        let mut groups = Self { attempts, whole: 0, partial: Vec::new(), constant: 0 };
        for ((task, agent), rewards) in rewards {
            if rewards.len() < attempts as usize {
                groups.partial.push((task, agent, rewards.len()));
                continue;
            }
            groups.whole += 1;
            if rewards.iter().all(|reward| reward.total_cmp(&rewards[0]).is_eq()) {
                groups.constant += 1;
            }
        }
        groups
    }

    fn json(&self) -> serde_json::Value {
        let partial = |(task, agent, rewarded): &(&str, &str, usize)| json!({"task": task, "agent": agent, "rewarded": rewarded});
        json!({"attempts": self.attempts, "whole": self.whole, "constant": self.constant,
            "partial": self.partial.iter().map(partial).collect::<Vec<_>>()})
    }

    fn text(&self) -> String {
        /// As many partial groups are named.
        const SHOWN: usize = 10;
        let (attempts, whole) = (self.attempts, self.whole);
        let text = format!(
            "groups of {attempts}: {whole} whole, of which {} with rewards that are all equal",
            self.constant
        );
        if self.partial.is_empty() {
            return text;
        }
        let named: Vec<_> = self
            .partial
            .iter()
            .take(SHOWN)
            .map(|(task, agent, rewarded)| format!("{task} ({agent}): {rewarded} of {attempts}"))
            .collect();
        let more = if self.partial.len() > SHOWN { ", …" } else { "" };
        format!("{text}; {} partial: {}{more}", self.partial.len(), named.join(", "))
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

/// A path that somebody named, seen from the start of the program: `.` and `./` in the middle say nothing to anybody.
pub fn named(directory: &Path, path: &Path) -> PathBuf {
    directory.join(path).components().collect()
}

/// The task directories at `path`: itself, or its children in order of their names, with the set's name.
pub fn task_directories(path: &Path) -> Result<Vec<(PathBuf, Option<String>)>> {
    if path.join("task.toml").exists() {
        return Ok(vec![(path.to_owned(), None)]);
    }
    let source = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let entries = fs_err::read_dir(path).or_exit(Exit::Usage)?;
    let mut names: Vec<_> = entries.filter_map(|entry| entry.ok().map(|entry| entry.file_name())).collect();
    names.sort();
    let directories = names.into_iter().map(|name| path.join(name));
    let directories: Vec<_> = directories.filter(|child| child.join("task.toml").exists()).collect();
    if directories.is_empty() {
        let message = format!("{} is no task directory and holds none", path.display());
        return Err(Failure::new(Exit::Usage, message).hint("a task directory has a task.toml"));
    }
    Ok(directories.into_iter().map(|directory| (directory, source.clone())).collect())
}
