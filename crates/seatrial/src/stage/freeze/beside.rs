//! What lies beside a frozen set and is no part of it: the report, the attestation and its signature.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use dataset::resolve::{Exclusion, candidates, replacements};
use dataset::{Frozen, Making, Signer, Story, attestation_path, report_path, signature_path};
use jiff::Timestamp;
use ledger::{Filter, Ledger};
use record::{Selection, TrialKind};

use super::failure;
use crate::failure::{Exit, OrExit, Result};
use crate::output::Output;
use crate::project::Project;
use crate::stage::prove::LEDGER;
use crate::stage::resolve::Documents;
use crate::stage::status::Standing;
use crate::workbench::processors;

/// Names the file with the key, where no argument does.
const KEY_VARIABLE: &str = "SEATRIAL_SIGNING_KEY";

/// The key that signs, if any is configured. One that cannot is refused before anything is written.
pub fn signer(project: &Project, key: Option<&Path>) -> Result<Option<Signer>> {
    let of_environment = || std::env::var_os(KEY_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
    let of_recipe = || project.recipe.dataset.signing_key.as_ref().map(|path| project.path(path));
    let path = key.map(Path::to_owned).or_else(of_environment).or_else(of_recipe);
    path.map(|path| Signer::open(&path)).transpose().map_err(|error| failure(&error))
}

/// Writes what is not there yet, or what was about another set of the same name.
pub fn write(
    output: Output,
    project: &Project,
    frozen: &Frozen,
    documents: &Documents,
    selection: &Selection,
    begun: Timestamp,
    signer: Option<&Signer>,
) -> Result {
    let set = &frozen.path;
    let fits = frozen.existed
        && report_path(set).exists()
        && attestation_path(set).exists()
        && dataset::verify_attestation(set, None).is_ok_and(|problems| problems.is_empty());
    if !fits {
        let story = story(output, project, frozen, documents, selection)?;
        let page = dataset::report(&frozen.manifest, &story);
        artifact::write_atomic(&report_path(set), page.as_bytes())?;
        let making = Making {
            program: env!("CARGO_PKG_VERSION").to_owned(),
            started: at(begun),
            finished: story.frozen_at.clone(),
            host: host(),
            trials: story.trials,
            trial_seconds: story.trials_ms / 1000,
        };
        dataset::attest(set, &frozen.manifest, &making).map_err(|error| failure(&error))?;
        // A signature over an earlier statement says nothing about this one.
        match fs_err::remove_file(signature_path(set)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).or_exit(Exit::Failed);
            }
            _ => output.stage("", format_args!("report: {}", report_path(set).display())),
        }
    }
    if let Some(signer) = signer
        && !signature_path(set).exists()
    {
        signer.sign(set).map_err(|error| failure(&error))?;
        output.stage("", format_args!("attestation signed by {}", signer.fingerprint()));
    }
    Ok(())
}

/// Everything that the report tells.
fn story(
    output: Output,
    project: &Project,
    frozen: &Frozen,
    documents: &Documents,
    selection: &Selection,
) -> Result<Story> {
    let standing = Standing::load(output, project)?;
    let (candidates, excluded) = candidates(documents.verdicts()).or_exit(Exit::Conflict)?;
    let mut story = Story {
        stages: vec![("planned".into(), standing.tasks.len() as u64)],
        replaced: replacements(&documents.plan, selection, &excluded),
        frozen_at: at(Timestamp::now()),
        made_by: vec![("seatrial".into(), env!("CARGO_PKG_VERSION").into())],
        ..Story::default()
    };
    story.made_by.extend(host());
    let mut left_out = |stage: &str, reason: &str, count: u64| {
        if count > 0 {
            *story.left_out.entry((stage.to_owned(), reason.to_owned())).or_default() += count;
        }
    };
    for ((stage, tally), name) in
        standing.stages().iter().zip(["written", "passed the static rules", "proved"])
    {
        for (reason, count) in tally.rejected.iter().chain(&tally.error) {
            left_out(stage, reason, *count);
        }
        left_out(stage, "pending", tally.pending);
        story.stages.push((name.to_owned(), tally.accepted));
    }
    let chosen = selection.tasks.len() as u64;
    for exclusion in excluded.values() {
        match exclusion {
            Exclusion::NearDuplicate { .. } => left_out("resolve", "near_duplicate", 1),
            Exclusion::SetAside { reason } => left_out("resolve", reason, 1),
            // The stages before have counted the others.
            _ => {}
        }
    }
    left_out("resolve", "pool full or repository at its cap", candidates.len() as u64 - chosen);
    story.stages.push(("frozen".into(), chosen));

    let trees: BTreeSet<_> = frozen.manifest.tasks.iter().map(|task| task.tree_digest).collect();
    if let Some(ledger) = Ledger::open_existing(&project.path(LEDGER))? {
        let mut oracle: BTreeMap<_, Vec<u64>> = BTreeMap::new();
        for task in &frozen.manifest.tasks {
            for seen in ledger.observations(&Filter::of_task(&task.task_id))? {
                if !trees.contains(&seen.tree_digest) {
                    continue;
                }
                story.trials += 1;
                story.trials_ms += seen.wall_ms;
                if seen.kind == TrialKind::Oracle {
                    oracle.entry(task.task_id.clone()).or_default().push(seen.wall_ms);
                }
            }
        }
        story.oracle_ms = oracle;
    }
    Ok(story)
}

/// The machine, as far as it may matter to somebody who compares.
fn host() -> Vec<(String, String)> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    vec![
        ("system".into(), format!("{} {}", std::env::consts::OS, release.trim())),
        ("architecture".into(), std::env::consts::ARCH.into()),
        ("processors".into(), processors().to_string()),
    ]
}

/// A time in UTC to the second.
fn at(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
