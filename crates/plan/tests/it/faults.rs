//! What is refused, and how it is told.

use plan::{Cap, InputError, ModelTable, Note, PlanError, PlanInput, PoolRules, Reserve, plan};
use record::{RewardMean, Trajectory};

use crate::rounds::{candidate, rules};

fn pool(stage: &str, target: u64) -> PoolRules {
    rules(stage, target, Cap::Tasks(99))
}

/// Four always solved instances of one repository in two pools.
fn sample() -> PlanInput {
    let ids: Vec<String> = ["a", "b", "c", "d"].map(|name| format!("o__r.0123abcd.{name}")).into();
    PlanInput {
        instances: ids.iter().map(|id| candidate(id)).collect(),
        reward_means: ids
            .iter()
            .map(|id| RewardMean { instance_id_or_commit_hash: id.clone(), reward_mean: 1.0 })
            .collect(),
        sets: [
            ("all".to_owned(), ids.clone()),
            ("one".to_owned(), ids[..2].into()),
            ("two".to_owned(), ids[2..].into()),
        ]
        .into(),
        pools: vec![pool("one", 2), pool("two", 1)],
        ..PlanInput::default()
    }
}

fn refused(input: &PlanInput) -> Vec<InputError> {
    match plan(input) {
        Err(PlanError::Input(errors)) => errors.0,
        other => panic!("expected a fault of the input, got {other:?}"),
    }
}

#[test]
fn the_sample_is_fine() {
    let outcome = plan(&sample()).unwrap();
    assert_eq!(outcome.plan.tasks.len(), 3);
    assert_eq!(outcome.notes, []);
    assert_eq!(outcome.stats.primaries_total.tiers.swe_master_full, 3);
    assert_eq!(outcome.stats.primaries_total.eligible_left, 1);
    assert_eq!(outcome.stats.primaries[1].eligible_left, 1);
}

#[test]
fn overlapping_pools_name_the_shared_ids() {
    let mut input = sample();
    input.pools[1].members = "two | one & all".parse().unwrap();
    let ids = input.sets["one"].clone();
    assert_eq!(refused(&input), [InputError::Overlap { first: "one".into(), second: "two".into(), ids }]);
}

#[test]
fn forced_ids_must_be_members_and_instances() {
    let mut input = sample();
    input.sets.insert("kept".into(), vec![input.sets["two"][0].clone(), "o__r.0123abcd.gone".into()]);
    input.pools[0].retain = Some("kept".parse().unwrap());
    let errors = refused(&input);
    assert!(matches!(&errors[0], InputError::ForcedOutside { ids, .. } if ids.len() == 2), "{errors:?}");
    assert!(
        matches!(&errors[1], InputError::ForcedUnknown { ids, .. } if ids[0].ends_with("gone")),
        "{errors:?}"
    );
}

#[test]
fn more_forced_ids_than_places_are_refused_with_both_counts() {
    let mut input = sample();
    input.pools[1].force = Some("two".parse().unwrap());
    assert_eq!(refused(&input), [InputError::TooManyForced { stage: "two".into(), forced: 2, target: 1 }]);
}

#[test]
fn every_canary_must_be_forced() {
    let mut input = sample();
    let (first, last) = (input.sets["one"][0].clone(), input.sets["two"][1].clone());
    input.sets.insert("canary".into(), vec![first.clone(), last.clone()]);
    input.pools[0].force = Some("canary & one".parse().unwrap());
    assert_eq!(refused(&input), [InputError::CanaryNotForced { ids: vec![last.clone()] }]);
    input.pools[1].force = Some("canary - one".parse().unwrap());
    let outcome = plan(&input).unwrap();
    let canaries = outcome.plan.tasks.iter().filter(|task| task.canary);
    let mut ids: Vec<&str> = canaries.map(|task| task.task_id.as_str()).collect();
    ids.sort_unstable();
    assert_eq!(ids, [first, last]);
}

#[test]
fn unknown_sets_and_repeated_pools_are_named() {
    let mut input = sample();
    input.pools[0].members = "ones - all".parse().unwrap();
    input.pools[1].stage = "one".into();
    input.sets.insert("bad-name".into(), vec![]);
    let text = PlanError::Input(plan::InputErrors(refused(&input))).to_string();
    for words in
        ["the set `ones`", "`all`, `bad-name`, `one`", "two pools are called `one`", "`bad-name` cannot"]
    {
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn a_member_without_a_repository_is_refused() {
    let mut input = sample();
    input.instances.push(candidate("tiny"));
    plan(&input).unwrap();
    input.sets.get_mut("two").unwrap().push("tiny".into());
    assert_eq!(refused(&input), [InputError::NoRepository { id: "tiny".into(), repo: String::new() }]);
}

#[test]
fn every_fault_is_told_at_once() {
    let mut input = sample();
    input.reward_means[0].reward_mean = f64::NAN;
    input.trajectories = vec![Trajectory {
        instance_id: input.instances[0].id.clone(),
        model: Some("unheard-of".into()),
        resolved: true,
        traj_id: "r".into(),
    }];
    input.instances[1].id = "../x".into();
    assert_eq!(refused(&input).len(), 3);
}

#[test]
fn a_shortage_tells_what_every_filter_removed() {
    let mut input = sample();
    input.pools[0].cap = Cap::Tasks(1);
    input.pools[1].target = 3;
    input.reward_means.pop();
    input.sets.get_mut("two").unwrap().push("o__r.0123abcd.gone".into());
    let Err(PlanError::Shortage(report)) = plan(&input) else { panic!("expected a shortage") };
    let [one, two] = &report.pools[..] else { panic!("expected two pools") };
    assert_eq!((one.have, one.want, one.over_cap), (1, 2, 1));
    assert_eq!((two.have, two.want, two.no_evidence, two.not_instances), (1, 3, 1, 1));
    assert!(report.to_string().contains("pool `two` has 1 of 3"), "{report}");
}

#[test]
fn strangers_are_listed_and_never_reserves() {
    let mut input = sample();
    input.pools[1].reserve = Reserve::Rest;
    input.pools[0].reserve = Reserve::Count(3);
    input.sets.get_mut("two").unwrap().push("o__r.0123abcd.gone".into());
    let outcome = plan(&input).unwrap();
    assert_eq!(outcome.reserves.tasks.len(), 1);
    let ids = vec!["o__r.0123abcd.gone".to_owned()];
    assert_eq!(
        outcome.notes,
        [
            Note::NotInstances { stage: "two".into(), ids },
            Note::FewerReserves { stage: "one".into(), have: 0, want: 3 }
        ]
    );
}

#[test]
fn aliases_join_repositories_under_one_cap() {
    let mut input = sample();
    input.instances[0].id = "old__r.0123abcd.a".into();
    input.reward_means[0].instance_id_or_commit_hash = "old__r.0123abcd.a".into();
    input.sets.get_mut("one").unwrap()[0] = "old__r.0123abcd.a".into();
    input.pools[0].cap = Cap::Tasks(1);
    assert!(plan(&input).is_ok());
    input.aliases = ident::AliasTable::new([("Old/r.git", "o/r")]).unwrap();
    assert!(matches!(plan(&input), Err(PlanError::Shortage(_))));
}

#[test]
fn solved_runs_without_a_model_can_be_ignored_by_name() {
    let mut input = sample();
    let run = |n: usize| Trajectory {
        instance_id: input.instances[n].id.clone(),
        model: None,
        resolved: true,
        traj_id: format!("r{n}"),
    };
    input.trajectories = vec![run(0), run(1)];
    let errors = refused(&input);
    assert!(errors[0].to_string().contains("`<null>` (2 rows)"), "{errors:?}");
    input.models = ModelTable::new([("<null>", "ignore")]).unwrap();
    assert!(plan(&input).is_ok());
}
