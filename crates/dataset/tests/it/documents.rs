//! Stage documents without directories, in which every task is accepted.

use std::collections::BTreeMap;

use artifact::{Document, Inputs};
use dataset::resolve::{
    Candidate, Exclusion, Explanation, Replacement, ResolveRules, Resolved, Verdicts, candidates, explain,
    replacements, resolve,
};
use ident::{Digest, RepoKey, TaskId};
use record::{
    CheckDocument, CheckedTask, ImageStatus, MaterializeDocument, MaterializedTask, PlanDocument,
    PlannedTask, PoolSummary, ProofDocument, ProvedTask, SimilarBy, SimilarTasks, Status, SweMaster,
};

pub struct Documents {
    pub plan: PlanDocument,
    pub reserves: PlanDocument,
    pub materialized: MaterializeDocument,
    pub checks: CheckDocument,
    pub proofs: ProofDocument,
    pub set_aside: BTreeMap<TaskId, String>,
}

/// The documents of stages, about no task yet.
pub fn about_nothing() -> (MaterializeDocument, CheckDocument, ProofDocument) {
    let inputs = Inputs::new;
    (
        MaterializeDocument {
            schema: MaterializeDocument::SCHEMA.into(),
            inputs: inputs(),
            tasks: vec![],
            refused: vec![],
        },
        CheckDocument {
            schema: CheckDocument::SCHEMA.into(),
            inputs: inputs(),
            tasks: vec![],
            similar: vec![],
        },
        ProofDocument { schema: ProofDocument::SCHEMA.into(), inputs: inputs(), tasks: vec![] },
    )
}

impl Documents {
    /// Documents of pools with their targets.
    pub fn new(pools: &[(&str, u64)]) -> Self {
        let (materialized, checks, proofs) = about_nothing();
        let plan = PlanDocument {
            schema: PlanDocument::SCHEMA.into(),
            rules: "plan/1".into(),
            inputs: BTreeMap::new(),
            pools: pools
                .iter()
                .map(|(stage, target)| PoolSummary {
                    stage: (*stage).into(),
                    target: *target,
                    cap: 1,
                    relaxed: 0,
                    selected: 0,
                    shortage: 0,
                })
                .collect(),
            tasks: vec![],
        };
        Self { reserves: plan.clone(), plan, materialized, checks, proofs, set_aside: BTreeMap::new() }
    }

    /// Adds a task of a repository, behind all others of its kind.
    pub fn add(&mut self, task_id: TaskId, stage: &str, repo: RepoKey, reserve: bool) {
        let (tree_digest, verifier_digest) = (Digest::of(task_id.as_str()), Digest::of("tests"));
        let list = if reserve { &mut self.reserves } else { &mut self.plan };
        list.tasks.push(PlannedTask {
            task_id: task_id.clone(),
            stage: stage.into(),
            repo: repo.clone(),
            base_image: String::new(),
            evidence_tier: Some(2),
            official_models: vec![],
            swe_master: SweMaster::None,
            image_status: ImageStatus::Completed,
            retained: false,
            canary: false,
        });
        self.materialized.tasks.push(MaterializedTask {
            task_id: task_id.clone(),
            stage: stage.into(),
            repo,
            content_hash: tree_digest,
            task_checksum: tree_digest,
            tree_digest,
            verifier_digest,
            base_image: "registry.invalid/base:1".into(),
            copy_of: None,
            workspace_source: String::new(),
            instance_digest: tree_digest,
            quarantined: vec![],
        });
        self.checks.tasks.push(CheckedTask {
            task_id: task_id.clone(),
            tree_digest,
            accepted: true,
            findings: vec![],
        });
        self.proofs.tasks.push(ProvedTask {
            task_id,
            tree_digest,
            verifier_digest,
            image_digest: "sha256:1".into(),
            engine: "native".into(),
            cheat_group: None,
            nop_runs: 3,
            oracle_runs: 3,
            cheats: vec![],
            flaky_tests: BTreeMap::new(),
            verdict: Status::Accepted,
        });
    }

    pub fn reject(&mut self, task_id: &TaskId, reason: &str) {
        let proof = self.proofs.tasks.iter_mut().find(|task| task.task_id == *task_id).unwrap();
        proof.verdict = Status::Rejected { reason: reason.into(), detail: "as told".into() };
    }

    pub fn alike(&mut self, kept: &TaskId, other: &TaskId, by: SimilarBy) {
        self.checks.similar.push(SimilarTasks {
            kept: kept.clone(),
            other: other.clone(),
            by,
            permille: 912,
        });
    }

    pub fn verdicts(&self) -> Verdicts<'_> {
        Verdicts {
            plan: &self.plan,
            reserves: &self.reserves,
            materialized: &self.materialized,
            checks: &self.checks,
            proofs: &self.proofs,
            set_aside: &self.set_aside,
        }
    }

    pub fn candidates(&self) -> (Vec<Candidate>, BTreeMap<TaskId, Exclusion>) {
        candidates(self.verdicts()).unwrap()
    }

    pub fn resolve(&self, rules: &ResolveRules) -> Resolved {
        resolve(Inputs::new(), rules, &self.candidates().0, &self.checks.similar).unwrap()
    }

    pub fn replacements(&self, rules: &ResolveRules) -> Vec<Replacement> {
        replacements(&self.plan, &self.resolve(rules).selection, &self.candidates().1)
    }

    pub fn explain(&self, rules: &ResolveRules, task_id: &TaskId) -> Explanation {
        explain(self.verdicts(), rules, task_id).unwrap()
    }
}
