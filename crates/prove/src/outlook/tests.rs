use std::collections::BTreeMap;

use artifact::{Document, Inputs};
use dataset::resolve::{PoolTarget, SplitSizes};
use ident::{Digest, RepoKey, TaskId};
use record::{
    CheckDocument, CheckedTask, ImageStatus, MaterializeDocument, MaterializedTask, PlanDocument,
    PlannedTask, PoolSummary, ProofDocument, ProvedTask, SweMaster,
};

use super::*;

/// Documents about tasks of one pool, each given by its repository and its verdict.
struct Documents {
    plan: PlanDocument,
    reserves: PlanDocument,
    materialized: MaterializeDocument,
    checks: CheckDocument,
    proofs: ProofDocument,
}

fn documents(tasks: &[(&str, Status)]) -> Documents {
    let ids: Vec<TaskId> =
        (0..tasks.len()).map(|number| TaskId::new(format!("o__r.{number}")).unwrap()).collect();
    let plan = |tasks: Vec<PlannedTask>| PlanDocument {
        schema: PlanDocument::SCHEMA.into(),
        rules: "plan/1".into(),
        inputs: BTreeMap::new(),
        pools: vec![PoolSummary {
            stage: "p".into(),
            target: 2,
            cap: 2,
            relaxed: 0,
            selected: 2,
            shortage: 0,
        }],
        tasks,
    };
    let repos = tasks.iter().map(|(repo, _)| RepoKey::parse(repo).unwrap());
    let planned = |(id, repo): (&TaskId, RepoKey)| PlannedTask {
        task_id: id.clone(),
        stage: "p".into(),
        repo,
        base_image: String::new(),
        evidence_tier: None,
        official_models: vec![],
        swe_master: SweMaster::None,
        image_status: ImageStatus::Completed,
        retained: false,
        canary: false,
    };
    let digest = Digest::of("x");
    let materialized = |(id, repo): (&TaskId, RepoKey)| MaterializedTask {
        task_id: id.clone(),
        stage: "p".into(),
        repo,
        content_hash: digest,
        task_checksum: digest,
        tree_digest: digest,
        verifier_digest: digest,
        base_image: String::new(),
        copy_of: None,
        workspace_source: String::new(),
        instance_digest: digest,
        quarantined: vec![],
    };
    let checked = |id: &TaskId| CheckedTask {
        task_id: id.clone(),
        tree_digest: digest,
        accepted: true,
        findings: vec![],
    };
    let proved = |(id, (_, verdict)): (&TaskId, &(&str, Status))| ProvedTask {
        task_id: id.clone(),
        tree_digest: digest,
        verifier_digest: digest,
        image_digest: String::new(),
        engine: "native".into(),
        cheat_group: None,
        nop_runs: 0,
        oracle_runs: 0,
        cheats: vec![],
        flaky_tests: BTreeMap::new(),
        verdict: verdict.clone(),
    };
    Documents {
        plan: plan(ids.iter().zip(repos.clone()).map(planned).collect()),
        reserves: plan(vec![]),
        materialized: MaterializeDocument {
            schema: MaterializeDocument::SCHEMA.into(),
            inputs: Inputs::new(),
            tasks: ids.iter().zip(repos).map(materialized).collect(),
            refused: vec![],
        },
        checks: CheckDocument {
            schema: CheckDocument::SCHEMA.into(),
            inputs: Inputs::new(),
            tasks: ids.iter().map(checked).collect(),
            similar: vec![],
        },
        proofs: ProofDocument {
            schema: ProofDocument::SCHEMA.into(),
            inputs: Inputs::new(),
            tasks: ids.iter().zip(tasks).map(proved).collect(),
        },
    }
}

/// Two tasks are wanted, at most `repo_cap` of one repository, all in one split.
fn looks(tasks: &[(&str, Status)], repo_cap: u64, split: [u64; 2], allow_shortfall: bool) -> Outlook {
    let Documents { plan, reserves, materialized, checks, proofs } = &documents(tasks);
    let set_aside = &BTreeMap::new();
    let rules = ResolveRules {
        pools: vec![PoolTarget { stage: "p".into(), target: 2 }],
        repo_cap,
        split: SplitSizes { train: split[0], validation: split[1], test: 0 },
        allow_shortfall,
    };
    outlook(Verdicts { plan, reserves, materialized, checks, proofs, set_aside }, &rules).unwrap()
}

fn rejected() -> Status {
    Status::Rejected { reason: "flaky".into(), detail: String::new() }
}

fn error(retryable: bool) -> Status {
    Status::Error { reason: "engine_lost".into(), retryable, detail: String::new() }
}

#[test]
fn proofs_end_when_the_set_can_be_made_and_when_it_cannot() {
    use Status::{Accepted, Pending};
    let strict = |tasks: &[(&str, Status)]| looks(tasks, 2, [2, 0], false);
    assert_eq!(strict(&[("o/a", Pending), ("o/a", Pending), ("o/a", Pending)]), Outlook::Open);
    assert_eq!(strict(&[("o/a", Accepted), ("o/a", rejected()), ("o/a", Pending)]), Outlook::Open);
    assert_eq!(strict(&[("o/a", Accepted), ("o/a", Accepted), ("o/a", Pending)]), Outlook::Satisfied);
    let Outlook::Hopeless(short) = strict(&[("o/a", Accepted), ("o/a", rejected()), ("o/a", rejected())])
    else {
        panic!("one is left of two");
    };
    assert_eq!((short[0].what.as_str(), short[0].wanted, short[0].have), ("pool:p", 2, 1));
    // What may pass the next time is no reason to give up; what will not is.
    assert_eq!(strict(&[("o/a", Accepted), ("o/a", error(true))]), Outlook::Open);
    assert!(matches!(strict(&[("o/a", Accepted), ("o/a", error(false))]), Outlook::Hopeless(_)));
    // With a shortfall allowed every further task makes the set better, until it is whole.
    assert_eq!(looks(&[("o/a", Accepted), ("o/a", rejected())], 2, [2, 0], true), Outlook::Open);
    assert_eq!(looks(&[("o/a", Accepted), ("o/a", Accepted)], 2, [2, 0], true), Outlook::Satisfied);
}

#[test]
fn caps_count_and_splits_that_do_not_come_out_yet_are_not_given_up() {
    use Status::{Accepted, Pending};
    let capped = looks(&[("o/a", Accepted), ("o/a", Accepted), ("o/a", Pending)], 1, [2, 0], false);
    assert!(matches!(capped, Outlook::Hopeless(_)), "{capped:?}");
    // One task each to two splits: two of one repository cannot be parted, one of another might.
    let one_repository = [("o/a", Accepted), ("o/a", Accepted), ("o/b", Pending)];
    assert_eq!(looks(&one_repository, 2, [1, 1], false), Outlook::Open);
}
