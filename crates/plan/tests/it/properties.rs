//! What holds for every plan.

use std::collections::{BTreeMap, BTreeSet};

use plan::{
    Cap, Outcome, PlanError, PlanInput, PlanOutcome, PoolRules, Reserve, ShortageReport, explain, plan,
};
use proptest::prelude::*;
use record::{ImageStatus, PlannedTask};

use crate::rounds::{Task, input, plainly, rules};

fn tasks() -> impl Strategy<Value = Vec<Task>> {
    let reward = prop_oneof![Just(None), Just(Some(0.0)), Just(Some(0.5)), Just(Some(1.0))];
    let image = prop_oneof![
        1 => Just(None),
        1 => Just(Some(ImageStatus::Pending)),
        1 => Just(Some(ImageStatus::Skipped)),
        3 => Just(Some(ImageStatus::Completed))
    ];
    let task = (0..5u8, any::<[bool; 3]>(), reward, image, prop::option::weighted(0.9, 0..2u8), 0..8u8);
    let task = task.prop_map(|(repo, families, reward, image, pool, forced)| Task {
        repo,
        families,
        reward,
        image,
        pool,
        forced: forced == 0,
    });
    prop::collection::vec(task, 0..40)
}

fn pool(stage: &'static str) -> impl Strategy<Value = PoolRules> {
    let reserve = prop_oneof![(0..9u64).prop_map(Reserve::Count), Just(Reserve::Rest)];
    let cap = prop_oneof![(1..5u64).prop_map(Cap::Tasks), Just(Cap::Share("25%".parse().unwrap()))];
    (0..14u64, cap, any::<bool>(), any::<bool>(), reserve).prop_map(
        move |(target, cap, require_image, relax, reserve)| PoolRules {
            force: Some(format!("{stage}_forced").parse().unwrap()),
            require_image,
            relax,
            reserve,
            ..rules(stage, target, cap)
        },
    )
}

fn pools() -> impl Strategy<Value = Vec<PoolRules>> {
    (pool("one"), pool("two")).prop_map(|(one, two)| vec![one, two])
}

/// The same rows in another order.
fn shuffled(input: PlanInput) -> impl Strategy<Value = PlanInput> {
    let rows = (
        Just(input.instances.clone()).prop_shuffle(),
        Just(input.trajectories.clone()).prop_shuffle(),
        Just(input.reward_means.clone()).prop_shuffle(),
        Just(input.image_states.clone()).prop_shuffle(),
        input.sets.values().map(|ids| Just(ids.clone()).prop_shuffle()).collect::<Vec<_>>(),
    );
    rows.prop_map(move |(instances, trajectories, reward_means, image_states, sets)| PlanInput {
        instances,
        trajectories,
        reward_means,
        image_states,
        sets: input.sets.keys().cloned().zip(sets).collect(),
        ..input.clone()
    })
}

fn both(outcome: &PlanOutcome) -> impl Iterator<Item = &PlannedTask> {
    outcome.plan.tasks.iter().chain(&outcome.reserves.tasks)
}

proptest! {
    #[test]
    fn the_order_of_rows_never_matters(
        (straight, mixed) in (tasks(), pools())
            .prop_map(|(tasks, pools)| input(&tasks, pools))
            .prop_flat_map(|input| (Just(input.clone()), shuffled(input)))
    ) {
        prop_assert_eq!(plan(&straight), plan(&mixed));
    }

    #[test]
    fn primaries_are_what_the_rules_say(tasks in tasks(), pools in pools()) {
        let outcome = plan(&input(&tasks, pools.clone()));
        let expected: Vec<Vec<String>> =
            [0, 1].map(|n| plainly(&tasks, n, &pools[usize::from(n)])).into();
        match outcome {
            Ok(outcome) => {
                let ids: Vec<String> =
                    outcome.plan.tasks.iter().map(|task| task.task_id.to_string()).collect();
                prop_assert_eq!(ids, expected.concat());
            }
            Err(PlanError::Shortage(report)) => {
                for (pool, expected) in report.pools.iter().zip(&expected) {
                    prop_assert_eq!(pool.have, expected.len() as u64);
                    let sum = pool.not_instances + pool.no_evidence + pool.no_image + pool.over_cap + pool.left;
                    prop_assert_eq!(pool.members, sum + pool.have);
                }
                prop_assert!(report.pools.iter().any(|pool| pool.have < pool.want));
            }
            Err(PlanError::Input(errors)) => {
                // The only fault that these inputs can have.
                let too_many = [0, 1].iter().any(|n| {
                    let forced = tasks.iter().filter(|task| task.pool == Some(*n) && task.forced).count();
                    forced as u64 > pools[usize::from(*n)].target
                });
                prop_assert!(too_many, "{errors}");
            }
        }
    }

    #[test]
    fn lists_are_disjoint_within_their_pools_and_caps(tasks in tasks(), mut pools in pools()) {
        for pool in &mut pools {
            pool.relax = false;
        }
        let input = input(&tasks, pools.clone());
        let Ok(outcome) = plan(&input) else { return Ok(()) };
        let mut seen = BTreeSet::new();
        for task in both(&outcome) {
            prop_assert!(seen.insert(&task.task_id), "{} is listed twice", task.task_id);
            prop_assert!(input.sets[&task.stage].contains(&task.task_id.to_string()));
        }
        for (rules, summary) in pools.iter().zip(&outcome.plan.pools) {
            prop_assert_eq!((summary.selected, summary.shortage), (rules.target, 0));
            let forced = &input.sets[&format!("{}_forced", rules.stage)];
            let is_forced = |task: &PlannedTask| forced.contains(&task.task_id.to_string());
            let mine = |tasks: &[PlannedTask]| -> Vec<PlannedTask> {
                tasks.iter().filter(|task| task.stage == rules.stage).cloned().collect()
            };
            let (primaries, reserves) = (mine(&outcome.plan.tasks), mine(&outcome.reserves.tasks));
            prop_assert_eq!(primaries.iter().filter(|task| is_forced(task)).count(), forced.len());
            prop_assert!(!reserves.iter().any(is_forced));
            for (list, capped) in [(primaries, true), (reserves, rules.reserve != Reserve::Rest)] {
                let mut all: BTreeMap<_, u64> = BTreeMap::new();
                let mut new: BTreeMap<_, u64> = BTreeMap::new();
                for task in &list {
                    *all.entry(&task.repo).or_default() += 1;
                    *new.entry(&task.repo).or_default() += u64::from(!is_forced(task));
                }
                // Forced tasks may exceed the cap, and then nothing else of their repository is taken.
                let held = all.iter().all(|(repo, count)| *count <= summary.cap || new[repo] == 0);
                prop_assert!(held || !capped, "{all:?} over {}", summary.cap);
            }
        }
    }

    #[test]
    fn a_task_that_is_not_eligible_changes_nothing(
        tasks in tasks(), mut pools in pools(), pool in prop::option::of(0..2u8), repo in 0..5u8, failed: bool
    ) {
        for pool in &mut pools {
            // "rest" takes every member, with evidence or not.
            if pool.reserve == Reserve::Rest {
                pool.reserve = Reserve::Count(5);
            }
        }
        let before = plan(&input(&tasks, pools.clone()));
        let bare = Task {
            repo,
            families: [false; 3],
            reward: failed.then_some(0.0),
            image: Some(ImageStatus::Completed),
            pool,
            forced: false,
        };
        let mut more = tasks;
        more.push(bare);
        match (before, plan(&input(&more, pools))) {
            (Ok(before), Ok(after)) => prop_assert_eq!(before, after),
            (Err(PlanError::Shortage(before)), Err(PlanError::Shortage(after))) => {
                let have = |report: &ShortageReport| report.pools.iter().map(|pool| pool.have).collect::<Vec<_>>();
                prop_assert_eq!(have(&before), have(&after));
            }
            (before, after) => prop_assert_eq!(before.is_err(), after.is_err()),
        }
    }

    #[test]
    fn explanations_and_the_plan_say_the_same(tasks in tasks(), pools in pools()) {
        let input = input(&tasks, pools);
        let Ok(outcome) = plan(&input) else { return Ok(()) };
        let places = |tasks: &[PlannedTask]| {
            let mut counts: BTreeMap<String, u64> = BTreeMap::new();
            let place = |task: &PlannedTask| {
                let count = counts.entry(task.stage.clone()).or_default();
                *count += 1;
                (task.task_id.to_string(), (task.stage.clone(), *count))
            };
            tasks.iter().map(place).collect::<BTreeMap<_, _>>()
        };
        let (primaries, reserves) = (places(&outcome.plan.tasks), places(&outcome.reserves.tasks));
        for candidate in &input.instances {
            let found = match explain(&input, &candidate.id).unwrap().outcome {
                Outcome::Primary { stage, place } => (Some((stage, place)), None),
                Outcome::Reserve { stage, place } => (None, Some((stage, place))),
                _ => (None, None),
            };
            let expected = (primaries.get(&candidate.id).cloned(), reserves.get(&candidate.id).cloned());
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_pool_made_of_its_own_primaries_is_the_same_pool(tasks in tasks(), pools in pools()) {
        let input = input(&tasks, pools);
        let Ok(first) = plan(&input) else { return Ok(()) };
        let mut again = input.clone();
        for pool in &first.plan.pools {
            let ids = first.plan.tasks.iter().filter(|task| task.stage == pool.stage);
            again.sets.insert(pool.stage.clone(), ids.map(|task| task.task_id.to_string()).collect());
        }
        prop_assert_eq!(plan(&again).unwrap().plan.tasks, first.plan.tasks);
    }
}
