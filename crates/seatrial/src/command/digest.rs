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
        match task::digest_task(&directory.join(path)) {
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
                output.json(&json!({"path": shown, "error": error.to_string()}))?;
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
