//! Choosing and splitting put together.

use std::collections::BTreeMap;

use artifact::{Document, Inputs};
use ident::RepoKey;
use record::{SelectedTask, Selection, Shortage, SimilarTasks, Split};

use crate::kinship::Kinship;
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
    /// Repositories of the set that stay together because tasks of theirs are alike, in groups of two and more.
    pub together: Vec<Vec<RepoKey>>,
}

/// Chooses the set among the candidates, given by rank, and splits it.
///
/// Repositories with tasks that are alike go to one split, as if they were one repository with the least of their keys.
pub fn resolve(
    inputs: Inputs,
    rules: &ResolveRules,
    candidates: &[Candidate],
    similar: &[SimilarTasks],
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

    let aimed = if rules.allow_shortfall { rules.split.scaled_to(chosen.len() as u64)? } else { rules.split };
    let units = Units::of(&chosen, similar);
    let Assignment { splits, sizes, deviation } = assign(&units.sizes, &aimed);
    if !rules.allow_shortfall && deviation > 0 {
        return Err(ResolveError::Splits { wanted: aimed, nearest: sizes, deviation });
    }
    for split in [Split::Train, Split::Validation, Split::Test] {
        let (wanted, have) = (rules.split.of(split), sizes.of(split));
        if have < wanted {
            shortages.push(Shortage { what: format!("split:{split}"), wanted, have });
        }
    }

    let tasks: Vec<SelectedTask> = chosen
        .iter()
        .map(|task| SelectedTask {
            task_id: task.task_id.clone(),
            stage: task.stage.clone(),
            repo: task.repo.clone(),
            split: splits[units.of_repo[&task.repo]],
            reserve: task.reserve,
            evidence_tier: task.evidence_tier,
            tree_digest: task.tree_digest,
        })
        .collect();
    let left_over = (candidates.len() - tasks.len()) as u64;
    let selection =
        Selection { schema: Selection::SCHEMA.to_owned(), rules: RULES.to_owned(), inputs, tasks, shortages };
    Ok(Resolved { selection, aimed, sizes, left_over, together: units.together })
}

/// What goes to one split as a whole: a repository, or several that near-duplicates hold together.
pub(super) struct Units<'a> {
    /// Their numbers of tasks, in ascending order of their least repositories.
    pub(super) sizes: Vec<u64>,
    /// The place of each repository's unit.
    pub(super) of_repo: BTreeMap<&'a RepoKey, usize>,
    /// The units of several repositories.
    pub(super) together: Vec<Vec<RepoKey>>,
}

impl<'a> Units<'a> {
    pub(super) fn of(chosen: &[&'a Candidate], similar: &[SimilarTasks]) -> Self {
        let together = Kinship::new(similar).together(chosen.iter().map(|task| (&task.task_id, &task.repo)));
        let leaders: BTreeMap<&RepoKey, &RepoKey> =
            together.iter().flat_map(|group| group.iter().map(move |repo| (repo, &group[0]))).collect();
        let mut counts: BTreeMap<&RepoKey, u64> = BTreeMap::new();
        for task in chosen {
            *counts.entry(leaders.get(&task.repo).copied().unwrap_or(&task.repo)).or_default() += 1;
        }
        let places: BTreeMap<&RepoKey, usize> =
            counts.keys().enumerate().map(|(n, repo)| (*repo, n)).collect();
        let of_repo = chosen
            .iter()
            .map(|task| (&task.repo, places[leaders.get(&task.repo).copied().unwrap_or(&task.repo)]))
            .collect();
        Self { sizes: counts.into_values().collect(), of_repo, together }
    }
}

/// The chosen candidates by rank.
pub(super) fn chosen<'a>(rules: &ResolveRules, candidates: &'a [Candidate]) -> Vec<&'a Candidate> {
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
