//! Runs the rules: over one view, one path, or many paths at once.

use std::path::{Path, PathBuf};

use rayon::prelude::*;
use record::{Finding, Severity};

use crate::facts::Facts;
use crate::options::CheckOptions;
use crate::report::Report;
use crate::rules::FAMILIES;
use crate::set::TaskDigest;
use crate::view::TaskView;

/// Why a directory could not be checked at all.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The path is no directory.
    #[error("{} is not a directory; name a task directory", path.display())]
    NotADirectory {
        /// The path.
        path: PathBuf,
    },
    /// The system refused to show something in it.
    #[error("{} cannot be checked: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
}

/// What is known of a task when its view has been looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// Findings in order of file, line and rule.
    pub findings: Vec<Finding>,
    /// What the rules about sets look at; see [`check_set`](crate::check_set).
    pub digest: TaskDigest,
}

/// Applies every rule about single tasks to a view; the findings are in order of file, line and rule.
pub fn check_task(view: &TaskView, options: &CheckOptions) -> Checked {
    let facts = Facts::of(view);
    let mut report = Report::new(options);
    for family in FAMILIES {
        (family.check)(&facts, &mut report);
    }
    Checked { findings: report.finish(), digest: TaskDigest::of(&facts) }
}

/// Reads the task at `path` and applies every rule about single tasks.
pub fn check_path(path: &Path, options: &CheckOptions) -> Result<Checked, CheckError> {
    Ok(check_task(&TaskView::read(path)?, options))
}

/// Checks many tasks at the same time; the answers are in the order of `paths`.
///
/// No more views are held at once than there are threads in the current rayon pool.
pub fn check_all<P: AsRef<Path> + Sync>(
    paths: &[P],
    options: &CheckOptions,
) -> Vec<Result<Checked, CheckError>> {
    paths.par_iter().with_max_len(1).map(|path| check_path(path.as_ref(), options)).collect()
}

/// Whether no finding of severity error stands.
pub fn accepted(findings: &[Finding]) -> bool {
    findings.iter().all(|finding| finding.severity < Severity::Error)
}
