//! Bringing files to a dataset repository of the hub, in one commit.
//!
//! As the hub's own client does it: the hub says of each file whether it belongs into Git or into its store of large files; large ones
//! are sent there, whole or in parts, unless they are there already; then one request makes the commit. What the repository has already
//! is not sent, so a push that was cut goes on where it stopped.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fs_err as fs;
use futures_util::{StreamExt, TryStreamExt, stream};
use ident::Digest;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Body, Method, Url};
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::{json as read_json, text};
use super::error::RemoteError;
use super::http::{Ask, Outgoing, unusable};
use super::hub::Hub;
use super::identity::{ContentId, Measured, RepoFile, checked_path, measure};
use super::{Remote, is_commit};

const JSON: &str = "application/json";
const LFS_JSON: &str = "application/vnd.git-lfs+json";
/// The longest answer to anything that is sent.
const ANSWER_LIMIT: u64 = 64 << 20;
/// Files in one question about where they belong, as many as the hub's own client puts there.
const QUESTION: usize = 256;
/// Large files that are sent at once.
const CONCURRENCY: usize = 4;
/// Bytes of a file that the hub looks at to tell text from other content.
const SAMPLE: u64 = 512;
/// What the hub itself puts into every repository.
const OF_THE_HUB: &str = ".gitattributes";

/// What is brought where.
#[derive(Debug, Clone, Copy)]
pub struct Push<'p> {
    /// `owner/name`.
    pub repo: &'p str,
    /// The branch.
    pub branch: &'p str,
    /// Whether a repository that does not exist yet is open to everybody.
    pub public: bool,
    /// The first line of the commit's message.
    pub message: &'p str,
    /// Files by their path in the repository. They are all that it holds afterwards.
    pub files: &'p BTreeMap<String, PathBuf>,
}

/// What became of a push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pushed {
    /// The commit that holds the files.
    pub commit: String,
    /// Files that were added or changed.
    pub changed: usize,
    /// Files that were removed.
    pub removed: usize,
    /// Files that went to the store of large files now.
    pub stored: usize,
}

/// What a repository lacks and what it has too much of.
struct Missing<'p> {
    changed: BTreeMap<&'p str, &'p Local>,
    removed: BTreeSet<String>,
}

/// A file here.
#[derive(Debug)]
struct Local {
    path: PathBuf,
    measured: Measured,
}

#[derive(Deserialize)]
struct Modes {
    files: Vec<Mode>,
}

#[derive(Deserialize)]
struct Mode {
    path: String,
    /// `lfs` or `regular`.
    #[serde(rename = "uploadMode")]
    place: String,
    #[serde(rename = "shouldIgnore", default)]
    ignored: bool,
}

#[derive(Deserialize)]
struct Batch {
    objects: Vec<Object>,
}

#[derive(Deserialize)]
struct Object {
    oid: String,
    #[serde(default)]
    actions: Option<Actions>,
    #[serde(default)]
    error: Option<ObjectError>,
}

#[derive(Deserialize)]
struct ObjectError {
    #[serde(default)]
    message: String,
}

#[derive(Deserialize)]
struct Actions {
    #[serde(default)]
    upload: Option<Action>,
    #[serde(default)]
    verify: Option<Action>,
}

#[derive(Deserialize)]
struct Action {
    href: String,
    #[serde(default)]
    header: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Committed {
    commit_oid: String,
}

impl Remote {
    /// Brings files to a dataset repository in one commit, and makes the repository where there is none.
    pub async fn push(&self, push: Push<'_>) -> Result<Pushed, RemoteError> {
        let what = format!("dataset `{}`", push.repo);
        self.online(|| what.clone())?;
        let host = &self.settings.hub;
        if host.token.is_none() {
            return Err(RemoteError::NoToken { what, name: host.token_name });
        }
        let pushing = Pushing { remote: self, push, what };
        let files = pushing.measure().await?;
        let parent = pushing.parent().await?;
        let missing = pushing.missing(&files, &parent).await?;
        if missing.changed.is_empty() && missing.removed.is_empty() {
            return Ok(Pushed { commit: parent, changed: 0, removed: 0, stored: 0 });
        }
        let large = pushing.large(&missing).await?;
        let stored = pushing.store(&missing, &large).await?;
        let commit = pushing.commit(&files, &missing, &large, &parent).await?;
        Ok(Pushed { commit, changed: missing.changed.len(), removed: missing.removed.len(), stored })
    }
}

/// One push on its way.
struct Pushing<'p> {
    remote: &'p Remote,
    push: Push<'p>,
    /// What messages call it.
    what: String,
}

impl Pushing<'_> {
    /// Hashes all files.
    async fn measure(&self) -> Result<BTreeMap<String, Local>, RemoteError> {
        let mut wanted = Vec::new();
        for (path, file) in self.push.files {
            checked_path(&self.what, path)?;
            wanted.push((path.clone(), file.clone()));
        }
        let measured = tokio::task::spawn_blocking(move || {
            let local = |(name, path): (String, PathBuf)| match measure(&path) {
                Ok(measured) => Ok((name, Local { path, measured })),
                Err(source) => Err(RemoteError::Io { path, source }),
            };
            wanted.into_iter().map(local).collect::<Result<BTreeMap<_, _>, _>>()
        });
        measured
            .await
            .map_err(|error| RemoteError::Worker { what: self.what.clone(), detail: error.to_string() })?
    }

    /// The commit that the branch is at; the repository is made where there is none.
    async fn parent(&self) -> Result<String, RemoteError> {
        let hub = Hub::new(self.remote, self.push.repo);
        match hub.commit(self.push.branch).await {
            Err(RemoteError::Missing { .. } | RemoteError::Denied { status: 401, .. }) => {}
            found => return found,
        }
        let host = &self.remote.settings.hub;
        let (owner, name) = self.push.repo.split_once('/').unwrap_or(("", self.push.repo));
        let body = json!({
            "type": "dataset",
            "organization": owner,
            "name": name,
            "private": !self.push.public,
        });
        let url = host.at(["api", "repos", "create"]);
        match self.post(&url, JSON, &body).await {
            // It is there already: the branch is what is missing.
            Ok(_) | Err(RemoteError::Refused { status: 409, .. }) => hub.commit(self.push.branch).await,
            Err(error) => Err(error),
        }
    }

    /// Holds what is here against what a commit has.
    async fn missing<'f>(
        &self,
        files: &'f BTreeMap<String, Local>,
        commit: &str,
    ) -> Result<Missing<'f>, RemoteError> {
        let there = Hub::new(self.remote, self.push.repo).files(commit).await?.files;
        let is_same = |local: &Local, there: &RepoFile| {
            local.measured.size == there.size
                && match &there.id {
                    ContentId::Sha256(digest) => *digest == local.measured.sha256,
                    ContentId::Git(id) => *id == local.measured.git,
                }
        };
        let differs = |(path, local): &(&String, &Local)| {
            !there.get(path.as_str()).is_some_and(|there| is_same(local, there))
        };
        Ok(Missing {
            changed: files.iter().filter(differs).map(|(path, local)| (path.as_str(), local)).collect(),
            removed: there
                .into_keys()
                .filter(|path| path != OF_THE_HUB && !files.contains_key(path))
                .collect(),
        })
    }

    /// Asks which of the files belong into the store of large files.
    async fn large<'f>(&self, missing: &Missing<'f>) -> Result<BTreeSet<&'f str>, RemoteError> {
        let host = &self.remote.settings.hub;
        let url = host.at(self.path(&["preupload", self.push.branch]));
        let mut large = BTreeSet::new();
        let changed: Vec<_> = missing.changed.iter().collect();
        for chunk in changed.chunks(QUESTION) {
            let mut files = Vec::new();
            for (path, local) in chunk {
                let sample = sample(&local.path)?;
                files.push(json!({ "path": path, "sample": sample, "size": local.measured.size }));
            }
            let body = self.post(&url, JSON, &json!({ "files": files })).await?;
            let modes: Modes = read_json(self.ask(&url), &body)?;
            let modes: BTreeMap<_, _> = modes.files.iter().map(|mode| (mode.path.as_str(), mode)).collect();
            for (path, local) in chunk {
                let wrong = |detail: &str| unusable(self.ask(&url), format!("of {path:?} it says {detail}"));
                match modes.get(**path) {
                    Some(mode) if mode.ignored => {
                        return Err(wrong("that the repository's .gitignore leaves it out; remove that"));
                    }
                    // The store takes no empty files.
                    Some(mode) if mode.place == "lfs" && local.measured.size > 0 => {
                        large.insert(**path);
                    }
                    Some(mode) if matches!(mode.place.as_str(), "lfs" | "regular") => {}
                    _ => return Err(wrong("nothing that is known")),
                }
            }
        }
        Ok(large)
    }

    /// Sends large files that are not in the store yet, and says how many those were.
    async fn store(&self, missing: &Missing<'_>, large: &BTreeSet<&str>) -> Result<usize, RemoteError> {
        let host = &self.remote.settings.hub;
        let git = format!("{}.git", self.push.repo);
        let parts = ["datasets"].into_iter().chain(git.split('/')).chain(["info", "lfs", "objects", "batch"]);
        let url = host.at(parts);
        // The same content is sent once, under however many names.
        let objects: BTreeMap<Digest, &Local> = large
            .iter()
            .filter_map(|path| missing.changed.get(path))
            .map(|local| (local.measured.sha256, *local))
            .collect();
        let mut stored = 0;
        let all: Vec<_> = objects.iter().collect();
        for chunk in all.chunks(QUESTION) {
            let wanted: Vec<_> = chunk
                .iter()
                .map(|(digest, local)| json!({ "oid": digest, "size": local.measured.size }))
                .collect();
            let body = json!({
                "operation": "upload",
                "transfers": ["basic", "multipart"],
                "objects": wanted,
                "hash_algo": "sha256",
                "ref": { "name": self.push.branch },
            });
            let answer = self.post(&url, LFS_JSON, &body).await?;
            let batch: Batch = read_json(self.ask(&url), &answer)?;
            let mut sending = Vec::new();
            for object in batch.objects {
                let known = Digest::parse(&object.oid).ok().and_then(|digest| objects.get(&digest));
                let unknown = || unusable(self.ask(&url), "it names a file that was not asked about".into());
                let local = *known.ok_or_else(unknown)?;
                if let Some(error) = object.error {
                    let detail = format!("it refuses {}: {}", local.path.display(), error.message);
                    return Err(unusable(self.ask(&url), self.remote.settings.hub.scrubbed(&detail)));
                }
                if let Some(actions) = object.actions {
                    sending.push((local, actions));
                }
            }
            let sent: Vec<bool> = stream::iter(sending)
                .map(|(local, actions)| self.send(local, actions))
                .buffer_unordered(CONCURRENCY)
                .try_collect()
                .await?;
            stored += sent.into_iter().filter(|sent| *sent).count();
        }
        Ok(stored)
    }

    /// Sends one large file as the store wants it; false when it wants nothing.
    async fn send(&self, local: &Local, actions: Actions) -> Result<bool, RemoteError> {
        let Some(upload) = actions.upload else { return Ok(false) };
        let url = self.place(&upload.href)?;
        let size = local.measured.size;
        match upload.header.get("chunk_size") {
            None => {
                self.put(&url, local, 0..size).await?;
            }
            Some(chunk) => {
                let chunk = chunk.as_u64().or_else(|| chunk.as_str()?.parse().ok()).filter(|size| *size > 0);
                let parts: BTreeMap<u64, &str> = upload
                    .header
                    .iter()
                    .filter_map(|(number, address)| Some((number.parse().ok()?, address.as_str()?)))
                    .collect();
                let chunk = chunk.filter(|chunk| size.div_ceil(*chunk) == parts.len() as u64);
                let chunk = chunk.ok_or_else(|| {
                    unusable(self.ask(&url), "its parts do not make up the file".to_owned())
                })?;
                let mut tags = Vec::new();
                for (n, address) in (0_u64..).zip(parts.values()) {
                    let range = n * chunk..((n + 1) * chunk).min(size);
                    let headers = self.put(&self.place(address)?, local, range).await?;
                    let tag = text(&headers, "etag").filter(|tag| !tag.is_empty());
                    let tag = tag
                        .ok_or_else(|| unusable(self.ask(&url), format!("it gives part {} no tag", n + 1)))?;
                    tags.push(json!({ "partNumber": n + 1, "etag": tag }));
                }
                self.post(&url, LFS_JSON, &json!({ "oid": local.measured.sha256, "parts": tags })).await?;
            }
        }
        if let Some(verify) = actions.verify {
            let body = json!({ "oid": local.measured.sha256, "size": size });
            self.post(&self.place(&verify.href)?, LFS_JSON, &body).await?;
        }
        Ok(true)
    }

    /// Puts a part of a file to an address of the store.
    async fn put(
        &self,
        url: &Url,
        local: &Local,
        range: std::ops::Range<u64>,
    ) -> Result<HeaderMap, RemoteError> {
        let ask = self.ask(url);
        let client = self.remote.client()?;
        let mut count = self.remote.transfers().begin(range.end - range.start);
        let attempt = async || {
            let failed = |source| RemoteError::Io { path: local.path.clone(), source };
            let mut file = fs::File::open(&local.path).map_err(failed)?;
            file.seek(SeekFrom::Start(range.start)).map_err(failed)?;
            let pieces = pieces(file.take(range.end - range.start));
            let mut headers = HeaderMap::new();
            headers.insert(reqwest::header::CONTENT_LENGTH, HeaderValue::from(range.end - range.start));
            let outgoing = Outgoing { method: Method::PUT, headers, body: Body::wrap_stream(pieces) };
            Ok(client.submit(ask, outgoing).await?.headers().clone())
        };
        let headers = client.retrying(ask, attempt).await.map_err(|error| self.writing(error))?;
        count.is_at(range.end - range.start);
        Ok(headers)
    }

    /// Makes the commit.
    async fn commit(
        &self,
        files: &BTreeMap<String, Local>,
        missing: &Missing<'_>,
        large: &BTreeSet<&str>,
        parent: &str,
    ) -> Result<String, RemoteError> {
        let host = &self.remote.settings.hub;
        let client = self.remote.client()?;
        let url = host.at(self.path(&["commit", self.push.branch]));
        let ask = self.ask(&url);
        let attempt = async || {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
            let lines = self.lines(missing, large, parent);
            let outgoing =
                Outgoing { method: Method::POST, headers, body: Body::wrap_stream(stream::iter(lines)) };
            match client.submit(ask, outgoing).await {
                Ok(response) => {
                    let body = client.body(ask, response, ANSWER_LIMIT).await?;
                    let committed: Committed = read_json(ask, &body)?;
                    Ok(committed.commit_oid)
                }
                // The answer may have been lost after the commit was made.
                Err(failure) => match self.made(files).await? {
                    Some(commit) => Ok(commit),
                    None => Err(failure),
                },
            }
        };
        let commit = client.retrying(ask, attempt).await.map_err(|error| self.writing(error))?;
        if is_commit(&commit) { Ok(commit) } else { Err(unusable(ask, "it names no commit".to_owned())) }
    }

    /// The commit of the branch, when it has all files.
    async fn made(&self, files: &BTreeMap<String, Local>) -> Result<Option<String>, RemoteError> {
        let hub = Hub::new(self.remote, self.push.repo);
        let commit = hub.commit(self.push.branch).await?;
        let missing = self.missing(files, &commit).await?;
        Ok((missing.changed.is_empty() && missing.removed.is_empty()).then_some(commit))
    }

    /// The lines of a commit: a head, then what changes. Files are read as their lines are wanted, one at a time.
    fn lines(
        &self,
        missing: &Missing<'_>,
        large: &BTreeSet<&str>,
        parent: &str,
    ) -> impl Iterator<Item = std::io::Result<Vec<u8>>> + Send + 'static {
        let head = json!({
            "key": "header",
            "value": { "summary": self.push.message, "description": "", "parentCommit": parent },
        });
        let mut operations = Vec::new();
        for (path, local) in &missing.changed {
            operations.push(if large.contains(path) {
                Operation::Large((*path).to_owned(), local.measured.sha256, local.measured.size)
            } else {
                Operation::Small((*path).to_owned(), local.path.clone(), local.measured.sha256)
            });
        }
        operations.extend(missing.removed.iter().cloned().map(Operation::Removed));
        let lines = operations.into_iter().map(Operation::line);
        std::iter::once(Ok(head)).chain(lines).map(|line| {
            line.map(|line| {
                let mut line = line.to_string().into_bytes();
                line.push(b'\n');
                line
            })
        })
    }

    /// Sends JSON to the hub and reads the answer.
    async fn post(&self, url: &Url, kind: &'static str, body: &Value) -> Result<Vec<u8>, RemoteError> {
        let ask = self.ask(url);
        let client = self.remote.client()?;
        let attempt = async || {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
            let outgoing = Outgoing { method: Method::POST, headers, body: Body::from(body.to_string()) };
            let response = client.submit(Ask { accept: kind, ..ask }, outgoing).await?;
            client.body(ask, response, ANSWER_LIMIT).await
        };
        client.retrying(ask, attempt).await.map_err(|error| self.writing(error))
    }

    /// An address that the hub sends large files to: as safe as the hub's own, and on this machine only when the hub is.
    fn place(&self, address: &str) -> Result<Url, RemoteError> {
        let host = &self.remote.settings.hub;
        let refused = |detail: &str| RemoteError::Redirect {
            what: self.what.clone(),
            url: host.shown(),
            detail: detail.to_owned(),
        };
        let url = Url::parse(address).map_err(|_| refused("sends large files to no address"))?;
        super::http::may_follow(&host.url, &url, &host.url).map_err(refused)?;
        Ok(url)
    }

    fn path<'a>(&'a self, rest: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
        ["api", "datasets"].into_iter().chain(self.push.repo.split('/')).chain(rest.iter().copied())
    }

    fn ask<'a>(&'a self, url: &'a Url) -> Ask<'a> {
        Ask { what: &self.what, host: &self.remote.settings.hub, url, accept: JSON, from: None }
    }

    /// What a refusal means for somebody who writes.
    fn writing(&self, error: RemoteError) -> RemoteError {
        match error {
            RemoteError::Denied { what, status, .. } => {
                let name = self.remote.settings.hub.token_name;
                let remedy = format!("the token in {name} may not write to it");
                RemoteError::Denied { what, status, remedy }
            }
            RemoteError::Refused { what, status: 412, .. } => RemoteError::Moved { what },
            error => error,
        }
    }
}

/// One line of a commit.
enum Operation {
    Small(String, PathBuf, Digest),
    Large(String, Digest, u64),
    Removed(String),
}

impl Operation {
    fn line(self) -> std::io::Result<Value> {
        Ok(match self {
            Self::Small(path, from, digest) => {
                let content = fs::read(&from)?;
                if Digest::of(&content) != digest {
                    let detail = format!("{} was changed while it was pushed", from.display());
                    return Err(std::io::Error::other(detail));
                }
                let value =
                    json!({ "path": path, "encoding": "base64", "content": STANDARD.encode(content) });
                json!({ "key": "file", "value": value })
            }
            Self::Large(path, oid, size) => {
                json!({ "key": "lfsFile", "value": { "path": path, "algo": "sha256", "oid": oid, "size": size } })
            }
            Self::Removed(path) => json!({ "key": "deletedFile", "value": { "path": path } }),
        })
    }
}

/// The beginning of a file in base64.
fn sample(path: &Path) -> Result<String, RemoteError> {
    let failed = |source| RemoteError::Io { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    fs::File::open(path).map_err(failed)?.take(SAMPLE).read_to_end(&mut bytes).map_err(failed)?;
    Ok(STANDARD.encode(bytes))
}

/// A file in pieces, each read when it is wanted.
fn pieces(
    mut file: impl Read + Send + 'static,
) -> impl stream::Stream<Item = std::io::Result<Vec<u8>>> + Send {
    stream::iter(std::iter::from_fn(move || {
        let mut piece = vec![0; 256 << 10];
        match file.read(&mut piece) {
            Ok(0) => None,
            Ok(read) => {
                piece.truncate(read);
                Some(Ok(piece))
            }
            Err(error) => Some(Err(error)),
        }
    }))
}
