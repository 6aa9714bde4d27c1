//! The server: connections in, answers out.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream as futures_stream;
use http_body_util::{BodyExt, Full, Limited, StreamBody, combinators::BoxBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

use crate::fault::{self, Fault, RetryAfter};
use crate::reply::Reply;
use crate::request::Request;
use crate::{Script, messages, responses, stream};

/// No request is larger.
const MOST_BYTES: usize = 64 << 20;
/// How long an answer that never goes on is kept open.
const STALL: Duration = Duration::from_secs(3600);

/// The interfaces that are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Interface {
    ChatCompletions,
    Messages,
    Responses,
}

impl Interface {
    fn at(path: &str) -> Option<Self> {
        match path {
            "/v1/chat/completions" => Some(Self::ChatCompletions),
            "/v1/messages" => Some(Self::Messages),
            "/v1/responses" => Some(Self::Responses),
            _ => None,
        }
    }

    fn request(self, bytes: &[u8]) -> serde_json::Result<Request> {
        let other =
            |as_chat: fn(&Value) -> Value| serde_json::from_value(as_chat(&serde_json::from_slice(bytes)?));
        match self {
            Self::ChatCompletions => serde_json::from_slice(bytes),
            Self::Messages => other(messages::as_chat),
            Self::Responses => other(responses::as_chat),
        }
    }

    /// The answer in pieces, as lines of events.
    fn events(self, reply: &Reply, script: &Script, request: &Request) -> Vec<String> {
        let named = |events: Vec<Value>| {
            let line = |event: Value| {
                format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default())
            };
            events.into_iter().map(line).collect()
        };
        match self {
            Self::ChatCompletions => {
                let events = stream::events(reply, script.engine, request);
                events.into_iter().map(|event| format!("data: {event}\n\n")).collect()
            }
            Self::Messages => named(messages::events(reply)),
            Self::Responses => named(responses::events(reply)),
        }
    }

    fn whole(self, reply: &Reply, script: &Script, request: &Request) -> Value {
        match self {
            Self::ChatCompletions => reply.whole(script.engine, request),
            Self::Messages => messages::whole(reply),
            Self::Responses => responses::whole(reply),
        }
    }
}

type Body = BoxBody<Bytes, io::Error>;
type Answer = hyper::Response<Body>;

/// A server that is running; dropping it ends it.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    state: Arc<State>,
    task: JoinHandle<()>,
}

/// A request that came in.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// The value of `x-session-id`.
    pub session: Option<String>,
    /// The body as it came.
    pub bytes: Vec<u8>,
    /// The same as JSON; null where it is none.
    pub body: Value,
    /// The status of the answer.
    pub status: u16,
}

#[derive(Debug)]
struct State {
    script: Script,
    /// How often each request came.
    seen: Mutex<BTreeMap<String, usize>>,
    requests: Mutex<Vec<Recorded>>,
}

impl Server {
    /// Begins to serve on a free port of loopback.
    pub async fn start(script: Script) -> io::Result<Self> {
        Self::start_at(script, 0).await
    }

    /// Begins to serve on a port of loopback.
    pub async fn start_at(script: Script, port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        let address = listener.local_addr()?;
        let state = Arc::new(State { script, seen: Mutex::default(), requests: Mutex::default() });
        let task = tokio::spawn(serve(listener, Arc::clone(&state)));
        Ok(Self { address, state, task })
    }

    /// The address that clients take as their base.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// What came in so far, in the order in which it was answered.
    pub fn requests(&self) -> Vec<Recorded> {
        self.state.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, state: Arc<State>) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let Ok((stream, _)) = listener.accept().await else { continue };
        let _ = stream.set_nodelay(true);
        let state = Arc::clone(&state);
        connections.spawn(async move {
            let service = service_fn(|request| {
                let state = Arc::clone(&state);
                async move { Ok::<_, Infallible>(state.answer(request).await) }
            });
            // Clients may go away when they like.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

impl State {
    async fn answer(&self, request: hyper::Request<Incoming>) -> Answer {
        let (head, body) = request.into_parts();
        let header =
            |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        if head.method == hyper::Method::GET && head.uri.path() == "/v1/models" {
            let model = json!({"id": self.script.model, "object": "model", "owned_by": "script",
                "max_model_len": self.script.context});
            return whole(200, &json!({"object": "list", "data": [model]}));
        }
        let interface = Interface::at(head.uri.path()).filter(|_| head.method == hyper::Method::POST);
        let Some(interface) = interface else { return self.refuse(404, "Not Found", None) };
        let bytes = match Limited::new(body, MOST_BYTES).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) => return self.refuse(400, &format!("the body cannot be read: {error}"), None),
        };
        let session = header("x-session-id");
        let key = header(AUTHORIZATION.as_str()).or_else(|| Some(format!("Bearer {}", header("x-api-key")?)));
        let answer = self.complete(interface, &bytes, session.as_deref(), key.as_deref()).await;
        let recorded = Recorded {
            session,
            body: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
            bytes: bytes.to_vec(),
            status: answer.status().as_u16(),
        };
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).push(recorded);
        answer
    }

    async fn complete(
        &self,
        interface: Interface,
        bytes: &[u8],
        session: Option<&str>,
        key: Option<&str>,
    ) -> Answer {
        let (script, engine) = (&self.script, self.script.engine);
        if let Some(wanted) = &script.key
            && key != Some(format!("Bearer {wanted}").as_str())
        {
            return self.refuse(401, "Incorrect API key provided.", Some("invalid_api_key"));
        }
        let request = match interface.request(bytes) {
            Ok(request) => request,
            Err(error) => return self.refuse(400, &format!("the request cannot be read: {error}"), None),
        };
        if request.model != script.model {
            let message = format!("The model `{}` does not exist.", request.model);
            return self.refuse(404, &message, Some("model_not_found"));
        }
        let Some(turn) = script.turn(&request) else {
            return self.refuse(400, "no scene of the script fits this conversation", None);
        };
        let prompt = request.prompt();
        let mut digest = Sha256::new();
        digest.update(session.unwrap_or_default());
        digest.update([0]);
        digest.update(bytes);
        let digest = digest.finalize().iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        let times = {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            let times = seen.entry(digest.clone()).or_default();
            *times += 1;
            *times - 1
        };
        let fault = turn.faults.get(times);
        let length = prompt.len() as u64;
        if fault == Some(&Fault::Overflow) || length + request.max_tokens.unwrap_or(1) > script.context {
            let (status, body) = fault::overflow(engine, length, request.max_tokens, script.context);
            return whole(status, &body);
        }
        match fault {
            Some(Fault::Slow { ms }) => tokio::time::sleep(Duration::from_millis(*ms)).await,
            Some(Fault::Garbage) => return answer(200, "application/json", full("<html>busy</html>".into())),
            Some(Fault::Status { status, retry_after, message }) => {
                let message = message.as_deref().unwrap_or(match status {
                    429 => "Rate limit reached.",
                    _ => "The server had an error while processing your request.",
                });
                let mut refused = self.refuse(*status, message, None);
                if let Some(value) = retry_after.and_then(retry_header) {
                    refused.headers_mut().insert(RETRY_AFTER, value);
                }
                return refused;
            }
            _ => {}
        }
        let reply = Reply::new(turn, &request, prompt, &digest);
        let pieces: Vec<String> = if request.stream {
            interface.events(&reply, script, &request)
        } else {
            let whole = interface.whole(&reply, script, &request).to_string();
            let middle = (0..=whole.len() / 2).rev().find(|at| whole.is_char_boundary(*at)).unwrap_or(0);
            vec![whole[..middle].to_owned(), whole[middle..].to_owned()]
        };
        let kind = if request.stream { "text/event-stream" } else { "application/json" };
        match fault {
            Some(Fault::Cut) => answer(200, kind, broken(pieces, Duration::ZERO)),
            Some(Fault::Stall) => answer(200, kind, broken(pieces, STALL)),
            _ if request.stream => {
                let frames = pieces.into_iter().map(|piece| Ok(Frame::data(Bytes::from(piece))));
                answer(200, kind, BodyExt::boxed(StreamBody::new(futures_stream::iter(frames))))
            }
            _ => answer(200, kind, full(pieces.concat())),
        }
    }

    fn refuse(&self, status: u16, message: &str, code: Option<&str>) -> Answer {
        whole(status, &fault::error(self.script.engine, status, message, code))
    }
}

/// The first half of the pieces, then a pause, then the end of the connection.
fn broken(mut pieces: Vec<String>, pause: Duration) -> Body {
    pieces.truncate(pieces.len().div_ceil(2));
    let sent = futures_stream::iter(pieces.into_iter().map(|piece| Ok(Frame::data(Bytes::from(piece)))));
    let end = futures_stream::once(async move {
        // What was sent before has to be on its way.
        tokio::time::sleep(pause.max(Duration::from_millis(20))).await;
        Err(io::Error::new(io::ErrorKind::ConnectionReset, "the script cuts the answer"))
    });
    BodyExt::boxed(StreamBody::new(sent.chain(end)))
}

fn retry_header(when: RetryAfter) -> Option<HeaderValue> {
    let text = match when {
        RetryAfter::Seconds(seconds) => seconds.to_string(),
        RetryAfter::Date(seconds) => {
            let at = Timestamp::now() + Duration::from_secs(seconds);
            jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&at).ok()?
        }
    };
    HeaderValue::from_str(&text).ok()
}

fn whole(status: u16, body: &Value) -> Answer {
    answer(status, "application/json", full(body.to_string()))
}

fn full(text: String) -> Body {
    Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed()
}

fn answer(status: u16, kind: &'static str, body: Body) -> Answer {
    let mut answer = Answer::new(body);
    *answer.status_mut() =
        hyper::StatusCode::from_u16(status).unwrap_or(hyper::StatusCode::INTERNAL_SERVER_ERROR);
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}
