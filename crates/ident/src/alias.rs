//! Renames, forks and mirrors: which repository a key stands for today.

use std::collections::BTreeMap;

use crate::{RepoKey, RepoKeyError};

/// Old repository keys and the keys that replace them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AliasTable(BTreeMap<RepoKey, RepoKey>);

/// Why a list of aliases is no table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AliasError {
    /// One side names no repository.
    #[error(transparent)]
    Repo(#[from] RepoKeyError),
    /// One old name with two new ones.
    #[error("alias `{old}` points at both `{first}` and `{second}`; keep one of them")]
    Conflict {
        /// The old key.
        old: RepoKey,
        /// The target seen first.
        first: RepoKey,
        /// The other one.
        second: RepoKey,
    },
    /// Following the aliases never ends.
    #[error("the aliases form a circle, {}; remove one of them", circle(.0))]
    Cycle(Vec<RepoKey>),
}

impl AliasTable {
    /// Builds the table from pairs of old and new spellings; chains are followed once and for all.
    pub fn new<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, AliasError> {
        let mut direct: BTreeMap<RepoKey, RepoKey> = BTreeMap::new();
        for (old, new) in pairs {
            let (old, new) = (RepoKey::parse(old)?, RepoKey::parse(new)?);
            if old == new {
                continue;
            }
            match direct.get(&old) {
                Some(first) if *first != new => {
                    return Err(AliasError::Conflict { first: first.clone(), old, second: new });
                }
                _ => direct.insert(old, new),
            };
        }
        let mut resolved = BTreeMap::new();
        for old in direct.keys() {
            let mut end = old;
            let mut steps = 0;
            while let Some(next) = direct.get(end) {
                end = next;
                steps += 1;
                if steps > direct.len() {
                    // By now the walk has long been inside the circle.
                    return Err(AliasError::Cycle(circle_through(&direct, end)));
                }
            }
            resolved.insert(old.clone(), end.clone());
        }
        Ok(Self(resolved))
    }

    /// The key that `key` stands for today.
    pub fn canonical(&self, key: RepoKey) -> RepoKey {
        self.0.get(&key).cloned().unwrap_or(key)
    }
}

/// The keys of a circle, the smallest first.
fn circle_through(direct: &BTreeMap<RepoKey, RepoKey>, inside: &RepoKey) -> Vec<RepoKey> {
    let next = |key: &RepoKey| direct.get(key).cloned();
    let mut keys: Vec<RepoKey> =
        std::iter::successors(next(inside), |key| next(key).filter(|_| key != inside)).collect();
    let first = keys.iter().enumerate().min_by_key(|(_, key)| *key).map_or(0, |(at, _)| at);
    keys.rotate_left(first);
    keys
}

/// Shows a circle once around.
fn circle(keys: &[RepoKey]) -> String {
    let around = keys.iter().chain(keys.first());
    around.map(|key| format!("`{key}`")).collect::<Vec<_>>().join(" -> ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_are_followed() {
        let table = AliasTable::new([("a/x", "b/x"), ("B/x.git", "c/x")]).unwrap();
        assert_eq!(table.canonical(RepoKey::parse("A/X").unwrap()).as_str(), "c/x");
        assert_eq!(table.canonical(RepoKey::parse("d/x").unwrap()).as_str(), "d/x");
    }

    #[test]
    fn circles_and_contradictions_are_refused() {
        // What leads into a circle is no part of it.
        let circle =
            AliasTable::new([("a/x", "d/x"), ("d/x", "c/x"), ("c/x", "b/x"), ("b/x", "d/x")]).unwrap_err();
        assert_eq!(
            circle.to_string(),
            "the aliases form a circle, `b/x` -> `d/x` -> `c/x` -> `b/x`; remove one of them"
        );
        assert!(matches!(
            AliasTable::new([("a/x", "b/x"), ("a/x", "c/x")]),
            Err(AliasError::Conflict { .. })
        ));
    }
}
