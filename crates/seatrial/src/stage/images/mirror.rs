//! `seatrial images mirror`: the plan carried out.

use std::path::PathBuf;
use std::sync::Arc;

use image::ImageError;
use image::mirror::{MirrorError, MirrorOptions, MirrorOutcome, MirrorReport, Progress, mirror};
use image::shards::{Drift, ShardPlan};
use indicatif::HumanBytes;
use serde_json::json;

use super::build::BUILDS;
use super::{IMAGES, load_plan, registry, runtime, sources, unknown};
use crate::cli::ImagesMirror;
use crate::failure::{Exit, Failure, Result};
use crate::interruption;
use crate::output::{Output, count};
use crate::project::Project;
use crate::stage::materialize::{MATERIALIZE, file_digest};
use crate::transfers;

/// As many images, tags and shards are named.
const NAMED: usize = 20;

/// The command.
pub fn run(output: Output, project: &Project, arguments: &ImagesMirror) -> Result {
    let (plan, digest, shards) = load_plan(project)?;
    is_current(project, &plan)?;
    let registry = registry(project)?;
    let options = MirrorOptions {
        layouts: sources::layouts(project, shards.config())?,
        journal: journal(project, &plan)?,
        parallel: usize::from(arguments.jobs),
        reserve: arguments.reserve,
        wait: arguments.wait,
        accept_drift: arguments.accept_drift,
    };
    let progress = Arc::new(Progress::default());
    let digest = digest.prefixed();
    let work = mirror(&registry, &plan, &shards, &digest, &options, &progress);
    let runtime = runtime()?;
    let report = interruption::block_on(&runtime, async {
        let report = transfers::shown(output, "images", || progress.bytes(), work).await;
        report.map_err(|error| failure(output, error))
    })?;
    show(output, &report)
}

/// Where the journal of a registry and namespace is. No name leads out of the directory.
fn journal(project: &Project, plan: &ShardPlan) -> Result<PathBuf> {
    let place = format!("{}/{}", plan.config.registry, plan.config.namespace);
    let name = place.trim_end_matches('/').replace('/', "+");
    Ok(project.state("mirror")?.join(name))
}

/// Refuses a plan that was made from other documents than those that are there.
fn is_current(project: &Project, plan: &ShardPlan) -> Result {
    for name in [MATERIALIZE, BUILDS] {
        if let Some(made_from) = plan.inputs.get(name)
            && *made_from != file_digest(&project.path(name))?
        {
            let message = format!("{IMAGES} was made from another {name}");
            return Err(Failure::new(Exit::Conflict, message).hint("run `seatrial images plan`"));
        }
    }
    Ok(())
}

fn show(output: Output, report: &MirrorReport) -> Result {
    let (mut copied, mut present, mut deferred, mut failed) = (0, 0, Vec::new(), Vec::new());
    for image in &report.images {
        let place = format!("{}:{}", image.repository, image.tag);
        match &image.outcome {
            MirrorOutcome::Present => present += 1,
            MirrorOutcome::Copied => copied += 1,
            MirrorOutcome::Deferred { reason } => deferred.push((place, reason)),
            MirrorOutcome::Failed { reason } => failed.push((place, reason)),
        }
    }
    for (what, images) in [("failed", &failed), ("put off", &deferred)] {
        for (place, reason) in images.iter().take(NAMED) {
            output.say(format_args!("{what}: {place}: {reason}"));
        }
        if images.len() > NAMED {
            output.say(format_args!("{what}: {} more", images.len() - NAMED));
        }
    }
    output.stage(
        "images",
        format_args!(
            "{copied} copied, {present} there before, {} put off, {} failed; {} sent with {}, {} mounted, {} found",
            deferred.len(),
            failed.len(),
            count(report.sent as usize, "blob"),
            HumanBytes(report.sent_bytes),
            report.mounted,
            report.found
        ),
    );
    output.json(&json!({
        "schema": "seatrial.images-mirror/1",
        "images": report.images,
        "sent": report.sent,
        "sent_bytes": report.sent_bytes,
        "mounted": report.mounted,
        "found": report.found,
    }))?;
    if !failed.is_empty() {
        let message = format!("{} not copied", count(failed.len(), "image"));
        return Err(Failure::new(Exit::Failed, message).silent());
    }
    if !deferred.is_empty() {
        let message =
            format!("{} put off: a registry allows no more for now", count(deferred.len(), "image"));
        return Err(Failure::new(Exit::Budget, message)
            .hint("run the same command again later, or with --wait; what was copied stays")
            .silent());
    }
    output.stage("", "`seatrial images verify` looks whether all of it can be seen");
    Ok(())
}

fn failure(output: Output, error: MirrorError) -> Failure {
    match error {
        MirrorError::Unknown(error) => unknown(&error),
        error @ MirrorError::Gate { .. } => Failure::from_error(Exit::Refused, &error).hint(
            "nothing was sent; others have added tags since the plan was made: run `seatrial images plan`",
        ),
        error @ MirrorError::Conflicts(_) => Failure::from_error(Exit::Conflict, &error)
            .hint("nothing was sent; `overwrite = true` in [images] lets tags be moved"),
        MirrorError::Drift(drift) => drifted(output, &drift),
        error @ (MirrorError::Locked(_) | MirrorError::Plan(_)) => {
            Failure::from_error(Exit::Conflict, &error).hint("nothing was sent")
        }
        MirrorError::Image(error) => broken(&error),
    }
}

fn drifted(output: Output, drift: &[Drift]) -> Failure {
    for Drift { place, planned, now } in drift.iter().take(NAMED) {
        output.say(format_args!("changed: {place}: planned to {planned}, now to {now}"));
    }
    let message = format!("{} changed since the plan was made", count(drift.len(), "image"));
    Failure::new(Exit::Conflict, message)
        .hint("nothing was sent; `seatrial images plan` plans again, --accept-drift goes on as it is now")
}

/// A failure of this machine's files.
fn broken(error: &ImageError) -> Failure {
    if error.is_disk_full() {
        return Failure::from_error(Exit::Budget, error)
            .hint("free some space and run the same command again: what was copied stays");
    }
    Failure::from_error(Exit::Failed, error)
}
