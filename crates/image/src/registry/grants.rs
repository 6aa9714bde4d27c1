//! Authorisation: what a registry asks for, and what was obtained for it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{RequestBuilder, Url};
use serde::Deserialize;

use super::auth::Challenge;
use super::client::{chain, failed, host_is_loopback, may_connect, read_body};
use super::connections::Connections;
use super::credentials::{Credentials, Login};
use super::retry;
use crate::{ImageError, RemoteRef};

const MAX_TOKEN: u64 = 256 << 10;
/// The longest that a token may take.
const TOKEN_LIMIT: Duration = Duration::from_secs(120);

/// What a request wants to do, as scopes of a token.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Access(Vec<String>);

impl Access {
    /// Reading from a repository.
    pub(super) fn pull(repository: &RemoteRef) -> Self {
        Self(vec![format!("repository:{}:pull", repository.path())])
    }

    /// Writing to a repository.
    pub(super) fn push(repository: &RemoteRef) -> Self {
        Self(vec![format!("repository:{}:pull,push", repository.path())])
    }

    /// Writing to a repository what another one has: both in one token.
    pub(super) fn mount(into: &RemoteRef, from: &RemoteRef) -> Self {
        let mut scopes = Self::push(into).0;
        scopes.extend(Self::pull(from).0);
        Self(scopes)
    }
}

/// An authorisation, until it runs out.
#[derive(Clone)]
struct Grant {
    header: HeaderValue,
    until: Option<Instant>,
}

type Key = (String, Access);

/// What was obtained so far, by host and access.
pub(super) struct Grants {
    credentials: Credentials,
    obtained: Mutex<BTreeMap<Key, Grant>>,
    challenges: Mutex<BTreeMap<String, Challenge>>,
    /// Whose turn it is to obtain something, so that it is asked for once.
    turns: Mutex<BTreeMap<Key, Arc<tokio::sync::Mutex<()>>>>,
}

/// The answer to a request for a token, in its two spellings.
#[derive(Deserialize)]
struct TokenAnswer {
    #[serde(default)]
    token: Option<String>,
    #[serde(default)]
    access_token: Option<String>,
    #[serde(default)]
    expires_in: Option<u64>,
}

impl Grants {
    pub(super) fn new(credentials: Credentials) -> Self {
        Self {
            credentials,
            obtained: Mutex::default(),
            challenges: Mutex::default(),
            turns: Mutex::default(),
        }
    }

    /// Remembers what a host asks for.
    pub(super) fn challenged(&self, host: &str, challenge: Challenge) {
        locked(&self.challenges).insert(host.to_owned(), challenge);
    }

    /// Forgets an authorisation that was refused, unless there is another one by now.
    pub(super) fn refused(&self, host: &str, access: &Access, header: Option<&HeaderValue>) {
        let mut obtained = locked(&self.obtained);
        let key = (host.to_owned(), access.clone());
        if obtained.get(&key).is_some_and(|grant| Some(&grant.header) == header) {
            obtained.remove(&key);
        }
    }

    /// The authorisation for an access; `None` as long as the host has not asked for one.
    pub(super) async fn header(
        &self,
        connections: &Connections,
        reference: &RemoteRef,
        access: &Access,
    ) -> Result<Option<HeaderValue>, ImageError> {
        let key = (reference.host().to_owned(), access.clone());
        if let Some(header) = self.known(&key) {
            return Ok(Some(header));
        }
        let Some(challenge) = locked(&self.challenges).get(reference.host()).cloned() else {
            return Ok(None);
        };
        let turn = Arc::clone(locked(&self.turns).entry(key.clone()).or_default());
        let _turn = turn.lock().await;
        if let Some(header) = self.known(&key) {
            return Ok(Some(header));
        }
        let grant = self.obtain(connections, reference, access, &challenge).await?;
        let header = grant.header.clone();
        locked(&self.obtained).insert(key, grant);
        Ok(Some(header))
    }

    fn known(&self, key: &Key) -> Option<HeaderValue> {
        let obtained = locked(&self.obtained);
        let grant = obtained.get(key)?;
        grant.until.is_none_or(|until| Instant::now() < until).then(|| grant.header.clone())
    }

    async fn obtain(
        &self,
        connections: &Connections,
        reference: &RemoteRef,
        access: &Access,
        challenge: &Challenge,
    ) -> Result<Grant, ImageError> {
        let login = self.credentials.login(reference.host()).await;
        match challenge {
            Challenge::Basic => match login {
                Some(Login::Basic(user, password)) => {
                    let header = secret(reference, &basic_value(&user, &password))?;
                    Ok(Grant { header, until: None })
                }
                _ => Err(self.denied(reference).await),
            },
            Challenge::Bearer { realm, service } => {
                let request =
                    token_request(connections, reference, access, realm, service.as_deref(), login)?;
                self.token(reference, realm, request).await
            }
        }
    }

    async fn token(
        &self,
        reference: &RemoteRef,
        realm: &str,
        request: RequestBuilder,
    ) -> Result<Grant, ImageError> {
        let about = |what: String| failed(reference, format!("token from {realm}: {what}"));
        let mut tried = 0;
        loop {
            tried += 1;
            let again = request.try_clone().expect("a request with a short body can be repeated");
            let (why, asked) = match again.send().await {
                Ok(response) if response.status().is_success() => {
                    let body = read_body(reference, response, MAX_TOKEN).await?;
                    let answer: TokenAnswer =
                        serde_json::from_slice(&body).map_err(|_| about("the answer is no token".into()))?;
                    return answer.grant(reference).ok_or_else(|| about("the answer has no token".into()))?;
                }
                Ok(response) if matches!(response.status().as_u16(), 401 | 403) => {
                    return Err(self.denied(reference).await);
                }
                Ok(response) => {
                    let status = response.status().as_u16();
                    let why = about(format!("status {status}"));
                    if !retry::is_passing(status) {
                        return Err(why);
                    }
                    (why, retry::asked(response.headers()))
                }
                Err(error) => (about(chain(&error.without_url())), None),
            };
            let wait = retry::wait(tried, asked, TOKEN_LIMIT).filter(|_| tried < retry::TRIES);
            tokio::time::sleep(wait.ok_or(why)?).await;
        }
    }

    /// A registry that wants credentials, or other ones.
    pub(super) async fn denied(&self, reference: &RemoteRef) -> ImageError {
        let host = reference.host();
        let reason = self.credentials.why_refused(host).await;
        ImageError::Denied { host: host.to_owned(), what: reference.path().to_owned(), reason }
    }
}

impl TokenAnswer {
    fn grant(self, reference: &RemoteRef) -> Option<Result<Grant, ImageError>> {
        let token = self.token.or(self.access_token).filter(|token| !token.is_empty())?;
        // Given back a little early, so that none runs out under way.
        let lifetime = self.expires_in.map(|seconds| Duration::from_secs(seconds.min(86_400)) * 9 / 10);
        let until = lifetime.map(|lifetime| Instant::now() + lifetime);
        Some(secret(reference, &format!("Bearer {token}")).map(|header| Grant { header, until }))
    }
}

/// The request for a token: a question with user and password, or the exchange of an identity token.
fn token_request(
    connections: &Connections,
    reference: &RemoteRef,
    Access(scopes): &Access,
    realm: &str,
    service: Option<&str>,
    login: Option<Login>,
) -> Result<RequestBuilder, ImageError> {
    let mut address =
        Url::parse(realm).map_err(|_| failed(reference, format!("names the token address `{realm}`")))?;
    if !may_connect(&address, host_is_loopback(reference.host())) {
        let what = format!("names the token address `{realm}`, without encryption or on this machine");
        return Err(failed(reference, what));
    }
    let client = connections.of(&address)?.asking;
    if let Some(Login::Identity(token)) = login {
        // Form data is spelled as queries are.
        let mut form = Url::parse("form:").expect("an address of one word");
        form.query_pairs_mut()
            .append_pair("grant_type", "refresh_token")
            .append_pair("service", service.unwrap_or_default())
            .append_pair("client_id", "seatrial")
            .append_pair("scope", &scopes.join(" "))
            .append_pair("refresh_token", &token);
        let form = form.query().unwrap_or_default().to_owned();
        let request = client.post(address).header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        return Ok(request.body(form).timeout(TOKEN_LIMIT));
    }
    {
        let mut query = address.query_pairs_mut();
        if let Some(service) = service {
            query.append_pair("service", service);
        }
        for scope in scopes {
            query.append_pair("scope", scope);
        }
    }
    let request = client.get(address).timeout(TOKEN_LIMIT);
    Ok(match login {
        Some(Login::Basic(user, password)) => {
            request.header(AUTHORIZATION, secret(reference, &basic_value(&user, &password))?)
        }
        _ => request,
    })
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn request(login: Option<Login>) -> reqwest::Request {
        let connections = Connections::new(Vec::new()).unwrap();
        let remote = |text: &str| {
            let reference: crate::ImageRef = text.parse().unwrap();
            reference.remote().unwrap().clone()
        };
        let (into, from) = (remote("registry.invalid/a/b"), remote("registry.invalid/c"));
        let access = Access::mount(&into, &from);
        let realm = "https://tokens.invalid/give?x=1";
        token_request(&connections, &into, &access, realm, Some("me & you"), login).unwrap().build().unwrap()
    }

    #[test]
    fn both_scopes_are_asked_for_in_one_question() {
        let asked = request(Some(Login::Basic("u".into(), "p".into())));
        let scopes = "scope=repository%3Aa%2Fb%3Apull%2Cpush&scope=repository%3Ac%3Apull";
        assert_eq!(
            asked.url().as_str(),
            format!("https://tokens.invalid/give?x=1&service=me+%26+you&{scopes}")
        );
        assert_eq!(asked.headers()[AUTHORIZATION], "Basic dTpw");
        assert!(!format!("{asked:?}").contains("dTpw"), "headers with secrets are not printed");
        assert_eq!(request(None).headers().get(AUTHORIZATION), None);
    }

    #[test]
    fn identity_tokens_are_exchanged() {
        let asked = request(Some(Login::Identity("to&ken".into())));
        assert_eq!(asked.method(), reqwest::Method::POST);
        assert_eq!(asked.url().as_str(), "https://tokens.invalid/give?x=1");
        let form = "grant_type=refresh_token&service=me+%26+you&client_id=seatrial&\
                    scope=repository%3Aa%2Fb%3Apull%2Cpush+repository%3Ac%3Apull&refresh_token=to%26ken";
        assert_eq!(asked.body().unwrap().as_bytes().unwrap(), form.as_bytes());
        assert_eq!(asked.headers().get(AUTHORIZATION), None);
    }

    #[test]
    fn secrets_go_to_no_address_without_encryption() {
        let connections = Connections::new(Vec::new()).unwrap();
        let reference: crate::ImageRef = "registry.invalid/a".parse().unwrap();
        let reference = reference.remote().unwrap();
        for realm in ["http://tokens.invalid/", "https://127.0.0.1/", "file:///x", "x"] {
            let login = Some(Login::Basic("u".into(), "p".into()));
            let access = Access::pull(reference);
            assert!(token_request(&connections, reference, &access, realm, None, login).is_err(), "{realm}");
        }
    }

    #[test]
    fn tokens_are_read_in_both_spellings() {
        let grant = |text: &str| {
            let answer: TokenAnswer = serde_json::from_str(text).unwrap();
            let reference: crate::ImageRef = "registry.invalid/a".parse().unwrap();
            answer.grant(reference.remote().unwrap()).map(Result::unwrap)
        };
        let both = grant(r#"{"token": "a", "access_token": "a", "expires_in": 300}"#).unwrap();
        assert!(both.until.is_some() && both.header == "Bearer a" && both.header.is_sensitive());
        assert!(grant(r#"{"access_token": "b"}"#).unwrap().until.is_none());
        assert!(grant("{}").is_none() && grant(r#"{"token": ""}"#).is_none());
    }
}
