//! Repository keys: `owner/name` in lower case, however the repository was spelled.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::TaskId;

/// A repository as `owner/name` in lower case, before any alias is applied; see [`crate::AliasTable`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RepoKey(String);

/// Why a text names no repository.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RepoKeyError {
    /// The text has no owner and name in any of the known forms.
    #[error(
        "`{0}` names no repository: expected owner/name, a clone URL, or the mirror form swesmith/owner__name.commit"
    )]
    Form(String),
    /// A task id without the parts that hold the repository.
    #[error("task id `{0}` does not begin with owner__name.commit. and so names no repository")]
    TaskId(String),
}

impl RepoKey {
    /// Reads any usual spelling: `Owner/Name`, with `.git` or trailing slashes, `https://host/owner/name`,
    /// `git@host:owner/name.git`, `ssh://git@host/owner/name`, and SWE-smith's mirrors
    /// `swesmith/owner__name.commit8`, as the path of a URL, alone, or without the organisation.
    pub fn parse(text: &str) -> Result<Self, RepoKeyError> {
        let wrong = || RepoKeyError::Form(text.chars().take(120).collect());
        let mut path = text.trim();
        if let Some((scheme, rest)) = path.split_once("://") {
            if scheme.is_empty() || !scheme.chars().all(|c| c.is_ascii_alphanumeric() || c == '+') {
                return Err(wrong());
            }
            path = rest.split_once('/').ok_or_else(wrong)?.1;
        } else if let Some((host, rest)) = path.split_once(':') {
            // The scp-like form has a host before the colon and no slash in it.
            if host.is_empty() || host.contains('/') {
                return Err(wrong());
            }
            path = rest;
        } else if let Some((first, rest)) = path.split_once('/') {
            // A host without a scheme has a dot in it and two more parts behind it.
            if first.contains('.') && rest.trim_end_matches('/').contains('/') {
                path = rest;
            }
        }
        let path = path.split(['?', '#']).next().unwrap_or_default().trim_matches('/');
        let path = path.strip_suffix(".git").unwrap_or(path);
        let Some((owner, name)) = path.split_once('/') else {
            let (owner, name) = unmirror(path).ok_or_else(wrong)?;
            return Self::from_parts(owner, name).ok_or_else(wrong);
        };
        if owner.eq_ignore_ascii_case("swesmith")
            && let Some(mirrored) = unmirror(name)
        {
            return Self::from_parts(mirrored.0, mirrored.1).ok_or_else(wrong);
        }
        Self::from_parts(owner, name).ok_or_else(wrong)
    }

    /// Takes the repository out of a SWE-smith style task id: the last two dot-separated parts are dropped and the first
    /// `__` becomes the slash (names may contain dots).
    pub fn of_task(id: &TaskId) -> Result<Self, RepoKeyError> {
        let wrong = || RepoKeyError::TaskId(id.to_string());
        let (profile, _kind) = id.as_str().rsplit_once('.').ok_or_else(wrong)?;
        let (repo, _commit) = profile.rsplit_once('.').ok_or_else(wrong)?;
        let (owner, name) = repo.split_once("__").ok_or_else(wrong)?;
        Self::from_parts(owner, name).ok_or_else(wrong)
    }

    fn from_parts(owner: &str, name: &str) -> Option<Self> {
        let fine = |part: &str| {
            !part.is_empty()
                && part != "."
                && part != ".."
                && part.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '_'))
        };
        (fine(owner) && fine(name)).then(|| Self(format!("{}/{}", owner.to_lowercase(), name.to_lowercase())))
    }

    /// The key as `owner/name`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Splits `owner__name.commit8` of a mirror's name.
fn unmirror(name: &str) -> Option<(&str, &str)> {
    let (repo, commit) = name.rsplit_once('.')?;
    let hex = commit.len() == 8 && commit.bytes().all(|c| c.is_ascii_hexdigit());
    if hex { repo.split_once("__") } else { None }
}

impl fmt::Display for RepoKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for RepoKey {
    type Error = RepoKeyError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text)
    }
}

impl From<RepoKey> for String {
    fn from(key: RepoKey) -> Self {
        key.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_one_repository_gives_one_key() {
        for text in [
            "acme/widgets",
            "Acme/Widgets",
            "acme/widgets.git",
            "acme/widgets/",
            "https://git.example/Acme/widgets",
            "https://git.example/acme/widgets.git/",
            "ssh://git@git.example/acme/widgets.git",
            "git@git.example:acme/widgets.git",
            "git.example/acme/widgets",
            "swesmith/acme__widgets.0123abcd",
            "acme__widgets.0123abcd",
            "https://git.example/swesmith/Acme__widgets.0123abcd",
        ] {
            assert_eq!(RepoKey::parse(text).unwrap().as_str(), "acme/widgets", "{text}");
        }
    }

    #[test]
    fn names_with_dots_keep_them() {
        let id = TaskId::new("pdfminer__pdfminer.six.1a8bd2f7.pr_12").unwrap();
        assert_eq!(RepoKey::of_task(&id).unwrap().as_str(), "pdfminer/pdfminer.six");
        let id = TaskId::new("Owner__na__me.1a8bd2f7.lm_rewrite__abcdefgh").unwrap();
        assert_eq!(RepoKey::of_task(&id).unwrap().as_str(), "owner/na__me");
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "widgets",
            "acme__widgets",
            "/",
            "a//b",
            "a/b/c/d",
            "../x",
            "acme/",
            "acme/wid gets",
            "://x/y",
        ] {
            assert!(RepoKey::parse(text).is_err(), "{text}");
        }
        for id in ["tiny-add", "a__b", "a__b.kind", "__x.01234567.pr_1"] {
            assert!(RepoKey::of_task(&TaskId::new(id).unwrap()).is_err(), "{id}");
        }
    }
}
