//! Which tasks can be chosen: those whose verdicts are accepted for the very digests in hand.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use ident::{Digest, RepoKey, TaskId};
use record::{
    CheckDocument, CheckedTask, MaterializeDocument, MaterializedTask, PlanDocument, PlannedTask,
    ProofDocument, ProvedTask, RefusedTask, Status,
};
use serde::Serialize;

use crate::kinship::Kinship;
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
    /// Accepted tasks that are set aside for another reason, such as a missing image, with that reason.
    pub set_aside: &'a BTreeMap<TaskId, String>,
}

/// Why a planned task cannot be chosen. Its text goes on after the task's name.
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
    /// Its solution makes the same change as that of a candidate before it.
    NearDuplicate {
        /// That candidate.
        of: TaskId,
    },
    /// It was set aside for another reason.
    SetAside {
        /// The reason as given.
        reason: String,
    },
}

impl fmt::Display for Exclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotMaterialized => f.write_str("was never written"),
            Self::Refused { reason } => write!(f, "could not be written ({reason})"),
            Self::NotChecked => f.write_str("was not checked as it is"),
            Self::CheckFailed => f.write_str("is rejected by the static rules"),
            Self::NotProved => f.write_str("is not proved as it is"),
            Self::Rejected { reason } => write!(f, "is rejected by its trials ({reason})"),
            Self::Undecided { reason } => write!(f, "is undecided ({reason})"),
            Self::NearDuplicate { of } => write!(f, "makes the same change as `{of}`"),
            Self::SetAside { reason } => write!(f, "was set aside ({reason})"),
        }
    }
}

/// Lists the candidates by rank (pools in the plan's order; primaries in plan order, then reserves), and why each of
/// the other planned tasks is none. Of tasks whose solutions make the same change, only the first by rank is a candidate.
pub fn candidates(verdicts: Verdicts<'_>) -> Result<Candidates, ResolveError> {
    candidates_and(verdicts, None)
}

/// The candidates by rank, and why the other planned tasks are none.
pub type Candidates = (Vec<Candidate>, BTreeMap<TaskId, Exclusion>);

/// The same, as if nothing spoke against one task.
pub(super) fn candidates_and(
    verdicts: Verdicts<'_>,
    cleared: Option<&TaskId>,
) -> Result<Candidates, ResolveError> {
    let by_id = Index::new(&verdicts);
    let mut seen = BTreeSet::new();
    let (mut chosen, mut excluded) = (Vec::new(), BTreeMap::new());
    let kinship = Kinship::of_solutions(&verdicts.checks.similar);
    let mut solved: BTreeMap<&TaskId, &TaskId> = BTreeMap::new();
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
                let id = &task.task_id;
                let judged = match by_id.judge(id) {
                    Err(_) if cleared == Some(id) => Ok(Digest::of("")),
                    judged => judged,
                };
                let judged =
                    judged.and_then(|tree_digest| match *solved.entry(kinship.class(id)).or_insert(id) {
                        first if first == id || cleared == Some(id) => Ok(tree_digest),
                        first => Err(Exclusion::NearDuplicate { of: first.clone() }),
                    });
                match judged {
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
        let proof = self.proofs.get(id).filter(|proof| {
            (proof.tree_digest, proof.verifier_digest) == (task.tree_digest, task.verifier_digest)
        });
        match (&proof.ok_or(Exclusion::NotProved)?.verdict, self.set_aside.get(id)) {
            (Status::Accepted, None) => Ok(task.tree_digest),
            (Status::Accepted, Some(reason)) => Err(Exclusion::SetAside { reason: reason.clone() }),
            (Status::Rejected { reason, .. }, _) => Err(Exclusion::Rejected { reason: reason.clone() }),
            (Status::Error { reason, .. }, _) => Err(Exclusion::Undecided { reason: reason.clone() }),
            (Status::Pending, _) => Err(Exclusion::NotProved),
        }
    }
}
