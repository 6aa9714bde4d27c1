//! `seatrial images verify`: whether the registry has what the plan says.

use std::time::Duration;

use image::mirror::{Progress, VerifyOptions, VerifyReport, verify};
use indicatif::HumanBytes;
use ledger::Ledger;
use serde_json::json;

use super::{load_plan, registry, runtime, unknown};
use crate::cli::ImagesVerify;
use crate::failure::{Exit, Failure, Result};
use crate::interruption;
use crate::output::{Output, count};
use crate::project::Project;
use crate::stage::prove::LEDGER;
use crate::transfers;

/// As many images are named.
const NAMED: usize = 20;

/// The command. What was seen where it should be is written to the ledger.
pub fn run(output: Output, project: &Project, arguments: &ImagesVerify) -> Result {
    let (plan, digest, shards) = load_plan(project)?;
    let registry = registry(project)?;
    let options = VerifyOptions {
        deep: arguments.deep,
        patience: Duration::from_secs(arguments.within.into()),
        parallel: usize::from(arguments.jobs),
    };
    let progress = Progress::default();
    let runtime = runtime()?;
    let report = interruption::block_on(&runtime, async {
        let work = verify(&registry, &plan, &shards, &options, &progress);
        transfers::shown(output, "images", || progress.bytes(), work).await.map_err(|error| unknown(&error))
    })?;
    // A registry above its limit is not what was accepted.
    if report.over.is_empty() {
        Ledger::open(&project.path(LEDGER))?.record_placements(digest, &report.placed())?;
    }
    show(output, &report, plan.config.tag_limit, options.deep)
}

fn show(output: Output, report: &VerifyReport, limit: u64, deep: bool) -> Result {
    let wrong: Vec<_> =
        report.images.iter().filter_map(|image| Some((image, image.problem.as_deref()?))).collect();
    for (image, problem) in wrong.iter().take(NAMED) {
        output.say(format_args!("{}:{}: {problem}", image.repository, image.tag));
    }
    if wrong.len() > NAMED {
        output.say(format_args!("{} more", wrong.len() - NAMED));
    }
    let content = if deep {
        format!(
            "; {} with {} read and hashed",
            count(report.blobs as usize, "blob"),
            HumanBytes(report.bytes)
        )
    } else {
        String::new()
    };
    let good = report.images.len() - wrong.len();
    output.stage("images", format_args!("{good} there, {} not{content}", wrong.len()));
    output.json(&json!({
        "schema": "seatrial.images-verify/1",
        "images": report.images,
        "over": report.over,
        "blobs": report.blobs,
        "bytes": report.bytes,
    }))?;
    if !report.over.is_empty() {
        let over: Vec<String> = report.over.iter().map(|(shard, tags)| format!("{shard} ({tags})")).collect();
        let message = format!("shards have more than {limit} tags: {}", over.join(", "));
        return Err(Failure::new(Exit::Refused, message).hint("nothing was written to the ledger").silent());
    }
    if wrong.is_empty() {
        return Ok(());
    }
    let message = format!("{} not where the plan puts it", count(wrong.len(), "image"));
    Err(Failure::new(Exit::Failed, message).hint("`seatrial images mirror` sends what is missing").silent())
}
