//! A hub of data sets that behaves like the real one, on this machine: pages of listings, large files on another host.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use ident::Digest;
use serde_json::{Value, json};
use sha1::Digest as _;

use crate::wire::{Reply, Request, Server};

pub const COMMIT: &str = "ea6d7173829c7ec8fa16c22055699ff2e9188091";
pub const NEXT: &str = "08e109b4a59eaeebf80e4675cd125d42e7ac99a4";

/// What the repository `o/n` holds.
#[derive(Clone, Default)]
pub struct Content {
    /// What its branch `main` means.
    pub commit: String,
    /// Files by path; large ones lie on the other host.
    pub files: BTreeMap<String, (Vec<u8>, bool)>,
    /// Entries of a page.
    pub page: usize,
}

pub struct Hub {
    pub server: Server,
    /// Where large files lie.
    pub storage: Server,
    content: Arc<Mutex<Content>>,
}

impl Hub {
    pub fn start(files: &[(&str, &[u8], bool)]) -> Self {
        let files = files.iter().map(|(path, content, large)| ((*path).into(), (content.to_vec(), *large)));
        let content = Content { commit: COMMIT.into(), files: files.collect(), page: 1000 };
        let content = Arc::new(Mutex::new(content));
        let stored = Arc::clone(&content);
        let storage = Server::start(move |request, _| {
            let stored = stored.lock().unwrap();
            let name = request.target.trim_start_matches('/').split('?').next().unwrap();
            let found = stored.files.values().find(|(content, _)| Digest::of(content).hex() == name);
            found.map_or_else(|| Reply::new(404, ""), |(content, _)| Reply::file(request, content))
        });
        let server = Server::start(|_, _| Reply::new(500, ""));
        let hub = Self { server, storage, content };
        hub.behave();
        hub
    }

    /// Answers as the real one does.
    pub fn behave(&self) {
        self.server.answer(self.usual());
    }

    /// The usual answers, for tests that change some of them.
    pub fn usual(&self) -> impl Fn(&Request, usize) -> Reply + Send + Sync + 'static {
        let (content, storage, own) =
            (Arc::clone(&self.content), self.storage.address.clone(), self.server.address.clone());
        move |request, _| answer(&content.lock().unwrap(), &storage, &own, request)
    }

    /// Changes what the repository holds.
    pub fn change(&self, change: impl FnOnce(&mut Content)) {
        change(&mut self.content.lock().unwrap());
    }
}

pub fn git_id(content: &[u8]) -> String {
    let mut hash = sha1::Sha1::new();
    hash.update(format!("blob {}\0", content.len()));
    hash.update(content);
    hash.finalize().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn answer(content: &Content, storage: &str, own: &str, request: &Request) -> Reply {
    let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
    let missing = |code: &str| Reply::new(404, "{}").with("x-error-code", code);
    if let Some(revision) = path.strip_prefix("/api/datasets/o/n/revision/") {
        if revision != "main" {
            return missing("RevisionNotFound");
        }
        return Reply::new(200, json!({"id": "o/n", "sha": content.commit, "private": false}).to_string());
    }
    if let Some(commit) = path.strip_prefix("/api/datasets/o/n/tree/") {
        if commit != content.commit {
            return missing("RevisionNotFound");
        }
        return tree(content, own, path, query);
    }
    if let Some(rest) = path.strip_prefix("/datasets/o/n/resolve/") {
        let (commit, path) = rest.split_once('/').unwrap();
        let Some((bytes, large)) = content.files.get(path).filter(|_| commit == content.commit) else {
            return missing("EntryNotFound");
        };
        if !large {
            let reply = Reply::file(request, bytes).with("x-repo-commit", commit);
            return reply.with("etag", format!("\"{}\"", git_id(bytes)));
        }
        let digest = Digest::of(bytes);
        return Reply::redirect(format!("{storage}/{digest}?X-Amz-Signature=signature-of-the-storage"))
            .with("x-repo-commit", commit)
            .with("x-linked-etag", format!("\"{digest}\""))
            .with("x-linked-size", bytes.len());
    }
    missing("RepoNotFound")
}

/// One page of the tree: directories and files, as the hub lists them.
fn tree(content: &Content, own: &str, path: &str, query: &str) -> Reply {
    let mut entries: BTreeMap<String, Value> = BTreeMap::new();
    for (path, (bytes, large)) in &content.files {
        let mut parent = path.as_str();
        while let Some((above, _)) = parent.rsplit_once('/') {
            entries.insert(above.into(), json!({"type": "directory", "oid": "", "size": 0, "path": above}));
            parent = above;
        }
        let mut entry = json!({"type": "file", "oid": git_id(bytes), "size": bytes.len(), "path": path});
        if *large {
            // The blob in git is a pointer; its size and id are those of the pointer.
            entry["oid"] = git_id(b"pointer").into();
            entry["lfs"] = json!({"oid": Digest::of(bytes), "size": bytes.len(), "pointerSize": 134});
        }
        entries.insert(path.clone(), entry);
    }
    let begun: usize =
        query.split('&').find_map(|part| part.strip_prefix("cursor=")?.parse().ok()).unwrap_or_default();
    let page: Vec<_> = entries.values().skip(begun).take(content.page).collect();
    let reply = Reply::new(200, serde_json::to_vec(&page).unwrap()).with("content-type", "application/json");
    let end = begun + page.len();
    if end >= entries.len() {
        return reply;
    }
    reply.with("link", format!("<{own}{path}?expand=false&recursive=true&cursor={end}>; rel=\"next\""))
}
