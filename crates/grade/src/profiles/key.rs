//! Which repository at which commit: the spellings under which collections name one profile.

use std::fmt;

use ident::RepoKey;

/// Shortest commit that is taken as one, in hexadecimal digits.
const SHORTEST_COMMIT: usize = 7;

/// A repository and the beginning of a commit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProfileKey {
    /// The repository, not the mirror of it.
    pub repository: RepoKey,
    /// Lower-case hexadecimal digits, 7 to 40.
    pub commit: String,
}

/// A text that names no repository at a commit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileKeyError {
    /// No repository is in it.
    #[error(
        "{0:?} names no repository; write owner/name@commit, owner__name.commit8, or the name of a mirror or image"
    )]
    Repository(String),
    /// A repository, but no commit.
    #[error("{0:?} names no commit; write owner/name@commit with 7 to 40 hexadecimal digits")]
    Commit(String),
}

impl ProfileKey {
    /// Reads any spelling of a repository at a commit:
    ///
    /// - `owner/name@commit`, `https://host/owner/name/tree/commit`, `.../commit/commit`
    /// - `owner__name.commit8`, with `swesmith/` or the address of a mirror in front
    /// - an instance's id, `owner__name.commit8.kind`
    /// - an image's name of any era: `swesmith.x86_64.owner__name.commit8`,
    ///   `organisation/swesmith.x86_64.owner_1776_name.commit8:tag`
    ///
    /// # Errors
    /// [`ProfileKeyError`] says which half is missing.
    pub fn parse(text: &str) -> Result<Self, ProfileKeyError> {
        let quoted = || text.chars().take(120).collect::<String>();
        let trimmed = text.trim().trim_end_matches('/');
        let trimmed = trimmed.strip_suffix(".git").unwrap_or(trimmed);
        for between in ["/tree/", "/commit/", "@"] {
            if let Some((repository, commit)) = trimmed.rsplit_once(between)
                && is_commit(commit)
            {
                let repository =
                    RepoKey::parse(repository).map_err(|_| ProfileKeyError::Repository(quoted()))?;
                return Ok(Self { repository, commit: commit.to_ascii_lowercase() });
            }
        }
        let last = trimmed.rsplit(['/', ':']).next().unwrap_or_default();
        // An image's tag or digest stands behind its name.
        let name = image_name(trimmed).unwrap_or_else(|| last.to_owned());
        let Some((repository, commit)) = repository_and_commit(&name) else {
            let before = trimmed.rsplit_once('@').map_or(trimmed, |(before, _)| before);
            let is_named = [trimmed, before].into_iter().any(|text| RepoKey::parse(text).is_ok());
            let missing = if is_named { ProfileKeyError::Commit } else { ProfileKeyError::Repository };
            return Err(missing(quoted()));
        };
        let repository = RepoKey::parse(&repository.replacen("__", "/", 1))
            .map_err(|_| ProfileKeyError::Repository(quoted()))?;
        Ok(Self { repository, commit: commit.to_ascii_lowercase() })
    }

    /// Says whether two commits can be the same: one is the beginning of the other.
    pub(super) fn is_commit(&self, commit: &str) -> bool {
        let shared = self.commit.len().min(commit.len());
        self.commit.as_bytes()[..shared].eq_ignore_ascii_case(&commit.as_bytes()[..shared])
    }
}

impl fmt::Display for ProfileKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}@{}", self.repository, self.commit)
    }
}

/// Takes `owner__name.commit8` out of an image's name.
fn image_name(text: &str) -> Option<String> {
    let text = text.split('@').next().unwrap_or_default();
    let last = text.rsplit('/').next().unwrap_or_default();
    let name = last.split(':').next().unwrap_or_default();
    let rest = name.strip_prefix("swesmith.")?;
    let (_architecture, rest) = rest.split_once('.')?;
    Some(rest.replacen("_1776_", "__", 1))
}

/// Splits `owner__name.commit8` and `owner__name.commit8.kind`.
fn repository_and_commit(name: &str) -> Option<(&str, &str)> {
    let (before, last) = name.rsplit_once('.')?;
    let (repository, commit) = if is_commit(last) { (before, last) } else { before.rsplit_once('.')? };
    (repository.contains("__") && is_commit(commit)).then_some((repository, commit))
}

fn is_commit(text: &str) -> bool {
    (SHORTEST_COMMIT..=40).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_leads_to_the_same_key() {
        for text in [
            "pdfminer/pdfminer.six@1a8bd2f7",
            "pdfminer__pdfminer.six.1a8bd2f7",
            "swesmith/pdfminer__pdfminer.six.1a8bd2f7",
            "https://example.test/swesmith/pdfminer__pdfminer.six.1a8bd2f7.git",
            "git@example.test:swesmith/pdfminer__pdfminer.six.1a8bd2f7.git",
            "https://example.test/pdfminer/pdfminer.six/tree/1a8bd2f7",
            "https://example.test/pdfminer/pdfminer.six/commit/1A8BD2F7/",
            "pdfminer__pdfminer.six.1a8bd2f7.lm_rewrite__abcdefgh",
            "PDFMiner__pdfminer.six.1a8bd2f7.pr_12",
            "swesmith.x86_64.pdfminer__pdfminer.six.1a8bd2f7",
            "org/swesmith.arm64.pdfminer_1776_pdfminer.six.1a8bd2f7:latest",
            "host.test:5000/org/swesmith.x86_64.pdfminer_1776_pdfminer.six.1a8bd2f7@sha256:00ff00ff",
        ] {
            let key = ProfileKey::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(key.to_string(), "pdfminer/pdfminer.six@1a8bd2f7", "{text}");
        }
    }

    #[test]
    fn what_is_missing_is_said() {
        for text in ["owner/name", "owner/name@main", "https://example.test/owner/name"] {
            assert!(matches!(ProfileKey::parse(text), Err(ProfileKeyError::Commit(_))), "{text}");
        }
        for text in ["", "name", "name.1a8bd2f7", "a/b/c/d", "../x@1a8bd2f7", "__.1a8bd2f7"] {
            assert!(matches!(ProfileKey::parse(text), Err(ProfileKeyError::Repository(_))), "{text}");
        }
    }
}
