//! `seatrial traces`: jobs and sets of traces as training data, in numbers, and for reading.

mod arguments;
mod compare;
mod convert;
mod export;
mod merge;
mod scan;
mod show;
mod stats;

use std::path::Path;

pub use arguments::Traces;

use crate::failure::{Exit, Failure, Result};
use crate::output::Output;

/// The command.
pub fn run(output: Output, directory: &Path, command: &Traces) -> Result {
    match command {
        Traces::Export(arguments) => export::run(output, directory, arguments),
        Traces::Stats(arguments) => stats::run(output, directory, arguments),
        Traces::Compare(arguments) => compare::run(output, directory, arguments),
        Traces::Convert(arguments) => convert::run(output, directory, arguments),
        Traces::Scan(arguments) => scan::run(output, directory, arguments),
        Traces::Show(arguments) => show::run(output, directory, arguments),
        Traces::Merge(arguments) => merge::run(output, directory, arguments),
    }
}

/// A failure by what it means to the user.
fn failure(error: &trace::TraceError) -> Failure {
    use trace::TraceError as E;
    match error {
        E::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            Failure::from_error(Exit::Usage, error)
        }
        E::Occupied { .. }
        | E::NotTraces { .. }
        | E::Output { .. }
        | E::Job(job::JobError::NotADirectory { .. } | job::JobError::IsAJob { .. }) => {
            Failure::from_error(Exit::Usage, error)
        }
        E::Conflict { .. } | E::Overtaken { .. } => Failure::from_error(Exit::Conflict, error),
        _ => Failure::from_error(Exit::Failed, error),
    }
}

/// Tells what was odd about sets that were read.
fn skipped(output: Output, read: &trace::ReadReport) {
    export::named(output, "odd", &read.odd);
    for one in read.skipped.iter().take(export::NAMED) {
        output.warn(format_args!("skipped: {}", task::printable(one.to_string().as_bytes())));
    }
    if let Some(more @ 1..) = read.skipped.len().checked_sub(export::NAMED) {
        output.warn(format_args!("skipped: {more} more; --json names all"));
    }
    if !read.others.is_empty() {
        let names: Vec<_> = read.others.iter().map(String::as_str).collect();
        output.say(format_args!("columns that were not read: {}", names.join(", ")));
    }
    let counts = [
        (read.surrogates, "halves of surrogate pairs became U+FFFD"),
        (read.not_utf8, "lines with bytes that are not UTF-8"),
        (read.media, "images or sounds, which rows do not hold"),
    ];
    for (number, what) in counts.into_iter().filter(|(number, _)| *number > 0) {
        output.say(format_args!("{number} {what}"));
    }
}
