//! `seatrial digest`: the digests of task directories, one line each, in the order given.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::failure::{Exit, Failure, Result};
use crate::output::Output;

/// Prints the digests of every path. A path that fails is reported on its line, and the command exits with 1 at the end.
pub fn run(output: Output, directory: &Path, paths: &[PathBuf]) -> Result {
    let mut failed = 0;
    for path in paths {
        let shown = path.display().to_string();
        match digest(&directory.join(path)) {
            Ok(digests) => {
                output.json(&json!({
                    "path": shown,
                    "content_hash": digests.content_hash,
                    "task_checksum": digests.task_checksum,
                    "tree_digest": digests.tree_digest,
                }))?;
                output.print(format_args!(
                    "{shown}\n  content hash   {}\n  task checksum  {}\n  tree digest    {}",
                    digests.content_hash, digests.task_checksum, digests.tree_digest
                ))?;
            }
            Err(error) => {
                failed += 1;
                output.json(&json!({"path": shown, "error": error}))?;
                output.print(format_args!("{shown}\n  {error}"))?;
            }
        }
    }
    match failed {
        0 => Ok(()),
        _ => {
            Err(Failure::new(Exit::Failed, format!("{failed} of {} paths have no digest", paths.len()))
                .silent())
        }
    }
}

/// The digests of a task directory. What lacks its `task.toml` is none: a set of tasks has no digest of its own.
fn digest(path: &Path) -> Result<task::TaskDigests, String> {
    if path.is_dir() && !path.join("task.toml").exists() {
        return Err(format!("{} is no task directory: it has no task.toml", path.display()));
    }
    task::digest_task(path).map_err(|error| error.to_string())
}
