//! Near-duplicates: one of equal solutions is kept, and tasks with like instructions stay in one split.

use dataset::resolve::{Exclusion, ResolveError, resolve};
use dataset::{DatasetError, verify};
use ident::{AliasTable, RepoKey, TaskId};
use proptest::prelude::*;
use record::{SimilarBy, SimilarTasks, Split};

use crate::documents::Documents;
use crate::project::{Project, task_id};
use crate::resolving::rules;

/// One task for each repository, all primaries of one pool.
fn one_each(repos: &[&str]) -> (Documents, Vec<TaskId>) {
    let mut documents = Documents::new(&[("p", repos.len() as u64)]);
    let mut ids = Vec::new();
    for (n, repo) in repos.iter().enumerate() {
        let id = task_id(repo, n);
        documents.add(id.clone(), "p", RepoKey::parse(repo).unwrap(), false);
        ids.push(id);
    }
    (documents, ids)
}

#[test]
fn of_equal_solutions_the_first_that_can_be_chosen_is_kept() {
    let (mut documents, ids) = one_each(&["o/a", "o/b", "o/c", "o/d"]);
    // Pairs name one of the three; the others are alike by way of it.
    documents.alike(&ids[0], &ids[1], SimilarBy::Solution);
    documents.alike(&ids[0], &ids[2], SimilarBy::Solution);
    let (chosen, excluded) = documents.candidates();
    let chosen: Vec<&TaskId> = chosen.iter().map(|task| &task.task_id).collect();
    assert_eq!(chosen, [&ids[0], &ids[3]]);
    assert_eq!(excluded[&ids[2]], Exclusion::NearDuplicate { of: ids[0].clone() });

    documents.reject(&ids[0], "oracle_failed");
    let (chosen, excluded) = documents.candidates();
    let chosen: Vec<&TaskId> = chosen.iter().map(|task| &task.task_id).collect();
    assert_eq!(chosen, [&ids[1], &ids[3]], "the next one takes the place of the first");
    assert_eq!(excluded[&ids[2]], Exclusion::NearDuplicate { of: ids[1].clone() });
}

#[test]
fn like_instructions_hold_repositories_in_one_split() {
    let (mut documents, ids) = one_each(&["o/a", "o/b", "o/c", "o/d"]);
    let apart = rules(&[("p", 4)], 2, [2, 1, 1], false);
    let splits = |documents: &Documents| -> Vec<Split> {
        documents.resolve(&apart).selection.tasks.iter().map(|task| task.split).collect()
    };
    assert_eq!(splits(&documents), [Split::Train, Split::Train, Split::Validation, Split::Test]);

    documents.alike(&ids[0], &ids[2], SimilarBy::Instruction);
    assert_eq!(splits(&documents), [Split::Train, Split::Validation, Split::Train, Split::Test]);
    assert_eq!(
        documents.resolve(&apart).together,
        [["o/a", "o/c"].map(|repo| RepoKey::parse(repo).unwrap())]
    );

    // Sizes that can only be had by taking them apart are refused.
    documents.alike(&ids[1], &ids[3], SimilarBy::Instruction);
    let error =
        resolve(artifact::Inputs::new(), &apart, &documents.candidates().0, &documents.checks.similar)
            .unwrap_err();
    assert!(matches!(&error, ResolveError::Splits { deviation: 2, .. }), "{error}");
}

#[test]
fn near_duplicates_in_two_splits_cannot_be_frozen() {
    let mut project = Project::sample();
    let pair = |project: &Project, kept: usize, other: usize| SimilarTasks {
        kept: project.selection.tasks[kept].task_id.clone(),
        other: project.selection.tasks[other].task_id.clone(),
        by: SimilarBy::Instruction,
        permille: 900,
    };
    project.checks.similar = vec![pair(&project, 0, 2)];
    let error = project.freeze().unwrap_err();
    let named = [0, 2].map(|n| project.selection.tasks[n].task_id.to_string());
    assert!(matches!(&error, DatasetError::Leaks(_)), "{error}");
    assert!(named.iter().all(|id| error.to_string().contains(id)), "{error}");

    // In one split they are fine, and the set says that they belong together.
    project.selection.tasks[2].split = Split::Train;
    let frozen = project.freeze().unwrap();
    let together = &frozen.manifest.together;
    assert_eq!(*together, [["acme/gears", "acme/widgets"].map(|repo| RepoKey::parse(repo).unwrap())]);
    assert_eq!(verify(&frozen.path, &AliasTable::default()).unwrap().problems, []);
}

proptest! {
    #[test]
    fn whatever_is_alike_lies_in_one_split_in_whatever_order_it_is_told(
        repos in prop::collection::vec(0..7usize, 1..16),
        pairs in prop::collection::vec((0..16usize, 0..16usize), 0..6),
    ) {
        let names: Vec<String> = repos.iter().map(|repo| format!("o/r{repo}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (mut documents, ids) = one_each(&names);
        let id = |n: usize| &ids[n % ids.len()];
        for (kept, other) in pairs {
            if id(kept) != id(other) {
                documents.alike(id(kept), id(other), SimilarBy::Instruction);
            }
        }
        let rules = rules(&[("p", 16)], 16, [8, 4, 4], true);
        let resolved = documents.resolve(&rules);
        let split = |id: &TaskId| {
            resolved.selection.tasks.iter().find(|task| task.task_id == *id).map(|task| task.split)
        };
        prop_assert_eq!(resolved.selection.tasks.len(), ids.len());
        for pair in &documents.checks.similar {
            prop_assert_eq!(split(&pair.kept), split(&pair.other));
        }
        for group in &resolved.together {
            let of_group = resolved.selection.tasks.iter().filter(|task| group.contains(&task.repo));
            let splits: std::collections::BTreeSet<Split> = of_group.map(|task| task.split).collect();
            prop_assert_eq!(splits.len(), 1);
        }
        documents.checks.similar.reverse();
        prop_assert_eq!(documents.resolve(&rules), resolved);
    }
}
