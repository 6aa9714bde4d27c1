//! The arguments of `seatrial traces`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, ValueHint};

/// `seatrial traces`.
#[derive(Debug, Subcommand)]
pub enum Traces {
    /// Writes the trials of jobs as rows, Parquet or JSON lines.
    Export(Export),
    /// Tells what came out of trials: means, groups, pass@k, turns, tokens, what went wrong.
    Stats(Stats),
    /// Compares two sets of trials on the tasks that both have.
    Compare(Compare),
    /// Turns trials into samples for trainers.
    Convert(Convert),
    /// Lists secrets, and signs that an agent went for the reward in place of the task.
    Scan(Scan),
    /// Shows what the agent of one trial did.
    Show(Show),
    /// Makes one set of several, sorted and every row once.
    Merge(Merge),
}

/// `seatrial traces export`.
#[derive(Debug, Args)]
pub struct Export {
    /// Directories of jobs or trials; whatever lies in them is found.
    #[arg(required = true, value_name = "JOB", value_hint = ValueHint::DirPath)]
    pub jobs: Vec<PathBuf>,
    /// Where the rows go: FILE.parquet or FILE.jsonl, which are replaced, or a new directory of Parquet shards with a card.
    #[arg(short, long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub out: PathBuf,
    /// Which turns become rows: the last one of a trial, or every one with the conversation before it.
    #[arg(long, value_enum, default_value_t)]
    pub episodes: Episodes,
    /// Keeps trials by what came out.
    #[arg(long, value_enum, value_name = "WHICH")]
    pub filter: Option<Filter>,
    /// Adds a column with what the agent was asked to do.
    #[arg(long)]
    pub instruction: bool,
    /// Adds a column with the tools that the model was offered, as JSON.
    #[arg(long)]
    pub tools: bool,
    /// Adds the conversation in ShareGPT's form.
    #[arg(long)]
    pub sharegpt: bool,
    /// Leaves out the conversations of helpers, such as those that summarise.
    #[arg(long)]
    pub no_subagents: bool,
    /// Bytes of a shard, about; with a suffix such as 400MB.
    #[arg(long, value_name = "BYTES", default_value = "400MB", value_parser = bytes)]
    pub shard_bytes: u64,
    /// Makes the rows of another exporter, with whatever it loses, and stops where it stops.
    #[arg(long, value_enum, value_name = "EXPORTER")]
    pub compat: Option<Compat>,
    /// With --compat: adds what the verifier printed, which is always there otherwise.
    #[arg(long, requires = "compat")]
    pub verifier: bool,
}

/// `seatrial traces stats`.
#[derive(Debug, Args)]
pub struct Stats {
    /// Directories of jobs or trials, or sets of rows.
    #[arg(required = true, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,
    /// The reward from which on a task counts as solved.
    #[arg(long, value_name = "REWARD", default_value_t = 1.0, value_parser = finite, allow_negative_numbers = true)]
    pub threshold: f64,
    /// Shows every task, repository and run too.
    #[arg(long)]
    pub all: bool,
    /// Also writes a page with plots, which needs nothing else.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,
}

/// `seatrial traces compare`.
#[derive(Debug, Args)]
pub struct Compare {
    /// The first: a directory of jobs, or a set of rows.
    #[arg(value_name = "A", value_hint = ValueHint::AnyPath)]
    pub first: PathBuf,
    /// The second.
    #[arg(value_name = "B", value_hint = ValueHint::AnyPath)]
    pub second: PathBuf,
    /// Shows every common task.
    #[arg(long)]
    pub all: bool,
    /// Also writes a page with plots and all tasks, which needs nothing else.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,
}

/// `seatrial traces convert`.
#[derive(Debug, Args)]
pub struct Convert {
    /// Directories of jobs or trials, or sets of rows.
    #[arg(required = true, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,
    /// The form of the samples.
    #[arg(long, value_enum)]
    pub to: Form,
    /// Where the samples go: FILE.jsonl or FILE.parquet; a file there is replaced.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub out: PathBuf,
    /// Steps of cleaning, separated by commas, or `all`; each change is counted.
    #[arg(long, value_name = "STEPS", value_delimiter = ',', value_parser = cleaning)]
    pub clean: Vec<Cleaning>,
    /// Keeps trials by what came out.
    #[arg(long, value_enum, value_name = "WHICH")]
    pub filter: Option<Filter>,
    /// With --to rl: how advantages are computed.
    #[arg(long, value_enum, default_value_t)]
    pub advantage: Advantage,
    /// With --to rl: leaves out groups whose rewards are all equal.
    #[arg(long)]
    pub drop_constant_groups: bool,
}

/// `seatrial traces scan`.
#[derive(Debug, Args)]
pub struct Scan {
    /// Directories of jobs or trials, or sets of rows.
    #[arg(required = true, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,
}

/// `seatrial traces show`.
#[derive(Debug, Args)]
pub struct Show {
    /// The directory of a trial, or a file with a trajectory.
    #[arg(value_name = "TRIAL", value_hint = ValueHint::AnyPath)]
    pub trial: PathBuf,
    /// Writes a page in place of printing.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,
    /// Prints directly, without the program of PAGER.
    #[arg(long)]
    pub no_pager: bool,
}

/// `seatrial traces merge`.
#[derive(Debug, Args)]
pub struct Merge {
    /// Sets of rows: files, or directories of shards.
    #[arg(required = true, value_name = "SET", value_hint = ValueHint::AnyPath)]
    pub sets: Vec<PathBuf>,
    /// Where the rows go: FILE.parquet or FILE.jsonl, which are replaced, or a new directory of Parquet shards with a card.
    #[arg(short, long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub out: PathBuf,
    /// Bytes of a shard, about; with a suffix such as 400MB.
    #[arg(long, value_name = "BYTES", default_value = "400MB", value_parser = bytes)]
    pub shard_bytes: u64,
}

/// A form of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// `messages` with `role` and `content`.
    Sft,
    /// `conversations` with `from` and `value`.
    Sharegpt,
    /// `conversations` whose roles alternate strictly, so that LLaMA-Factory keeps every sample.
    LlamaFactory,
    /// `prompt`, `response` and a `loss_mask` that is 1 where the agent speaks.
    Masked,
    /// Groups with rewards and advantages.
    Rl,
    /// Pairs of a better and a worse trial.
    Preference,
    /// Tokens of every turn, where jobs recorded them.
    Tokens,
    /// Solve rates of tasks, which a recipe takes as `reward_means`.
    Difficulty,
}

impl From<Form> for trace::Form {
    fn from(form: Form) -> Self {
        match form {
            Form::Sft => Self::Sft,
            Form::Sharegpt => Self::Sharegpt,
            Form::LlamaFactory => Self::LlamaFactory,
            Form::Masked => Self::Masked,
            Form::Rl => Self::Rl,
            Form::Preference => Self::Preference,
            Form::Tokens => Self::Tokens,
            Form::Difficulty => Self::Difficulty,
        }
    }
}

/// How advantages are computed.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub enum Advantage {
    /// Distance from the group's mean in standard deviations of the sample.
    #[default]
    Std,
    /// Distance from the group's mean.
    Mean,
}

/// A step of cleaning, or all of them.
#[derive(Debug, Clone, Copy)]
pub enum Cleaning {
    /// All.
    All,
    /// One.
    Step(trace::CleanStep),
}

fn cleaning(text: &str) -> Result<Cleaning, String> {
    if text == "all" {
        return Ok(Cleaning::All);
    }
    let steps = trace::CleanStep::ALL;
    steps.into_iter().find(|step| step.name() == text).map(Cleaning::Step).ok_or_else(|| {
        let names: Vec<_> = steps.iter().map(|step| step.name()).collect();
        format!("no step is called `{text}`; there are all, {}", names.join(", "))
    })
}

/// Which turns become rows.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub enum Episodes {
    /// The last one of a trial.
    #[default]
    Last,
    /// Every one.
    All,
}

/// Which trials become rows.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Filter {
    /// With a reward above zero and nothing that went wrong.
    Success,
    /// All others.
    Failure,
    /// Where something went wrong.
    Exception,
}

impl From<Filter> for trace::Filter {
    fn from(filter: Filter) -> Self {
        match filter {
            Filter::Success => Self::Success,
            Filter::Failure => Self::Failure,
            Filter::Exception => Self::Exception,
        }
    }
}

/// Another exporter.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Compat {
    /// `harbor traces export` of version 0.26.
    #[value(name = "harbor-0.26")]
    Harbor026,
}

fn finite(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        _ => Err("a finite number such as 1 or 0.5 is wanted".into()),
    }
}

/// A number of bytes, with an optional suffix of thousands.
fn bytes(text: &str) -> Result<u64, String> {
    let upper = text.to_ascii_uppercase();
    let suffixes = [
        ("KB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("K", 1_000),
        ("M", 1_000_000),
        ("G", 1_000_000_000),
    ];
    let (number, factor) = suffixes
        .iter()
        .find_map(|(suffix, factor)| Some((upper.strip_suffix(suffix)?, *factor)))
        .unwrap_or((&upper, 1));
    match number.trim().parse::<u64>().ok().and_then(|number| number.checked_mul(factor)) {
        Some(bytes @ 1..) => Ok(bytes),
        _ => Err("a number of bytes such as 400MB is wanted".into()),
    }
}
