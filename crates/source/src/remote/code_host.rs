//! Files and directories of repositories on the code host, at a commit.

use serde::Deserialize;

use super::Remote;
use super::answer::json;
use super::download::{Expected, Fetched};
use super::error::RemoteError;
use super::http::{Ask, unusable};
use super::identity::{ContentId, RepoFile, checked_path, is_commit};

const ANSWER_LIMIT: u64 = 16 << 20;

/// The kind of answer that is a commit's id alone.
const COMMIT_ID: &str = "application/vnd.github.sha";
/// The kind of answer that describes a file.
const DESCRIPTION: &str = "application/vnd.github.object+json";
/// The kind of answer that lists a directory.
const LISTING: &str = "application/vnd.github+json";
/// The kind of answer that is a file.
const CONTENT: &str = "application/vnd.github.raw+json";

/// A repository on the code host.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CodeHost<'r> {
    remote: &'r Remote,
    /// `owner/name`.
    repo: &'r str,
}

#[derive(Deserialize)]
struct Description {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    sha: String,
    #[serde(default)]
    size: u64,
    /// Where a submodule comes from; old answers call submodules files.
    #[serde(default)]
    submodule_git_url: Option<String>,
    /// Where a link leads.
    #[serde(default)]
    target: Option<String>,
}

#[derive(Deserialize)]
struct Listing {
    tree: Vec<TreeEntry>,
    #[serde(default)]
    truncated: bool,
}

/// What a directory of a commit holds.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct TreeEntry {
    /// The path from the directory.
    pub path: String,
    /// Git's six digits for file, program, link, directory or submodule.
    pub mode: String,
    /// Git's id of it.
    pub sha: String,
    /// Its size in bytes, where it is a file.
    #[serde(default)]
    pub size: u64,
}

impl TreeEntry {
    /// Whether it is a directory.
    pub(crate) fn is_directory(&self) -> bool {
        self.mode == "040000"
    }
}

/// How pointers of Git LFS begin, and the most bytes that one has.
const POINTER: (&[u8], u64) = (b"version https://git-lfs.", 1024);

/// Whether a file only stands for another that Git LFS keeps elsewhere.
fn is_pointer(file: &Fetched) -> std::io::Result<bool> {
    let (beginning, limit) = POINTER;
    Ok(file.size < limit && fs_err::read(&file.path)?.starts_with(beginning))
}

impl<'r> CodeHost<'r> {
    pub(crate) fn new(remote: &'r Remote, repo: &'r str) -> Self {
        Self { remote, repo }
    }

    fn named(&self, revision: &str) -> String {
        format!("repository `{}` at {revision}", self.repo)
    }

    /// The commit that a revision means.
    pub(crate) async fn commit(&self, revision: &str) -> Result<String, RemoteError> {
        if is_commit(revision) {
            return Ok(revision.to_owned());
        }
        let what = self.named(revision);
        self.remote.online(|| format!("the commit of {what}"))?;
        let host = &self.remote.settings.code_host;
        let url = host.at(["repos"].into_iter().chain(self.repo.split('/')).chain(["commits", revision]));
        let ask = Ask { what: &what, host, url: &url, accept: COMMIT_ID, from: None };
        let (_, body) = self.remote.client()?.get(ask, ANSWER_LIMIT).await?;
        let commit = String::from_utf8_lossy(&body).trim().to_owned();
        if is_commit(&commit) { Ok(commit) } else { Err(unusable(ask, "it names no commit".to_owned())) }
    }

    /// What the repository says about a file of a commit.
    pub(crate) async fn file(&self, commit: &str, path: &str) -> Result<RepoFile, RemoteError> {
        let what = format!("`{path}` of {}", self.named(commit));
        self.remote.online(|| what.clone())?;
        let host = &self.remote.settings.code_host;
        let url = self.content_url(commit, path);
        let ask = Ask { what: &what, host, url: &url, accept: DESCRIPTION, from: None };
        let (_, body) = self.remote.client()?.get(ask, ANSWER_LIMIT).await?;
        let found: Description = json(ask, &body)?;
        let kind = match (found.kind.as_str(), found.submodule_git_url, found.target) {
            ("file", None, None) => None,
            ("dir", ..) => Some("a directory"),
            ("symlink", ..) | (_, _, Some(_)) => Some("a link"),
            ("submodule", ..) | (_, Some(_), _) => Some("a submodule"),
            _ => Some("no file"),
        };
        if let Some(kind) = kind {
            return Err(RemoteError::NotAFile { what, kind: kind.to_owned() });
        }
        let id = ContentId::parse(&found.sha);
        let id = id.ok_or_else(|| unusable(ask, "it gives the file no content id".to_owned()))?;
        Ok(RepoFile { path: path.to_owned(), size: found.size, id })
    }

    /// What a directory holds, which `id`, a commit or a tree, stands for; with `deep` at every depth.
    pub(crate) async fn tree(&self, id: &str, deep: bool) -> Result<Vec<TreeEntry>, RemoteError> {
        let what = format!("a directory of {}", self.named(id));
        self.remote.online(|| what.clone())?;
        let host = &self.remote.settings.code_host;
        let parts = ["repos"].into_iter().chain(self.repo.split('/')).chain(["git", "trees", id]);
        let mut url = host.at(parts);
        if deep {
            url.query_pairs_mut().append_pair("recursive", "1");
        }
        let ask = Ask { what: &what, host, url: &url, accept: LISTING, from: None };
        let (_, body) = self.remote.client()?.get(ask, ANSWER_LIMIT).await?;
        let listing: Listing = json(ask, &body)?;
        if listing.truncated {
            return Err(unusable(ask, "it lists only a part of the directory".to_owned()));
        }
        for entry in &listing.tree {
            checked_path(&what, &entry.path)?;
            if !is_commit(&entry.sha) {
                return Err(unusable(ask, format!("it gives {:?} no id", entry.path)));
            }
        }
        Ok(listing.tree)
    }

    /// Fetches a file of a commit.
    pub(crate) async fn fetch(
        &self,
        commit: &str,
        file: &RepoFile,
        by: &'static str,
    ) -> Result<Fetched, RemoteError> {
        let what = format!("`{}` of {}", file.path, self.named(commit));
        let host = &self.remote.settings.code_host;
        let url = self.content_url(commit, &file.path);
        let ask = Ask { what: &what, host, url: &url, accept: CONTENT, from: None };
        let fetched = self.remote.download(ask, Expected { file, by, commit }).await?;
        if is_pointer(&fetched).map_err(|source| RemoteError::Io { path: fetched.path.clone(), source })? {
            let kind = "a pointer of Git LFS, not the content that it stands for".to_owned();
            return Err(RemoteError::NotAFile { what, kind });
        }
        Ok(fetched)
    }

    fn content_url(&self, commit: &str, path: &str) -> reqwest::Url {
        let parts = ["repos"].into_iter().chain(self.repo.split('/')).chain(["contents"]);
        let mut url = self.remote.settings.code_host.at(parts.chain(path.split('/')));
        url.query_pairs_mut().append_pair("ref", commit);
        url
    }
}
