//! `seatrial jobs`: what is in a directory of jobs, what came out of one, and how far one is.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use job::{
    AgentName, AgentTally, Generation, JobHead, JobState, JobView, Mean, Moment, Tally, TrialState, TrialView,
};
use serde::Serialize;
use serde_json::json;
use task::printable;

use crate::cli;
use crate::failure::{Exit, Failure, Result};
use crate::output::{Output, table};
use crate::progress::name_of;

/// The directory in which a job is looked for by its name.
const JOBS: &str = "jobs";

/// More oddities than these are counted and not shown.
const ODDITIES_SHOWN: usize = 40;

/// Longer messages are cut in tables.
const MESSAGE_LIMIT: usize = 90;

/// How often a job is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// So many times longer than reading a job takes, it is left alone afterwards.
const IDLE_FACTOR: u32 = 5;

/// The command.
pub fn run(output: Output, directory: &Path, command: &cli::JobsCommand) -> Result {
    match command {
        cli::JobsCommand::List(arguments) => list(output, &directory.join(&arguments.jobs)),
        cli::JobsCommand::Show(arguments) => show(output, &find(directory, &arguments.job)?),
        cli::JobsCommand::Watch(arguments) => watch(output, &find(directory, &arguments.job)?),
    }
}

/// The directory of a job that is given as a path, or by its name.
fn find(directory: &Path, job: &Path) -> Result<PathBuf> {
    let candidates = [directory.join(job), directory.join(JOBS).join(job)];
    candidates.into_iter().find(|path| path.is_dir()).ok_or_else(|| {
        Failure::new(Exit::Usage, format!("there is no job {}", job.display()))
            .hint(format!("give the directory of a job, or the name of one in {JOBS}/"))
            .hint("`seatrial jobs list` lists them")
    })
}

fn read(path: &Path) -> Result<JobView> {
    let holds_none = |job: &JobView| {
        let nothing = |trial: &TrialView| {
            matches!(&trial.state, TrialState::Incomplete { .. })
                && !job::Directory::open(&trial.directory).is_ok_and(|opened| job::is_marked(&opened))
        };
        job.head.generation == Generation::Unknown && job.head.id.is_none() && job.trials.iter().all(nothing)
    };
    let read = job::read_job(path).map_err(|error| {
        let exit = if matches!(error, job::JobError::Io { .. }) { Exit::Failed } else { Exit::Usage };
        Failure::from_error(exit, &error)
    })?;
    if holds_none(&read) && !job::is_job(path) {
        let message = format!("{} is no job: it holds neither a job's documents nor trials", path.display());
        return Err(
            Failure::new(Exit::Usage, message).hint("`seatrial jobs list DIR` names the jobs in a directory")
        );
    }
    Ok(read)
}

/// A job without its trials, for machines.
#[derive(Serialize)]
struct Summary<'a> {
    #[serde(flatten)]
    head: &'a JobHead,
    #[serde(flatten)]
    tally: Tally,
    lost: usize,
    pending: Option<usize>,
    agents: &'a [AgentTally],
    oddities: usize,
}

impl<'a> Summary<'a> {
    fn new(job: &'a JobView) -> Self {
        Self {
            head: &job.head,
            tally: job.tally,
            lost: job.lost.len(),
            pending: job.pending,
            agents: &job.agents,
            oddities: job.oddities.len(),
        }
    }
}

/// A document that says which one it is.
#[derive(Serialize)]
struct Named<T> {
    schema: &'static str,
    #[serde(flatten)]
    document: T,
}

fn list(output: Output, path: &Path) -> Result {
    let listing = job::list_jobs(path).map_err(|error| {
        Failure::from_error(Exit::Usage, &error).hint("name the directory that holds the jobs")
    })?;
    let mut jobs = Vec::new();
    for job in &listing.jobs {
        match read(job) {
            Ok(job) => jobs.push(job),
            // One that was removed in the meantime is no reason to show none.
            Err(failure) => output.warn(&failure.report),
        }
    }
    output.json(&json!({
        "schema": "seatrial.jobs-list/1",
        "directory": path.display().to_string(),
        "jobs": jobs.iter().map(Summary::new).collect::<Vec<_>>(),
        "oddities": listing.oddities,
    }))?;
    if jobs.is_empty() {
        output.print(format_args!("there is no job in {}", path.display()))?;
    } else {
        let header = [
            "job",
            "agents",
            "rewarded",
            "errored",
            "ungraded",
            "open",
            "of",
            "mean",
            "errors as 0",
            "started",
            "state",
        ];
        output.print(table(header, jobs.iter().map(job_row)))?;
    }
    for oddity in &listing.oddities {
        output.say(format_args!("left out: {}", printable(oddity.to_string().as_bytes())));
    }
    Ok(())
}

fn job_row(job: &JobView) -> [String; 11] {
    let mut agents: Vec<_> = job.agents.iter().map(|group| agent(&group.name)).collect();
    if agents.is_empty() {
        agents = job.head.configured.iter().map(agent).collect();
    }
    let of = job.head.planned.map_or_else(|| "-".into(), |planned| planned.to_string());
    [
        // The name that `show` and `watch` take.
        printable(job.head.directory.file_name().unwrap_or_default().as_encoded_bytes()),
        agents.join(", "),
        job.tally.rewarded.to_string(),
        job.tally.errored.to_string(),
        job.tally.ungraded.to_string(),
        job.open().to_string(),
        of,
        mean(job.tally.graded()),
        mean(job.tally.errors_as_zero()),
        job.head.started_at.map_or_else(|| "-".into(), clock),
        job.head.state.name().into(),
    ]
}

fn show(output: Output, path: &Path) -> Result {
    let job = read(path)?;
    output.json(&Named { schema: "seatrial.jobs-show/1", document: &job })?;
    let started = job.head.started_at.map_or_else(String::new, |at| format!(", started {}", clock(at)));
    let id = job.head.id.as_ref().map_or_else(String::new, |id| format!(", id {}", printable(id.as_bytes())));
    output.print(format_args!("{}: {}{started}{id}", path.display(), job.head.state.name()))?;
    if !job.trials.is_empty() {
        let header = ["trial", "task", "agent", "outcome", "wall", "why"];
        output.print(table(header, job.trials.iter().map(trial_row)))?;
        output.print("")?;
    }
    if job.agents.len() > 1 {
        let header = ["agent", "rewarded", "errored", "open", "mean", "errors as 0"];
        output.print(table(header, job.agents.iter().map(agent_row)))?;
        output.print("")?;
    }
    output.print(counts(&job))?;
    output.print(means(&job))?;
    let retries: usize = job.trials.iter().map(|trial| trial.retries.len()).sum();
    if retries > 0 {
        output.print(format_args!("{retries} tried again"))?;
    }
    if !job.oddities.is_empty() {
        output.print("\nodd:")?;
    }
    for oddity in job.oddities.iter().take(ODDITIES_SHOWN) {
        output.print(format_args!("  {}", printable(oddity.to_string().as_bytes())))?;
    }
    match job.oddities.len().saturating_sub(ODDITIES_SHOWN) {
        0 => Ok(()),
        more => output.print(format_args!("  and {more} more; --json shows all")),
    }
}

fn trial_row(trial: &TrialView) -> [String; 6] {
    let outcome = match &trial.state {
        TrialState::Rewarded { reward, .. } => format!("reward {reward}"),
        state => state.name().into(),
    };
    let why = match &trial.state {
        TrialState::Incomplete { cause } => name_of(*cause),
        state => match (state.failure(), trial.flags.first()) {
            (Some(failure), _) => {
                let name = failure.reason.map_or_else(|| printable(failure.exception.as_bytes()), name_of);
                reason(&name, &failure.message)
            }
            (None, Some(flag)) => reason(&name_of(flag.reason), &flag.detail),
            (None, None) => String::new(),
        },
    };
    let name = AgentName { agent: trial.agent.clone(), model: trial.model.clone() };
    [
        printable(trial.name.as_bytes()),
        printable(trial.task.as_deref().unwrap_or("-").as_bytes()),
        agent(&name),
        outcome,
        trial.wall_ms.map_or_else(|| "-".into(), |wall| format!("{:.2} s", wall as f64 / 1000.0)),
        why,
    ]
}

fn agent_row(group: &AgentTally) -> [String; 6] {
    let tally = group.tally;
    [
        agent(&group.name),
        tally.rewarded.to_string(),
        tally.errored.to_string(),
        (tally.incomplete + tally.running).to_string(),
        mean(tally.graded()),
        mean(tally.errors_as_zero()),
    ]
}

/// Looks at a job again and again until it ends.
fn watch(output: Output, path: &Path) -> Result {
    let bar = if output.bars() { ProgressBar::new(0) } else { ProgressBar::hidden() };
    let style = ProgressStyle::with_template("{prefix:>12}  {bar:32} {pos}/{len} trials, {msg}, {elapsed}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_prefix("watch");
    let mut said = None;
    let job = loop {
        let begun = Instant::now();
        let job = read(path)?;
        let took = begun.elapsed();
        let (line, mean) = (counts(&job), means(&job));
        if said.as_ref() != Some(&line) {
            let document = Summary::new(&job);
            output.json(&Named { schema: "seatrial.jobs-watch/1", document })?;
            if !output.bars() {
                output.print(&line)?;
            }
            said = Some(line);
        }
        bar.set_length(job.head.planned.unwrap_or_else(|| job.tally.seen()) as u64);
        bar.set_position(job.tally.ended() as u64);
        bar.set_message(format!("{} running; {mean}", job.tally.running));
        match job.head.state {
            JobState::Finished | JobState::Interrupted => break job,
            JobState::Running | JobState::Unfinished => {}
        }
        std::thread::sleep(LOOK_EVERY.max(took * IDLE_FACTOR));
    };
    bar.finish_and_clear();
    if output.bars() {
        output.print(counts(&job))?;
    }
    output.print(means(&job))?;
    if job.head.state == JobState::Finished {
        return Ok(());
    }
    let message = format!("the job was broken off, with {} of its trials open", job.open());
    Err(Failure::new(Exit::Failed, message).hint("the command that began it goes on with it").silent())
}

/// The trials by what came out; the numbers add up to those that are planned.
fn counts(job: &JobView) -> String {
    let tally = job.tally;
    let mut parts = vec![format!("{} rewarded", tally.rewarded), format!("{} errored", tally.errored)];
    let pending = job.pending.unwrap_or(0);
    let rare = [
        (tally.ungraded, "ungraded"),
        (tally.incomplete, "incomplete"),
        (tally.running, "running"),
        (job.lost.len(), "without their directory"),
        (pending, "pending"),
    ];
    parts.extend(
        rare.into_iter().filter(|(number, _)| *number > 0).map(|(number, what)| format!("{number} {what}")),
    );
    let planned = job.head.planned.map_or_else(String::new, |planned| format!(" of {planned}"));
    parts.join(", ") + &planned
}

/// Both means, with what they are over.
fn means(job: &JobView) -> String {
    let Some(all) = job.tally.errors_as_zero() else { return "no mean yet".into() };
    let graded = job.tally.graded().map_or_else(
        || "no reward".into(),
        |graded| format!("mean reward {:.3} over {} rewarded", graded.mean, graded.over),
    );
    let reach = match job.head.planned {
        Some(planned) if planned == all.over => format!("all {planned}"),
        Some(planned) => format!("{} of {planned}", all.over),
        None => all.over.to_string(),
    };
    format!("{graded}; {:.3} over {reach} with {} errored as 0", all.mean, job.tally.errored)
}

fn mean(mean: Option<Mean>) -> String {
    mean.map_or_else(|| "-".into(), |mean| format!("{:.3}", mean.mean))
}

/// An agent and its model in one word.
fn agent(name: &AgentName) -> String {
    let agent = name.agent.as_deref().unwrap_or("-");
    let text = match &name.model {
        Some(model) => format!("{agent} ({model})"),
        None => agent.into(),
    };
    printable(text.as_bytes())
}

/// A time for people; with `Z` where it is known to be UTC.
fn clock(at: Moment) -> String {
    format!("{}{}", at.at.strftime("%Y-%m-%d %H:%M:%S"), if at.assumed_utc { "" } else { "Z" })
}

/// A reason and the first line of what happened.
fn reason(name: &str, message: &str) -> String {
    match first_line(message) {
        message if message.is_empty() => name.to_owned(),
        message => format!("{name}: {message}"),
    }
}

/// The first line of a message, cut.
fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let mut cut: String = line.chars().take(MESSAGE_LIMIT).collect();
    if cut.len() < line.len() {
        cut.push('…');
    }
    printable(cut.as_bytes())
}
