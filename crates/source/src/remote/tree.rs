//! All wanted files of a dataset repository, brought into a directory.

use std::collections::BTreeMap;
use std::path::Path;

use fs_err as fs;
use futures_util::{StreamExt, TryStreamExt, stream};

use super::Remote;
use super::error::RemoteError;
use super::hub::Hub;
use super::identity::{RepoFile, checked_path};

/// How many files are fetched at once.
const CONCURRENCY: usize = 8;

/// The files of a dataset repository at one commit.
#[derive(Debug)]
pub struct RepoTree<'r> {
    remote: &'r Remote,
    repo: &'r str,
    /// The commit.
    pub commit: String,
    files: BTreeMap<String, RepoFile>,
}

impl Remote {
    /// Lists the files of a dataset repository at what a revision means now.
    pub async fn tree<'r>(&'r self, repo: &'r str, revision: &str) -> Result<RepoTree<'r>, RemoteError> {
        let hub = Hub::new(self, repo);
        let commit = hub.commit(revision).await?;
        let files = hub.files(&commit).await?.files;
        Ok(RepoTree { remote: self, repo, commit, files })
    }
}

impl RepoTree<'_> {
    /// Whether there is a file of this path.
    pub fn has(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    /// Brings files into a directory under the paths that they have in the repository.
    pub async fn fetch(&self, paths: &[String], into: &Path) -> Result<(), RemoteError> {
        let hub = Hub::new(self.remote, self.repo);
        let what = format!("dataset `{}`", self.repo);
        let one = async |path: &String| {
            checked_path(&what, path)?;
            let file = self.files.get(path).ok_or_else(|| RemoteError::Missing {
                what: format!("`{path}` of {what} at {}", self.commit),
                said: String::new(),
            })?;
            let fetched = hub.fetch(&self.commit, file, "repository").await?;
            let to = into.join(path);
            let failed = |source| RemoteError::Io { path: to.clone(), source };
            if let Some(parent) = to.parent() {
                fs::create_dir_all(parent).map_err(failed)?;
            }
            fs::copy(&fetched.path, &to).map(drop).map_err(failed)
        };
        stream::iter(paths).map(one).buffer_unordered(CONCURRENCY).try_collect().await
    }
}
