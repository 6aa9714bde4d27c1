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
    #[error("alias `{old}` points at both `{first}` and `{second}`")]
    Conflict {
        /// The old key.
        old: RepoKey,
        /// The target seen first.
        first: RepoKey,
        /// The other one.
        second: RepoKey,
    },
    /// Following the aliases never ends.
    #[error("the aliases form a circle through `{0}`")]
    Cycle(RepoKey),
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
                    return Err(AliasError::Cycle(old.clone()));
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
        assert!(matches!(AliasTable::new([("a/x", "b/x"), ("b/x", "a/x")]), Err(AliasError::Cycle(_))));
        assert!(matches!(
            AliasTable::new([("a/x", "b/x"), ("a/x", "c/x")]),
            Err(AliasError::Conflict { .. })
        ));
    }
}
