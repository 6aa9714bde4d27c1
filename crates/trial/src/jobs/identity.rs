//! What makes two jobs the same, so that one may go on where the other stopped.

use std::collections::{BTreeMap, BTreeSet};

use ident::Digest;
use serde::{Deserialize, Serialize};

use crate::{Agent, TrialTask};

/// Everything that a job's results depend on. Paths, names, times and how much runs at once are no part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobIdentity {
    /// Engine.
    pub engine: String,
    /// Agents, sorted.
    pub agents: BTreeSet<String>,
    /// Attempts of every agent at every task.
    pub attempts: u32,
    /// Settings that change what trials may do, by name.
    pub settings: BTreeMap<String, String>,
    /// Digest of every task's directory, by the task's name.
    pub tasks: BTreeMap<String, Digest>,
}

impl JobIdentity {
    /// The identity of a job over `tasks`.
    pub fn new<'a>(
        engine: &str,
        agents: &[Agent],
        attempts: u32,
        settings: BTreeMap<String, String>,
        tasks: impl IntoIterator<Item = &'a TrialTask>,
    ) -> Self {
        Self {
            engine: engine.to_owned(),
            agents: agents.iter().map(ToString::to_string).collect(),
            attempts,
            settings,
            tasks: tasks.into_iter().map(|task| (task.name.clone(), task.digests.tree_digest)).collect(),
        }
    }

    /// How `other` differs, in words; nothing when it is the same.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let mut found = Vec::new();
        let mut differs = |what: &str, ours: String, theirs: String| {
            if ours != theirs {
                found.push(format!("{what}: {theirs} there, {ours} here"));
            }
        };
        let agents = |identity: &Self| Vec::from_iter(identity.agents.clone()).join(", ");
        differs("engine", self.engine.clone(), other.engine.clone());
        differs("agents", agents(self), agents(other));
        differs("attempts", self.attempts.to_string(), other.attempts.to_string());
        let names: BTreeSet<&String> = self.settings.keys().chain(other.settings.keys()).collect();
        for name in names {
            let setting =
                |identity: &Self| identity.settings.get(name).map_or("-", String::as_str).to_owned();
            differs(name, setting(self), setting(other));
        }
        let names: BTreeSet<&String> = self.tasks.keys().chain(other.tasks.keys()).collect();
        for name in names {
            match (self.tasks.get(name), other.tasks.get(name)) {
                (Some(_), None) => found.push(format!("task `{name}` is new")),
                (None, Some(_)) => found.push(format!("task `{name}` is missing")),
                (ours, theirs) if ours != theirs => found.push(format!("task `{name}` has changed")),
                _ => {}
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_named() {
        let identity = |engine: &str, attempts, tasks: &[(&str, &str)]| JobIdentity {
            engine: engine.into(),
            agents: BTreeSet::from(["oracle".to_owned()]),
            attempts,
            settings: BTreeMap::new(),
            tasks: tasks.iter().map(|(name, text)| ((*name).to_owned(), Digest::of(text))).collect(),
        };
        let one = identity("native", 1, &[("a", "1"), ("b", "1")]);
        assert!(one.differences(&one.clone()).is_empty());
        let other = identity("docker", 2, &[("b", "2"), ("c", "1")]);
        let expected = [
            "engine: docker there, native here",
            "attempts: 2 there, 1 here",
            "task `a` is new",
            "task `b` has changed",
            "task `c` is missing",
        ];
        assert_eq!(one.differences(&other), expected);
    }
}
