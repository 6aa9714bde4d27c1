//! Which tasks can be chosen: those whose verdicts are accepted for the very digests in hand.

use std::collections::{BTreeMap, BTreeSet};

use ident::{Digest, RepoKey, TaskId};
use record::{
    CheckDocument, CheckedTask, MaterializeDocument, MaterializedTask, PlanDocument, PlannedTask,
    ProofDocument, ProvedTask, RefusedTask, Status,
};
use serde::Serialize;

use crate::resolve::ResolveError;

/// A task that can be chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The task.
    pub task_id: TaskId,
    /// Its pool.
    pub stage: String,
    /// Its canonical repository.
    pub repo: RepoKey,
    /// Whether it is a reserve.
    pub reserve: bool,
    /// Evidence tier, where there is one.
    pub evidence_tier: Option<u8>,
    /// The tree that was proved.
    pub tree_digest: Digest,
}

/// Everything that says whether a planned task can be chosen.
#[derive(Debug, Clone, Copy)]
pub struct Verdicts<'a> {
    /// The primaries.
    pub plan: &'a PlanDocument,
    /// The replacements.
    pub reserves: &'a PlanDocument,
    /// The task directories.
    pub materialized: &'a MaterializeDocument,
    /// What the static rules say.
    pub checks: &'a CheckDocument,
    /// What the trials say.
    pub proofs: &'a ProofDocument,
    /// Tasks set aside for another reason, such as a missing image or a near-duplicate, with that reason.
    pub set_aside: &'a BTreeMap<TaskId, String>,
}

/// Why a planned task cannot be chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "cause")]
pub enum Exclusion {
    /// It was never written.
    NotMaterialized,
    /// It could not be written.
    Refused {
        /// Stable name of the reason.
        reason: String,
    },
    /// The static rules have not looked at this tree.
    NotChecked,
    /// A static rule rejects it.
    CheckFailed,
    /// There is no proof verdict on this tree and these tests.
    NotProved,
    /// The trials reject it.
    Rejected {
        /// Stable name of the reason.
        reason: String,
    },
    /// The trials could not decide.
    Undecided {
        /// Stable name of the reason.
        reason: String,
    },
    /// It was set aside for another reason.
    SetAside {
        /// The reason as given.
        reason: String,
    },
}

/// Lists the candidates by rank (pools in the plan's order; primaries in plan order, then reserves), and why each of
/// the other planned tasks is none.
pub fn candidates(
    verdicts: Verdicts<'_>,
) -> Result<(Vec<Candidate>, BTreeMap<TaskId, Exclusion>), ResolveError> {
    let by_id = Index::new(&verdicts);
    let mut seen = BTreeSet::new();
    let (mut chosen, mut excluded) = (Vec::new(), BTreeMap::new());
    let planned = |document: &'static str, task: &PlannedTask, detail| ResolveError::Contradiction {
        document,
        task_id: task.task_id.clone(),
        detail,
        stage: "plan",
    };
    let stages: BTreeSet<&str> = verdicts.plan.pools.iter().map(|pool| pool.stage.as_str()).collect();
    for (document, tasks) in
        [("plan.json", &verdicts.plan.tasks), ("reserves.json", &verdicts.reserves.tasks)]
    {
        for task in tasks {
            if !seen.insert(&task.task_id) {
                return Err(planned(document, task, "it is listed twice"));
            }
            if !stages.contains(task.stage.as_str()) {
                return Err(planned(document, task, "its pool is not one of the plan"));
            }
        }
    }
    for pool in &verdicts.plan.pools {
        for (reserve, tasks) in [(false, &verdicts.plan.tasks), (true, &verdicts.reserves.tasks)] {
            for task in tasks.iter().filter(|task| task.stage == pool.stage) {
                match by_id.judge(&task.task_id) {
                    Ok(tree_digest) => chosen.push(Candidate {
                        task_id: task.task_id.clone(),
                        stage: task.stage.clone(),
                        repo: task.repo.clone(),
                        reserve,
                        evidence_tier: task.evidence_tier,
                        tree_digest,
                    }),
                    Err(exclusion) => {
                        excluded.insert(task.task_id.clone(), exclusion);
                    }
                }
            }
        }
    }
    Ok((chosen, excluded))
}

/// The documents by task.
struct Index<'a> {
    materialized: BTreeMap<&'a TaskId, &'a MaterializedTask>,
    refused: BTreeMap<&'a TaskId, &'a RefusedTask>,
    checks: BTreeMap<&'a TaskId, &'a CheckedTask>,
    proofs: BTreeMap<&'a TaskId, &'a ProvedTask>,
    set_aside: &'a BTreeMap<TaskId, String>,
}

impl<'a> Index<'a> {
    fn new(verdicts: &Verdicts<'a>) -> Self {
        Self {
            materialized: verdicts.materialized.tasks.iter().map(|task| (&task.task_id, task)).collect(),
            refused: verdicts.materialized.refused.iter().map(|task| (&task.task_id, task)).collect(),
            checks: verdicts.checks.tasks.iter().map(|task| (&task.task_id, task)).collect(),
            proofs: verdicts.proofs.tasks.iter().map(|task| (&task.task_id, task)).collect(),
            set_aside: verdicts.set_aside,
        }
    }

    /// The tree of an accepted task, or why it is not accepted.
    fn judge(&self, id: &TaskId) -> Result<Digest, Exclusion> {
        if let Some(refused) = self.refused.get(id) {
            return Err(Exclusion::Refused { reason: refused.reason.clone() });
        }
        let task = self.materialized.get(id).ok_or(Exclusion::NotMaterialized)?;
        let check = self.checks.get(id).filter(|check| check.tree_digest == task.tree_digest);
        if !check.ok_or(Exclusion::NotChecked)?.accepted {
            return Err(Exclusion::CheckFailed);
        }
        if let Some(reason) = self.set_aside.get(id) {
            return Err(Exclusion::SetAside { reason: reason.clone() });
        }
        let proof = self.proofs.get(id).filter(|proof| {
            (proof.tree_digest, proof.verifier_digest) == (task.tree_digest, task.verifier_digest)
        });
        match &proof.ok_or(Exclusion::NotProved)?.verdict {
            Status::Accepted => Ok(task.tree_digest),
            Status::Rejected { reason, .. } => Err(Exclusion::Rejected { reason: reason.clone() }),
            Status::Error { reason, .. } => Err(Exclusion::Undecided { reason: reason.clone() }),
            Status::Pending => Err(Exclusion::NotProved),
        }
    }
}
