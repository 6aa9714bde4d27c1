//! Names and passwords for registries, from a Docker configuration file and the credential helpers that it names.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use serde::Deserialize;
use tokio::sync::Mutex;

use super::helper;
use crate::ImageError;

const MAX_FILE: u64 = 1 << 20;
/// Under which name the default registry's credentials are kept.
const DEFAULT_REGISTRY: &str = "https://index.docker.io/v1/";

/// Credentials by registry. Printing them shows no secret.
#[derive(Clone, Default)]
pub struct Credentials {
    by_host: BTreeMap<String, Found>,
    helpers: BTreeMap<String, String>,
    store: Option<String>,
    /// What helpers have answered, by host.
    asked: Arc<Mutex<BTreeMap<String, Answered>>>,
}

/// How to log in to a registry.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Login {
    /// User name and password.
    Basic(String, String),
    /// A token that is exchanged for others.
    Identity(String),
}

#[derive(Clone)]
enum Found {
    Login(Login),
    /// Something that this client does not use, by name.
    Unsupported(&'static str),
}

/// What a helper said: credentials, none, or why it could not answer.
type Answered = Result<Option<Login>, String>;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
    #[serde(default)]
    cred_helpers: BTreeMap<String, String>,
    #[serde(default)]
    creds_store: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Entry {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    identitytoken: Option<String>,
}

impl Credentials {
    /// No credentials: everything is asked for anonymously.
    pub fn none() -> Self {
        Self::default()
    }

    /// Reads a Docker configuration file, usually `~/.docker/config.json`; a missing file means no credentials.
    ///
    /// Used are the helper of a registry (`credHelpers`), then entries of `auths` with a secret in them, then the helper of all
    /// registries (`credsStore`). A helper is started once for a registry, when that asks for credentials.
    pub fn load(path: &Path) -> Result<Self, ImageError> {
        let doing = |e| ImageError::io(format!("reading {}", path.display()), e);
        let file = match fs_err::File::open(path) {
            Ok(file) => file,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Self::none()),
            Err(e) => return Err(doing(e)),
        };
        let mut bytes = Vec::new();
        file.take(MAX_FILE).read_to_end(&mut bytes).map_err(doing)?;
        // The parser's own message could repeat a piece of a secret.
        let file: File = serde_json::from_slice(&bytes).map_err(|e| ImageError::Manifest {
            place: path.display().to_string(),
            what: format!("is no Docker configuration; line {} column {}", e.line(), e.column()),
        })?;
        Ok(Self::from_file(file))
    }

    fn from_file(file: File) -> Self {
        let mut by_host = BTreeMap::new();
        for (host, entry) in file.auths {
            if let Some(found) = entry.found() {
                by_host.insert(plain_host(&host).to_owned(), found);
            }
        }
        let store = file.creds_store.filter(|store| !store.is_empty());
        Self { by_host, helpers: file.cred_helpers, store, asked: Arc::default() }
    }

    /// How to log in to a registry host as references name it; `None` where nothing is known.
    pub(super) async fn login(&self, host: &str) -> Option<Login> {
        if let Some(helper) = self.helpers.get(host) {
            return self.ask(helper, host).await.ok().flatten();
        }
        if let Some(Found::Login(login)) = self.entry(host) {
            return Some(login.clone());
        }
        self.ask(self.store.as_ref()?, host).await.ok().flatten()
    }

    /// Why a host refuses access, for the message.
    pub(super) async fn why_refused(&self, host: &str) -> String {
        match self.login(host).await {
            Some(Login::Basic(user, _)) => {
                return format!("the credentials of user `{user}` are not accepted");
            }
            Some(Login::Identity(_)) => return "the identity token is not accepted".to_owned(),
            None => {}
        }
        if let Some(Found::Unsupported(what)) = self.entry(host) {
            return format!("the Docker configuration holds {what} for it, which is not supported");
        }
        let helper = self.helpers.get(host).or(self.store.as_ref());
        match (helper, self.asked.lock().await.get(host)) {
            (_, Some(Err(why))) => why.clone(),
            (Some(helper), _) => format!("the credential helper `{helper}` has nothing for it; log in first"),
            (None, _) => "the Docker configuration has no credentials for it; log in first".to_owned(),
        }
    }

    async fn ask(&self, helper: &str, host: &str) -> Answered {
        // Held while the helper runs: it is asked once, however many requests wait for it.
        let mut asked = self.asked.lock().await;
        if let Some(answered) = asked.get(host) {
            return answered.clone();
        }
        let server = if host == "docker.io" { DEFAULT_REGISTRY } else { host };
        let answered = helper::ask(helper, server).await;
        if let Err(why) = &answered {
            tracing::warn!(host, why, "a credential helper gave no answer");
        }
        asked.insert(host.to_owned(), answered.clone());
        answered
    }

    fn entry(&self, host: &str) -> Option<&Found> {
        let host = if host == "docker.io" { plain_host(DEFAULT_REGISTRY) } else { host };
        self.by_host.get(host)
    }
}

impl Entry {
    fn found(self) -> Option<Found> {
        if let Some(token) = self.identitytoken.filter(|token| !token.is_empty()) {
            return Some(Found::Login(Login::Identity(token)));
        }
        if let Some(auth) = self.auth.filter(|auth| !auth.is_empty()) {
            let bytes = base64::engine::general_purpose::STANDARD.decode(auth.trim()).ok();
            let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
            return Some(match text.as_deref().and_then(|text| text.split_once(':')) {
                Some((user, password)) => {
                    Found::Login(Login::Basic(user.to_owned(), password.trim_end_matches('\0').to_owned()))
                }
                None => Found::Unsupported("an entry that is not base64 of user:password"),
            });
        }
        match (self.username, self.password) {
            (Some(user), Some(password)) if !user.is_empty() => {
                Some(Found::Login(Login::Basic(user, password)))
            }
            _ => None,
        }
    }
}

/// The host of an entry's name, which may be an address with scheme and path.
fn plain_host(name: &str) -> &str {
    let name = name.strip_prefix("https://").or_else(|| name.strip_prefix("http://")).unwrap_or(name);
    name.split('/').next().unwrap_or(name)
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("hosts", &self.by_host.keys().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Credentials {
        Credentials::from_file(serde_json::from_str(text).unwrap())
    }

    fn wait<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
    }

    fn basic(user: &str, password: &str) -> Login {
        Login::Basic(user.to_owned(), password.to_owned())
    }

    #[test]
    fn plain_entries_are_used() {
        let found = read(
            r#"{"auths": {"registry.invalid:5000": {"auth": "dXNlcjpwYTpzcw=="},
                "https://index.docker.io/v1/": {"username": "u", "password": "p"}, "empty.invalid": {},
                "token.invalid": {"auth": "eDp5", "identitytoken": "t"}}}"#,
        );
        let login = |host| wait(found.login(host));
        assert!(login("registry.invalid:5000") == Some(basic("user", "pa:ss")));
        assert!(login("docker.io") == Some(basic("u", "p")));
        assert!(login("token.invalid") == Some(Login::Identity("t".into())));
        assert!(login("empty.invalid").is_none() && login("other.invalid").is_none());
        assert!(!format!("{found:?}").contains("pa:ss"));
    }

    #[test]
    fn what_is_in_the_way_is_named() {
        let found = read(
            r#"{"auths": {"b.invalid": {"auth": "%%"}, "e.invalid": {"auth": "dTpw"}},
                "credHelpers": {"c.invalid": "no-such-helper", "f.invalid": "../x"}}"#,
        );
        let why = |host| wait(found.why_refused(host));
        assert!(why("b.invalid").contains("base64"));
        assert!(why("c.invalid").contains("docker-credential-no-such-helper does not start"));
        assert!(why("d.invalid").contains("log in"));
        assert!(why("e.invalid").contains("user `u`"));
        assert!(why("f.invalid").contains("no name of a credential helper"));
    }
}
