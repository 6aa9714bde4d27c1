//! Why a command did not succeed, and the exit code that says so.

use std::error::Error;
use std::fmt;
use std::process::ExitCode;

/// The documented exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Something failed and was reported.
    Failed = 1,
    /// Usage, recipe or mapping error.
    Usage = 2,
    /// A gate refused; nothing was changed.
    Refused = 3,
    /// The state of something remote is not known; nothing was changed.
    Unknown = 4,
    /// Conflict with recorded state.
    Conflict = 5,
    /// Stopped on a budget, such as the disk; resumable.
    Budget = 6,
    /// Interrupted and resumable.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// A command's failure: what happened, which exit code it has, what to do.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// What happened; a miette report where a place in a file can be shown.
    pub report: miette::Report,
    /// What to do, a line each.
    pub hints: Vec<String>,
    /// Everything has been said already, so that JSON output stays what the command documents.
    pub silent: bool,
}

impl Failure {
    /// A failure with a plain message.
    pub fn new(exit: Exit, message: impl fmt::Display) -> Self {
        Self::from_report(exit, miette::Report::msg(message.to_string()))
    }

    /// A failure that can show its place in a file.
    pub fn from_report(exit: Exit, report: miette::Report) -> Self {
        Self { exit, report, hints: Vec::new(), silent: false }
    }

    /// A failure from an error and everything below it. A full disk is a budget that ran out, whatever was being done.
    pub fn from_error(exit: Exit, error: &(dyn Error + 'static)) -> Self {
        let exit = if exit == Exit::Failed && is_disk_full(error) { Exit::Budget } else { exit };
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(inner) = source {
            let text = inner.to_string();
            // Transparent wrappers repeat what is below them.
            if !message.ends_with(&text) {
                message.push_str(": ");
                message.push_str(&text);
            }
            source = inner.source();
        }
        Self::new(exit, message)
    }

    /// A failure whose JSON has been printed by the command itself.
    #[must_use]
    pub fn silent(mut self) -> Self {
        self.silent = true;
        self
    }

    /// Adds a line that says what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
}

/// Whether a full disk is what an error comes down to.
fn is_disk_full(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if error.downcast_ref::<std::io::Error>().is_some_and(artifact::is_disk_full) {
            return true;
        }
        next = error.source();
    }
    false
}

/// A command's result.
pub type Result<T = (), E = Failure> = std::result::Result<T, E>;

/// Turns any error into a failure with a stated exit code.
pub trait OrExit<T> {
    /// Keeps the value, or fails with `exit`.
    fn or_exit(self, exit: Exit) -> Result<T>;
}

impl<T, E: Error + 'static> OrExit<T> for std::result::Result<T, E> {
    fn or_exit(self, exit: Exit) -> Result<T> {
        self.map_err(|error| Failure::from_error(exit, &error))
    }
}

impl From<artifact::ArtifactError> for Failure {
    fn from(error: artifact::ArtifactError) -> Self {
        use artifact::ArtifactError as E;
        let exit = match error {
            E::Missing { .. } => Exit::Usage,
            E::Invalid { .. } | E::NotAFile { .. } | E::TooLarge { .. } => Exit::Conflict,
            E::Io { .. } | E::Canonical(_) => Exit::Failed,
        };
        Self::from_error(exit, &error)
    }
}

impl From<trial::TrialError> for Failure {
    fn from(error: trial::TrialError) -> Self {
        use trial::{Refused, TrialError as E};
        match &error {
            E::Refused(Refused::Stopped) => crate::interruption::failure(),
            E::Refused(Refused::DiskFull { .. }) => Self::from_error(Exit::Budget, &error),
            E::Io(inner) if artifact::is_disk_full(inner) => Self::from_error(Exit::Budget, &error)
                .hint("free some space and run the same command again: what has ended is kept"),
            E::OtherJob { .. } => {
                Self::from_error(Exit::Conflict, &error).hint("choose another name with --job-name")
            }
            E::NotOurs { .. } => {
                Self::from_error(Exit::Usage, &error).hint("choose another name with --job-name")
            }
            E::Artifact(artifact::ArtifactError::Invalid { path, .. }) => {
                let directory = path.parent().unwrap_or(path).display();
                Self::from_error(Exit::Conflict, &error)
                    .hint(format!("move {directory} away, or choose another name with --job-name"))
            }
            E::Job(job::JobError::Claimed { .. }) => Self::from_error(Exit::Conflict, &error),
            _ => Self::from_error(Exit::Failed, &error),
        }
    }
}

impl From<prove::ProveError> for Failure {
    fn from(error: prove::ProveError) -> Self {
        match error {
            prove::ProveError::Trial(error) => error.into(),
            prove::ProveError::Ledger(error) => error.into(),
            error @ (prove::ProveError::UnknownCheat(_) | prove::ProveError::Walk { .. }) => {
                Self::from_error(Exit::Failed, &error)
            }
        }
    }
}

impl From<ledger::LedgerError> for Failure {
    fn from(error: ledger::LedgerError) -> Self {
        use ledger::LedgerError as E;
        let exit = match error {
            E::NotALedger { .. } | E::Damaged { .. } | E::Newer { .. } => Exit::Conflict,
            _ => Exit::Failed,
        };
        Self::from_error(exit, &error)
    }
}
