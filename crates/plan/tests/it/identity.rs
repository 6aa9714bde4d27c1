//! Which ids are one task, and which repositories are one.

use ident::AliasTable;
use plan::{Candidate, Cap, InputError, PlanError, PlanInput, plan};
use record::RewardMean;

use crate::rounds::{candidate, rules};

/// A pool over everything, all of it solved.
fn input(rows: Vec<Candidate>, target: u64, cap: u64) -> PlanInput {
    let ids: Vec<String> = rows.iter().map(|row| row.id.clone()).collect();
    let solved = |id: &String| RewardMean { instance_id_or_commit_hash: id.clone(), reward_mean: 1.0 };
    PlanInput {
        reward_means: ids.iter().map(solved).collect(),
        sets: [("all".to_owned(), ids)].into(),
        instances: rows,
        pools: vec![rules("all", target, Cap::Tasks(cap))],
        ..PlanInput::default()
    }
}

#[test]
fn ids_that_only_look_different_are_named_in_pairs() {
    let rows = ["o__r.0123abcd.x", "o__r.0123abcd.x", "O__r.0123abcd.X", "o__r.0123abcd.x "].map(candidate);
    let Err(PlanError::Input(errors)) = plan(&input(rows.into(), 1, 9)) else {
        panic!("ids that collide were accepted");
    };
    let pairs: Vec<(&str, &str)> = errors
        .0
        .iter()
        .filter_map(|error| match error {
            InputError::NearIds { first, second, .. } => Some((first.as_str(), second.as_str())),
            _ => None,
        })
        .collect();
    assert_eq!(pairs, [("O__r.0123abcd.X", "o__r.0123abcd.x"), ("O__r.0123abcd.X", "o__r.0123abcd.x ")]);
}

#[test]
fn ties_are_broken_by_the_digest_of_the_bytes() {
    // The first two look alike: one letter is composed, and in the other its accent stands alone.
    let names = ["caf\u{e9}", "cafe\u{301}", "b"].map(|name| format!("o__r.0123abcd.{name}"));
    let outcome = plan(&input(names.iter().map(|id| candidate(id)).collect(), 3, 9)).unwrap();
    let order: Vec<String> = outcome.plan.tasks.iter().map(|task| task.task_id.to_string()).collect();
    let mut expected = names.to_vec();
    expected.sort_by_key(|id| ident::Digest::of(id).hex());
    assert_eq!(order, expected);
}

#[test]
fn every_spelling_of_one_repository_counts_against_one_cap() {
    let spellings = [
        "acme/widgets",
        "Acme/Widgets",
        "acme/widgets.git",
        "https://code.example/acme/widgets",
        "git@code.example:acme/widgets.git",
        "acme-labs/widgets",
        "someuser/widgets",
        "swesmith/acme__widgets.1a2b3c4d",
        "acme/widgets/",
        "acme__widgets.9f8e7d6c",
    ];
    let row =
        |(n, repo): (usize, &&str)| Candidate { repo: (*repo).to_owned(), ..candidate(&format!("t{n}")) };
    let mut input = input(spellings.iter().enumerate().map(row).collect(), 1, 1);
    input.aliases =
        AliasTable::new([("acme-labs/widgets", "acme/widgets"), ("someuser/widgets", "acme/widgets")])
            .unwrap();
    let outcome = plan(&input).unwrap();
    assert_eq!(outcome.plan.tasks[0].repo.as_str(), "acme/widgets");
    input.pools[0].target = 2;
    let Err(PlanError::Shortage(report)) = plan(&input) else { panic!("the cap did not hold") };
    assert_eq!((report.pools[0].have, report.pools[0].over_cap), (1, 9));
}

#[test]
fn the_id_names_the_repository_whatever_its_letters_and_dots() {
    let ids = ["Owner__Na.me.six.0123abcd.pr_1", "owner__na.me.six.89abcdef.lm_rewrite__abcdefgh"];
    let outcome = plan(&input(ids.iter().map(|id| candidate(id)).collect(), 2, 2)).unwrap();
    assert!(outcome.plan.tasks.iter().all(|task| task.repo.as_str() == "owner/na.me.six"));
    assert!(matches!(
        plan(&input(ids.iter().map(|id| candidate(id)).collect(), 2, 1)),
        Err(PlanError::Shortage(_))
    ));
}

#[test]
fn hostile_ids_are_refused_before_they_name_anything() {
    let hostile =
        ["../x", "a/b", "a\0b", "a\nb", "-rf", "", "..", " a ", "con", "a:b", "$(id)", "`id`", "a;b"];
    let rows = hostile.iter().map(|id| candidate(id)).collect();
    let Err(PlanError::Input(errors)) = plan(&input(rows, 1, 9)) else { panic!("hostile ids were accepted") };
    let refused = errors.0.iter().filter(|error| matches!(error, InputError::TaskId(_))).count();
    assert_eq!(refused, hostile.len(), "{errors}");
}

#[test]
fn the_image_is_passed_on_as_it_is_given_in_every_era() {
    for image in [
        "swesmith.x86_64.owner__name.0123abcd",
        "jyangballin/swesmith.x86_64.owner_1776_name.0123abcd",
        "swebench/swesmith.arm64.owner_1776_name.0123abcd",
    ] {
        let row = Candidate { image: image.into(), ..candidate("owner__name.0123abcd.pr_1") };
        let outcome = plan(&input(vec![row], 1, 1)).unwrap();
        assert_eq!(outcome.plan.tasks[0].base_image, image);
    }
}
