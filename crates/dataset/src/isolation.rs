//! Isolation: no repository in two splits, no near-duplicates in two splits, no task twice.

use std::collections::BTreeMap;

use ident::{AliasTable, Digest, RepoKey, TaskId};
use record::Split;

/// A task and where it was put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// The task.
    pub task_id: TaskId,
    /// Its split.
    pub split: Split,
    /// Its repository, under any name.
    pub repo: RepoKey,
    /// Its content, where it is known; two ids with one content are one task.
    pub content: Option<Digest>,
}

/// A breach of isolation. The names are those of both tasks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Leak {
    /// A task is listed more than once.
    #[error("task `{task_id}` is in {first} and again in {second}")]
    TaskTwice {
        /// The task.
        task_id: TaskId,
        /// Its first split.
        first: Split,
        /// The other one, which may be the same.
        second: Split,
    },
    /// Two ids that some file systems take for one.
    #[error("task ids `{first}` and `{second}` differ only in case")]
    NearIds {
        /// One id.
        first: TaskId,
        /// The other.
        second: TaskId,
    },
    /// One repository in two splits.
    #[error("repository `{repo}` is in {first_split} with `{first}` and in {second_split} with `{second}`")]
    Repository {
        /// Today's key of the repository.
        repo: RepoKey,
        /// A task of the repository.
        first: TaskId,
        /// Its split.
        first_split: Split,
        /// A task of the repository in another split.
        second: TaskId,
        /// That split.
        second_split: Split,
    },
    /// One content in two splits.
    #[error("`{first}` in {first_split} and `{second}` in {second_split} have the same content")]
    Content {
        /// A task.
        first: TaskId,
        /// Its split.
        first_split: Split,
        /// A task with the same content in another split.
        second: TaskId,
        /// That split.
        second_split: Split,
    },
    /// Repositories with near-duplicates in two splits.
    #[error(
        "`{first}` is in {first_split} and `{second}` in {second_split}, and near-duplicates hold their repositories together"
    )]
    NearDuplicates {
        /// A task.
        first: TaskId,
        /// Its split.
        first_split: Split,
        /// A task of a repository that belongs to the first one's.
        second: TaskId,
        /// That split.
        second_split: Split,
    },
}

/// Finds every breach, sorted. A repository counts under the name that is given and under the one in the task's id,
/// both after the aliases. Repositories of one group of `together` must lie in one split.
pub fn leaks(tasks: &[Placed], aliases: &AliasTable, together: &[Vec<RepoKey>]) -> Vec<Leak> {
    let mut ids: BTreeMap<&TaskId, &Placed> = BTreeMap::new();
    let mut folded: BTreeMap<String, &Placed> = BTreeMap::new();
    let mut repositories: BTreeMap<RepoKey, &Placed> = BTreeMap::new();
    let mut contents: BTreeMap<Digest, &Placed> = BTreeMap::new();
    let groups: BTreeMap<RepoKey, usize> = together
        .iter()
        .enumerate()
        .flat_map(|(n, group)| group.iter().map(move |repo| (aliases.canonical(repo.clone()), n)))
        .collect();
    let mut of_group: BTreeMap<usize, &Placed> = BTreeMap::new();
    let mut found = Vec::new();
    let mut sorted: Vec<&Placed> = tasks.iter().collect();
    sorted.sort_by_key(|task| (&task.task_id, task.split));
    for task in sorted {
        let task_id = &task.task_id;
        if let Some(other) = ids.insert(task_id, task) {
            found.push(Leak::TaskTwice { task_id: task_id.clone(), first: other.split, second: task.split });
            continue;
        }
        let other = folded.entry(task_id.as_str().to_lowercase()).or_insert(task);
        if other.task_id != *task_id {
            found.push(Leak::NearIds { first: other.task_id.clone(), second: task_id.clone() });
        }
        let mut keys = vec![aliases.canonical(task.repo.clone())];
        keys.extend(RepoKey::of_task(task_id).ok().map(|key| aliases.canonical(key)));
        keys.dedup();
        if let Some(group) = keys.iter().find_map(|repo| groups.get(repo)) {
            let other = of_group.entry(*group).or_insert(task);
            if other.split != task.split {
                found.push(Leak::NearDuplicates {
                    first: other.task_id.clone(),
                    first_split: other.split,
                    second: task_id.clone(),
                    second_split: task.split,
                });
            }
        }
        for repo in keys {
            let other = repositories.entry(repo.clone()).or_insert(task);
            if other.split != task.split {
                found.push(Leak::Repository {
                    repo,
                    first: other.task_id.clone(),
                    first_split: other.split,
                    second: task_id.clone(),
                    second_split: task.split,
                });
            }
        }
        if let Some(content) = task.content {
            let other = contents.entry(content).or_insert(task);
            if other.split != task.split {
                found.push(Leak::Content {
                    first: other.task_id.clone(),
                    first_split: other.split,
                    second: task_id.clone(),
                    second_split: task.split,
                });
            }
        }
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(id: &str, split: Split, repo: &str) -> Placed {
        Placed {
            task_id: TaskId::new(id).unwrap(),
            split,
            repo: RepoKey::parse(repo).unwrap(),
            content: None,
        }
    }

    #[test]
    fn one_repository_under_two_names_in_two_splits_is_named_with_both_tasks() {
        let aliases = AliasTable::new([("acme-labs/widgets", "acme/widgets")]).unwrap();
        for other in [
            "Acme/Widgets.git",
            "https://git.example/acme/widgets/",
            "swesmith/acme__widgets.1a2b3c4d",
            "acme__widgets.9f8e7d6c",
            "acme-labs/widgets",
        ] {
            let tasks = [
                placed("t1", Split::Train, "acme/widgets"),
                placed("t2", Split::Test, other),
                placed("t3", Split::Validation, "other/x"),
            ];
            let found = leaks(&tasks, &aliases, &[]);
            assert_eq!(found.len(), 1, "{other}");
            let text = found[0].to_string();
            assert!(
                text.contains("`t1`") && text.contains("`t2`") && text.contains("acme/widgets"),
                "{text}"
            );
        }
    }

    #[test]
    fn the_repository_of_the_id_counts_too() {
        let tasks = [
            placed("o__r.0123abcd.pr_1", Split::Train, "o/r"),
            placed("O__r.0123abcd.pr_2", Split::Test, "pretended/other"),
        ];
        assert!(
            matches!(&leaks(&tasks, &AliasTable::default(), &[])[..], [Leak::Repository { repo, .. }] if repo.as_str() == "o/r")
        );
    }

    #[test]
    fn tasks_and_contents_that_come_twice_are_found() {
        let mut tasks = vec![
            placed("t1", Split::Train, "o/a"),
            placed("t1", Split::Validation, "o/a"),
            placed("T2", Split::Train, "o/b"),
            placed("t2", Split::Train, "o/b"),
        ];
        let found = leaks(&tasks, &AliasTable::default(), &[]);
        assert!(matches!(&found[..], [Leak::TaskTwice { .. }, Leak::NearIds { .. }]), "{found:?}");
        tasks.truncate(1);
        tasks.push(placed("t9", Split::Test, "o/z"));
        for task in &mut tasks {
            task.content = Some(Digest::of("same"));
        }
        assert!(matches!(&leaks(&tasks, &AliasTable::default(), &[])[..], [Leak::Content { .. }]));
    }

    #[test]
    fn repositories_that_belong_together_are_a_leak_in_two_splits() {
        let mut tasks = [
            placed("t1", Split::Train, "o/a"),
            placed("t2", Split::Test, "o/b"),
            placed("t3", Split::Test, "o/c"),
        ];
        let repo = |text: &str| RepoKey::parse(text).unwrap();
        let aliases = AliasTable::new([("former/b", "o/b")]).unwrap();
        let found = leaks(&tasks, &aliases, &[vec![repo("o/a"), repo("former/b")]]);
        assert_eq!(found.len(), 1, "{found:?}");
        let text = found[0].to_string();
        assert!(text.contains("`t1`") && text.contains("`t2`"), "{text}");
        tasks[0].split = Split::Test;
        assert_eq!(leaks(&tasks, &aliases, &[vec![repo("o/a"), repo("o/b")]]), []);
    }
}
