//! The client: one answer at a time, tried again where it may help.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use jiff::Timestamp;
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::answer::{Document, Draft};
use super::events::{self, Streamed};
use super::refusal::{self, Meaning};
use super::{Key, Settings, Wire, request, retry};
use crate::{Answer, Message};

const CONNECT_LIMIT: Duration = Duration::from_secs(15);
/// No answer is larger.
const MOST_BYTES: usize = 64 << 20;
/// The header by which a server, or what records in front of it, tells conversations apart.
const SESSION: &str = "x-session-id";

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// The address cannot be used.
    #[error("`{url}` is no address of an endpoint: {detail}; give one such as http://127.0.0.1:8000/v1")]
    Address {
        /// The address.
        url: String,
        /// What is wrong.
        detail: String,
    },
    /// No connections can be set up at all.
    #[error("connections cannot be set up: {0}")]
    Connections(String),
    /// The conversation does not fit into the model's context.
    #[error("the conversation does not fit into the model's context: {0}")]
    Overflow(String),
    /// The credentials were not accepted.
    #[error("the endpoint does not accept the credentials (status {status}): {detail}")]
    Auth {
        /// The status.
        status: u16,
        /// The server's words.
        detail: String,
    },
    /// There is no such model, or no endpoint at the address.
    #[error("the endpoint knows no model `{model}`: {detail}")]
    NoModel {
        /// The model.
        model: String,
        /// The server's words.
        detail: String,
    },
    /// The server declines for what was said.
    #[error("the endpoint declines: {0}")]
    Declined(String),
    /// The server will never accept the request.
    #[error("the endpoint refuses the request (status {status}): {detail}")]
    Refused {
        /// The status.
        status: u16,
        /// The server's words.
        detail: String,
    },
    /// No try brought an answer.
    #[error("no answer after {tries} tries; the last one: {detail}")]
    Exhausted {
        /// Tries.
        tries: u32,
        /// What became of the last one.
        detail: String,
    },
    /// It was stopped.
    #[error("stopped before the answer came")]
    Cancelled,
    /// The bytes cannot be kept.
    #[error("the bytes of the wire cannot be kept: {0}")]
    Wire(#[from] std::io::Error),
}

/// What is asked for.
#[derive(Clone, Copy)]
pub struct Ask<'a> {
    /// Name of the conversation, which the server is told.
    pub session: &'a str,
    /// Which turn of it this is, from 1.
    pub turn: usize,
    /// What was said so far.
    pub messages: &'a [Message],
    /// Tools that the model may call.
    pub tools: &'a [Value],
    /// Seed of the attempt.
    pub seed: Option<u64>,
    /// Where the bytes are kept.
    pub wire: Option<&'a Wire>,
}

/// A number from 0 to 1 that differs from call to call.
type Jitter = Arc<dyn Fn() -> f64 + Send + Sync>;

/// A client of one model at one endpoint. Clones share their connections.
#[derive(Clone)]
pub struct Client {
    settings: Settings,
    address: Url,
    http: reqwest::Client,
    key: Option<Key>,
    jitter: Jitter,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("settings", &self.settings)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

/// How one try went wrong.
enum Failed {
    /// Another one may help, at the earliest after the time that the server names.
    Passing(String, Option<Duration>),
    Lasting(EndpointError),
}

impl Client {
    /// Sets connections up; nothing is sent. `jitter` gives numbers from 0 to 1.
    pub fn new(
        settings: Settings,
        key: Option<Key>,
        jitter: impl Fn() -> f64 + Send + Sync + 'static,
    ) -> Result<Self, EndpointError> {
        // An error only says that the process has a provider already, which then serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let address = address(&settings.url)?;
        let mut http = reqwest::Client::builder()
            .user_agent(concat!("seatrial/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_LIMIT)
            .read_timeout(settings.silence_limit)
            .tcp_nodelay(true)
            // A key is for its own address and for no other.
            .redirect(reqwest::redirect::Policy::none());
        if is_loopback(&address) {
            http = http.no_proxy();
        }
        let http = http.build().map_err(|error| EndpointError::Connections(chain(&error)))?;
        Ok(Self { settings, address, http, key, jitter: Arc::new(jitter) })
    }

    /// What it goes by.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The port of the endpoint, where it is one of this machine's loopback and speaks without encryption.
    pub fn loopback_port(&self) -> Option<u16> {
        let plain = self.address.scheme() == "http" && is_loopback(&self.address);
        plain.then(|| self.address.port_or_known_default()).flatten()
    }

    /// The path of the endpoint, below which `chat/completions` lies.
    pub fn base_path(&self) -> &str {
        self.address.path().trim_end_matches("/chat/completions")
    }

    /// Asks until there is an answer, or until no other try can help. Dropping the future breaks the request off.
    pub async fn complete(&self, ask: Ask<'_>, stop: &CancellationToken) -> Result<Answer, EndpointError> {
        let begun = Instant::now();
        let body = Bytes::from(request::body(&self.settings, ask.messages, ask.tools, ask.seed));
        let mut tried = 0;
        loop {
            tried += 1;
            let once = tokio::time::timeout(self.settings.answer_limit, self.once(&ask, &body, tried));
            let (detail, asked) = tokio::select! {
                biased;
                () = stop.cancelled() => return Err(EndpointError::Cancelled),
                once = once => match once {
                    Ok(Ok(draft)) => {
                        let mut answer = draft.finish(&self.settings);
                        answer.tries = tried;
                        answer.wall_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
                        return Ok(answer);
                    }
                    Ok(Err(Failed::Lasting(error))) => return Err(error),
                    Ok(Err(Failed::Passing(detail, asked))) => (detail, asked),
                    Err(_) => {
                        let seconds = self.settings.answer_limit.as_secs_f64();
                        (format!("no whole answer within {seconds} s"), None)
                    }
                },
            };
            tracing::debug!(session = ask.session, turn = ask.turn, tried, detail, ?asked, "no answer");
            let Some(wait) = self.settings.retry.wait(tried, asked, (self.jitter)()) else {
                let asked = asked.map_or_else(String::new, |asked| {
                    format!("; the endpoint asks to wait {} s", asked.as_secs_f64())
                });
                return Err(EndpointError::Exhausted { tries: tried, detail: format!("{detail}{asked}") });
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => return Err(EndpointError::Cancelled),
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// One try.
    async fn once(&self, ask: &Ask<'_>, body: &Bytes, tried: u32) -> Result<Draft, Failed> {
        let kept = |error| Failed::Lasting(EndpointError::Wire(error));
        if let Some(wire) = ask.wire {
            wire.request(ask.turn, tried, body).map_err(kept)?;
        }
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Ok(session) = HeaderValue::from_str(ask.session) {
            headers.insert(SESSION, session);
        }
        if let Some(key) = &self.key {
            headers.insert(AUTHORIZATION, key.header());
        }
        let request = self.http.post(self.address.clone()).headers(headers).body(body.clone());
        let mut response =
            request.send().await.map_err(|error| Failed::Passing(chain(&error.without_url()), None))?;
        let status = response.status().as_u16();
        let asked = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let asked = asked.and_then(|text| retry::asked(text, Timestamp::now()));
        let (mut bytes, mut broken) = (Vec::new(), None);
        loop {
            match response.chunk().await {
                Ok(Some(chunk)) if bytes.len() + chunk.len() <= MOST_BYTES => bytes.extend_from_slice(&chunk),
                Ok(Some(_)) => {
                    let detail = format!("the answer is larger than {} MiB", MOST_BYTES >> 20);
                    return Err(Failed::Lasting(EndpointError::Refused { status, detail }));
                }
                Ok(None) => break,
                Err(error) => {
                    broken = Some(chain(&error.without_url()));
                    break;
                }
            }
        }
        if let Some(wire) = ask.wire {
            let shown = self.key.as_ref().and_then(|key| key.hidden_bytes(&bytes));
            wire.answer(ask.turn, tried, shown.as_deref().unwrap_or(&bytes)).map_err(kept)?;
        }
        if let Some(detail) = broken {
            return Err(Failed::Passing(format!("the answer broke off: {detail}"), asked));
        }
        if !(200..300).contains(&status) {
            return Err(self.refused(status, &String::from_utf8_lossy(&bytes), asked));
        }
        if request::is_streamed(&self.settings) {
            return match events::read(&bytes) {
                Streamed::Ended(draft) => Ok(*draft),
                // Nothing says which status it would have had.
                Streamed::Refused(body) if refusal::is_overflow(400, &body) => {
                    Err(self.refused(400, &body, asked))
                }
                Streamed::Refused(body) => Err(self.refused(500, &body, asked)),
                Streamed::Cut(detail) => Err(Failed::Passing(detail, asked)),
            };
        }
        let document: Document = serde_json::from_slice(&bytes)
            .map_err(|error| Failed::Passing(format!("the answer cannot be read: {error}"), asked))?;
        if document.error.is_some() {
            return Err(self.refused(500, &String::from_utf8_lossy(&bytes), asked));
        }
        let mut draft = Draft::default();
        draft.add(document);
        Ok(draft)
    }

    fn refused(&self, status: u16, body: &str, asked: Option<Duration>) -> Failed {
        // Before anything is cut off: half a key could not be found any more.
        let shown = self.key.as_ref().map_or_else(|| body.to_owned(), |key| key.hidden(body));
        let detail = refusal::message(&shown);
        Failed::Lasting(match refusal::meaning(status, body) {
            Meaning::Passing => return Failed::Passing(format!("status {status}: {detail}"), asked),
            Meaning::Overflow => EndpointError::Overflow(detail),
            Meaning::Auth => EndpointError::Auth { status, detail },
            Meaning::NoModel => EndpointError::NoModel { model: self.settings.model.clone(), detail },
            Meaning::Declined => EndpointError::Declined(detail),
            Meaning::Lasting => EndpointError::Refused { status, detail },
        })
    }
}

/// The address of chat completions below the one that was given.
fn address(url: &str) -> Result<Url, EndpointError> {
    let wrong = |detail: String| EndpointError::Address { url: url.to_owned(), detail };
    let mut address = Url::parse(url).map_err(|error| wrong(error.to_string()))?;
    if !matches!(address.scheme(), "http" | "https") {
        return Err(wrong("it begins with neither http:// nor https://".into()));
    }
    if !address.username().is_empty() || address.password().is_some() {
        let url = format!("{}://****@{}", address.scheme(), address.host_str().unwrap_or_default());
        let detail = "it holds credentials, which belong into an environment variable".into();
        return Err(EndpointError::Address { url, detail });
    }
    if address.query().is_some() || address.fragment().is_some() {
        // Addresses are written into results, and what stands there may be a key.
        address.set_query(None);
        address.set_fragment(None);
        let detail = "it has a part behind `?` or `#`, which no endpoint needs".into();
        return Err(EndpointError::Address { url: address.into(), detail });
    }
    let path = address.path().trim_end_matches('/').trim_end_matches("/chat/completions").to_owned();
    address.set_path(&format!("{path}/chat/completions"));
    Ok(address)
}

fn is_loopback(address: &Url) -> bool {
    match address.host_str() {
        Some("localhost") => true,
        Some(host) => host
            .trim_matches(['[', ']'])
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback()),
        None => false,
    }
}

/// An error with everything that caused it.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lead_to_chat_completions() {
        for url in ["http://h:1/v1", "http://h:1/v1/", "http://h:1/v1/chat/completions"] {
            assert_eq!(address(url).unwrap().as_str(), "http://h:1/v1/chat/completions");
        }
        assert_eq!(address("https://h").unwrap().as_str(), "https://h/chat/completions");
        for odd in ["h:1/v1", "ftp://h/v1", ""] {
            assert!(matches!(address(odd), Err(EndpointError::Address { .. })), "{odd}");
        }
        let error = address("https://user:made-up@h/v1").unwrap_err().to_string();
        assert!(!error.contains("made-up"), "{error}");
        let error = address("https://h/v1?key=made-up").unwrap_err().to_string();
        assert!(error.contains("https://h/v1") && !error.contains("made-up"), "{error}");
        assert!(is_loopback(&Url::parse("http://[::1]:1/").unwrap()));
        assert!(!is_loopback(&Url::parse("http://h/").unwrap()));
    }
}
