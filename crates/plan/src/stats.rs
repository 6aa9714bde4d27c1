//! The table of what was selected.

use std::collections::BTreeSet;

use ident::RepoKey;
use record::ImageStatus;
use serde::Serialize;

use crate::pool::{Filled, Member, Pool};
use crate::{ModelFamily, Tier};

/// What a plan holds, per pool and in total.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlanStats {
    /// Primaries of each pool, in the recipe's order.
    pub primaries: Vec<StatsRow>,
    /// Primaries of all pools.
    pub primaries_total: StatsRow,
    /// Reserves of each pool.
    pub reserves: Vec<StatsRow>,
    /// Reserves of all pools.
    pub reserves_total: StatsRow,
}

/// One row of the table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StatsRow {
    /// The pool's name, or `total`.
    pub stage: String,
    /// Number of tasks.
    pub tasks: u64,
    /// Tasks of each tier.
    pub tiers: TierCounts,
    /// Tasks that each model family solved; a task may count in several.
    pub models: ModelCounts,
    /// Number of repositories.
    pub repositories: u64,
    /// Tasks that had to be kept.
    pub retained: u64,
    /// Tasks whose image is there.
    pub with_image: u64,
    /// Members of the pool with a tier that are neither primaries nor reserves.
    pub eligible_left: u64,
}

/// Tasks by tier.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TierCounts {
    /// Tier 1.
    pub cross_source: u64,
    /// Tier 2.
    pub official_only: u64,
    /// Tier 3.
    pub swe_master_full: u64,
    /// Tier 4.
    pub swe_master_partial: u64,
    /// No tier.
    pub none: u64,
}

/// Tasks by model family.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ModelCounts {
    /// Solved by `gpt-4o`.
    #[serde(rename = "gpt-4o")]
    pub gpt_4o: u64,
    /// Solved by `claude-3.5`.
    #[serde(rename = "claude-3.5")]
    pub claude_3_5: u64,
    /// Solved by `claude-3.7`.
    #[serde(rename = "claude-3.7")]
    pub claude_3_7: u64,
}

impl PlanStats {
    pub(crate) fn new(pools: &[(&Pool, Filled)]) -> Self {
        let rows = |part: for<'x, 'p, 'a> fn(&'x Filled<'p, 'a>) -> &'x [&'p Member<'a>]| {
            let each = pools.iter().map(|(pool, filled)| {
                StatsRow::new(&pool.rules.stage, part(filled).iter().copied(), filled.eligible_left)
            });
            let all = pools.iter().flat_map(|(_, filled)| part(filled).iter().copied());
            let left = pools.iter().map(|(_, filled)| filled.eligible_left).sum();
            (each.collect(), StatsRow::new("total", all, left))
        };
        let (primaries, primaries_total) = rows(|filled| &filled.primaries);
        let (reserves, reserves_total) = rows(|filled| &filled.reserves);
        Self { primaries, primaries_total, reserves, reserves_total }
    }
}

impl StatsRow {
    fn new<'p, 'a: 'p>(
        stage: &str,
        members: impl Iterator<Item = &'p Member<'a>>,
        eligible_left: u64,
    ) -> Self {
        let mut row = Self {
            stage: stage.to_owned(),
            tasks: 0,
            tiers: TierCounts::default(),
            models: ModelCounts::default(),
            repositories: 0,
            retained: 0,
            with_image: 0,
            eligible_left,
        };
        let mut repositories: BTreeSet<&RepoKey> = BTreeSet::new();
        for member in members {
            row.tasks += 1;
            *row.tiers.of(member.tier) += 1;
            member.official.iter().for_each(|family| *row.models.of(family) += 1);
            repositories.insert(&member.repo);
            row.retained += u64::from(member.retained);
            row.with_image += u64::from(member.image == ImageStatus::Completed);
        }
        row.repositories = repositories.len() as u64;
        row
    }
}

impl TierCounts {
    fn of(&mut self, tier: Option<Tier>) -> &mut u64 {
        match tier {
            Some(Tier::CrossSource) => &mut self.cross_source,
            Some(Tier::OfficialOnly) => &mut self.official_only,
            Some(Tier::SweMasterFull) => &mut self.swe_master_full,
            Some(Tier::SweMasterPartial) => &mut self.swe_master_partial,
            None => &mut self.none,
        }
    }
}

impl ModelCounts {
    fn of(&mut self, family: ModelFamily) -> &mut u64 {
        match family {
            ModelFamily::Gpt4o => &mut self.gpt_4o,
            ModelFamily::Claude35 => &mut self.claude_3_5,
            ModelFamily::Claude37 => &mut self.claude_3_7,
        }
    }
}
