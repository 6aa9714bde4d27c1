//! `seatrial traces`: jobs and sets of traces as training data, in numbers, and for reading.

mod arguments;
mod export;

use std::path::Path;

pub use arguments::Traces;

use crate::failure::{Exit, Failure, Result};
use crate::output::Output;

/// The command.
pub fn run(output: Output, directory: &Path, command: &Traces) -> Result {
    match command {
        Traces::Export(arguments) => export::run(output, directory, arguments),
    }
}

/// A failure by what it means to the user.
fn failure(error: &trace::TraceError) -> Failure {
    use trace::TraceError as E;
    match error {
        E::Io { source, .. } if artifact::is_disk_full(source) => Failure::from_error(Exit::Budget, error),
        E::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            Failure::from_error(Exit::Usage, error)
        }
        E::Occupied { .. } | E::Output { .. } => Failure::from_error(Exit::Usage, error),
        E::Conflict { .. } => Failure::from_error(Exit::Conflict, error),
        _ => Failure::from_error(Exit::Failed, error),
    }
}
