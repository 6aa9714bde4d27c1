//! What two plans have apart.

use std::collections::BTreeMap;

use record::ImageKind;
use serde::Serialize;

use super::{Item, ShardPlan};

/// The difference of two plans.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct PlanDiff {
    /// Images that only the second one has.
    pub added: Vec<String>,
    /// Images that only the first one has.
    pub removed: Vec<String>,
    /// Images with another place, with the old and the new one.
    pub moved: Vec<(String, String, String)>,
    /// Images with another content at the same place.
    pub changed: Vec<String>,
    /// Shards with another number of tags, with the old and the new one.
    pub shards: Vec<(String, u64, u64)>,
}

/// Compares two plans.
pub fn diff(before: &ShardPlan, after: &ShardPlan) -> PlanDiff {
    let (old, new) = (by_key(before), by_key(after));
    let name = |(kind, key): &(ImageKind, &str)| format!("{kind} {key}");
    let mut found = PlanDiff {
        added: new.keys().filter(|key| !old.contains_key(*key)).map(name).collect(),
        removed: old.keys().filter(|key| !new.contains_key(*key)).map(name).collect(),
        ..PlanDiff::default()
    };
    for (key, item) in &new {
        let Some(earlier) = old.get(key) else { continue };
        let place = |item: &Item| format!("{}:{}", item.repository, item.tag);
        if place(earlier) != place(item) {
            found.moved.push((name(key), place(earlier), place(item)));
        } else if earlier.digest != item.digest {
            found.changed.push(name(key));
        }
    }
    let tags = |plan: &ShardPlan| -> BTreeMap<String, u64> {
        plan.shards.iter().map(|shard| (shard.name.clone(), shard.projected)).collect()
    };
    let (old, new) = (tags(before), tags(after));
    let names: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    for name in names {
        let of = |tags: &BTreeMap<String, u64>| tags.get(name).copied().unwrap_or(0);
        if of(&old) != of(&new) {
            found.shards.push((name.clone(), of(&old), of(&new)));
        }
    }
    found
}

fn by_key(plan: &ShardPlan) -> BTreeMap<(ImageKind, &str), &Item> {
    plan.items.iter().map(|item| ((item.kind, item.key.as_str()), item)).collect()
}
