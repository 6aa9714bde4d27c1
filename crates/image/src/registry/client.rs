//! Requests to one registry or another: addresses, authorisation, redirects, another try.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, Once, PoisonError};
use std::time::Duration;

use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderValue, LOCATION, WWW_AUTHENTICATE};
use reqwest::{Method, Response, StatusCode, Url};
use serde::Deserialize;

use super::auth::{Challenge, challenge};
use super::credentials::Credentials;
use super::retry;
use crate::{ImageError, RemoteRef};

const CONNECT_LIMIT: Duration = Duration::from_secs(15);
const SILENCE_LIMIT: Duration = Duration::from_secs(60);
/// The longest that one request may take, its whole body included.
const REQUEST_LIMIT: Duration = Duration::from_secs(3600);
const MAX_REDIRECTS: usize = 5;
const MAX_TOKEN: u64 = 256 << 10;
/// Longest text of a refusal that is read.
pub(super) const MAX_ERROR: u64 = 4096;

/// Sends requests; shared by all pulls.
pub(super) struct Client {
    outside: reqwest::Client,
    /// For loopback addresses, which no proxy can reach.
    loopback: reqwest::Client,
    credentials: Credentials,
    /// Authorisation that worked, by host and repository.
    granted: Mutex<BTreeMap<(String, String), HeaderValue>>,
}

#[derive(Deserialize)]
struct Token {
    #[serde(default)]
    token: Option<String>,
    #[serde(default)]
    access_token: Option<String>,
}

impl Client {
    /// Sets up connections; nothing is sent yet.
    pub(super) fn new(credentials: Credentials) -> Result<Self, ImageError> {
        install_crypto();
        let builder = || {
            reqwest::Client::builder()
                .user_agent(concat!("seatrial/", env!("CARGO_PKG_VERSION")))
                .connect_timeout(CONNECT_LIMIT)
                .read_timeout(SILENCE_LIMIT)
                .timeout(REQUEST_LIMIT)
                // Redirects are followed here, where credentials can be left behind.
                .redirect(reqwest::redirect::Policy::none())
        };
        let failed = |e: reqwest::Error| ImageError::Registry {
            host: "client".to_owned(),
            what: format!("cannot set up connections: {}", chain(&e)),
        };
        Ok(Self {
            outside: builder().build().map_err(failed)?,
            loopback: builder().no_proxy().build().map_err(failed)?,
            credentials,
            granted: Mutex::new(BTreeMap::new()),
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
        let response = self.ask(reference, Method::GET, &address, accept).await?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(self.refusal(reference, &address, response).await)
    }

    /// Asks with authorisation, and again while an answer may pass. The last answer is returned whatever it says.
    pub(super) async fn ask(
        &self,
        reference: &RemoteRef,
        method: Method,
        address: &Url,
        accept: &str,
    ) -> Result<Response, ImageError> {
        let key = (reference.host().to_owned(), reference.path().to_owned());
        let mut asked = false;
        let mut tried = 0;
        loop {
            let granted = self.granted.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
            tried += 1;
            let sent = self.send(reference, &method, address, granted.as_ref(), accept).await;
            let response = match sent {
                Ok(response) => response,
                Err(Sending::Final(error)) => return Err(error),
                Err(Sending::Transport(error)) if tried < retry::TRIES => {
                    tracing::debug!(host = reference.host(), error = chain(&error), "tries again");
                    tokio::time::sleep(retry::wait(tried, None)).await;
                    continue;
                }
                Err(Sending::Transport(error)) => {
                    return Err(failed(reference, format!("{method} {}: {}", address.path(), chain(&error))));
                }
            };
            let status = response.status();
            if status == StatusCode::UNAUTHORIZED && !asked {
                asked = true;
                // An old token may have run out; the challenge tells how to get another.
                self.granted.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
                let header = self.authorise(reference, &response).await?;
                self.granted.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), header);
                continue;
            }
            let wait = retry::wait(tried, retry::asked(response.headers()));
            let response = if status == StatusCode::FORBIDDEN {
                // Some registries say so what others say with 429.
                let body = read_body(reference, response, MAX_ERROR).await.unwrap_or_default();
                if !retry::is_too_many(&body) {
                    return Err(self.denied(reference));
                }
                None
            } else {
                Some(response)
            };
            if (response.is_none() || retry::is_passing(status.as_u16())) && tried < retry::TRIES {
                tracing::debug!(host = reference.host(), status = status.as_u16(), ?wait, "tries again");
                tokio::time::sleep(wait).await;
                continue;
            }
            return response.ok_or_else(|| failed(reference, "too many requests".to_owned()));
        }
    }

    /// Sends one request and follows its redirects. Authorisation goes to the registry's own address only.
    async fn send(
        &self,
        reference: &RemoteRef,
        method: &Method,
        address: &Url,
        granted: Option<&HeaderValue>,
        accept: &str,
    ) -> Result<Response, Sending> {
        let mut target = address.clone();
        for _ in 0..=MAX_REDIRECTS {
            let client = if is_loopback(&target) { &self.loopback } else { &self.outside };
            let mut request = client.request(method.clone(), target.clone()).header(ACCEPT, accept);
            if let Some(granted) = granted
                && target.origin() == address.origin()
            {
                request = request.header(AUTHORIZATION, granted.clone());
            }
            // Addresses of redirects carry signatures, which belong into no message.
            let response = request.send().await.map_err(|e| Sending::Transport(e.without_url()))?;
            if !response.status().is_redirection() {
                return Ok(response);
            }
            let next = response
                .headers()
                .get(LOCATION)
                .and_then(|location| location.to_str().ok())
                .and_then(|location| target.join(location).ok());
            let refuse = |what: &str| {
                Sending::Final(failed(reference, format!("{method} {}: {what}", address.path())))
            };
            let next = next.ok_or_else(|| refuse("a redirect without an address"))?;
            if !may_connect(&next, is_loopback(address)) {
                return Err(refuse("a redirect to an address without encryption, or to this machine"));
            }
            target = next;
        }
        Err(Sending::Final(failed(
            reference,
            format!("{method} {}: more than {MAX_REDIRECTS} redirects", address.path()),
        )))
    }

    /// Answers a challenge.
    async fn authorise(&self, reference: &RemoteRef, response: &Response) -> Result<HeaderValue, ImageError> {
        let header = response.headers().get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok());
        let basic = self.credentials.basic(reference.host());
        match header.and_then(challenge) {
            Some(Challenge::Bearer { realm, service }) => {
                self.token(reference, &realm, service.as_deref(), basic).await
            }
            Some(Challenge::Basic) => match basic {
                Some((user, password)) => secret(reference, &basic_value(user, password)),
                None => Err(self.denied(reference)),
            },
            None => {
                Err(failed(reference, "answers 401 without a challenge that this client knows".to_owned()))
            }
        }
    }

    async fn token(
        &self,
        reference: &RemoteRef,
        realm: &str,
        service: Option<&str>,
        basic: Option<(&str, &str)>,
    ) -> Result<HeaderValue, ImageError> {
        let mut address =
            Url::parse(realm).map_err(|_| failed(reference, format!("names the token address `{realm}`")))?;
        if !may_connect(&address, host_is_loopback(reference.host())) {
            let what = format!("names the token address `{realm}`, without encryption or on this machine");
            return Err(failed(reference, what));
        }
        {
            let mut query = address.query_pairs_mut();
            if let Some(service) = service {
                query.append_pair("service", service);
            }
            query.append_pair("scope", &format!("repository:{}:pull", reference.path()));
        }
        let client = if is_loopback(&address) { &self.loopback } else { &self.outside };
        let mut tried = 0;
        loop {
            tried += 1;
            let mut request = client.get(address.clone());
            if let Some((user, password)) = basic {
                request = request.header(AUTHORIZATION, secret(reference, &basic_value(user, password))?);
            }
            let response = match request.send().await {
                Ok(response) => response,
                Err(_) if tried < retry::TRIES => {
                    tokio::time::sleep(retry::wait(tried, None)).await;
                    continue;
                }
                Err(error) => {
                    let what = format!("token from {realm}: {}", chain(&error.without_url()));
                    return Err(failed(reference, what));
                }
            };
            let status = response.status();
            if status.is_success() {
                let body = read_body(reference, response, MAX_TOKEN).await?;
                let token: Token = serde_json::from_slice(&body)
                    .map_err(|_| failed(reference, format!("token from {realm}: the answer is no token")))?;
                let token = token.token.or(token.access_token).filter(|token| !token.is_empty());
                let token = token.ok_or_else(|| {
                    failed(reference, format!("token from {realm}: the answer has no token"))
                })?;
                return secret(reference, &format!("Bearer {token}"));
            }
            if retry::is_passing(status.as_u16()) && tried < retry::TRIES {
                tokio::time::sleep(retry::wait(tried, retry::asked(response.headers()))).await;
                continue;
            }
            if matches!(status.as_u16(), 401 | 403) {
                return Err(self.denied(reference));
            }
            return Err(failed(reference, format!("token from {realm}: status {}", status.as_u16())));
        }
    }

    fn denied(&self, reference: &RemoteRef) -> ImageError {
        let host = reference.host();
        let reason = match self.credentials.basic(host) {
            Some((user, _)) => format!("the credentials of user `{user}` are not accepted"),
            None => self.credentials.why_none(host),
        };
        ImageError::Denied { host: host.to_owned(), what: reference.path().to_owned(), reason }
    }

    pub(super) async fn refusal(
        &self,
        reference: &RemoteRef,
        address: &Url,
        response: Response,
    ) -> ImageError {
        let status = response.status().as_u16();
        match status {
            401 | 403 => self.denied(reference),
            404 => ImageError::NotFound {
                reference: reference.to_string(),
                reason: format!("{} answers 404 to {}", reference.host(), address.path()),
            },
            _ => {
                let body = read_body(reference, response, MAX_ERROR).await.unwrap_or_default();
                let text: String =
                    String::from_utf8_lossy(&body).chars().filter(|c| !c.is_control()).take(300).collect();
                failed(reference, format!("GET {}: status {status}: {text}", address.path()))
            }
        }
    }
}

/// Why a request got no answer.
enum Sending {
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
    while let Some(chunk) = response
        .chunk()
        .await
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
fn host_is_loopback(host: &str) -> bool {
    Url::parse(&format!("http://{host}/")).is_ok_and(|url| is_loopback(&url))
}

fn is_loopback(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Whether a registry may send a client to this address.
fn may_connect(url: &Url, registry_is_loopback: bool) -> bool {
    match url.scheme() {
        "https" => registry_is_loopback || !is_loopback(url),
        "http" => registry_is_loopback && is_loopback(url),
        _ => false,
    }
}

fn basic_value(user: &str, password: &str) -> String {
    use base64::Engine as _;
    format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}")))
}

fn secret(reference: &RemoteRef, text: &str) -> Result<HeaderValue, ImageError> {
    let mut value = HeaderValue::from_str(text).map_err(|_| {
        failed(reference, "the authorisation has characters that no header may have".to_owned())
    })?;
    value.set_sensitive(true);
    Ok(value)
}

/// Chooses the implementation of cryptography for the process, unless somebody has.
fn install_crypto() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // An error means that one is installed already, which will do.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
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
