//! An API server that plays the lives of pods as a test tells them, and the guests in them, over real connections.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt, stream};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{CONNECTION, CONTENT_TYPE, RETRY_AFTER, UPGRADE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

use crate::kubernetes::pod::SANDBOX;
use crate::shared::wire::{
    Command, Counters, HEADER, Header, Kind, Operation, Outcome, Setting, Status, Texts, Wire,
};

type Body = BoxBody<Bytes, io::Error>;

/// One step in the life of a pod.
#[derive(Debug, Clone)]
pub enum Step {
    /// Time passes.
    Wait(Duration),
    /// The object changes: a merge patch over the whole of it.
    Becomes(Value),
    /// The object is gone.
    Goes,
    /// The object changes, or goes, while nobody can see it: all watches expire.
    Unseen(Option<Value>),
    /// The connection to its container breaks.
    HangsUp,
}

/// What is done with a request instead of answering it at once.
#[derive(Debug, Clone)]
pub enum Instead {
    /// It is refused: code, reason, message, seconds after which to ask again.
    Refuse(u16, &'static str, String, Option<u32>),
    /// It is carried out, and its answer never arrives.
    Swallow,
    /// It is carried out and answered late.
    Late(Duration),
}

/// A server that is running; dropping it ends it.
pub struct ApiServer {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    state: Mutex<State>,
    /// How many things happened.
    happened: watch::Sender<usize>,
}

#[derive(Default)]
struct State {
    /// What was asked, in order: method, resource, and subresource.
    asked: Vec<String>,
    pods: BTreeMap<String, Value>,
    /// Everything that happened to pods, oldest first; what could not be seen is none.
    events: Vec<Option<Value>>,
    /// Watches from before this many events have expired.
    oldest: usize,
    lives: BTreeMap<String, Vec<Step>>,
    instead: BTreeMap<String, VecDeque<Instead>>,
    /// Which addresses sandboxes reach.
    open: Vec<String>,
    hang_ups: BTreeMap<String, watch::Sender<bool>>,
    /// The version of the protocol for attached containers; the fourth where none is named.
    protocol: Option<&'static str>,
    last_uid: usize,
}

impl ApiServer {
    pub async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared { state: Mutex::default(), happened: watch::Sender::new(0) });
        let task = tokio::spawn(serve(listener, Arc::clone(&shared)));
        Self { address, shared, task }
    }

    /// Tells the life of the pod of a sandbox; one that nothing is told of runs.
    pub fn life(&self, sandbox: &str, steps: impl Into<Vec<Step>>) {
        self.shared.state().lives.insert(sandbox.to_owned(), steps.into());
    }

    /// Does these things instead of answering the next requests of a kind, such as `POST pods`.
    pub fn instead(&self, request: &str, what: impl IntoIterator<Item = Instead>) {
        self.shared.state().instead.entry(request.to_owned()).or_default().extend(what);
    }

    /// Lets sandboxes reach an address.
    pub fn open(&self, address: String) {
        self.shared.state().open.push(address);
    }

    /// Speaks this version of the protocol for attached containers.
    pub fn speak(&self, protocol: &'static str) {
        self.shared.state().protocol = Some(protocol);
    }

    /// How often each kind of request came.
    pub fn asked(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for request in &self.shared.state().asked {
            *counts.entry(request.clone()).or_default() += 1;
        }
        counts
    }

    /// The pods that are there.
    pub fn pods(&self) -> Vec<String> {
        self.shared.state().pods.keys().cloned().collect()
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            let service = service_fn(|request| Arc::clone(&shared).answer(request));
            let _ =
                http1::Builder::new().serve_connection(TokioIo::new(stream), service).with_upgrades().await;
        });
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that something happened to a pod, or that something did that nobody saw.
    fn happened(&self, state: &mut State, event: Option<Value>) {
        state.events.push(event);
        self.happened.send_replace(state.events.len());
    }

    /// Answers, or breaks the connection off.
    async fn answer(self: Arc<Self>, mut request: Request<Incoming>) -> Result<Response<Body>, io::Error> {
        let path = request.uri().path().to_owned();
        let query = request.uri().query().unwrap_or_default().to_owned();
        let method = request.method().clone();
        // `/api/v1/namespaces/N/pods/P/attach`: what, of which name, and what of it.
        let mut parts = path.split('/').skip_while(|part| *part != "namespaces").skip(2);
        let resource = parts.next().unwrap_or("version").to_owned();
        let (name, sub) = (parts.next().map(str::to_owned), parts.next().map(str::to_owned));
        let watched = query.contains("watch=true");
        let kind = match (&sub, watched, &name) {
            (Some(sub), ..) => format!("{method} {resource}/{sub}"),
            (_, true, _) => format!("WATCH {resource}"),
            (_, _, None) if method == Method::GET && resource != "version" => format!("LIST {resource}"),
            _ => format!("{method} {resource}"),
        };
        let instead = {
            let mut state = self.state();
            state.asked.push(kind.clone());
            state.instead.get_mut(&kind).and_then(VecDeque::pop_front)
        };
        if let Some(Instead::Refuse(code, reason, message, after)) = &instead {
            return Ok(refusal(*code, reason, message, *after));
        }
        let response = match (kind.as_str(), name) {
            ("WATCH pods", _) => self.watch(&query),
            ("LIST pods", _) => self.list(),
            ("GET pods/attach", Some(name)) => self.attach(&mut request, &name),
            (_, name) => {
                let body = request.into_body().collect().await.map_err(io::Error::other)?.to_bytes();
                let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
                self.change(&method, &resource, name, body)
            }
        };
        match instead {
            Some(Instead::Swallow) => return Err(io::Error::other("swallowed")),
            Some(Instead::Late(time)) => sleep(time).await,
            _ => {}
        }
        Ok(response)
    }

    fn change(
        self: Arc<Self>,
        method: &Method,
        resource: &str,
        name: Option<String>,
        mut body: Value,
    ) -> Response<Body> {
        if resource == "version" {
            let fields = [
                "major",
                "minor",
                "gitVersion",
                "gitCommit",
                "gitTreeState",
                "buildDate",
                "goVersion",
                "compiler",
                "platform",
            ];
            return answer(200, &fields.map(|field| (field.to_owned(), json!("1"))).into_iter().collect());
        }
        let mut state = self.state();
        if *method == Method::POST {
            let name = body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            if resource == "pods" && state.pods.contains_key(&name) {
                return refusal(409, "AlreadyExists", "it is there", None);
            }
            state.last_uid += 1;
            body["metadata"]["uid"] = json!(format!("uid-{}", state.last_uid));
            body["metadata"]["resourceVersion"] = json!(state.events.len().to_string());
            if resource == "pods" {
                let sandbox = body["metadata"]["annotations"][SANDBOX].as_str().unwrap_or_default();
                let life = state.lives.get(sandbox).cloned().unwrap_or_else(|| vec![runs()]);
                state.pods.insert(name.clone(), body.clone());
                state.hang_ups.insert(name.clone(), watch::Sender::new(false));
                self.happened(&mut state, Some(json!({"type": "ADDED", "object": body})));
                drop(state);
                tokio::spawn(Arc::clone(&self).live(name, life));
            }
            return answer(201, &body);
        }
        let name = name.unwrap_or_default();
        if resource != "pods" {
            return answer(200, &json!({"metadata": {"name": name}}));
        }
        let Some(pod) = state.pods.get(&name).cloned() else {
            return refusal(404, "NotFound", &format!("pods \"{name}\" not found"), None);
        };
        if *method == Method::DELETE {
            if body["preconditions"]["uid"].as_str().is_some_and(|uid| pod["metadata"]["uid"] != uid) {
                return refusal(409, "Conflict", "the precondition does not hold", None);
            }
            state.pods.remove(&name);
            self.happened(&mut state, Some(json!({"type": "DELETED", "object": pod})));
        }
        answer(200, &pod)
    }

    fn list(&self) -> Response<Body> {
        let state = self.state();
        let items: Vec<&Value> = state.pods.values().collect();
        let version = state.events.len().to_string();
        answer(
            200,
            &json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": version}, "items": items}),
        )
    }

    fn watch(self: Arc<Self>, query: &str) -> Response<Body> {
        let version = query.split('&').find_map(|pair| pair.strip_prefix("resourceVersion="));
        let from: usize = version.and_then(|version| version.parse().ok()).unwrap_or_default();
        let news = self.happened.subscribe();
        let events =
            stream::unfold((self, news, from, false), |(shared, mut news, mut at, ended)| async move {
                loop {
                    if ended {
                        return None;
                    }
                    {
                        let state = shared.state();
                        if at < state.oldest {
                            let status = status(410, "Expired", "too old resource version", None);
                            let line = json!({"type": "ERROR", "object": status}).to_string() + "\n";
                            drop(state);
                            return Some((Ok(Frame::data(Bytes::from(line))), (shared, news, at, true)));
                        }
                        if let Some(event) = state.events.get(at).cloned() {
                            at += 1;
                            drop(state);
                            let Some(mut event) = event else { continue };
                            event["object"]["metadata"]["resourceVersion"] = json!(at.to_string());
                            let line = event.to_string() + "\n";
                            return Some((Ok(Frame::data(Bytes::from(line))), (shared, news, at, false)));
                        }
                    }
                    news.changed().await.ok()?;
                }
            });
        let body = BodyExt::boxed(StreamBody::new(events));
        Response::builder().header(CONTENT_TYPE, "application/json").body(body).unwrap()
    }

    async fn live(self: Arc<Self>, name: String, life: Vec<Step>) {
        for step in life {
            if let Step::Wait(time) = step {
                sleep(time).await;
                continue;
            }
            let mut state = self.state();
            let Some(mut pod) = state.pods.get(&name).cloned() else { return };
            match step {
                Step::Becomes(change) => {
                    merge(&mut pod, &change);
                    state.pods.insert(name.clone(), pod.clone());
                    self.happened(&mut state, Some(json!({"type": "MODIFIED", "object": pod})));
                }
                Step::Goes => {
                    state.pods.remove(&name);
                    self.happened(&mut state, Some(json!({"type": "DELETED", "object": pod})));
                }
                Step::Unseen(change) => {
                    match change {
                        Some(change) => {
                            merge(&mut pod, &change);
                            state.pods.insert(name.clone(), pod);
                        }
                        None => {
                            state.pods.remove(&name);
                        }
                    }
                    state.oldest = state.events.len() + 1;
                    self.happened(&mut state, None);
                }
                Step::HangsUp => {
                    if let Some(hang_up) = state.hang_ups.get(&name) {
                        hang_up.send_replace(true);
                    }
                }
                Step::Wait(_) => {}
            }
        }
    }

    fn attach(self: Arc<Self>, request: &mut Request<Incoming>, name: &str) -> Response<Body> {
        let (pod, hang_up) = {
            let state = self.state();
            match (state.pods.get(name).cloned(), state.hang_ups.get(name)) {
                (Some(pod), Some(hang_up)) => (pod, hang_up.subscribe()),
                _ => return refusal(404, "NotFound", "no such pod", None),
            }
        };
        let key = request.headers().get("sec-websocket-key").map(|key| derive_accept_key(key.as_bytes()));
        let offered =
            request.headers().get("sec-websocket-protocol").and_then(|offered| offered.to_str().ok());
        let offered = offered.unwrap_or_default().to_owned();
        let spoken = self.state().protocol.unwrap_or("v4.channel.k8s.io");
        if !offered.split(", ").any(|protocol| protocol == spoken) {
            return refusal(400, "BadRequest", "unknown protocol", None);
        }
        let upgrade = hyper::upgrade::on(request);
        tokio::spawn(async move {
            let Ok(upgraded) = upgrade.await else { return };
            let socket = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, None).await;
            self.be_guest(socket, &pod, hang_up).await;
        });
        Response::builder()
            .status(101)
            .header(UPGRADE, "websocket")
            .header(CONNECTION, "Upgrade")
            .header("sec-websocket-accept", key.unwrap_or_default())
            .header("sec-websocket-protocol", spoken)
            .body(Full::default().map_err(|never: Infallible| match never {}).boxed())
            .unwrap()
    }

    /// Takes the guest's program in, throws it away, and answers as it would. The command `hang` never ends.
    async fn be_guest(
        &self,
        mut socket: WebSocketStream<TokioIo<hyper::upgrade::Upgraded>>,
        pod: &Value,
        mut hang_up: watch::Receiver<bool>,
    ) {
        let script = pod["spec"]["containers"][0]["command"][2].as_str().unwrap_or_default();
        let mut program: usize =
            script.split(' ').nth(2).and_then(|length| length.parse().ok()).unwrap_or_default();
        let (mut input, mut requests, mut is_there) = (Vec::new(), BTreeMap::new(), false);
        loop {
            let message = tokio::select! {
                message = socket.next() => message,
                _ = hang_up.wait_for(|over| *over) => return,
            };
            let Some(Ok(message)) = message else { return };
            let Message::Binary(bytes) = message else { continue };
            let mut bytes = &bytes[1..];
            let rest = bytes.len().min(program);
            (program, bytes) = (program - rest, &bytes[rest..]);
            if program > 0 {
                continue;
            }
            let mut replies = Vec::new();
            if !is_there {
                is_there = true;
                replies.extend(Header::frame(0, Kind::Ready, std::env::consts::ARCH.as_bytes()));
            }
            input.extend_from_slice(bytes);
            while let Some((front, behind)) = input.split_first_chunk::<HEADER>() {
                let header = Header::parse(*front).unwrap();
                let Some((payload, behind)) = behind.split_at_checked(header.len) else { break };
                match header.kind {
                    Kind::Open => {
                        requests.insert(header.stream, (Operation::from_code(payload[0]), Vec::new()));
                    }
                    Kind::Data => {
                        requests.entry(header.stream).and_modify(|(_, body)| body.extend_from_slice(payload));
                    }
                    _ => {}
                }
                if let Some((Some(operation), body)) = requests.get(&header.stream)
                    && let Some(reply) = self.reply(*operation, body)
                {
                    requests.remove(&header.stream);
                    replies.extend(Header::frame(header.stream, Kind::Data, &reply));
                    replies.extend(Header::frame(header.stream, Kind::End, &[]));
                }
                input = behind.to_vec();
            }
            if !replies.is_empty() {
                replies.insert(0, 1);
                if socket.send(Message::binary(replies)).await.is_err() {
                    return;
                }
            }
        }
    }

    /// What a guest says to a complete request.
    fn reply(&self, operation: Operation, mut body: &[u8]) -> Option<Vec<u8>> {
        let mut reply = Vec::new();
        match operation {
            Operation::Exec => {
                let command = Command::get(&mut body).ok()?;
                if command.argv.0 == ["hang"] {
                    return None;
                }
                let outcome =
                    Outcome { status: Status::Code(0), stdout: (0, Vec::new()), stderr: (0, Vec::new()) };
                outcome.put(&mut reply).unwrap();
            }
            Operation::Reach => {
                let mut addresses = Texts::get(&mut body).ok()?;
                let state = self.state();
                addresses.0.retain(|address| state.open.contains(address));
                addresses.put(&mut reply).unwrap();
            }
            Operation::Setting => {
                Setting { user: "0".into(), ..Setting::default() }.put(&mut reply).unwrap();
            }
            Operation::Usage => {
                let counters = Counters { peak_memory: None, oom_kills: Some(0), cpu_micros: None };
                counters.put(&mut reply).unwrap();
            }
            _ => Status::Done.put(&mut reply).unwrap(),
        }
        Some(reply)
    }
}

/// The step to a container that runs.
pub fn runs() -> Step {
    container(&json!({"running": {}}))
}

/// The step to a container in this state.
pub fn container(state: &Value) -> Step {
    Step::Becomes(json!({"status": {"phase": "Running", "containerStatuses": [{
        "name": "sandbox", "image": "", "imageID": "", "ready": true, "restartCount": 0, "state": state,
    }]}}))
}

/// A JSON merge patch (RFC 7396).
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in patch {
        merge(&mut target[key], value);
    }
}

fn status(code: u16, reason: &str, message: &str, after: Option<u32>) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message,
        "details": {"retryAfterSeconds": after.unwrap_or_default()}})
}

fn refusal(code: u16, reason: &str, message: &str, after: Option<u32>) -> Response<Body> {
    let mut response = answer(code, &status(code, reason, message, after));
    if let Some(after) = after {
        response.headers_mut().insert(RETRY_AFTER, after.into());
    }
    response
}

fn answer(code: u16, value: &Value) -> Response<Body> {
    let body = Full::from(value.to_string()).map_err(|never: Infallible| match never {}).boxed();
    Response::builder().status(code).header(CONTENT_TYPE, "application/json").body(body).unwrap()
}
