//! The arguments of `seatrial traces`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, ValueHint};

/// `seatrial traces`.
#[derive(Debug, Subcommand)]
pub enum Traces {
    /// Writes the trials of jobs as rows, Parquet or JSON lines.
    Export(Export),
}

/// `seatrial traces export`.
#[derive(Debug, Args)]
pub struct Export {
    /// Directories of jobs or trials; whatever lies in them is found.
    #[arg(required = true, value_name = "JOB", value_hint = ValueHint::DirPath)]
    pub jobs: Vec<PathBuf>,
    /// Where the rows go: FILE.parquet, FILE.jsonl, or a new directory of Parquet shards with a card.
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

/// Another exporter.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Compat {
    /// `harbor traces export` of version 0.26.
    #[value(name = "harbor-0.26")]
    Harbor026,
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
