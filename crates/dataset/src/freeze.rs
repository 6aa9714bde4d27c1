//! Freezing: the selected task trees, copied and described for good.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use artifact::{Document, Inputs};
use fs_err as fs;
use ident::{AliasTable, Digest, RepoKey, TaskId, to_canonical_json};
use rayon::prelude::*;
use record::{
    CheckDocument, MaterializeDocument, MaterializedTask, PlanDocument, ProofDocument, ProvedTask,
    SelectedTask, Selection, Status,
};
use task::{TaskDir, digest_task_and_files};

use crate::card::card;
use crate::copy::{copy_task, set_mode};
use crate::isolation::leaks;
use crate::kinship::Kinship;
use crate::place::place_hashed;
use crate::sums::{self, Sums};
use crate::{
    Counts, DatasetError, FrozenImage, FrozenTask, ImageForm, Manifest, Placed, ProofDemand, ProofSummary,
    Provenance, verify,
};

/// Images below this host are made from the machine's own system and exist nowhere else.
const LOCAL_IMAGES: &str = "seatrial.local/";

/// What is frozen.
#[derive(Debug, Clone, Copy)]
pub struct FreezeInput<'a> {
    /// The set's name: lower-case letters, digits, `.`, `_` and `-`.
    pub name: &'a str,
    /// The set's version, of the same characters.
    pub version: &'a str,
    /// The plan.
    pub plan: &'a PlanDocument,
    /// The chosen tasks.
    pub selection: &'a Selection,
    /// Where they come from.
    pub materialized: &'a MaterializeDocument,
    /// What the static rules say.
    pub checks: &'a CheckDocument,
    /// How they were proved.
    pub proofs: &'a ProofDocument,
    /// How much proof was asked for.
    pub proof_rule: ProofDemand,
    /// The image of every chosen task: see [`frozen_images`](crate::frozen_images).
    pub images: &'a BTreeMap<TaskId, FrozenImage>,
    /// Digests of lock, recipe and stage documents that the sources and the recipe alone decide.
    pub inputs: &'a Inputs,
    /// Old repository names and today's, as the recipe gives them.
    pub aliases: &'a BTreeMap<String, String>,
    /// The inventory of the host that tasks on its own system were proved on; kept with the set when it has such tasks.
    pub host_inventory: Option<&'a [u8]>,
    /// The directory with the materialized tasks.
    pub tasks: &'a Path,
    /// The directory that holds frozen sets.
    pub frozen: &'a Path,
}

/// A frozen set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frozen {
    /// Its directory.
    pub path: PathBuf,
    /// Its manifest.
    pub manifest: Manifest,
    /// Whether the same set was there before.
    pub existed: bool,
}

/// Freezes a selection.
///
/// Task trees are digested after they were copied, and must be those that the selection and the proofs are about. A set
/// of the same name and semantic digest stays as it is when it is sound, and its own manifest is returned; anything
/// else under that name is an error.
pub fn freeze(input: &FreezeInput<'_>) -> Result<Frozen, DatasetError> {
    for (what, text) in [("name", input.name), ("version", input.version)] {
        if !is_plain(text) {
            return Err(DatasetError::Name { what, text: text.to_owned() });
        }
    }
    if input.selection.tasks.is_empty() {
        return Err(DatasetError::Empty);
    }
    let records = records(input)?;
    let placed: Vec<Placed> = input.selection.tasks.iter().map(placed).collect();
    let pairs = input.aliases.iter().map(|(old, new)| (old.as_str(), new.as_str()));
    let aliases = AliasTable::new(pairs)?;
    let together = Kinship::new(&input.checks.similar)
        .together(input.selection.tasks.iter().map(|task| (&task.task_id, &task.repo)));
    let leaks = leaks(&placed, &aliases, &together);
    if !leaks.is_empty() {
        return Err(DatasetError::Leaks(leaks));
    }

    let directory = format!("{}-{}-{}", input.name, records.len(), input.version);
    let mut manifest = None;
    let placed = match place_hashed(input.frozen, &directory, |root| {
        let tasks = root.join("tasks");
        fs::create_dir(&tasks).map_err(DatasetError::io(&tasks))?;
        set_mode(&tasks, 0o755)?;
        let (frozen, known): (Vec<FrozenTask>, Vec<Sums>) = records
            .par_iter()
            .map(|record| record.freeze(input.tasks, &tasks))
            .collect::<Result<Vec<_>, DatasetError>>()?
            .into_iter()
            .unzip();
        let written = describe(input, frozen, &together)?;
        artifact::store(&root.join("manifest.json"), &written)?;
        artifact::write_atomic(&root.join("README.md"), card(&written).as_bytes())?;
        if let Some(inventory) =
            input.host_inventory.filter(|_| written.tasks.iter().any(|task| !task.portable))
        {
            artifact::write_atomic(&root.join("host.json"), inventory)?;
        }
        manifest = Some(written);
        Ok(known.into_iter().flatten().collect())
    }) {
        Err(DatasetError::Conflict { path, differing }) => (path, Some(differing)),
        placed => {
            let placed = placed?;
            (placed.path, placed.existed.then(Vec::new))
        }
    };
    let (path, differing) = placed;
    let manifest = manifest.expect("a directory is only placed after it was built");
    let Some(differing) = differing else { return Ok(Frozen { path, manifest, existed: false }) };
    let old = verify(&path, &aliases)?;
    match old.manifest {
        Some(old_manifest) if old_manifest.semantic_digest == manifest.semantic_digest => {
            if old.problems.is_empty() {
                return Ok(Frozen { path, manifest: old_manifest, existed: true });
            }
            Err(DatasetError::Unsound { path, problems: old.problems })
        }
        _ => Err(DatasetError::Conflict { path, differing }),
    }
}

pub(crate) fn is_plain(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_' | '-');
    text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(plain) && text.len() <= 100
}

fn placed(task: &SelectedTask) -> Placed {
    Placed {
        task_id: task.task_id.clone(),
        split: task.split,
        repo: task.repo.clone(),
        content: Some(task.tree_digest),
    }
}

fn describe(
    input: &FreezeInput<'_>,
    tasks: Vec<FrozenTask>,
    together: &[Vec<RepoKey>],
) -> Result<Manifest, DatasetError> {
    let mut inputs = input.inputs.clone();
    let verdicts = Manifest::verdicts(input.proofs).map_err(artifact::ArtifactError::from)?;
    inputs.insert("verdicts".to_owned(), verdicts);
    // The selection's own inputs name the very proofs, which differ from run to run.
    let chosen = to_canonical_json(&(&input.selection.tasks, &input.selection.shortages));
    inputs.insert("selection".to_owned(), Digest::of(chosen.map_err(artifact::ArtifactError::from)?));
    let mut manifest = Manifest {
        schema: Manifest::SCHEMA.to_owned(),
        rules: vec![input.plan.rules.clone(), input.selection.rules.clone()],
        name: input.name.to_owned(),
        version: input.version.to_owned(),
        counts: Counts::of(&tasks),
        shortages: input.selection.shortages.clone(),
        aliases: input.aliases.clone(),
        together: together.to_vec(),
        proof_rule: input.proof_rule,
        sources: input.plan.inputs.clone(),
        inputs,
        tasks,
        semantic_digest: Digest::of(""),
    };
    manifest.semantic_digest = manifest.semantics().map_err(artifact::ArtifactError::from)?;
    Ok(manifest)
}

/// Everything that the documents say about one selected task.
struct Record<'a> {
    selected: &'a SelectedTask,
    materialized: &'a MaterializedTask,
    proved: &'a ProvedTask,
    image: &'a FrozenImage,
}

/// Joins the documents by task, in ascending order of ids, and refuses what does not fit together.
fn records<'a>(input: &FreezeInput<'a>) -> Result<Vec<Record<'a>>, DatasetError> {
    let stale = |task_id: &TaskId, detail: &str, stage| DatasetError::Stale {
        task_id: task_id.clone(),
        detail: detail.to_owned(),
        stage,
    };
    let materialized: BTreeMap<&TaskId, &MaterializedTask> =
        input.materialized.tasks.iter().map(|task| (&task.task_id, task)).collect();
    let proofs: BTreeMap<&TaskId, &ProvedTask> =
        input.proofs.tasks.iter().map(|task| (&task.task_id, task)).collect();
    let mut seen = BTreeSet::new();
    let mut records = Vec::new();
    for selected in &input.selection.tasks {
        let id = &selected.task_id;
        if !seen.insert(id) {
            return Err(stale(id, "the selection lists it twice", "resolve"));
        }
        let materialized = *materialized
            .get(id)
            .filter(|task| task.tree_digest == selected.tree_digest)
            .ok_or_else(|| stale(id, "the selection is about another task directory", "resolve"))?;
        let trees = (materialized.tree_digest, materialized.verifier_digest);
        let proved = *proofs
            .get(id)
            .filter(|proof| (proof.tree_digest, proof.verifier_digest) == trees)
            .filter(|proof| proof.verdict == Status::Accepted)
            .ok_or_else(|| stale(id, "no accepted proof is about this task directory", "prove"))?;
        let image =
            input.images.get(id).ok_or_else(|| stale(id, "nothing is known of its image", "freeze"))?;
        records.push(Record { selected, materialized, proved, image });
    }
    records.sort_by_key(|record| &record.selected.task_id);
    Ok(records)
}

impl Record<'_> {
    /// Copies the task's tree below `into` and describes the copy, with the digests of its files as seen from the set.
    fn freeze(&self, from: &Path, into: &Path) -> Result<(FrozenTask, Sums), DatasetError> {
        let Self { selected, materialized, proved, image } = *self;
        let task_id = &selected.task_id;
        let to = into.join(task_id.as_str());
        let shape = copy_task(task_id, &from.join(task_id.as_str()), &to)?;
        let wrap = |source| DatasetError::Task { task_id: task_id.clone(), source };
        let (digests, files) = digest_task_and_files(&to).map_err(wrap)?;
        let found =
            (digests.tree_digest, digests.content_hash, digests.task_checksum, digests.verifier_digest);
        let known = (
            materialized.tree_digest,
            materialized.content_hash,
            materialized.task_checksum,
            materialized.verifier_digest,
        );
        if found != known {
            return Err(DatasetError::Stale {
                task_id: task_id.clone(),
                detail: "its directory was changed after it was materialized".into(),
                stage: "materialize",
            });
        }
        let opened = TaskDir::open(&to).map_err(wrap)?;
        let config = opened.config();
        let frozen = FrozenTask {
            task_id: task_id.clone(),
            split: selected.split,
            stage: selected.stage.clone(),
            evidence_tier: selected.evidence_tier,
            repo: selected.repo.clone(),
            content_hash: digests.content_hash,
            task_checksum: digests.task_checksum,
            tree_digest: digests.tree_digest,
            verifier_digest: digests.verifier_digest,
            base_image: materialized.base_image.clone(),
            image: image.clone(),
            // An image of the task's own makes up for a base that nobody else has.
            portable: image.form == ImageForm::Task || !materialized.base_image.starts_with(LOCAL_IMAGES),
            executable: shape.executable,
            links: shape.links,
            proof: ProofSummary {
                nop_runs: proved.nop_runs,
                oracle_runs: proved.oracle_runs,
                // A positive number of seconds, as the task's configuration is only read with one.
                verifier_sec: config.verifier.timeout_sec.ceil() as u64,
                memory_mb: config.environment.memory_mb,
                millicpus: config.environment.cpus.map(|cpus| (cpus * 1000.0).round() as u64),
                engine: proved.engine.clone(),
                image_digest: proved.image_digest.clone(),
                cheats: proved.cheats.clone(),
            },
            provenance: Provenance {
                instance_digest: materialized.instance_digest,
                workspace_source: materialized.workspace_source.clone(),
                base_copy_of: materialized.copy_of.clone(),
                quarantined_tests: materialized.quarantined.clone(),
            },
        };
        Ok((frozen, sums::below(&format!("tasks/{task_id}"), files).collect()))
    }
}
