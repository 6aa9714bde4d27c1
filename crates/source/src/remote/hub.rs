//! Dataset repositories of the hub: revisions, trees and files.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::Remote;
use super::answer::{json, next_page};
use super::download::{Expected, Fetched};
use super::error::RemoteError;
use super::http::{Ask, unusable};
use super::hub_cache::HubCache;
use super::identity::{ContentId, RepoFile, checked_path, is_commit};

/// The largest page of a listing in bytes.
const PAGE_LIMIT: u64 = 64 << 20;

/// The most pages of a listing.
const MOST_PAGES: usize = 20_000;

/// The most files of a repository.
const MOST_FILES: usize = 4_000_000;

const JSON: &str = "application/json";

/// A dataset repository.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hub<'r> {
    remote: &'r Remote,
    /// `owner/name`.
    repo: &'r str,
}

#[derive(Deserialize)]
struct Revision {
    sha: String,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "type")]
    kind: String,
    path: String,
    #[serde(default)]
    oid: String,
    #[serde(default)]
    size: u64,
    #[serde(default)]
    lfs: Option<Lfs>,
}

#[derive(Deserialize)]
struct Lfs {
    oid: String,
    size: u64,
}

/// The files of a commit, and whether the list is known to be whole.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// Files by path.
    pub files: BTreeMap<String, RepoFile>,
    /// Set when the list is what a local copy happens to hold.
    pub local: bool,
}

impl<'r> Hub<'r> {
    pub(crate) fn new(remote: &'r Remote, repo: &'r str) -> Self {
        Self { remote, repo }
    }

    /// How messages call the repository at a revision.
    fn named(&self, revision: &str) -> String {
        format!("dataset `{}` at {revision}", self.repo)
    }

    fn cache(&self) -> Option<HubCache> {
        self.remote.settings.hub_cache.as_ref().map(|cache| HubCache::new(cache, self.repo))
    }

    /// The commit that a revision means.
    pub(crate) async fn commit(&self, revision: &str) -> Result<String, RemoteError> {
        if is_commit(revision) {
            return Ok(revision.to_owned());
        }
        let what = self.named(revision);
        if self.remote.settings.offline.is_some()
            && let Some(cache) = self.cache()
            && let Some(commit) = cache.commit(revision)?
        {
            return Ok(commit);
        }
        self.remote.online(|| format!("the commit of {what}"))?;
        let host = &self.remote.settings.hub;
        let parts = ["api", "datasets"].into_iter().chain(self.repo.split('/')).chain(["revision", revision]);
        let url = host.at(parts);
        let ask = Ask { what: &what, host, url: &url, accept: JSON, from: None };
        let (_, body) = self.remote.client()?.get(ask, PAGE_LIMIT).await?;
        let found: Revision = json(ask, &body)?;
        if is_commit(&found.sha) {
            Ok(found.sha)
        } else {
            Err(unusable(ask, "it names no commit".to_owned()))
        }
    }

    /// Every file of a commit. Without network, those that the hub's own cache on this machine holds.
    pub(crate) async fn files(&self, commit: &str) -> Result<Listing, RemoteError> {
        let what = self.named(commit);
        if self.remote.settings.offline.is_some() {
            let held = self.cache().map(|cache| cache.files(commit)).transpose()?.unwrap_or_default();
            if held.is_empty() {
                self.remote.online(|| format!("the list of files of {what}"))?;
            }
            return Ok(Listing { files: held, local: true });
        }
        let host = &self.remote.settings.hub;
        let parts = ["api", "datasets"].into_iter().chain(self.repo.split('/')).chain(["tree", commit]);
        let mut url = host.at(parts);
        url.set_query(Some("recursive=true&expand=false"));
        let mut files = BTreeMap::new();
        for _ in 0..MOST_PAGES {
            let ask = Ask { what: &what, host, url: &url, accept: JSON, from: None };
            let (headers, body) = self.remote.client()?.get(ask, PAGE_LIMIT).await?;
            for entry in json::<Vec<Entry>>(ask, &body)? {
                let Some(file) = entry.file(&what, ask)? else { continue };
                if let Some(other) = files.insert(file.path.clone(), file.clone())
                    && other != file
                {
                    return Err(unusable(ask, format!("it lists {:?} twice", file.path)));
                }
            }
            if files.len() > MOST_FILES {
                return Err(unusable(ask, format!("it lists more than {MOST_FILES} files")));
            }
            match next_page(&headers, &url) {
                None => return Ok(Listing { files, local: false }),
                Some(next) if next == url => return Err(unusable(ask, "its next page is itself".to_owned())),
                Some(next) => url = next,
            }
        }
        let ask = Ask { what: &what, host, url: &url, accept: JSON, from: None };
        Err(unusable(ask, format!("its list has more than {MOST_PAGES} pages")))
    }

    /// Fetches a file of a commit: from the cache, from the hub's own cache on this machine, or from the hub.
    pub(crate) async fn fetch(
        &self,
        commit: &str,
        file: &RepoFile,
        by: &'static str,
    ) -> Result<Fetched, RemoteError> {
        let what = format!("`{}` of {}", file.path, self.named(commit));
        if let Some(cache) = self.cache()
            && let Some(fetched) = cache.verified(&self.remote.store, commit, file).await?
        {
            return Ok(fetched);
        }
        let host = &self.remote.settings.hub;
        let parts = ["datasets"].into_iter().chain(self.repo.split('/')).chain(["resolve", commit]);
        let url = host.at(parts.chain(file.path.split('/')));
        let ask = Ask { what: &what, host, url: &url, accept: "*/*", from: None };
        self.remote.download(ask, Expected { file, by, commit }).await
    }
}

impl Entry {
    /// The entry as a file; none for a directory.
    fn file(self, what: &str, ask: Ask<'_>) -> Result<Option<RepoFile>, RemoteError> {
        checked_path(what, &self.path)?;
        if self.kind != "file" {
            return Ok(None);
        }
        let (oid, size) = self.lfs.map_or((self.oid, self.size), |lfs| (lfs.oid, lfs.size));
        let id = ContentId::parse(oid.trim_start_matches("sha256:"));
        let id = id.ok_or_else(|| unusable(ask, format!("it gives {:?} no content id", self.path)))?;
        Ok(Some(RepoFile { path: self.path, size, id }))
    }
}
