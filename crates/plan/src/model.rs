//! Model names as published, and the families that the rules count.

use std::collections::BTreeMap;
use std::fmt;

/// A family of models that success evidence is counted for; the order is the order of preference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ModelFamily {
    /// `gpt-4o`.
    Gpt4o,
    /// `claude-3.5`.
    Claude35,
    /// `claude-3.7`.
    Claude37,
}

impl ModelFamily {
    /// All families in order of preference.
    pub const ALL: [Self; 3] = [Self::Gpt4o, Self::Claude35, Self::Claude37];

    /// The family's name in recipes and documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gpt4o => "gpt-4o",
            Self::Claude35 => "claude-3.5",
            Self::Claude37 => "claude-3.7",
        }
    }
}

impl fmt::Display for ModelFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Prefixes of model names and what they stand for. The longest prefix that fits decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelTable(BTreeMap<String, Mapping>);

/// What a model name is mapped to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mapping {
    /// Success counts for this family.
    Family(ModelFamily),
    /// The rows are left out.
    Ignore,
}

/// Why a list of prefixes is no table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelTableError {
    /// The right side is no family.
    #[error(
        "model prefix `{prefix}` points at `{family}`; known are gpt-4o, claude-3.5, claude-3.7 and ignore"
    )]
    UnknownFamily {
        /// The prefix.
        prefix: String,
        /// What it points at.
        family: String,
    },
    /// Two spellings of one prefix disagree.
    #[error("model prefix `{0}` is mapped twice; keep one line")]
    Twice(String),
}

impl ModelTable {
    /// Builds the table from pairs of a prefix and a family's name or `ignore`; a `*` at the end of a prefix means
    /// the same as none.
    pub fn new<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, ModelTableError> {
        let mut table = BTreeMap::new();
        for (prefix, name) in pairs {
            let family = ModelFamily::ALL.into_iter().find(|family| family.name() == name);
            let mapping = match family {
                Some(family) => Mapping::Family(family),
                None if name == "ignore" => Mapping::Ignore,
                None => {
                    return Err(ModelTableError::UnknownFamily {
                        prefix: prefix.into(),
                        family: name.into(),
                    });
                }
            };
            let key = prefix.strip_suffix('*').unwrap_or(prefix);
            if table.insert(key.to_owned(), mapping).is_some_and(|earlier| earlier != mapping) {
                return Err(ModelTableError::Twice(key.to_owned()));
            }
        }
        Ok(Self(table))
    }

    /// What `model` stands for, if any prefix fits.
    pub(crate) fn map(&self, model: &str) -> Option<Mapping> {
        let fitting = self.0.iter().filter(|(prefix, _)| model.starts_with(prefix.as_str()));
        fitting.max_by_key(|(prefix, _)| prefix.len()).map(|(_, mapping)| *mapping)
    }
}

impl Default for ModelTable {
    /// The prefixes of the models behind the published trajectories.
    fn default() -> Self {
        let pairs = [
            ("gpt-4o", ModelFamily::Gpt4o),
            ("claude-3-5", ModelFamily::Claude35),
            ("claude-3.5", ModelFamily::Claude35),
            ("claude-3-7", ModelFamily::Claude37),
            ("claude-3.7", ModelFamily::Claude37),
        ];
        Self(pairs.into_iter().map(|(prefix, family)| (prefix.into(), Mapping::Family(family))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_decides() {
        let table =
            ModelTable::new([("claude-", "ignore"), ("claude-3-7*", "claude-3.7"), ("gpt-4o", "gpt-4o")])
                .unwrap();
        assert_eq!(table.map("claude-3-7-sonnet-20250219"), Some(Mapping::Family(ModelFamily::Claude37)));
        assert_eq!(table.map("claude-2"), Some(Mapping::Ignore));
        assert_eq!(table.map("gpt-4o"), Some(Mapping::Family(ModelFamily::Gpt4o)));
        assert_eq!(table.map("gpt-4"), None);
        assert_eq!(
            ModelTable::default().map("claude-3.5-sonnet"),
            Some(Mapping::Family(ModelFamily::Claude35))
        );
    }

    #[test]
    fn unknown_families_and_contradictions_are_refused() {
        assert!(matches!(ModelTable::new([("a", "gpt-5")]), Err(ModelTableError::UnknownFamily { .. })));
        assert!(matches!(
            ModelTable::new([("a", "ignore"), ("a*", "gpt-4o")]),
            Err(ModelTableError::Twice(_))
        ));
    }
}
