//! Near-duplicates: which tasks are alike, and which repositories they hold together.

use std::collections::{BTreeMap, BTreeSet};

use ident::{RepoKey, TaskId};
use record::{SimilarBy, SimilarTasks};

/// Groups of things that belong together, each under its least member.
#[derive(Debug, Clone)]
struct Groups<T>(BTreeMap<T, T>);

impl<T: Ord + Clone> Groups<T> {
    fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// The least member of the group that `member` is in.
    fn least<'t>(&'t self, member: &'t T) -> &'t T {
        let mut at = member;
        while let Some(next) = self.0.get(at) {
            at = next;
        }
        at
    }

    fn join(&mut self, a: &T, b: &T) {
        let (a, b) = (self.least(a).clone(), self.least(b).clone());
        match a.cmp(&b) {
            std::cmp::Ordering::Less => self.0.insert(b, a),
            std::cmp::Ordering::Greater => self.0.insert(a, b),
            std::cmp::Ordering::Equal => None,
        };
    }
}

/// Tasks that are alike, directly or by way of others.
#[derive(Debug, Clone)]
pub(crate) struct Kinship(Groups<TaskId>);

impl Kinship {
    /// By everything that tasks can be alike in.
    pub(crate) fn new(similar: &[SimilarTasks]) -> Self {
        Self::of(similar.iter())
    }

    /// By the change that their solutions make.
    pub(crate) fn of_solutions(similar: &[SimilarTasks]) -> Self {
        Self::of(similar.iter().filter(|pair| pair.by == SimilarBy::Solution))
    }

    fn of<'a>(pairs: impl Iterator<Item = &'a SimilarTasks>) -> Self {
        let mut groups = Groups::new();
        for pair in pairs {
            groups.join(&pair.kept, &pair.other);
        }
        Self(groups)
    }

    /// A name for everything that is like `task`, itself included.
    pub(crate) fn class<'t>(&'t self, task: &'t TaskId) -> &'t TaskId {
        self.0.least(task)
    }

    /// The repositories that tasks of these hold together, in groups of two and more; groups and members ascend.
    pub(crate) fn together<'a>(
        &self,
        tasks: impl IntoIterator<Item = (&'a TaskId, &'a RepoKey)>,
    ) -> Vec<Vec<RepoKey>> {
        let mut groups = Groups::new();
        let mut first: BTreeMap<&TaskId, &RepoKey> = BTreeMap::new();
        let mut repos = BTreeSet::new();
        let tasks: Vec<(&TaskId, &RepoKey)> = tasks.into_iter().collect();
        for (task, repo) in &tasks {
            repos.insert(*repo);
            groups.join(*first.entry(self.class(task)).or_insert(repo), repo);
        }
        let mut members: BTreeMap<&RepoKey, Vec<RepoKey>> = BTreeMap::new();
        for repo in repos {
            members.entry(groups.least(repo)).or_default().push(repo.clone());
        }
        members.into_values().filter(|group| group.len() > 1).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(kept: &str, other: &str, by: SimilarBy) -> SimilarTasks {
        let id = |text: &str| TaskId::new(text).unwrap();
        SimilarTasks { kept: id(kept), other: id(other), by, permille: 900 }
    }

    #[test]
    fn tasks_that_are_alike_hold_their_repositories_together() {
        let similar = [
            pair("a1", "b1", SimilarBy::Instruction),
            pair("b2", "c1", SimilarBy::Instruction),
            pair("gone", "d1", SimilarBy::Instruction),
            pair("gone", "e1", SimilarBy::Instruction),
            pair("f1", "f2", SimilarBy::Instruction),
        ];
        let kinship = Kinship::new(&similar);
        let ids: Vec<TaskId> =
            ["a1", "b1", "b2", "c1", "d1", "e1", "f1", "f2"].map(|id| TaskId::new(id).unwrap()).into();
        let repos: Vec<RepoKey> =
            ids.iter().map(|id| RepoKey::parse(&format!("o/{}", &id.as_str()[..1])).unwrap()).collect();
        let groups = kinship.together(ids.iter().zip(&repos));
        let names: Vec<Vec<&str>> =
            groups.iter().map(|group| group.iter().map(RepoKey::as_str).collect()).collect();
        // A repository is never together with itself, and a task that is not there still makes others alike.
        assert_eq!(names, [vec!["o/a", "o/b", "o/c"], vec!["o/d", "o/e"]]);
        assert_eq!(kinship.together(ids[..1].iter().zip(&repos)), Vec::<Vec<RepoKey>>::new());
    }

    #[test]
    fn only_equal_solutions_make_one_class_of_solutions() {
        let similar = [pair("a", "b", SimilarBy::Instruction), pair("b", "c", SimilarBy::Solution)];
        let kinship = Kinship::of_solutions(&similar);
        let [a, b, c] = ["a", "b", "c"].map(|id| TaskId::new(id).unwrap());
        assert_eq!(kinship.class(&c), kinship.class(&b));
        assert_ne!(kinship.class(&a), kinship.class(&b));
    }
}
