//! HTTP with bounds: size, idle time, redirects, attempts.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER};
use reqwest::{Certificate, Response, StatusCode, Url, redirect};

use super::error::IndexError;
use super::location::{Environment, IndexLocation, redacted};
use crate::transport::chain;

/// How an index is talked to.
#[derive(Debug, Clone)]
pub struct ClientSettings {
    /// Longest time until a connection stands.
    pub connect_timeout: Duration,
    /// Longest time without a byte.
    pub idle_timeout: Duration,
    /// When to try again.
    pub retry: Retry,
    /// A PEM file of certificates that are trusted besides those of the system.
    pub certificates: Option<PathBuf>,
}

/// When to try again after a failure that may pass: no connection, a cut body, status 429 or 5xx.
#[derive(Debug, Clone, Copy)]
pub struct Retry {
    /// Attempts in all.
    pub attempts: u32,
    /// Pause after the first attempt; it doubles after every other one.
    pub first_pause: Duration,
}

impl Default for ClientSettings {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(15),
            idle_timeout: Duration::from_secs(60),
            retry: Retry { attempts: 4, first_pause: Duration::from_millis(500) },
            certificates: None,
        }
    }
}

impl ClientSettings {
    /// Takes the certificates from PIP_CERT or pip's configuration. SSL_CERT_FILE, SSL_CERT_DIR and the proxy variables
    /// need no mention: the TLS and proxy layers read them.
    pub fn of_environment(environment: &Environment) -> Result<Self, IndexError> {
        let variable = environment.variable("PIP_CERT").map(PathBuf::from);
        let certificates = match variable {
            Some(path) => Some(path),
            None => environment.pip_setting("cert")?.map(|(text, _)| PathBuf::from(text)),
        };
        Ok(Self { certificates, ..Self::default() })
    }
}

/// The longest pause between two attempts, whatever the server asks for.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

const MOST_REDIRECTS: usize = 10;

#[derive(Debug)]
pub(crate) struct Client {
    http: reqwest::Client,
    retry: Retry,
}

/// What came, and where from after all redirects.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub url: Url,
    pub content_type: String,
}

/// How one attempt went wrong.
enum Failure {
    /// Another attempt may help.
    Passing { detail: String, pause: Option<Duration> },
    /// It will not.
    Lasting(IndexError),
    /// The server says that there is no such thing.
    Missing,
}

impl Client {
    pub(crate) fn new(settings: &ClientSettings, location: &IndexLocation) -> Result<Self, IndexError> {
        // An error only says that the process has a provider already, which then serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let wrong = |error: reqwest::Error| IndexError::Client { detail: chain(&error) };
        let redirects = redirect::Policy::custom(|attempt| {
            let downgrade = attempt.url().scheme() == "http"
                && attempt.previous().last().is_some_and(|url| url.scheme() == "https");
            if downgrade {
                attempt.error("it redirects from https to http")
            } else if attempt.previous().len() > MOST_REDIRECTS {
                attempt.error("it redirects without end")
            } else {
                attempt.follow()
            }
        });
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("seatrial/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(settings.connect_timeout)
            .read_timeout(settings.idle_timeout)
            .redirect(redirects);
        if let Some(path) = &settings.certificates {
            let io = |source| IndexError::Io { path: path.clone(), source };
            let bundle = fs_err::read(path).map_err(io)?;
            builder = builder.tls_certs_merge(Certificate::from_pem_bundle(&bundle).map_err(wrong)?);
        }
        if location.is_loopback() {
            // No proxy can reach this machine's own ports.
            builder = builder.no_proxy();
        }
        Ok(Self { http: builder.build().map_err(wrong)?, retry: settings.retry })
    }

    /// Fetches `url`, at most `limit` bytes, into what `start` makes for each attempt. None: there is no such thing.
    pub(crate) async fn fetch<W: Write>(
        &self,
        url: &Url,
        accept: &str,
        limit: u64,
        mut start: impl FnMut() -> Result<W, IndexError>,
    ) -> Result<Option<(Fetched, W)>, IndexError> {
        let attempts = self.retry.attempts.max(1);
        let mut last = String::new();
        for attempt in 1..=attempts {
            let mut sink = start()?;
            let pause = match self.attempt(url, accept, limit, &mut sink).await {
                Ok(fetched) => return Ok(Some((fetched, sink))),
                Err(Failure::Missing) => return Ok(None),
                Err(Failure::Lasting(error)) => return Err(error),
                Err(Failure::Passing { detail, pause }) => {
                    tracing::debug!(url = redacted(url), attempt, detail, "the attempt failed");
                    last = detail;
                    pause
                }
            };
            if attempt < attempts {
                let doubled = self.retry.first_pause.saturating_mul(1 << (attempt - 1).min(16));
                tokio::time::sleep(pause.unwrap_or(doubled).min(LONGEST_PAUSE)).await;
            }
        }
        Err(IndexError::Unreachable { url: redacted(url), attempts, detail: last })
    }

    async fn attempt(
        &self,
        url: &Url,
        accept: &str,
        limit: u64,
        sink: &mut impl Write,
    ) -> Result<Fetched, Failure> {
        let passing = |error: reqwest::Error| Failure::Passing { detail: chain(&error), pause: None };
        let sent = self.http.get(url.clone()).header(ACCEPT, accept).send().await;
        let mut response = match sent {
            Ok(response) => response,
            Err(error) if error.is_redirect() || error.is_builder() => {
                let detail = chain(&error);
                return Err(Failure::Lasting(IndexError::Page { url: redacted(url), detail }));
            }
            Err(error) => return Err(passing(error)),
        };
        judge(&response, url)?;
        let too_large = || Failure::Lasting(IndexError::TooLarge { url: redacted(url), limit });
        if response.content_length().is_some_and(|length| length > limit) {
            return Err(too_large());
        }
        let mut received = 0;
        while let Some(chunk) = response.chunk().await.map_err(passing)? {
            received += chunk.len() as u64;
            if received > limit {
                return Err(too_large());
            }
            sink.write_all(&chunk).map_err(|source| {
                Failure::Lasting(IndexError::Io { path: PathBuf::from(url.path()), source })
            })?;
        }
        let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let content_type = content_type.unwrap_or_default().to_ascii_lowercase();
        Ok(Fetched { url: response.url().clone(), content_type })
    }
}

/// Sorts an answer by its status.
fn judge(response: &Response, url: &Url) -> Result<(), Failure> {
    let status = response.status();
    if status.is_success() {
        return Ok(());
    }
    if matches!(status, StatusCode::NOT_FOUND | StatusCode::GONE) {
        return Err(Failure::Missing);
    }
    let passes = status.is_server_error()
        || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT);
    if passes {
        let seconds = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        return Err(Failure::Passing {
            detail: format!("it answers {status}"),
            pause: seconds.map(Duration::from_secs),
        });
    }
    let remedy = match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
            "the index address or the proxy may need a user name and a password"
        }
        _ => "check the index address in SEATRIAL_INDEX_URL",
    };
    Err(Failure::Lasting(IndexError::Refused { url: redacted(url), status: status.as_u16(), remedy }))
}
