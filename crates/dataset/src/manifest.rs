//! The manifest of a frozen set.

use std::collections::{BTreeMap, BTreeSet};

use artifact::{Document, Inputs};
use ident::{CanonicalError, Digest, RepoKey, TaskId, to_canonical_json};
use record::{CheatName, Shortage, Split};
use serde::{Deserialize, Serialize};

/// `manifest.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// `seatrial.manifest/1`.
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
    /// Digests of the stage documents.
    pub inputs: Inputs,
    /// The tasks in ascending order of their ids.
    pub tasks: Vec<FrozenTask>,
    /// See [`Manifest::semantics`].
    pub semantic_digest: Digest,
}

impl Document for Manifest {
    const SCHEMA: &'static str = "seatrial.manifest/1";
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
    /// The image that the environment starts from.
    pub base_image: String,
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
    /// Tests of the instance's PASS_TO_PASS that were left out because earlier proofs saw them vary.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quarantined_tests: Vec<String>,
}

impl Manifest {
    /// Computes the semantic digest: that of the canonical JSON of the manifest without `semantic_digest` itself,
    /// without `inputs`, and without the `proof` of each task.
    ///
    /// Two sets with one semantic digest hold the same tasks in the same splits, even when they were proved at another
    /// time, on another engine or more often.
    pub fn semantics(&self) -> Result<Digest, CanonicalError> {
        let mut value = serde_json::to_value(self)?;
        if let Some(manifest) = value.as_object_mut() {
            manifest.remove("semantic_digest");
            manifest.remove("inputs");
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
