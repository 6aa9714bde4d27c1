//! `seatrial freeze --check`: everything that a frozen set says, computed again.

use std::path::Path;

use dataset::{FrozenImage, Problem};
use ident::AliasTable;
use serde_json::json;

use super::{current, failure};
use crate::cli;
use crate::failure::{Exit, Failure, OrExit, Result};
use crate::output::{Output, count};
use crate::project::Project;
use crate::stage::images;

/// The command: the set in a directory, or the one that belongs to the recipe.
pub fn run(output: Output, directory: &Path, set: Option<&Path>, arguments: &cli::Freeze) -> Result {
    let (set, aliases) = match set {
        Some(set) => (directory.join(set), AliasTable::default()),
        None => {
            let project = Project::open(directory)?;
            (current(&project)?, project.aliases()?)
        }
    };
    if !["manifest.json", "SHA256SUMS"].iter().any(|file| set.join(file).exists()) {
        let message =
            format!("{} is no frozen set: it has neither manifest.json nor SHA256SUMS", set.display());
        return Err(Failure::new(Exit::Usage, message).hint("name one of the directories below frozen/"));
    }
    let verification = dataset::verify(&set, &aliases).or_exit(Exit::Failed)?;
    let mut problems = verification.problems;
    let mut asked = None;
    if arguments.online {
        let tasks = verification.manifest.iter().flat_map(|manifest| &manifest.tasks);
        let (images, missing) = online(tasks.map(|task| &task.image))?;
        asked = Some(images);
        problems.extend(missing);
    }
    let key = arguments.pubkey.as_ref().map(|key| directory.join(key));
    problems.extend(dataset::verify_attestation(&set, key.as_deref()).map_err(|error| failure(&error))?);
    for problem in &problems {
        output.print(problem)?;
    }
    output.json(&json!({
        "directory": set.display().to_string(),
        "files": verification.files,
        "images": asked,
        "problems": problems,
    }))?;
    match problems.len() {
        0 => {
            let images = asked.map(|images| format!(" and {}", count(images, "image"))).unwrap_or_default();
            let signed = if key.is_some() { ", signed by that key" } else { "" };
            output.print(format_args!(
                "{} files{images} verified in {}{signed}",
                verification.files,
                set.display()
            ))
        }
        n => {
            let message = format!("{} is not as it was frozen: {}", set.display(), count(n, "problem"));
            Err(Failure::new(Exit::Conflict, message).silent())
        }
    }
}

/// Asks for every image that a registry can have: how many there are, and which are missing.
fn online<'m>(images: impl Iterator<Item = &'m FrozenImage>) -> Result<(usize, Vec<Problem>)> {
    let references = images.filter_map(|image| image.reference.as_deref()).collect();
    let cache = tempfile::tempdir().or_exit(Exit::Failed)?;
    let missing = images::absent(&images::registry_with(cache.path())?, &references)?;
    let problem = |(reference, message)| Problem { file: reference, message };
    Ok((references.len(), missing.into_iter().map(problem).collect()))
}
