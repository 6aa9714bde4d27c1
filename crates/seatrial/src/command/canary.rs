//! `seatrial canary`: a model on a few tasks that are always the same, and what that says about it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use dataset::Manifest;
use record::Outcome;
use serde_json::json;
use trace::{
    CanaryComparison, CanaryDocument, CanaryReport, CanaryTask, CanaryTrial, CanaryVerdict, canary_page,
    canary_report, compare_canaries, sample,
};
use trial::{Agent, JobIdentity, Ran};

use super::run::{Work, job_name, open_tasks, task_directories};
use crate::cli;
use crate::failure::{Exit, Failure, OrExit, Result};
use crate::interruption;
use crate::output::{Output, count, table};
use crate::project::recipe_in;
use crate::workbench::{Places, Workbench};

/// The context budget of a canary when nothing else is said.
const CONTEXT: u64 = 65_536;
/// The number of tasks when nothing else is said.
const NUMBER: u32 = 30;
/// The document in a job's directory.
const DOCUMENT: &str = "canary.json";
/// The page beside it.
const PAGE: &str = "canary.html";
/// No list of ids is larger.
const MOST_IDS: u64 = 16 << 20;

/// `seatrial canary`.
#[derive(Debug, Args)]
pub struct Canary {
    /// A frozen set, or a directory of task directories.
    #[arg(value_name = "TASKS", value_hint = ValueHint::DirPath)]
    pub tasks: PathBuf,
    /// The split of a frozen set from which tasks are drawn; else the recipe's, else validation.
    #[arg(long, value_enum, value_name = "SPLIT")]
    pub split: Option<SplitName>,
    /// How many tasks are drawn: those whose ids have the smallest SHA-256; else as many as the recipe says, else 30.
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub number: Option<u32>,
    /// Takes exactly the tasks of this file, one id a line, instead of drawing any.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["number", "split"], value_hint = ValueHint::FilePath)]
    pub ids: Option<PathBuf>,
    /// Attempts at each task.
    #[arg(short = 'k', long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: u32,
    /// An earlier canary to compare with: its job's directory, or its canary.json.
    #[arg(long, value_name = "EARLIER", value_hint = ValueHint::AnyPath)]
    pub compare: Option<PathBuf>,
    /// How much runs at once.
    #[command(flatten)]
    pub jobs: cli::Jobs,
    /// The directory of jobs.
    #[arg(short = 'o', long, value_name = "DIR", default_value = "jobs", value_hint = ValueHint::DirPath)]
    pub output: PathBuf,
    /// Name of the job. The same job of that name goes on where it stopped.
    #[arg(long, value_name = "NAME")]
    pub job_name: Option<String>,
    /// Begins a new job even where the same one was stopped.
    #[arg(long, conflicts_with = "job_name")]
    pub new: bool,
    /// How often a trial that failed for a passing reason is tried again.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub max_retries: u32,
    /// The engine.
    #[arg(short = 'e', long, value_enum, default_value_t)]
    pub engine: cli::Engine,
    /// What is laid over the limits of tasks.
    #[command(flatten)]
    pub limits: cli::Limits,
    /// The model.
    #[command(flatten)]
    pub model: crate::model::Options,
}

/// Splits of a frozen set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum SplitName {
    /// Training.
    Train,
    /// Validation.
    #[default]
    Validation,
    /// Test.
    Test,
    /// All of them.
    All,
}

impl From<recipe::CanarySplit> for SplitName {
    fn from(split: recipe::CanarySplit) -> Self {
        match split {
            recipe::CanarySplit::Train => Self::Train,
            recipe::CanarySplit::Validation => Self::Validation,
            recipe::CanarySplit::Test => Self::Test,
            recipe::CanarySplit::All => Self::All,
        }
    }
}

/// Which tasks a canary runs.
struct Choice<'a> {
    split: SplitName,
    number: u32,
    /// A list in place of a draw.
    ids: Option<&'a Path>,
}

/// A task that a canary runs.
struct Drawn {
    id: String,
    directory: PathBuf,
    repository: Option<String>,
}

/// Runs the canary; exits with 0 when every trial has ended, whatever came out.
pub fn run(output: Output, directory: &Path, arguments: &Canary) -> Result {
    let earlier = arguments.compare.as_ref().map(|path| read(&directory.join(path))).transpose()?;
    let recipe = recipe_in(directory)?.map(|recipe| recipe.canary).unwrap_or_default();
    let choice = Choice {
        split: arguments.split.or_else(|| recipe.from.map(Into::into)).unwrap_or_default(),
        number: arguments.number.or_else(|| recipe.size.map(Into::into)).unwrap_or(NUMBER),
        ids: arguments.ids.as_deref(),
    };
    let (from, drawn) = draw(&directory.join(&arguments.tasks), &choice, directory)?;
    let mut options = arguments.model.clone();
    options.context = options.context.or_else(|| recipe.context_tokens.map(Into::into)).or(Some(CONTEXT));
    let model = options.open(directory)?;
    let paths: Vec<PathBuf> = drawn.iter().map(|task| task.directory.clone()).collect();
    let tasks = open_tasks(Path::new(""), &paths)?;
    let mut settings = cli::named_limits(&arguments.limits);
    settings.extend(crate::model::settings(&model));
    let jobs_dir = directory.join(&arguments.output);
    let places = Places {
        engine: arguments.engine.into(),
        state: directory.join(".seatrial"),
        private: vec![directory.to_owned(), jobs_dir.clone()],
        ..Places::default()
    };
    let bench = Workbench::open(places, &arguments.jobs)?;
    let agents = vec![Agent::Shell];
    let engine = bench.engine.name();
    let identity = JobIdentity::new(
        engine,
        &agents,
        arguments.repeats,
        settings.clone(),
        tasks.iter().map(AsRef::as_ref),
    );
    trial::distinct_names(&tasks).or_exit(Exit::Usage)?;
    let name = job_name(
        output,
        "canary",
        &jobs_dir,
        arguments.job_name.as_deref(),
        arguments.new,
        false,
        &identity,
    )?;
    settings.insert("engine".into(), engine.to_owned());
    let work = Work {
        stage: "canary",
        name: name.clone(),
        jobs_dir,
        agents,
        attempts: arguments.repeats,
        max_retries: arguments.max_retries,
        budgets: arguments.limits.budgets(),
        network_allowed: false,
        model: Some(model.clone()),
        rerun: trial::Rerun::Nothing,
    };
    let (ran, job) = work.run(output, &bench, &tasks, &identity)?;
    let ids: BTreeMap<&str, &str> =
        tasks.iter().zip(&drawn).map(|(task, drawn)| (task.name.as_str(), drawn.id.as_str())).collect();
    let document = CanaryDocument {
        schema: <CanaryDocument as artifact::Document>::SCHEMA.into(),
        job: name,
        model: model.name().to_owned(),
        tasks_from: from,
        settings,
        repeats: arguments.repeats,
        tasks: tasks
            .iter()
            .zip(&drawn)
            .map(|(task, drawn)| CanaryTask {
                id: drawn.id.clone(),
                repository: drawn.repository.clone(),
                tree_digest: task.digests.tree_digest,
            })
            .collect(),
        trials: trials(&ran, &ids),
    };
    artifact::store(&job.join(DOCUMENT), &document)?;
    show(output, &document, earlier.as_ref(), &job)?;
    if ran.left > 0 { Err(interruption::failure()) } else { Ok(()) }
}

/// The ended trials, by task and attempt.
fn trials(ran: &Ran, ids: &BTreeMap<&str, &str>) -> Vec<CanaryTrial> {
    let mut trials: Vec<_> = ran
        .reports
        .iter()
        .map(|report| CanaryTrial {
            task: ids.get(report.task.as_str()).copied().unwrap_or(&report.task).to_owned(),
            attempt: report.attempt,
            trial: report.trial.clone(),
            reward: report.reward,
            exception: match &report.outcome {
                Outcome::Reward(_) => None,
                Outcome::Failed { reason, .. } => Some(job::rule(*reason).exception.to_owned()),
            },
            wall_ms: u64::try_from(report.wall.as_millis()).unwrap_or(u64::MAX),
        })
        .collect();
    trials.sort_by(|a, b| (&a.task, a.attempt).cmp(&(&b.task, b.attempt)));
    trials
}

/// Draws the tasks, and says where they come from.
fn draw(place: &Path, choice: &Choice<'_>, directory: &Path) -> Result<(String, Vec<Drawn>)> {
    let manifest = place.join("manifest.json");
    let (mut from, all) = if manifest.exists() {
        let (manifest, _) = artifact::load::<Manifest>(&manifest)?;
        let wanted = |split: record::Split| match choice.split {
            _ if choice.ids.is_some() => true,
            SplitName::All => true,
            SplitName::Train => split == record::Split::Train,
            SplitName::Validation => split == record::Split::Validation,
            SplitName::Test => split == record::Split::Test,
        };
        let from = format!("{}-{}-{}", manifest.name, manifest.counts.tasks, manifest.version);
        let drawn = manifest.tasks.iter().filter(|task| wanted(task.split)).map(|task| Drawn {
            id: task.task_id.to_string(),
            directory: place.join("tasks").join(task.task_id.as_str()),
            repository: Some(task.repo.to_string()),
        });
        let split = match (choice.split, choice.ids) {
            (SplitName::All, _) | (_, Some(_)) => String::new(),
            (SplitName::Train, None) => "/train".to_owned(),
            (SplitName::Validation, None) => "/validation".to_owned(),
            (SplitName::Test, None) => "/test".to_owned(),
        };
        (from + &split, drawn.collect::<Vec<_>>())
    } else {
        let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let drawn = task_directories(place)?.into_iter().map(|(directory, _)| {
            let id = name(&directory);
            Drawn { repository: trace::repository(&id), id, directory }
        });
        (name(place), drawn.collect())
    };
    let chosen = match choice.ids {
        None => sample(all.iter().map(|task| task.id.as_str()), choice.number as usize),
        Some(list) => {
            let path = directory.join(list);
            let bytes = artifact::read_bounded(&path, MOST_IDS)
                .map_err(|error| Failure::new(Exit::Usage, format!("{}: {error}", path.display())))?;
            let text = String::from_utf8_lossy(&bytes);
            let mut seen = BTreeSet::new();
            let ids = text.trim_start_matches('\u{feff}').lines().map(str::trim).filter(|id| !id.is_empty());
            from = format!("{from}, listed in {}", list.display());
            ids.filter(|id| seen.insert(*id)).map(str::to_owned).collect()
        }
    };
    let mut by_id: BTreeMap<String, Drawn> = all.into_iter().map(|task| (task.id.clone(), task)).collect();
    let mut drawn = Vec::new();
    for id in chosen {
        let task = by_id.remove(&id).ok_or_else(|| {
            Failure::new(Exit::Usage, format!("{} has no task `{id}`", place.display()))
                .hint("the list holds names of task directories, one a line")
        })?;
        drawn.push(task);
    }
    if drawn.is_empty() {
        return Err(Failure::new(Exit::Usage, format!("there is no task to draw from {from}"))
            .hint("`--split all` takes the tasks of all splits"));
    }
    Ok((from, drawn))
}

/// An earlier canary, by its document or its job's directory.
fn read(path: &Path) -> Result<CanaryDocument> {
    let file = if path.is_dir() { path.join(DOCUMENT) } else { path.to_owned() };
    Ok(artifact::load::<CanaryDocument>(&file)?.0)
}

fn show(output: Output, document: &CanaryDocument, earlier: Option<&CanaryDocument>, job: &Path) -> Result {
    let report = canary_report(document);
    let comparison = match earlier {
        None => None,
        Some(earlier) => {
            Some((canary_report(earlier), compare_canaries(earlier, document).or_exit(Exit::Failed)?))
        }
    };
    let page =
        canary_page(document, &report, comparison.as_ref().map(|(report, comparison)| (report, comparison)));
    let place = job.join(PAGE);
    artifact::write_atomic(&place, page.as_bytes())?;
    output.json(&json!({
        "schema": "seatrial.canary-report/1",
        "job": document.job,
        "model": document.model,
        "tasks_from": document.tasks_from,
        "settings": document.settings,
        "repeats": document.repeats,
        "report": report,
        "comparison": comparison.as_ref().map(|(_, comparison)| comparison),
        "document": job.join(DOCUMENT).display().to_string(),
        "page": place.display().to_string(),
    }))?;
    output.print(tasks(&report, document.repeats))?;
    output.print(summary(&report))?;
    if let Some((_, comparison)) = &comparison {
        output.print(compared(comparison))?;
    }
    output.print(format_args!("{}", place.display()))
}

fn tasks(report: &CanaryReport, repeats: u32) -> String {
    let row = |row: &trace::CanaryRow| {
        let mean = row.mean.map_or("pending".to_owned(), |mean| format!("{mean:.3}"));
        let solved = if repeats == 1 { mean } else { format!("{} of {}", row.solved, row.trials) };
        [row.name.clone(), solved, row.exceptions.join(", ")]
    };
    let head = if repeats == 1 { "reward" } else { "solved" };
    table(vec!["task", head, "exceptions"], report.by_task.iter().map(row))
}

/// The numbers of a canary, the headline first.
fn summary(report: &CanaryReport) -> String {
    let ended = report.rewarded + report.errored;
    let mut lines = Vec::new();
    if let Some(mean) = report.mean_with_errored_as_0 {
        let interval = report.interval.map_or(String::new(), |interval| {
            format!(", 95 % interval {:.2}-{:.2}", interval.low, interval.high)
        });
        lines.push(format!(
            "solved {} of {ended}: mean reward {mean:.3} with {} errored as 0{interval}",
            report.solved, report.errored
        ));
    }
    if let Some(rewarded) = report.mean_of_rewarded.filter(|_| report.errored > 0) {
        lines.push(format!("mean reward {:.3} over {} rewarded alone", rewarded.mean, rewarded.over));
    }
    let exceptions: u64 = report.exceptions.iter().map(|exception| exception.trials).sum();
    let named: Vec<_> = report
        .exceptions
        .iter()
        .map(|found| match found.rewarded {
            0 => format!("{} {}", found.trials, found.exception),
            rewarded => format!("{} {} ({rewarded} graded)", found.trials, found.exception),
        })
        .collect();
    let behind = if named.is_empty() { String::new() } else { format!(": {}", named.join(", ")) };
    lines.push(format!("{}{behind}", count(exceptions as usize, "exception")));
    if report.pending > 0 {
        lines.push(format!("{} pending", report.pending));
    }
    lines.join("\n")
}

fn compared(comparison: &CanaryComparison) -> String {
    let mut lines = vec![format!("{}: {}", comparison.earlier, comparison.sentence())];
    if let Some(interval) = comparison.interval {
        lines.push(format!(
            "difference {:+.3}, 95 % interval {:+.3} to {:+.3}",
            comparison.difference, interval.low, interval.high
        ));
    }
    for (name, before, after) in &comparison.differences {
        lines.push(format!("{name}: {before} before, {after} now"));
    }
    if !comparison.differences.is_empty() && comparison.verdict != CanaryVerdict::CannotBeToldApart {
        lines.push("the model alone does not explain the difference".to_owned());
    }
    lines.join("\n")
}
