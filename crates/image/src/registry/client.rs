//! Requests to one registry or another: addresses, authorisation, redirects, another try.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, HeaderValue, LOCATION,
    WWW_AUTHENTICATE,
};
use reqwest::{Body, Method, RequestBuilder, Response, StatusCode, Url};

use super::auth::{Challenge, challenge};
use super::connections::{Connections, SILENCE_LIMIT};
use super::credentials::Credentials;
use super::grants::{Access, Grants};
use super::pace::Pace;
use super::quota::Quotas;
use super::retry;
use crate::{ImageError, RemoteRef};

/// The longest that one request may take, its whole body included, unless the body is a stream.
const REQUEST_LIMIT: Duration = Duration::from_secs(3600);
const MAX_REDIRECTS: usize = 5;
/// Longest text of a refusal that is read.
pub(super) const MAX_ERROR: u64 = 4096;

/// Sends requests; shared by all that is done with registries.
pub(super) struct Client {
    connections: Connections,
    grants: Grants,
    pub(super) quotas: Quotas,
    pace: Pace,
    /// The longest wait that a registry may ask for.
    max_wait: Duration,
}

/// A request that can be sent again.
#[derive(Clone)]
pub(super) struct Question<'a> {
    /// For whom.
    pub(super) reference: &'a RemoteRef,
    /// What it wants to do there.
    pub(super) access: Access,
    pub(super) method: Method,
    pub(super) address: &'a Url,
    pub(super) accept: Option<&'a str>,
    /// Media type and bytes of a short body.
    pub(super) body: Option<(&'a str, &'a [u8])>,
    /// Whether the body of the answer is long, so that only its silence is bounded.
    pub(super) streams: bool,
}

impl<'a> Question<'a> {
    /// A question that changes nothing.
    pub(super) fn reading(
        reference: &'a RemoteRef,
        method: Method,
        address: &'a Url,
        accept: &'a str,
    ) -> Self {
        let access = Access::pull(reference);
        Self { reference, access, method, address, accept: Some(accept), body: None, streams: false }
    }

    /// A request that changes something.
    pub(super) fn writing(
        reference: &'a RemoteRef,
        access: Access,
        method: Method,
        address: &'a Url,
    ) -> Self {
        Self { reference, access, method, address, accept: None, body: None, streams: false }
    }
}

impl Client {
    /// Sets up connections; nothing is sent yet.
    pub(super) fn new(
        credentials: Credentials,
        certificates: Vec<PathBuf>,
        at_once: usize,
        max_wait: Duration,
    ) -> Result<Self, ImageError> {
        Ok(Self {
            connections: Connections::new(certificates)?,
            grants: Grants::new(credentials),
            quotas: Quotas::default(),
            pace: Pace::new(at_once),
            max_wait,
        })
    }

    /// Gets `/v2/<repository>/<tail>`. Only a success is returned.
    pub(super) async fn get(
        &self,
        reference: &RemoteRef,
        tail: &str,
        accept: &str,
    ) -> Result<Response, ImageError> {
        let address = address(reference, tail)?;
        let question = Question::reading(reference, Method::GET, &address, accept);
        self.succeed(&Question { streams: tail.starts_with("blobs/"), ..question }).await
    }

    /// Asks, and takes nothing but a success for an answer.
    pub(super) async fn succeed(&self, question: &Question<'_>) -> Result<Response, ImageError> {
        let response = self.ask(question).await?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(self.refusal(question.reference, &question.method, question.address, response).await)
    }

    /// Asks with authorisation, and again while an answer may pass. The last answer is returned whatever it says.
    pub(super) async fn ask(&self, question: &Question<'_>) -> Result<Response, ImageError> {
        let Question { reference, access, method, address, .. } = question;
        let host = reference.host();
        let mut refreshed = false;
        let mut tried = 0;
        loop {
            let granted = self.grants.header(&self.connections, reference, access).await?;
            tried += 1;
            let sent = self.quotas.sent();
            let response = match self.send(question, granted.as_ref()).await {
                Ok(response) => response,
                Err(Sending::Final(error)) => return Err(error),
                Err(Sending::Transport(error)) => {
                    let wait = self.wait(tried, None).filter(|_| tried < retry::TRIES);
                    let text = chain(&error);
                    let Some(wait) = wait else {
                        return Err(failed(reference, format!("{method} {}: {text}", address.path())));
                    };
                    tracing::debug!(host, error = text, "tries again");
                    tokio::time::sleep(wait).await;
                    continue;
                }
            };
            self.quotas.note(host, sent, response.headers());
            let status = response.status();
            // A token may have run out; the challenge tells how to get another.
            if status == StatusCode::UNAUTHORIZED
                && !refreshed
                && self.is_challenged(reference, access, granted.as_ref(), &response)
            {
                refreshed = true;
                tried -= 1;
                continue;
            }
            let asked = retry::asked(response.headers());
            let response = if status == StatusCode::FORBIDDEN {
                // Some registries say so what others say with 429.
                let body = read_body(reference, response, MAX_ERROR).await.unwrap_or_default();
                if !retry::is_too_many(&body) {
                    return Err(self.grants.denied(reference).await);
                }
                None
            } else {
                Some(response)
            };
            let too_many = response.is_none() || status == StatusCode::TOO_MANY_REQUESTS;
            if too_many || retry::is_passing(status.as_u16()) {
                let wait = self.wait(tried, asked).filter(|_| tried < retry::TRIES);
                // What one request is told holds for all of them.
                if let Some(asked) = asked.filter(|_| wait.is_some()) {
                    self.pace.rest(host, asked);
                }
                if let Some(wait) = wait {
                    tracing::debug!(host, status = status.as_u16(), ?wait, "tries again");
                    tokio::time::sleep(wait).await;
                    continue;
                }
                if too_many {
                    return Err(ImageError::TooManyRequests { host: host.to_owned(), retry_after: asked });
                }
            }
            return response.ok_or_else(|| failed(reference, "too many requests".to_owned()));
        }
    }

    /// Sends a body of known length once. The answer is returned whatever it says; `None` when the authorisation was refused, and
    /// another one will be there for the next try.
    pub(super) async fn send_stream(
        &self,
        question: &Question<'_>,
        body: Body,
        length: u64,
        range: Option<HeaderValue>,
    ) -> Result<Option<Response>, Sending> {
        let Question { reference, access, address, .. } = question;
        let granted = self.grants.header(&self.connections, reference, access).await;
        let granted = granted.map_err(Sending::Final)?;
        let connection = self.connections.of(address).map_err(Sending::Final)?;
        let _turn = self.pace.turn(reference.host()).await;
        let request = connection
            .sending
            .request(question.method.clone(), (*address).clone())
            .header(CONTENT_TYPE, "application/octet-stream")
            .header(CONTENT_LENGTH, length)
            .body(body);
        let request = match range {
            Some(range) => request.header(CONTENT_RANGE, range),
            None => request,
        };
        let request = authorised(reference, address, request, granted.as_ref()).map_err(Sending::Final)?;
        let response = request.send().await.map_err(|e| Sending::Transport(e.without_url()))?;
        if response.status() == StatusCode::UNAUTHORIZED
            && self.is_challenged(reference, access, granted.as_ref(), &response)
        {
            return Ok(None);
        }
        Ok(Some(response))
    }

    /// Sends one request and follows the redirects of those that change nothing.
    async fn send(
        &self,
        question: &Question<'_>,
        granted: Option<&HeaderValue>,
    ) -> Result<Response, Sending> {
        let Question { reference, method, address, .. } = question;
        let refuse =
            |what: &str| Sending::Final(failed(reference, format!("{method} {}: {what}", address.path())));
        // Until the answer begins; bodies are read without a turn, so that nobody waits for whoever waits for him.
        let _turn = self.pace.turn(reference.host()).await;
        let mut target = (*address).clone();
        for _ in 0..=MAX_REDIRECTS {
            let connection = self.connections.of(&target).map_err(Sending::Final)?;
            let mut request = connection.asking.request(method.clone(), target.clone());
            if let Some(accept) = question.accept {
                request = request.header(ACCEPT, accept);
            }
            if let Some((media_type, bytes)) = question.body {
                request = request.header(CONTENT_TYPE, media_type).body(bytes.to_vec());
            } else if *method == Method::POST || *method == Method::PUT {
                // Some servers refuse such a request without a length.
                request = request.header(CONTENT_LENGTH, 0);
            }
            if !question.streams {
                request = request.timeout(REQUEST_LIMIT);
            }
            let request = authorised(reference, &target, request, granted).map_err(Sending::Final)?;
            // Addresses of redirects carry signatures, which belong into no message.
            let response = request.send().await.map_err(|e| Sending::Transport(e.without_url()))?;
            if !response.status().is_redirection() {
                return Ok(response);
            }
            if !matches!(*method, Method::GET | Method::HEAD) {
                return Err(refuse("a redirect of a request that writes"));
            }
            let next = response
                .headers()
                .get(LOCATION)
                .and_then(|location| location.to_str().ok())
                .and_then(|location| target.join(location).ok());
            let next = next.ok_or_else(|| refuse("a redirect without an address"))?;
            if !may_connect(&next, is_loopback(address)) {
                return Err(refuse("a redirect to an address without encryption, or to this machine"));
            }
            target = next;
        }
        Err(refuse(&format!("more than {MAX_REDIRECTS} redirects")))
    }

    /// Takes note of what a registry asks for in a refusal, if it asks for something that this client knows.
    fn is_challenged(
        &self,
        reference: &RemoteRef,
        access: &Access,
        granted: Option<&HeaderValue>,
        response: &Response,
    ) -> bool {
        let Some(found) = challenge_of(response) else { return false };
        self.grants.refused(reference.host(), access, granted);
        self.grants.challenged(reference.host(), found);
        true
    }

    /// How long to wait before another try; `None` when the registry asks for more than is waited.
    pub(super) fn wait(&self, tried: u32, asked: Option<Duration>) -> Option<Duration> {
        retry::wait(tried, asked, self.max_wait)
    }

    /// What an answer that is no success means.
    pub(super) async fn refusal(
        &self,
        reference: &RemoteRef,
        method: &Method,
        address: &Url,
        response: Response,
    ) -> ImageError {
        let status = response.status().as_u16();
        match status {
            401 if challenge_of(&response).is_none() => {
                failed(reference, "answers 401 without a challenge that this client knows".to_owned())
            }
            401 | 403 => self.grants.denied(reference).await,
            429 => ImageError::TooManyRequests {
                host: reference.host().to_owned(),
                retry_after: retry::asked(response.headers()),
            },
            404 if matches!(*method, Method::GET | Method::HEAD) => ImageError::NotFound {
                reference: reference.to_string(),
                reason: format!("{} answers 404 to {}", reference.host(), address.path()),
            },
            _ => {
                let body = read_body(reference, response, MAX_ERROR).await.unwrap_or_default();
                let text: String =
                    String::from_utf8_lossy(&body).chars().filter(|c| !c.is_control()).take(300).collect();
                failed(reference, format!("{method} {}: status {status}: {text}", address.path()))
            }
        }
    }
}

/// Adds the authorisation, which goes to the registry's own address only.
fn authorised(
    reference: &RemoteRef,
    target: &Url,
    request: RequestBuilder,
    granted: Option<&HeaderValue>,
) -> Result<RequestBuilder, ImageError> {
    let own = address(reference, "")?;
    Ok(match granted {
        Some(granted) if target.origin() == own.origin() => request.header(AUTHORIZATION, granted.clone()),
        _ => request,
    })
}

fn challenge_of(response: &Response) -> Option<Challenge> {
    response.headers().get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok()).and_then(challenge)
}

/// Why a request got no answer.
pub(super) enum Sending {
    /// The connection failed; another try may help.
    Transport(reqwest::Error),
    /// No other try will help.
    Final(ImageError),
}

/// Reads a body of at most `limit` bytes.
pub(super) async fn read_body(
    reference: &RemoteRef,
    mut response: Response,
    limit: u64,
) -> Result<Vec<u8>, ImageError> {
    let mut body = Vec::new();
    // The connection itself may know no bound: see `Connection::sending`.
    let silent = |_| failed(reference, "an answer does not go on".to_owned());
    while let Some(chunk) = tokio::time::timeout(SILENCE_LIMIT, response.chunk())
        .await
        .map_err(silent)?
        .map_err(|e| failed(reference, format!("reading an answer: {}", chain(&e.without_url()))))?
    {
        if body.len() as u64 + chunk.len() as u64 > limit {
            return Err(failed(reference, format!("an answer has more than {limit} bytes")));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// An error about a registry.
pub(super) fn failed(reference: &RemoteRef, what: String) -> ImageError {
    ImageError::Registry { host: reference.host().to_owned(), what }
}

/// An error with everything that caused it.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = error.source();
    }
    text
}

/// The address of something in a repository.
pub(super) fn address(reference: &RemoteRef, tail: &str) -> Result<Url, ImageError> {
    let host = if reference.host() == "docker.io" { "registry-1.docker.io" } else { reference.host() };
    let scheme = if host_is_loopback(host) { "http" } else { "https" };
    let text = format!("{scheme}://{host}/v2/{}/{tail}", reference.path());
    Url::parse(&text).map_err(|e| failed(reference, format!("the address {text} is not valid: {e}")))
}

/// Whether `host[:port]` is this machine. Only there connections go without encryption.
pub(super) fn host_is_loopback(host: &str) -> bool {
    Url::parse(&format!("http://{host}/")).is_ok_and(|url| is_loopback(&url))
}

pub(super) fn is_loopback(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Whether a registry may send a client to this address.
pub(super) fn may_connect(url: &Url, registry_is_loopback: bool) -> bool {
    match url.scheme() {
        "https" => registry_is_loopback || !is_loopback(url),
        "http" => registry_is_loopback && is_loopback(url),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encryption_is_left_out_on_this_machine_only() {
        for (host, expected) in [
            ("localhost:5000", true),
            ("127.0.0.1:5000", true),
            ("[::1]:5000", true),
            ("127.0.0.1.evil.invalid", false),
            ("registry.invalid", false),
            ("10.0.0.1", false),
        ] {
            assert_eq!(host_is_loopback(host), expected, "{host}");
        }
        let url = |text: &str| Url::parse(text).unwrap();
        assert!(may_connect(&url("https://other.invalid/x"), false));
        assert!(!may_connect(&url("http://other.invalid/x"), false));
        assert!(!may_connect(&url("http://other.invalid/x"), true));
        assert!(!may_connect(&url("http://127.0.0.1/x"), false));
        assert!(!may_connect(&url("https://localhost/x"), false));
        assert!(may_connect(&url("http://127.0.0.1:9/x"), true));
        assert!(!may_connect(&url("file:///etc/passwd"), true));
    }

    #[test]
    fn addresses() {
        let of = |text: &str| {
            let reference: crate::ImageRef = text.parse().unwrap();
            address(reference.remote().unwrap(), "manifests/x").unwrap().to_string()
        };
        assert_eq!(of("ubuntu"), "https://registry-1.docker.io/v2/library/ubuntu/manifests/x");
        assert_eq!(of("localhost:5000/a/b"), "http://localhost:5000/v2/a/b/manifests/x");
    }
}
