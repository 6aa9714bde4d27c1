//! From documents to a selection.

use std::collections::{BTreeMap, BTreeSet};

use artifact::{Document, Inputs};
use dataset::resolve::{
    Candidate, Exclusion, PoolTarget, ResolveError, ResolveRules, SplitSizes, Verdicts, candidates, resolve,
};
use ident::{Digest, RepoKey, TaskId};
use record::{
    CheckDocument, CheckedTask, ImageStatus, MaterializeDocument, PlanDocument, PlannedTask, PoolSummary,
    RefusedTask, Split, Status, SweMaster,
};

use crate::project::{Project, task_id};

pub fn rules(targets: &[(&str, u64)], repo_cap: u64, split: [u64; 3], allow_shortfall: bool) -> ResolveRules {
    let pools = targets.iter().map(|(stage, target)| PoolTarget { stage: (*stage).into(), target: *target });
    let [train, validation, test] = split;
    ResolveRules {
        pools: pools.collect(),
        repo_cap,
        split: SplitSizes { train, validation, test },
        allow_shortfall,
    }
}

fn candidate(stage: &str, repo: &str, n: usize) -> Candidate {
    let task_id = task_id(repo, n);
    Candidate {
        tree_digest: Digest::of(task_id.as_str()),
        task_id,
        stage: stage.into(),
        repo: RepoKey::parse(repo).unwrap(),
        reserve: false,
        evidence_tier: None,
    }
}

#[test]
fn strict_mode_wants_every_pool_and_every_split() {
    let some = [candidate("p", "o/a", 0), candidate("p", "o/a", 1), candidate("q", "o/b", 2)];
    let run = |rules| resolve(Inputs::new(), &rules, &some, &[]);
    let fine = run(rules(&[("p", 2), ("q", 1)], 2, [2, 1, 0], false)).unwrap();
    let splits: Vec<Split> = fine.selection.tasks.iter().map(|task| task.split).collect();
    assert_eq!(splits, [Split::Train, Split::Train, Split::Validation]);
    assert_eq!(fine.selection.shortages, []);

    let error = run(rules(&[("p", 2), ("q", 1)], 1, [2, 1, 0], false)).unwrap_err();
    assert!(matches!(&error, ResolveError::PoolShortage(short) if short.len() == 1), "{error}");
    let error = run(rules(&[("p", 2), ("q", 1)], 2, [1, 1, 1], false)).unwrap_err();
    assert!(error.to_string().contains("train 2, validation 1, test 0"), "{error}");
}

#[test]
fn a_shortfall_is_recorded_against_the_recipe() {
    let some: Vec<Candidate> = (0..10).map(|n| candidate("p", &format!("o/r{}", n / 2), n)).collect();
    let rules = rules(&[("p", 20), ("q", 3)], 2, [14, 3, 3], true);
    let resolved = resolve(Inputs::new(), &rules, &some, &[]).unwrap();
    assert_eq!(resolved.aimed, SplitSizes { train: 7, validation: 2, test: 1 });
    // 6, 2, 2 is as near; repositories go to train first.
    assert_eq!(resolved.sizes, SplitSizes { train: 8, validation: 2, test: 0 });
    let short: Vec<(&str, u64, u64)> = resolved
        .selection
        .shortages
        .iter()
        .map(|short| (short.what.as_str(), short.wanted, short.have))
        .collect();
    assert_eq!(
        short,
        [
            ("pool:p", 20, 10),
            ("pool:q", 3, 0),
            ("split:train", 14, 8),
            ("split:validation", 3, 2),
            ("split:test", 3, 0)
        ]
    );
}

#[test]
fn ten_thousand_candidates_keep_every_rule() {
    // Repositories of very different sizes that two pools share.
    let some: Vec<Candidate> = (0..10_000)
        .map(|n| candidate(["p", "q"][n % 2], &format!("o/r{:03}", (n * n / 7 + n % 13) % 1000), n))
        .collect();
    let rules = rules(&[("p", 2_500), ("q", 2_500)], 20, [3_500, 750, 750], false);
    let resolved = resolve(Inputs::new(), &rules, &some, &[]).unwrap();
    assert_eq!(resolved.sizes, rules.split);
    assert_eq!(resolved.left_over, 5_000);
    let mut splits: BTreeMap<&RepoKey, BTreeSet<Split>> = BTreeMap::new();
    let mut counts: BTreeMap<&RepoKey, u64> = BTreeMap::new();
    for task in &resolved.selection.tasks {
        splits.entry(&task.repo).or_default().insert(task.split);
        *counts.entry(&task.repo).or_default() += 1;
    }
    assert!(splits.values().all(|splits| splits.len() == 1));
    assert!(counts.values().all(|count| *count <= 20));
}

pub fn planned(id: &TaskId, stage: &str) -> PlannedTask {
    PlannedTask {
        task_id: id.clone(),
        stage: stage.into(),
        repo: RepoKey::of_task(id).unwrap(),
        base_image: String::new(),
        evidence_tier: Some(2),
        official_models: vec![],
        swe_master: SweMaster::None,
        image_status: ImageStatus::Completed,
        retained: false,
        canary: false,
    }
}

pub fn plan_of(tasks: Vec<PlannedTask>) -> PlanDocument {
    let pool = PoolSummary { stage: "pool".into(), target: 1, cap: 1, relaxed: 0, selected: 1, shortage: 0 };
    PlanDocument {
        schema: PlanDocument::SCHEMA.into(),
        rules: "plan/1".into(),
        inputs: BTreeMap::new(),
        pools: vec![pool],
        tasks,
    }
}

#[test]
fn only_verdicts_on_the_very_digests_count() {
    let names = ["o/a", "o/b", "o/c", "o/d", "o/e", "o/f", "o/g", "o/h"];
    let mut project = Project::new(&names.map(|name| (name, Split::Train)));
    let ids: Vec<TaskId> = project.selection.tasks.iter().map(|task| task.task_id.clone()).collect();
    let mut checks = CheckDocument {
        schema: CheckDocument::SCHEMA.into(),
        inputs: Inputs::new(),
        tasks: project
            .materialized
            .tasks
            .iter()
            .map(|task| CheckedTask {
                task_id: task.task_id.clone(),
                tree_digest: task.tree_digest,
                accepted: true,
                findings: vec![],
            })
            .collect(),
        similar: vec![],
    };
    checks.tasks[1].accepted = false;
    checks.tasks[2].tree_digest = Digest::of("an older tree");
    project.proofs.tasks[3].verifier_digest = Digest::of("older tests");
    project.proofs.tasks[4].verdict = Status::Rejected { reason: "nop_passes".into(), detail: String::new() };
    project.proofs.tasks[5].verdict =
        Status::Error { reason: "engine_lost".into(), retryable: true, detail: String::new() };
    // What was rejected anyway is not said to be set aside.
    let set_aside = [4, 6].map(|n| (ids[n].clone(), "image_missing".to_owned())).into();
    let gone = project.materialized.tasks.remove(7);
    project.materialized.refused.push(RefusedTask {
        task_id: gone.task_id,
        stage: "pool".into(),
        reason: "patch_does_not_apply".into(),
        detail: String::new(),
    });
    let unwritten = TaskId::new("o__z.0123abcd.pr_0").unwrap();

    let plan = plan_of(ids[1..].iter().map(|id| planned(id, "pool")).collect());
    let reserves = plan_of(vec![planned(&ids[0], "pool"), planned(&unwritten, "pool")]);
    let verdicts = |materialized: &MaterializeDocument| {
        candidates(Verdicts {
            plan: &plan,
            reserves: &reserves,
            materialized,
            checks: &checks,
            proofs: &project.proofs,
            set_aside: &set_aside,
        })
    };
    let (chosen, excluded) = verdicts(&project.materialized).unwrap();
    assert_eq!(chosen.len(), 1);
    assert!(chosen[0].task_id == ids[0] && chosen[0].reserve);
    let causes: Vec<&Exclusion> = ids[1..].iter().chain([&unwritten]).map(|id| &excluded[id]).collect();
    let reason = |text: &str| text.to_owned();
    assert_eq!(
        causes,
        [
            &Exclusion::CheckFailed,
            &Exclusion::NotChecked,
            &Exclusion::NotProved,
            &Exclusion::Rejected { reason: reason("nop_passes") },
            &Exclusion::Undecided { reason: reason("engine_lost") },
            &Exclusion::SetAside { reason: reason("image_missing") },
            &Exclusion::Refused { reason: reason("patch_does_not_apply") },
            &Exclusion::NotMaterialized,
        ]
    );
}

#[test]
fn a_plan_that_contradicts_itself_is_refused() {
    let project = Project::new(&[("o/a", Split::Train)]);
    let id = &project.selection.tasks[0].task_id;
    let checks = CheckDocument {
        schema: CheckDocument::SCHEMA.into(),
        inputs: Inputs::new(),
        tasks: vec![],
        similar: vec![],
    };
    let run = |plan: PlanDocument, reserves: PlanDocument| {
        let set_aside = BTreeMap::new();
        candidates(Verdicts {
            plan: &plan,
            reserves: &reserves,
            materialized: &project.materialized,
            checks: &checks,
            proofs: &project.proofs,
            set_aside: &set_aside,
        })
    };
    let twice = run(plan_of(vec![planned(id, "pool")]), plan_of(vec![planned(id, "pool")]));
    assert!(twice.unwrap_err().to_string().contains("reserves.json contradicts itself"));
    let strange = run(plan_of(vec![planned(id, "elsewhere")]), plan_of(vec![]));
    assert!(matches!(strange, Err(ResolveError::Contradiction { .. })));
}
