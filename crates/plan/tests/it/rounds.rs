//! Small inputs built from short descriptions, and a second, deliberately plain reading of the rules.

use std::collections::BTreeMap;

use ident::Digest;
use plan::{Candidate, Cap, PlanInput, PoolRules, Reserve};
use record::{ImageState, ImageStatus, RewardMean, Trajectory};

/// One candidate of a made-up collection.
#[derive(Debug, Clone)]
pub struct Task {
    pub repo: u8,
    pub families: [bool; 3],
    pub reward: Option<f64>,
    pub image: Option<ImageStatus>,
    pub pool: Option<u8>,
    pub forced: bool,
}

pub const MODELS: [&str; 3] =
    ["gpt-4o-2024-08-06", "claude-3-5-sonnet-20241022", "claude-3-7-sonnet-20250219"];

pub fn id(n: usize, repo: u8) -> String {
    format!("Owner__repo.{repo}.0123abcd.pr_{n}")
}

pub fn rules(stage: &str, target: u64, cap: Cap) -> PoolRules {
    PoolRules {
        stage: stage.into(),
        members: stage.parse().unwrap(),
        target,
        cap,
        retain: None,
        force: None,
        require_image: false,
        relax: false,
        reserve: Reserve::Count(0),
    }
}

pub fn candidate(id: &str) -> Candidate {
    Candidate { id: id.into(), repo: String::new(), image: format!("image.{id}"), row: Some(Digest::of(id)) }
}

/// Makes rows of the descriptions. Every solved run is published twice, once without its model.
pub fn input(tasks: &[Task], pools: Vec<PoolRules>) -> PlanInput {
    let mut input = PlanInput { pools, ..PlanInput::default() };
    for pool in &input.pools {
        input.sets.insert(pool.stage.clone(), Vec::new());
        input.sets.insert(format!("{}_forced", pool.stage), Vec::new());
    }
    for (n, task) in tasks.iter().enumerate() {
        let id = id(n, task.repo);
        input.instances.push(candidate(&id));
        for (model, solved) in MODELS.iter().zip(task.families) {
            let named = Trajectory {
                instance_id: id.clone(),
                model: Some((*model).to_owned()),
                resolved: solved,
                traj_id: format!("{id}.{model}"),
            };
            input.trajectories.push(Trajectory { model: None, ..named.clone() });
            input.trajectories.push(named);
        }
        input.reward_means.extend(
            task.reward.map(|reward_mean| RewardMean { instance_id_or_commit_hash: id.clone(), reward_mean }),
        );
        input.image_states.extend(task.image.map(|status| ImageState { task_id: id.clone(), status }));
        if let Some(pool) = task.pool.and_then(|pool| input.pools.get(usize::from(pool))) {
            let stage = pool.stage.clone();
            if task.forced {
                input.sets.get_mut(&format!("{stage}_forced")).unwrap().push(id.clone());
            }
            input.sets.get_mut(&stage).unwrap().push(id);
        }
    }
    input
}

/// Selects the primaries of pool `pool` the slow way, word by word as the rules say.
pub fn plainly(tasks: &[Task], pool: u8, rules: &PoolRules) -> Vec<String> {
    let tier = |task: &Task| match (task.families.contains(&true), task.reward.unwrap_or(0.0)) {
        (true, reward) if reward > 0.0 => 1,
        (true, _) => 2,
        (false, reward) if reward >= 1.0 => 3,
        (false, reward) if reward > 0.0 => 4,
        _ => 5,
    };
    let key =
        |n: &usize| (tasks[*n].families.map(|solved| !solved), Digest::of(id(*n, tasks[*n].repo)).hex());
    let mut left: Vec<usize> = (0..tasks.len()).filter(|n| tasks[*n].pool == Some(pool)).collect();
    let mut picked: Vec<usize> = left.iter().copied().filter(|n| tasks[*n].forced).collect();
    picked.sort_by_key(|n| (tier(&tasks[*n]), key(n)));
    left.retain(|n| {
        let image = !rules.require_image || tasks[*n].image == Some(ImageStatus::Completed);
        !tasks[*n].forced && image && tier(&tasks[*n]) < 5
    });
    let target = usize::try_from(rules.target).unwrap();
    let mut cap = rules.cap.of(rules.target);
    loop {
        for wanted in 1..=4 {
            loop {
                let mut heads: BTreeMap<u8, usize> = BTreeMap::new();
                for n in left.iter().filter(|n| tier(&tasks[**n]) == wanted) {
                    let head = heads.entry(tasks[*n].repo).or_insert(*n);
                    if key(n) < key(head) {
                        *head = *n;
                    }
                }
                let mut order: Vec<usize> = heads.into_values().collect();
                order.sort_by_key(key);
                let before = picked.len();
                for n in order {
                    let held = picked.iter().filter(|other| tasks[**other].repo == tasks[n].repo).count();
                    if picked.len() < target && (held as u64) < cap {
                        picked.push(n);
                        left.retain(|other| *other != n);
                    }
                }
                if picked.len() == before {
                    break;
                }
            }
        }
        if picked.len() >= target || !rules.relax || left.is_empty() {
            return picked.into_iter().map(|n| id(n, tasks[n].repo)).collect();
        }
        cap += 1;
    }
}
