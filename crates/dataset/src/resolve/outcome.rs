//! Choosing and splitting put together.

use std::collections::BTreeMap;

use artifact::{Document, Inputs};
use ident::RepoKey;
use record::{SelectedTask, Selection, Shortage, Split};

use crate::resolve::{Assignment, Candidate, ResolveError, SplitSizes, assign, choose};

/// Version of the rules.
pub const RULES: &str = "resolve/1";

/// What a selection must keep to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolveRules {
    /// The pools in the recipe's order.
    pub pools: Vec<PoolTarget>,
    /// Most tasks of one repository over all pools.
    pub repo_cap: u64,
    /// Wanted sizes of the splits.
    pub split: SplitSizes,
    /// Whether a smaller set will do, with every shortage recorded.
    pub allow_shortfall: bool,
}

/// How many tasks of a pool are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolTarget {
    /// The pool's name.
    pub stage: String,
    /// The number of tasks.
    pub target: u64,
}

/// A selection and what was measured on the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// For `selection.json`.
    pub selection: Selection,
    /// The split sizes that were aimed at: the recipe's, or their shares of a smaller set.
    pub aimed: SplitSizes,
    /// The split sizes that came out.
    pub sizes: SplitSizes,
    /// Accepted candidates that were not chosen.
    pub left_over: u64,
}

/// Chooses the set among the candidates, given by rank, and splits it.
pub fn resolve(
    inputs: Inputs,
    rules: &ResolveRules,
    candidates: &[Candidate],
) -> Result<Resolved, ResolveError> {
    let chosen = chosen(rules, candidates);
    let mut shortages = Vec::new();
    for pool in &rules.pools {
        let have = chosen.iter().filter(|task| task.stage == pool.stage).count() as u64;
        if have < pool.target {
            shortages.push(Shortage { what: format!("pool:{}", pool.stage), wanted: pool.target, have });
        }
    }
    if !rules.allow_shortfall && !shortages.is_empty() {
        return Err(ResolveError::PoolShortage(shortages));
    }

    let mut repositories: BTreeMap<&RepoKey, u64> = BTreeMap::new();
    for task in &chosen {
        *repositories.entry(&task.repo).or_default() += 1;
    }
    let aimed = if rules.allow_shortfall { rules.split.scaled_to(chosen.len() as u64)? } else { rules.split };
    let counts: Vec<u64> = repositories.values().copied().collect();
    let Assignment { splits, sizes, deviation } = assign(&counts, &aimed);
    if !rules.allow_shortfall && deviation > 0 {
        return Err(ResolveError::Splits { wanted: aimed, nearest: sizes, deviation });
    }
    for split in [Split::Train, Split::Validation, Split::Test] {
        let (wanted, have) = (rules.split.of(split), sizes.of(split));
        if have < wanted {
            shortages.push(Shortage { what: format!("split:{split}"), wanted, have });
        }
    }

    let split_of: BTreeMap<&RepoKey, Split> = repositories.into_keys().zip(splits).collect();
    let tasks: Vec<SelectedTask> = chosen
        .iter()
        .map(|task| SelectedTask {
            task_id: task.task_id.clone(),
            stage: task.stage.clone(),
            repo: task.repo.clone(),
            split: split_of[&task.repo],
            reserve: task.reserve,
            evidence_tier: task.evidence_tier,
            tree_digest: task.tree_digest,
        })
        .collect();
    let left_over = (candidates.len() - tasks.len()) as u64;
    let selection =
        Selection { schema: Selection::SCHEMA.to_owned(), rules: RULES.to_owned(), inputs, tasks, shortages };
    Ok(Resolved { selection, aimed, sizes, left_over })
}

/// The chosen candidates by rank.
fn chosen<'a>(rules: &ResolveRules, candidates: &'a [Candidate]) -> Vec<&'a Candidate> {
    let pools: BTreeMap<&str, usize> =
        rules.pools.iter().enumerate().map(|(n, pool)| (pool.stage.as_str(), n)).collect();
    let mut repositories: BTreeMap<&RepoKey, usize> = BTreeMap::new();
    // A candidate of a pool that the rules do not know gets no place.
    let tasks: Vec<(usize, usize)> = candidates
        .iter()
        .map(|task| {
            let next = repositories.len();
            let repo = *repositories.entry(&task.repo).or_insert(next);
            (pools.get(task.stage.as_str()).copied().unwrap_or(rules.pools.len()), repo)
        })
        .collect();
    let targets: Vec<u64> = rules.pools.iter().map(|pool| pool.target).collect();
    let picked = choose(&tasks, &targets, rules.repo_cap);
    candidates.iter().zip(picked).filter(|(_, picked)| *picked).map(|(task, _)| task).collect()
}
