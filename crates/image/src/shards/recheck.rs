//! Whether a plan still fits what is there, before it is carried out.
//!
//! Places are not decided again: a plan that was reviewed is carried out as it is, or not at all. An image that has appeared where
//! the plan wants it is no difference, since that is what the plan is for; everything else is.

use std::collections::BTreeMap;

use super::snapshot::Live;
use super::{Action, Item, OverLimit, ShardPlan, Shards, Snapshot};

/// As many items of a shard that is over its limit are named.
const FIRST_ITEMS: usize = 5;

/// What a plan means now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recheck {
    /// What is to be done about every item of the plan, in its order.
    pub actions: Vec<Action>,
    /// Items about which something else is to be done than the plan says.
    pub drift: Vec<Drift>,
    /// Tags that every shard has, by repository.
    pub live: BTreeMap<String, u64>,
    /// Shards that would pass the limit, the worst first.
    pub over: Vec<OverLimit>,
}

/// An item that the registry has other news about than the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drift {
    /// `REPOSITORY:TAG`.
    pub place: String,
    /// What the plan says.
    pub planned: Action,
    /// What is to be done now.
    pub now: Action,
}

/// Why a plan cannot be looked at again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecheckError {
    /// A place that is no shard.
    #[error("the plan puts `{key}` into {repository}, which is no shard of its own settings; plan again")]
    NoSuchShard {
        /// The image.
        key: String,
        /// The repository.
        repository: String,
    },
}

/// Holds a plan against the live tags. `shards` are those of the plan's settings.
pub fn recheck(plan: &ShardPlan, shards: &Shards, snapshot: &Snapshot) -> Result<Recheck, RecheckError> {
    let numbers: BTreeMap<String, u32> =
        shards.numbers().map(|number| (shards.repository(number), number)).collect();
    let mut actions = Vec::with_capacity(plan.items.len());
    let mut drift = Vec::new();
    let mut pending: BTreeMap<u32, Vec<&Item>> = BTreeMap::new();
    for item in &plan.items {
        let number = *numbers.get(&item.repository).ok_or_else(|| RecheckError::NoSuchShard {
            key: item.key.clone(),
            repository: item.repository.clone(),
        })?;
        let now = match snapshot.live(number, &item.tag, &item.digest) {
            Live::ThatImage => Action::Skip,
            Live::Another if plan.config.overwrite => Action::Retag,
            Live::Another => Action::Conflict,
            Live::Nothing if item.action.adds_tag() => item.action,
            Live::Nothing => Action::Restore,
        };
        if now != item.action && now != Action::Skip {
            let place = format!("{}:{}", item.repository, item.tag);
            drift.push(Drift { place, planned: item.action, now });
        }
        if now.adds_tag() {
            pending.entry(number).or_default().push(item);
        }
        actions.push(now);
    }
    let limit = plan.config.tag_limit;
    let mut over = Vec::new();
    for (number, items) in &pending {
        let projected = snapshot.count(*number) + items.len() as u64;
        if projected > limit {
            over.push(OverLimit {
                shard: shards.name(*number).to_owned(),
                projected,
                over: projected - limit,
                first: items.iter().take(FIRST_ITEMS).map(|item| item.key.clone()).collect(),
            });
        }
    }
    over.sort_by_key(|shard| std::cmp::Reverse(shard.projected));
    let live = numbers.into_iter().map(|(repository, number)| (repository, snapshot.count(number))).collect();
    Ok(Recheck { actions, drift, live, over })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::config::tests::config;
    use super::super::desired::tests::{digest, task};
    use super::super::{Desired, PlanRequest, plan};
    use super::*;

    fn planned(overwrite: bool, snapshot: &Snapshot) -> (ShardPlan, Shards) {
        let config = record::ShardConfig { overwrite, ..config(1, 3) };
        let shards = Shards::new(config).unwrap();
        let desired = Desired::new([task("a"), task("b")]).unwrap();
        let request = PlanRequest {
            shards: &shards,
            desired: &desired,
            snapshot,
            placed: &[],
            inputs: &BTreeMap::new(),
            missing: &[],
            rehome: false,
        };
        (plan(&request).unwrap(), shards)
    }

    fn with(tags: &[(&str, &str)]) -> Snapshot {
        let mut snapshot = Snapshot::empty(1);
        for (tag, content) in tags {
            snapshot.insert(0, *tag, Some(digest(content)));
        }
        snapshot
    }

    #[test]
    fn what_was_carried_out_is_no_difference() {
        let (plan, shards) = planned(false, &with(&[]));
        let now = recheck(&plan, &shards, &with(&[("a", "a")])).unwrap();
        assert_eq!(now.actions, [Action::Skip, Action::Copy]);
        assert_eq!((now.drift, now.over), (vec![], vec![]));
        assert_eq!(now.live, BTreeMap::from([("registry.invalid/swe/task-00".to_owned(), 1)]));
    }

    #[test]
    fn what_vanished_or_became_another_is_one() {
        let (plan, shards) = planned(false, &with(&[("a", "a")]));
        let gone = recheck(&plan, &shards, &with(&[])).unwrap();
        assert_eq!(gone.actions, [Action::Restore, Action::Copy]);
        assert_eq!(gone.drift.len(), 1);
        assert_eq!((gone.drift[0].planned, gone.drift[0].now), (Action::Skip, Action::Restore));
        let other = recheck(&plan, &shards, &with(&[("a", "a"), ("b", "other")])).unwrap();
        assert_eq!(other.actions, [Action::Skip, Action::Conflict]);
        let (plan, shards) = planned(true, &with(&[]));
        let other = recheck(&plan, &shards, &with(&[("b", "other")])).unwrap();
        assert_eq!(other.actions, [Action::Copy, Action::Retag]);
        assert_eq!(other.drift.len(), 1);
    }

    #[test]
    fn the_limit_counts_what_others_added() {
        let (plan, shards) = planned(false, &with(&[]));
        let full = with(&[("x", "x")]);
        assert_eq!(recheck(&plan, &shards, &full).unwrap().over, []);
        let over = with(&[("x", "x"), ("y", "y")]);
        let over = recheck(&plan, &shards, &over).unwrap().over;
        assert_eq!((over[0].projected, over[0].over, over[0].first.len()), (4, 1, 2));
        // A tag that is there already is not counted twice.
        let mine = with(&[("x", "x"), ("y", "y"), ("a", "a")]);
        assert_eq!(recheck(&plan, &shards, &mine).unwrap().over[0].projected, 4);
        let done = with(&[("x", "x"), ("y", "y"), ("z", "z"), ("a", "a"), ("b", "b")]);
        assert_eq!(recheck(&plan, &shards, &done).unwrap().over, []);
    }
}
