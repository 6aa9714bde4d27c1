//! The manifest of a frozen set.

use std::collections::{BTreeMap, BTreeSet};

use artifact::{Document, Inputs};
use ident::{CanonicalError, Digest, RepoKey, TaskId, to_canonical_json};
use record::{CheatName, ProofDocument, Shortage, SourceInput, Split, Status};
use serde::{Deserialize, Serialize};

use crate::FrozenImage;

/// `manifest.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// `seatrial.manifest/2`.
    pub schema: String,
    /// Versions of the rules that the set was made by, in the order of the stages.
    pub rules: Vec<String>,
    /// The set's name.
    pub name: String,
    /// The set's version.
    pub version: String,
    /// How many tasks there are, and of what.
    pub counts: Counts,
    /// What is missing against the recipe.
    pub shortages: Vec<Shortage>,
    /// Old repository names and today's, as the recipe gives them.
    pub aliases: BTreeMap<String, String>,
    /// Repositories with tasks that are alike, in groups of two and more; each group lies in one split.
    pub together: Vec<Vec<RepoKey>>,
    /// How much proof was asked for.
    pub proof_rule: ProofDemand,
    /// What the plan was made from: the pinned sources by their names, and `seatrial.toml` for the parts of the recipe that decide.
    pub sources: BTreeMap<String, SourceInput>,
    /// Digests of lock, recipe and stage documents, of `verdicts` and of `selection`: see [`Manifest::verdicts`].
    pub inputs: Inputs,
    /// The tasks in ascending order of their ids.
    pub tasks: Vec<FrozenTask>,
    /// See [`Manifest::semantics`].
    pub semantic_digest: Digest,
}

impl Document for Manifest {
    const SCHEMA: &'static str = "seatrial.manifest/2";
    const STAGE: &'static str = "freeze";
}

/// Numbers of tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// All tasks.
    pub tasks: u64,
    /// Repositories.
    pub repositories: u64,
    /// Tasks of each split.
    pub splits: BTreeMap<Split, u64>,
    /// Tasks of each pool.
    pub pools: BTreeMap<String, u64>,
}

/// One task of a frozen set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrozenTask {
    /// The task, which is the name of its directory.
    pub task_id: TaskId,
    /// Its split.
    pub split: Split,
    /// Its pool.
    pub stage: String,
    /// Evidence tier, where there is one.
    pub evidence_tier: Option<u8>,
    /// Its canonical repository.
    pub repo: RepoKey,
    /// Harbor's content hash.
    pub content_hash: Digest,
    /// Harbor's older whole-directory checksum.
    pub task_checksum: Digest,
    /// Digest over names, content, executable bits and links.
    pub tree_digest: Digest,
    /// The same for `tests/` alone.
    pub verifier_digest: Digest,
    /// The image that the environment starts from, as its Dockerfile names it.
    pub base_image: String,
    /// The image that is kept for the task, and in what form.
    pub image: FrozenImage,
    /// Whether the task runs on other machines: false when its image is this machine's own system.
    pub portable: bool,
    /// Files that must be executable, relative to the task; hubs and archives can lose that.
    pub executable: Vec<String>,
    /// Symbolic links and what they point at.
    pub links: BTreeMap<String, String>,
    /// How it was proved.
    pub proof: ProofSummary,
    /// What it was made from.
    pub provenance: Provenance,
}

/// How much proof every task had to give.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProofDemand {
    /// Nop trials that must all get no reward.
    pub nop_runs: u32,
    /// Oracle trials that must all get the reward.
    pub oracle_runs: u32,
    /// Trials of each kind after any disagreement.
    pub confirm_runs: u32,
    /// A task that varies more often than this, in thousandths of its runs, would have shown it in the runs of one kind with a
    /// probability of 95 %.
    pub flake_bound_permille: u32,
}

/// How a task was proved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProofSummary {
    /// Trials that did nothing and got no reward.
    pub nop_runs: u32,
    /// Trials that applied the solution and got the reward.
    pub oracle_runs: u32,
    /// Time limit of the verifier, in whole seconds rounded up.
    pub verifier_sec: u64,
    /// Memory in MiB, where it was limited.
    pub memory_mb: Option<u64>,
    /// Thousandths of a processor, where they were limited.
    pub millicpus: Option<u64>,
    /// The engine.
    pub engine: String,
    /// The root file system.
    pub image_digest: String,
    /// Cheats that were tried, on this task or on another with the same verifier program, profile and repository, and got
    /// nothing.
    #[serde(default)]
    pub cheats: Vec<CheatName>,
}

/// What a task was made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// Digest of the instance row.
    pub instance_digest: Digest,
    /// Digest of the pinned source tree.
    pub workspace_source: String,
    /// What the base image is a copy of, where a mirror's copy stands in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_copy_of: Option<String>,
    /// Tests of the instance's PASS_TO_PASS that were left out because earlier proofs saw them vary.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quarantined_tests: Vec<String>,
}

impl Manifest {
    /// The digest of what the proofs came to: of the canonical JSON of `[task, tree digest, verifier digest, status, reason]` for
    /// every task, in ascending order. How often something was run, and what varied, is not part of it.
    pub fn verdicts(proofs: &ProofDocument) -> Result<Digest, CanonicalError> {
        let mut classes: Vec<_> = proofs
            .tasks
            .iter()
            .map(|task| {
                let (status, reason) = match &task.verdict {
                    Status::Accepted => ("accepted", ""),
                    Status::Rejected { reason, .. } => ("rejected", reason.as_str()),
                    Status::Error { reason, .. } => ("error", reason.as_str()),
                    Status::Pending => ("pending", ""),
                };
                (&task.task_id, task.tree_digest, task.verifier_digest, status, reason)
            })
            .collect();
        classes.sort();
        Ok(Digest::of(to_canonical_json(&classes)?))
    }

    /// Computes the semantic digest: that of the canonical JSON of the manifest without `semantic_digest` itself,
    /// without `inputs`, `sources` and `proof_rule`, and without the `proof` of each task.
    ///
    /// Two sets with one semantic digest hold the same tasks in the same splits, even when they were proved at another
    /// time, on another engine or more often.
    pub fn semantics(&self) -> Result<Digest, CanonicalError> {
        let mut value = serde_json::to_value(self)?;
        if let Some(manifest) = value.as_object_mut() {
            for name in ["semantic_digest", "inputs", "sources", "proof_rule"] {
                manifest.remove(name);
            }
            let tasks = manifest.get_mut("tasks").and_then(serde_json::Value::as_array_mut);
            for task in tasks.into_iter().flatten().filter_map(serde_json::Value::as_object_mut) {
                task.remove("proof");
            }
        }
        Ok(Digest::of(to_canonical_json(&value)?))
    }

    /// The name of the set's directory: name, number of tasks and version.
    pub fn directory(&self) -> String {
        format!("{}-{}-{}", self.name, self.counts.tasks, self.version)
    }
}

impl Counts {
    /// Counts `tasks`.
    pub fn of(tasks: &[FrozenTask]) -> Self {
        let mut counts = Self {
            tasks: tasks.len() as u64,
            repositories: tasks.iter().map(|task| &task.repo).collect::<BTreeSet<_>>().len() as u64,
            splits: [Split::Train, Split::Validation, Split::Test].map(|split| (split, 0)).into(),
            pools: BTreeMap::new(),
        };
        for task in tasks {
            *counts.splits.entry(task.split).or_default() += 1;
            *counts.pools.entry(task.stage.clone()).or_default() += 1;
        }
        counts
    }
}
