//! The rules on published ids and reward means.

use std::collections::BTreeSet;

use plan::{Cap, EvidenceKind, Note, PlanInput, Reserve, plan};
use record::RewardMean;

use crate::rounds::{candidate, rules};

#[test]
fn published_rollouts_become_tiers_three_and_four() {
    let Some(folder) = corpus::find("data/swesmith") else { return };
    let ids = std::fs::read_to_string(folder.join("all_known_instance_ids.txt")).unwrap();
    let means = std::fs::read_to_string(folder.join("swe-master/bon_stats_oss_smith.jsonl")).unwrap();
    let ids: Vec<String> = ids.lines().map(str::to_owned).collect();
    let means: Vec<RewardMean> = means.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let known: BTreeSet<&String> = ids.iter().collect();
    let count = |fits: fn(f64) -> bool| {
        let rows = means.iter().filter(|row| known.contains(&row.instance_id_or_commit_hash));
        rows.filter(|row| fits(row.reward_mean)).count() as u64
    };
    let (full, partial) = (count(|mean| mean >= 1.0), count(|mean| mean > 0.0 && mean < 1.0));

    let mut input = PlanInput {
        instances: ids.iter().map(|id| candidate(id)).collect(),
        sets: [("all".to_owned(), ids.clone())].into(),
        reward_means: means.clone(),
        pools: vec![rules("all", full + partial, Cap::Tasks(u64::MAX))],
        ..PlanInput::default()
    };
    let outcome = plan(&input).unwrap();
    let tiers = &outcome.stats.primaries_total.tiers;
    assert_eq!((tiers.swe_master_full, tiers.swe_master_partial), (full, partial));
    assert_eq!(outcome.stats.primaries_total.eligible_left, 0);
    let strangers = means.iter().filter(|row| !known.contains(&row.instance_id_or_commit_hash)).count();
    let noted = outcome.notes.iter().find_map(|note| match note {
        Note::UnknownEvidence { kind: EvidenceKind::RewardMeans, rows } => Some(rows.len()),
        _ => None,
    });
    assert_eq!(noted.unwrap_or(0), strangers);

    // A capped pool spreads over the repositories, and its reserves with it.
    input.pools[0].target = 350;
    input.pools[0].cap = Cap::Share("5%".parse().unwrap());
    input.pools[0].reserve = Reserve::Count(350);
    let outcome = plan(&input).unwrap();
    assert_eq!((outcome.plan.tasks.len(), outcome.reserves.tasks.len()), (350, 350));
    assert!(outcome.stats.primaries_total.repositories > 100);
    assert_eq!(outcome.stats.primaries_total.eligible_left, full + partial - 700);
}
