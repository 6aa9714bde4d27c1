//! A registry in memory that takes and gives like a real one, and misbehaves on demand.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::registry::header;
use crate::sample::digest;

/// A request as it arrived; of an upload the body was read only as far as the registry wanted it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub method: String,
    /// Path and query.
    pub target: String,
    pub authorization: Option<String>,
    pub content_type: Option<String>,
    pub content_range: Option<String>,
}

impl Request {
    pub fn writes(&self) -> bool {
        matches!(self.method.as_str(), "POST" | "PUT" | "PATCH")
    }

    /// Whether both want the same; which upload it is about does not count.
    fn is_like(&self, other: &Self) -> bool {
        let whole = |request: &Self| {
            let session = session_of(&request.target).unwrap_or_default();
            let target = request.target.replace(&format!("/uploads/{session}"), "/uploads/");
            Self { target, content_range: None, ..request.clone() }
        };
        whole(self) == whole(other)
    }

    pub fn is(&self, method: &str, part: &str) -> bool {
        self.method == method && self.target.contains(part)
    }
}

/// What a registry answers instead of what it would.
pub enum Fault {
    /// A status and headers.
    Answer(u16, Vec<(String, String)>),
    /// The right answer, but only as many bytes of its body.
    Cut(usize),
    /// The right answer with its last byte changed.
    Changed,
    /// The connection ends without an answer.
    Gone,
    /// The connection ends within an upload, of which so many bytes are kept.
    Keep(usize),
    /// The right answer, later.
    Late(Duration),
    /// The right answer with more headers.
    Headers(Vec<(String, String)>),
}

type Misbehave = dyn Fn(&Request, usize) -> Option<Fault> + Send + Sync;

/// What a registry has.
#[derive(Default, Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// Digests of blobs by repository.
    pub links: BTreeMap<String, BTreeSet<String>>,
    pub blobs: BTreeMap<String, Vec<u8>>,
    /// Media type and bytes of manifests by repository and digest.
    pub manifests: BTreeMap<(String, String), (String, Vec<u8>)>,
    /// Digests by repository and tag.
    pub tags: BTreeMap<(String, String), String>,
    /// What has arrived of uploads that are not finished, by session.
    pub uploads: BTreeMap<String, Vec<u8>>,
    /// How many uploads were begun.
    pub begun: usize,
}

/// A running registry; it ends with the test.
pub struct Fake {
    pub host: String,
    pub content: Arc<Mutex<Content>>,
    pub log: Arc<Mutex<Vec<Request>>>,
}

impl Fake {
    /// A registry that behaves.
    pub fn start() -> Self {
        Self::misbehaving(|_, _| None)
    }

    /// A registry that does to a request what `misbehave` says, given how often the same one was seen before.
    pub fn misbehaving(misbehave: impl Fn(&Request, usize) -> Option<Fault> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let (content, log) = (Arc::<Mutex<Content>>::default(), Arc::<Mutex<Vec<Request>>>::default());
        let misbehave: Arc<Misbehave> = Arc::new(misbehave);
        let (kept, logged) = (Arc::clone(&content), Arc::clone(&log));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (content, log, misbehave) =
                    (Arc::clone(&kept), Arc::clone(&logged), Arc::clone(&misbehave));
                std::thread::spawn(move || serve(&stream, &content, &log, &*misbehave));
            }
        });
        Self { host, content, log }
    }

    pub fn requests(&self) -> Vec<Request> {
        self.log.lock().unwrap().clone()
    }

    /// How many requests were of a method with a part in their target.
    pub fn count(&self, method: &str, part: &str) -> usize {
        self.requests().iter().filter(|request| request.is(method, part)).count()
    }

    pub fn content(&self) -> Content {
        self.content.lock().unwrap().clone()
    }

    /// Puts an image there by hand.
    pub fn hold(&self, repository: &str, tag: &str, kind: &str, manifest: &[u8], blobs: &[Vec<u8>]) {
        let mut content = self.content.lock().unwrap();
        for blob in blobs {
            content.links.entry(repository.to_owned()).or_default().insert(digest(blob));
            content.blobs.insert(digest(blob), blob.clone());
        }
        let name = digest(manifest);
        content.manifests.insert((repository.to_owned(), name.clone()), (kind.to_owned(), manifest.to_vec()));
        if !tag.is_empty() {
            content.tags.insert((repository.to_owned(), tag.to_owned()), name);
        }
    }
}

fn serve(
    stream: &TcpStream,
    content: &Mutex<Content>,
    log: &Mutex<Vec<Request>>,
    misbehave: &Misbehave,
) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let (request, length) = read_head(&mut reader)?;
    let before = {
        let mut log = log.lock().unwrap();
        log.push(request.clone());
        log.iter().filter(|other| other.is_like(&request)).count() - 1
    };
    let fault = misbehave(&request, before);
    if let Some(Fault::Answer(status, headers)) = fault {
        return write(stream, status, &headers, b"", 0);
    }
    if let Some(Fault::Gone) = fault {
        return None;
    }
    let mut body = Vec::new();
    if let Some(Fault::Keep(bytes)) = fault {
        reader.take(length.min(bytes as u64)).read_to_end(&mut body).ok()?;
        let session = session_of(&request.target)?.to_owned();
        content.lock().unwrap().uploads.entry(session).or_default().extend(body);
        return None;
    }
    reader.take(length).read_to_end(&mut body).ok()?;
    // Broken off: nothing happens.
    if (body.len() as u64) < length {
        return None;
    }
    let (status, mut headers, mut answer) = handle(&mut content.lock().unwrap(), &request, body);
    if let Some(Fault::Late(time)) = fault {
        std::thread::sleep(time);
    }
    let whole = answer.len();
    match fault {
        Some(Fault::Headers(more)) => headers.extend(more),
        Some(Fault::Cut(bytes)) => answer.truncate(bytes),
        Some(Fault::Changed) => {
            if let Some(last) = answer.last_mut() {
                *last ^= 1;
            }
        }
        _ => {}
    }
    let answer = if request.method == "HEAD" { Vec::new() } else { answer };
    write(stream, status, &headers, &answer, whole)
}

fn read_head(reader: &mut BufReader<TcpStream>) -> Option<(Request, u64)> {
    let mut first = String::new();
    reader.read_line(&mut first).ok()?;
    let mut parts = first.split(' ');
    let mut request = Request {
        method: parts.next()?.to_owned(),
        target: parts.next()?.to_owned(),
        authorization: None,
        content_type: None,
        content_range: None,
    };
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "authorization" => request.authorization = Some(value.to_owned()),
            "content-type" => request.content_type = Some(value.to_owned()),
            "content-range" => request.content_range = Some(value.to_owned()),
            "content-length" => length = value.parse().ok()?,
            _ => {}
        }
    }
    Some((request, length))
}

fn write(
    mut stream: &TcpStream,
    status: u16,
    headers: &[(String, String)],
    body: &[u8],
    length: usize,
) -> Option<()> {
    let mut out = format!("HTTP/1.1 {status} x\r\ncontent-length: {length}\r\nconnection: close\r\n");
    for (name, value) in headers {
        out.extend([name, ": ", value, "\r\n"]);
    }
    out.push_str("\r\n");
    stream.write_all(out.as_bytes()).ok()?;
    stream.write_all(body).ok()
}

type Answer = (u16, Vec<(String, String)>, Vec<u8>);

fn handle(content: &mut Content, request: &Request, body: Vec<u8>) -> Answer {
    let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
    let parameter = |name: &str| {
        let value = query.split('&').find_map(|pair| pair.strip_prefix(&format!("{name}=")));
        value.map(|value| value.replace("%3A", ":").replace("%2F", "/"))
    };
    let error = |status, code: &str| -> Answer {
        (status, Vec::new(), format!("{{\"errors\":[{{\"code\":\"{code}\"}}]}}").into_bytes())
    };
    let path = path.strip_prefix("/v2/").unwrap_or_default();
    if let Some(repository) = path.strip_suffix("/tags/list") {
        let tags: Vec<&String> =
            content.tags.keys().filter(|(found, _)| found == repository).map(|(_, tag)| tag).collect();
        if tags.is_empty() {
            return error(404, "NAME_UNKNOWN");
        }
        return (200, Vec::new(), serde_json::json!({ "tags": tags }).to_string().into_bytes());
    }
    if let Some((repository, session)) = path.split_once("/blobs/uploads/") {
        return upload(content, request, repository, session, &parameter, body);
    }
    if let Some((repository, name)) = path.split_once("/blobs/") {
        return match content.links.get(repository).filter(|links| links.contains(name)) {
            Some(_) => (200, Vec::new(), content.blobs[name].clone()),
            None => error(404, "BLOB_UNKNOWN"),
        };
    }
    let Some((repository, selector)) = path.split_once("/manifests/") else { return error(404, "UNKNOWN") };
    let repository = repository.to_owned();
    if request.method == "PUT" {
        let name = digest(&body);
        let text: serde_json::Value = serde_json::from_slice(&body).unwrap();
        let named = |list: &str| -> Vec<String> {
            let list = text[list].as_array().cloned().unwrap_or_default();
            list.iter().map(|found| found["digest"].as_str().unwrap().to_owned()).collect()
        };
        let links = content.links.get(&repository).cloned().unwrap_or_default();
        let config = text["config"]["digest"].as_str().map(str::to_owned);
        let has_blobs = named("layers").iter().chain(&config).all(|blob| links.contains(blob));
        let has = |child: &String| content.manifests.contains_key(&(repository.clone(), child.clone()));
        if !has_blobs || !named("manifests").iter().all(has) {
            return error(400, "MANIFEST_BLOB_UNKNOWN");
        }
        let kind = request.content_type.clone().unwrap();
        content.manifests.insert((repository.clone(), name.clone()), (kind, body));
        if !selector.contains(':') {
            content.tags.insert((repository, selector.to_owned()), name.clone());
        }
        return (201, vec![header("docker-content-digest", &name)], Vec::new());
    }
    let name = content.tags.get(&(repository.clone(), selector.to_owned())).cloned();
    match content.manifests.get(&(repository, name.clone().unwrap_or_else(|| selector.to_owned()))) {
        Some((kind, bytes)) => {
            let headers = vec![header("content-type", kind), header("docker-content-digest", &digest(bytes))];
            (200, headers, bytes.clone())
        }
        None => error(404, "MANIFEST_UNKNOWN"),
    }
}

fn upload(
    content: &mut Content,
    request: &Request,
    repository: &str,
    session: &str,
    parameter: &dyn Fn(&str) -> Option<String>,
    body: Vec<u8>,
) -> Answer {
    match request.method.as_str() {
        "POST" => {
            if let (Some(blob), Some(from)) = (parameter("mount"), parameter("from"))
                && content.links.get(&from).is_some_and(|links| links.contains(&blob))
            {
                content.links.entry(repository.to_owned()).or_default().insert(blob);
                return (201, Vec::new(), Vec::new());
            }
            content.begun += 1;
            let session = format!("s{}", content.begun);
            let location = format!("/v2/{repository}/blobs/uploads/{session}?_state=x");
            content.uploads.insert(session, Vec::new());
            (202, vec![header("location", &location)], Vec::new())
        }
        "GET" => match content.uploads.get(session) {
            Some(arrived) => {
                let location = format!("/v2/{repository}/blobs/uploads/{session}?_state=x");
                let range = format!("0-{}", arrived.len().saturating_sub(1));
                (204, vec![header("location", &location), header("range", &range)], Vec::new())
            }
            None => (404, Vec::new(), b"{\"errors\":[{\"code\":\"BLOB_UPLOAD_UNKNOWN\"}]}".to_vec()),
        },
        "PUT" => {
            let mut whole = content.uploads.remove(session).unwrap_or_default();
            whole.extend(body);
            match parameter("digest").filter(|name| *name == digest(&whole)) {
                Some(name) => {
                    content.links.entry(repository.to_owned()).or_default().insert(name.clone());
                    content.blobs.insert(name, whole);
                    (201, Vec::new(), Vec::new())
                }
                None => (400, Vec::new(), b"{\"errors\":[{\"code\":\"DIGEST_INVALID\"}]}".to_vec()),
            }
        }
        "DELETE" if !session.is_empty() => {
            content.uploads.remove(session);
            (204, Vec::new(), Vec::new())
        }
        _ => (405, Vec::new(), Vec::new()),
    }
}

/// The session in the target of an upload.
fn session_of(target: &str) -> Option<&str> {
    let (_, rest) = target.split_once("/blobs/uploads/")?;
    Some(rest.split('?').next().unwrap_or(rest)).filter(|session| !session.is_empty())
}
