//! Explanations, and what replaced what.

use dataset::resolve::{Explanation, Fate, Loss};
use ident::{RepoKey, TaskId};
use record::{SimilarBy, Split};

use crate::documents::Documents;
use crate::project::task_id;
use crate::resolving::rules;

/// Three primaries and two reserves in one pool.
fn documents() -> (Documents, Vec<TaskId>) {
    let mut documents = Documents::new(&[("p", 3)]);
    let mut ids = Vec::new();
    for (n, (repo, reserve)) in
        [("o/a", false), ("o/a", false), ("o/b", false), ("o/c", true), ("o/d", true)].into_iter().enumerate()
    {
        let id = task_id(repo, n);
        documents.add(id.clone(), "p", RepoKey::parse(repo).unwrap(), reserve);
        ids.push(id);
    }
    (documents, ids)
}

fn said(explanation: &Explanation, about: &str) -> String {
    let steps = explanation.steps.iter().filter(|step| step.about == about);
    steps.map(|step| step.finding.as_str()).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_reserve_stands_for_the_primary_that_was_lost() {
    let (mut documents, ids) = documents();
    documents.reject(&ids[1], "nop_passed");
    let rules = rules(&[("p", 3)], 2, [1, 1, 1], false);
    let [replaced] = &documents.replacements(&rules)[..] else { panic!("one is lost") };
    assert_eq!((&replaced.lost, &replaced.by), (&Some(ids[1].clone()), &Some(ids[3].clone())));
    assert_eq!(
        replaced.why.as_ref().map(ToString::to_string).as_deref(),
        Some("is rejected by its trials (nop_passed)")
    );

    let reserve = documents.explain(&rules, &ids[3]);
    assert_eq!(reserve.outcome, Fate::Chosen { stage: "p".into(), split: Split::Test, reserve: true });
    let set = said(&reserve, "set");
    assert!(set.contains(&format!("stands for primary `{}`", ids[1])), "{set}");
    assert!(set.contains("is candidate 3 of 4") && set.contains("pool `p` has 3 of 3"), "{set}");

    let rejected = documents.explain(&rules, &ids[1]);
    assert!(matches!(&rejected.outcome, Fate::Excluded { .. }));
    assert!(said(&rejected, "proof").contains("rejected as nop_passed: as told"));
    let otherwise = said(&rejected, "otherwise");
    assert!(otherwise.contains(&format!("in the place of `{}`", ids[3])), "{otherwise}");
}

#[test]
fn a_full_pool_and_a_full_repository_say_what_would_be_wide_enough() {
    let (documents, ids) = documents();
    let explained = |task: usize, target: u64, repo_cap: u64| {
        documents.explain(&rules(&[("p", target)], repo_cap, [1, 1, 1], true), &ids[task])
    };
    let left = explained(4, 3, 2);
    assert_eq!(left.outcome, Fate::LeftOver { stage: "p".into() });
    let otherwise = said(&left, "otherwise");
    assert_eq!(otherwise, "`target = 5` of its pool would take it, and 4 does not");

    let capped = explained(1, 5, 1);
    assert!(said(&capped, "set").contains("repository `o/a` has 1 of 1"), "{capped:?}");
    assert_eq!(said(&capped, "otherwise"), "`repo_cap = 2` would take it, and 1 does not");

    let neither = explained(1, 1, 1);
    assert_eq!(said(&neither, "otherwise"), "neither a wider cap nor a larger pool alone would take it");
}

#[test]
fn a_split_is_explained_by_what_the_others_would_cost() {
    let (mut documents, ids) = documents();
    documents.alike(&ids[2], &ids[0], SimilarBy::Instruction);
    let rules = rules(&[("p", 5)], 2, [3, 1, 1], false);
    let explained = documents.explain(&rules, &ids[0]);
    assert_eq!(explained.outcome, Fate::Chosen { stage: "p".into(), split: Split::Train, reserve: false });
    let split = said(&explained, "split");
    assert!(
        split.contains("together with `o/b` because of near-duplicates, has 3 of the set's 5 tasks"),
        "{split}"
    );
    assert!(split.contains(&format!("alike are in train too: `{}`", ids[2])), "{split}");
    let otherwise = said(&explained, "otherwise");
    assert!(otherwise.contains("in test the sizes would be off by 4 at least, and now by 0"), "{otherwise}");
    assert!(said(&explained, "alike").contains("91.2 %"));

    let test = documents.explain(&rules, &ids[4]);
    assert!(said(&test, "otherwise").contains("in validation the sizes would come as near"), "{test:?}");
}

#[test]
fn a_set_that_is_refused_as_a_whole_is_explained_too() {
    let (documents, ids) = documents();
    let strict = rules(&[("p", 6)], 2, [4, 1, 1], false);
    let explained = documents.explain(&strict, &ids[0]);
    assert!(
        said(&explained, "set").contains("refused as a whole: the accepted tasks do not fill"),
        "{explained:?}"
    );
    let strange = task_id("o/z", 9);
    assert_eq!(documents.explain(&strict, &strange).outcome, Fate::NotPlanned);
}

#[test]
fn what_is_lost_without_a_reserve_is_listed_too() {
    let (mut documents, ids) = documents();
    documents.reject(&ids[3], "flaky");
    documents.reject(&ids[4], "flaky");
    let rules = rules(&[("p", 3)], 1, [1, 1, 1], true);
    let [lost] = &documents.replacements(&rules)[..] else { panic!("one is lost") };
    assert_eq!((&lost.lost, &lost.by), (&Some(ids[1].clone()), &None));
    assert_eq!(lost.why, Some(Loss::LeftOver { cause: "left_over" }));
}
