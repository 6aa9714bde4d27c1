//! A plan of the size that the rules were written for.

use std::collections::BTreeSet;

use plan::{Cap, PlanInput, PoolRules, Reserve, plan};
use record::{ImageState, ImageStatus, RewardMean, Trajectory};

use crate::rounds::{MODELS, candidate, rules};

const INSTANCES: usize = 59_136;
const FILTERED: usize = 3_748;
const FILTER_PRO: usize = 487;
const FREEZE_PRO: usize = 125;

/// A well mixed number for every task and question, so that evidence is spread without a random source.
fn mixed(n: usize, question: u64) -> u64 {
    let mut x = (n as u64) << 8 | question;
    for _ in 0..2 {
        x = (x ^ x >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    x >> 33
}

fn full_size() -> PlanInput {
    let ids: Vec<String> = (0..INSTANCES)
        .map(|n| format!("owner{}__name.{}.0123abcd.func_pm_{n}", mixed(n, 0) % 40, mixed(n, 0) % 128))
        .collect();
    let mut input = PlanInput {
        instances: ids.iter().map(|id| candidate(id)).collect(),
        pools: vec![
            PoolRules {
                members: "filter_pro & filtered".parse().unwrap(),
                retain: Some("freeze_pro".parse().unwrap()),
                force: Some("canary".parse().unwrap()),
                require_image: true,
                reserve: Reserve::Rest,
                ..rules("filter_pro", 350, Cap::Share("5%".parse().unwrap()))
            },
            PoolRules {
                members: "all - filtered".parse().unwrap(),
                reserve: Reserve::Count(350),
                ..rules("outside_filtered", 350, Cap::Share("5%".parse().unwrap()))
            },
        ],
        ..PlanInput::default()
    };
    for (name, list) in [
        ("all", &ids[..]),
        ("filtered", &ids[..FILTERED]),
        ("filter_pro", &ids[..FILTER_PRO]),
        ("freeze_pro", &ids[..FREEZE_PRO]),
        ("canary", &ids[100..130]),
    ] {
        input.sets.insert(name.into(), list.into());
    }
    for (n, id) in ids.iter().enumerate() {
        let pro = n < FILTER_PRO;
        for (question, model) in (1..).zip(MODELS) {
            let resolved = mixed(n, question) % 100 < if pro { 70 } else { 6 };
            // The same run in three encodings.
            input.trajectories.extend((0..3).map(|_| Trajectory {
                instance_id: id.clone(),
                model: Some(model.into()),
                resolved,
                traj_id: format!("{id}.{question}"),
            }));
        }
        let reward_mean = [0.0, 0.0, 0.0, 0.25, 1.0][usize::try_from(mixed(n, 8) % 5).unwrap()];
        input.reward_means.push(RewardMean { instance_id_or_commit_hash: id.clone(), reward_mean });
        if pro && !mixed(n, 9).is_multiple_of(20) {
            input.image_states.push(ImageState { task_id: id.clone(), status: ImageStatus::Completed });
        }
    }
    input
}

#[test]
fn a_plan_of_full_size_keeps_every_sum() {
    let input = full_size();
    let outcome = plan(&input).unwrap();
    let selected: Vec<u64> = outcome.plan.pools.iter().map(|pool| pool.selected).collect();
    assert_eq!(selected, [350, 350]);
    assert_eq!(outcome.plan.pools.iter().map(|pool| pool.cap).collect::<Vec<_>>(), [18, 18]);
    let reserves: Vec<u64> = outcome.reserves.pools.iter().map(|pool| pool.selected).collect();
    assert_eq!(reserves, [(FILTER_PRO - 350) as u64, 350]);
    assert_eq!(outcome.stats.primaries_total.tasks, 700);
    assert_eq!(outcome.stats.primaries_total.retained, FREEZE_PRO as u64);
    assert_eq!(outcome.stats.reserves_total.tasks, FILTER_PRO as u64);
    assert_eq!(outcome.plan.tasks.iter().filter(|task| task.canary).count(), 30);

    let tiers = &outcome.stats.primaries_total.tiers;
    let sum = tiers.cross_source + tiers.official_only + tiers.swe_master_full + tiers.swe_master_partial;
    assert_eq!(sum + tiers.none, 700);
    let all: BTreeSet<_> =
        outcome.plan.tasks.iter().chain(&outcome.reserves.tasks).map(|task| &task.task_id).collect();
    assert_eq!(all.len(), 700 + FILTER_PRO);
}
