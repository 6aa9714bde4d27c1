//! One request at a time: redirects without the token, answers judged, another try where it may help.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderValue, LOCATION, RANGE};
use reqwest::{Body, Method, Response, StatusCode, Url};

use super::error::RemoteError;
use super::retry::{RetryRules, asked_wait, is_exhausted};
use super::settings::{Host, RemoteSettings, Secret};
use crate::index::redacted;
use crate::transport::chain;

const MOST_REDIRECTS: usize = 10;

/// The most attempts of one request, whatever each of them brought.
const MOST_ATTEMPTS: u32 = 1000;

/// Connections.
#[derive(Debug)]
pub(super) struct Client {
    outside: reqwest::Client,
    /// For this machine's own ports, which no proxy can reach.
    loopback: reqwest::Client,
    rules: RetryRules,
}

/// What is asked for.
#[derive(Clone, Copy)]
pub(super) struct Ask<'a> {
    /// What it is, for messages.
    pub what: &'a str,
    /// Whom: the token is for this one alone.
    pub host: &'a Host,
    /// Where.
    pub url: &'a Url,
    /// In which forms.
    pub accept: &'a str,
    /// From which byte on; none for an answer without ranges.
    pub from: Option<u64>,
}

/// What is sent.
pub(super) struct Outgoing {
    pub method: Method,
    pub headers: HeaderMap,
    pub body: Body,
}

/// An answer that brings something.
pub(super) struct Answered {
    pub response: Response,
    /// The headers of the server that was asked, before it sent elsewhere.
    pub first: HeaderMap,
}

/// How one attempt went wrong.
pub(super) enum Failure {
    /// Another attempt may help.
    Passing {
        detail: String,
        asked: Option<Duration>,
        /// Whether the attempt brought bytes that are kept.
        gained: bool,
    },
    /// The server has had enough of us.
    Limited { asked: Option<Duration> },
    /// No other attempt will help.
    Lasting(RemoteError),
}

impl From<RemoteError> for Failure {
    fn from(error: RemoteError) -> Self {
        Self::Lasting(error)
    }
}

impl Client {
    pub(super) fn new(settings: &RemoteSettings) -> Result<Self, RemoteError> {
        // An error only says that the process has a provider already, which then serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = || {
            reqwest::Client::builder()
                .user_agent(concat!("seatrial/", env!("CARGO_PKG_VERSION")))
                .connect_timeout(settings.connect_timeout)
                .read_timeout(settings.idle_timeout)
                // Redirects are followed here, where tokens are left behind.
                .redirect(reqwest::redirect::Policy::none())
        };
        let wrong = |error: reqwest::Error| RemoteError::Client { detail: chain(&error) };
        Ok(Self {
            outside: builder().build().map_err(wrong)?,
            loopback: builder().no_proxy().build().map_err(wrong)?,
            rules: settings.retry,
        })
    }

    /// Tries until an attempt succeeds or nothing can help any more.
    pub(super) async fn retrying<T>(
        &self,
        ask: Ask<'_>,
        mut attempt: impl AsyncFnMut() -> Result<T, Failure>,
    ) -> Result<T, RemoteError> {
        let mut in_vain = 0;
        for tried in 1..=MOST_ATTEMPTS {
            let (detail, asked, gained, limited) = match attempt().await {
                Ok(value) => return Ok(value),
                Err(Failure::Lasting(error)) => return Err(error),
                Err(Failure::Passing { detail, asked, gained }) => (detail, asked, gained, false),
                Err(Failure::Limited { asked }) => ("too many requests".to_owned(), asked, false, true),
            };
            in_vain = if gained { 1 } else { in_vain + 1 };
            tracing::debug!(what = ask.what, tried, detail, ?asked, "the attempt failed");
            let limit = || RemoteError::RateLimited {
                host: ask.host.shown(),
                wait: asked,
                token: ask.host.token_name,
            };
            let Some(pause) = self.rules.pause(in_vain, asked, rand::random()) else { return Err(limit()) };
            if in_vain >= self.rules.attempts.max(1) || tried == MOST_ATTEMPTS {
                if limited {
                    return Err(limit());
                }
                let (what, url) = (ask.what.to_owned(), redacted(ask.url));
                return Err(RemoteError::Unreachable { what, url, attempts: tried, detail });
            }
            tokio::time::sleep(pause).await;
        }
        unreachable!("the last attempt returns")
    }

    /// Sends one request, follows its redirects and judges the answer.
    pub(super) async fn send(&self, ask: Ask<'_>) -> Result<Answered, Failure> {
        let mut url = ask.url.clone();
        let mut first: Option<HeaderMap> = None;
        for _ in 0..=MOST_REDIRECTS {
            let client = if is_loopback(&url) { &self.loopback } else { &self.outside };
            let mut request = client.get(url.clone()).header(ACCEPT, ask.accept);
            if let Some(from) = ask.from.filter(|from| *from > 0) {
                request = request.header(RANGE, format!("bytes={from}-"));
            }
            if let Some(token) = &ask.host.token
                && url.origin() == ask.host.url.origin()
            {
                request = request.header(AUTHORIZATION, bearer(ask.host, token)?);
            }
            let response = request.send().await.map_err(|error| passing(&error, false))?;
            if !response.status().is_redirection() {
                let response = judge(ask, response)?;
                let first = first.unwrap_or_else(|| response.headers().clone());
                return Ok(Answered { response, first });
            }
            let next = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
            let next = next.and_then(|location| url.join(location).ok());
            let refused = |detail: &str| RemoteError::Redirect {
                what: ask.what.to_owned(),
                url: redacted(&url),
                detail: detail.to_owned(),
            };
            let next = next.ok_or_else(|| refused("redirects to no address"))?;
            may_follow(&url, &next, ask.url).map_err(refused)?;
            first.get_or_insert_with(|| response.headers().clone());
            url = next;
        }
        let detail = format!("redirects more than {MOST_REDIRECTS} times");
        Err(RemoteError::Redirect { what: ask.what.to_owned(), url: redacted(ask.url), detail }.into())
    }

    /// Sends something, with the token where the address is the host's own. Redirects are not followed: what is sent would not be sent again.
    pub(super) async fn submit(&self, ask: Ask<'_>, outgoing: Outgoing) -> Result<Response, Failure> {
        let client = if is_loopback(ask.url) { &self.loopback } else { &self.outside };
        let mut request = client.request(outgoing.method, ask.url.clone()).headers(outgoing.headers);
        if let Some(token) = &ask.host.token
            && ask.url.origin() == ask.host.url.origin()
        {
            request = request.header(AUTHORIZATION, bearer(ask.host, token)?).header(ACCEPT, ask.accept);
        }
        let response = request.body(outgoing.body).send().await.map_err(|error| passing(&error, false))?;
        judge(ask, response)
    }

    /// Reads an answer of at most `limit` bytes.
    pub(super) async fn body(
        &self,
        ask: Ask<'_>,
        mut response: Response,
        limit: u64,
    ) -> Result<Vec<u8>, Failure> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| passing(&error, false))? {
            if (body.len() + chunk.len()) as u64 > limit {
                return Err(unusable(ask, format!("it has more than {limit} bytes")).into());
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    /// Gets a whole answer of at most `limit` bytes.
    pub(super) async fn get(&self, ask: Ask<'_>, limit: u64) -> Result<(HeaderMap, Vec<u8>), RemoteError> {
        let attempt = async || {
            let answered = self.send(ask).await?;
            let headers = answered.response.headers().clone();
            Ok((headers, self.body(ask, answered.response, limit).await?))
        };
        self.retrying(ask, attempt).await
    }
}

/// An answer that cannot be used.
pub(super) fn unusable(ask: Ask<'_>, detail: String) -> RemoteError {
    RemoteError::Answer { what: ask.what.to_owned(), url: redacted(ask.url), detail }
}

/// A failure of the connection.
pub(super) fn passing(error: &reqwest::Error, gained: bool) -> Failure {
    Failure::Passing { detail: chain(error), asked: None, gained }
}

/// Whether a redirect may be followed: never into the open, and never from elsewhere onto this machine.
pub(super) fn may_follow(from: &Url, to: &Url, asked: &Url) -> Result<(), &'static str> {
    match to.scheme() {
        "https" => {}
        "http" if from.scheme() == "http" => {}
        "http" => return Err("redirects from https to http"),
        _ => return Err("redirects to something else than http"),
    }
    if is_loopback(to) && !is_loopback(asked) {
        return Err("redirects to this machine");
    }
    Ok(())
}

/// Whether an address is one of this machine's own.
pub(super) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn bearer(host: &Host, token: &Secret) -> Result<HeaderValue, RemoteError> {
    let wrong = |_| RemoteError::Setting {
        name: host.token_name,
        detail: "holds characters that no token has; look for a line break or a quote in it",
    };
    let mut value = HeaderValue::from_str(&format!("Bearer {}", token.expose())).map_err(wrong)?;
    value.set_sensitive(true);
    Ok(value)
}

/// Sorts an answer by its status.
fn judge(ask: Ask<'_>, response: Response) -> Result<Response, Failure> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs().cast_signed());
    let asked = asked_wait(response.headers(), now);
    let limited = status == StatusCode::TOO_MANY_REQUESTS
        || (status == StatusCode::FORBIDDEN
            && (is_exhausted(response.headers()) || response.headers().contains_key("retry-after")));
    if limited {
        return Err(Failure::Limited { asked });
    }
    if status.is_server_error() || status == StatusCode::REQUEST_TIMEOUT {
        return Err(Failure::Passing { detail: format!("it answers {status}"), asked, gained: false });
    }
    let what = ask.what.to_owned();
    let code = header(&response, "x-error-code");
    let said = said(ask.host, &response);
    let name = ask.host.token_name;
    Err(Failure::Lasting(match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            let remedy = match (&ask.host.token, code.as_deref()) {
                (_, Some("GatedRepo")) => format!(
                    "its owner asks for consent; give it on the page of the repository, and set {name} to a token of that account"
                ),
                (None, _) => format!(
                    "it does not exist, or is not open to everybody; check its name, or set {name} to a token that may read it"
                ),
                (Some(_), _) if status == StatusCode::UNAUTHORIZED => {
                    format!("the token in {name} is not accepted, or the repository does not exist")
                }
                (Some(_), _) => format!("the token in {name} may not read it"),
            };
            RemoteError::Denied { what, status: status.as_u16(), remedy }
        }
        StatusCode::NOT_FOUND | StatusCode::GONE => {
            let said = match code.as_deref() {
                Some("RepoNotFound") => " (there is no such repository)".to_owned(),
                Some("RevisionNotFound") => " (there is no such revision)".to_owned(),
                Some("EntryNotFound") => " (there is no such file)".to_owned(),
                _ => said,
            };
            RemoteError::Missing { what, said }
        }
        _ => RemoteError::Refused { what, url: redacted(ask.url), status: status.as_u16(), said },
    }))
}

/// What the server says about its refusal, in parentheses: a line, without the token if it repeats that.
fn said(host: &Host, response: &Response) -> String {
    let Some(text) = header(response, "x-error-message") else { return String::new() };
    let text = host.scrubbed(&text);
    let line: String = text.chars().filter(|c| !c.is_control()).take(200).collect();
    if line.trim().is_empty() { String::new() } else { format!(" ({})", line.trim()) }
}

fn header(response: &Response, name: &str) -> Option<String> {
    response.headers().get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_lead_neither_into_the_open_nor_onto_this_machine() {
        let url = |text: &str| Url::parse(text).unwrap();
        let follow = |from, to, asked| may_follow(&url(from), &url(to), &url(asked));
        let (hub, cdn) = ("https://hub.invalid/x", "https://cdn.invalid/y");
        assert!(follow(hub, cdn, hub).is_ok());
        assert!(follow("http://hub.invalid/x", "http://cdn.invalid/y", "http://hub.invalid/x").is_ok());
        for to in ["http://cdn.invalid/y", "file:///etc/passwd", "https://127.0.0.1/y", "https://[::1]/y"] {
            assert!(follow(hub, to, hub).is_err(), "{to}");
        }
        let own = "http://127.0.0.1:1/x";
        assert!(follow(own, "http://127.0.0.1:2/y", own).is_ok());
    }
}
