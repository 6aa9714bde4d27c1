//! Names and passwords for registries, from a Docker configuration file.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read as _;
use std::path::Path;

use base64::Engine as _;
use serde::Deserialize;

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
}

#[derive(Clone)]
enum Found {
    /// User name and password.
    Basic(String, String),
    /// Something that this client does not use, by name.
    Unsupported(&'static str),
}

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
    /// Used are plain `auths` entries. Credential helpers (`credsStore`, `credHelpers`) and identity tokens are not
    /// used; when access is refused for want of them the message says so by name.
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
        Self { by_host, helpers: file.cred_helpers, store }
    }

    /// User name and password for a registry host as references name it.
    pub(super) fn basic(&self, host: &str) -> Option<(&str, &str)> {
        match self.entry(host)? {
            Found::Basic(user, password) => Some((user, password)),
            Found::Unsupported(_) => None,
        }
    }

    /// Why there are no credentials for a host, for the message when access is refused.
    pub(super) fn why_none(&self, host: &str) -> String {
        if let Some(Found::Unsupported(what)) = self.entry(host) {
            return format!("the Docker configuration holds {what} for it, which is not supported yet");
        }
        if let Some(helper) = self.helpers.get(host).or(self.store.as_ref()) {
            return format!(
                "the Docker configuration leaves it to the credential helper `{helper}`, which is not supported yet; \
                 log in with plain credentials"
            );
        }
        "the Docker configuration has no credentials for it; log in first".to_owned()
    }

    fn entry(&self, host: &str) -> Option<&Found> {
        let host = if host == "docker.io" { plain_host(DEFAULT_REGISTRY) } else { host };
        self.by_host.get(host)
    }
}

impl Entry {
    fn found(self) -> Option<Found> {
        if self.identitytoken.is_some_and(|token| !token.is_empty()) {
            return Some(Found::Unsupported("an identity token"));
        }
        if let Some(auth) = self.auth.filter(|auth| !auth.is_empty()) {
            let bytes = base64::engine::general_purpose::STANDARD.decode(auth.trim()).ok();
            let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
            return Some(match text.as_deref().and_then(|text| text.split_once(':')) {
                Some((user, password)) => {
                    Found::Basic(user.to_owned(), password.trim_end_matches('\0').to_owned())
                }
                None => Found::Unsupported("an entry that is not base64 of user:password"),
            });
        }
        match (self.username, self.password) {
            (Some(user), Some(password)) if !user.is_empty() => Some(Found::Basic(user, password)),
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

    #[test]
    fn plain_entries_are_used() {
        let found = read(
            r#"{"auths": {"registry.invalid:5000": {"auth": "dXNlcjpwYTpzcw=="},
                "https://index.docker.io/v1/": {"username": "u", "password": "p"}, "empty.invalid": {}}}"#,
        );
        assert_eq!(found.basic("registry.invalid:5000"), Some(("user", "pa:ss")));
        assert_eq!(found.basic("docker.io"), Some(("u", "p")));
        assert_eq!(found.basic("empty.invalid"), None);
        assert_eq!(found.basic("other.invalid"), None);
        assert!(!format!("{found:?}").contains("pa:ss"));
    }

    #[test]
    fn what_is_not_supported_is_named() {
        let found = read(
            r#"{"auths": {"a.invalid": {"identitytoken": "t"}, "b.invalid": {"auth": "%%"}},
                "credHelpers": {"c.invalid": "cloud"}}"#,
        );
        assert!(found.why_none("a.invalid").contains("identity token"));
        assert!(found.why_none("b.invalid").contains("base64"));
        assert!(found.why_none("c.invalid").contains("`cloud`"));
        assert!(found.why_none("d.invalid").contains("log in"));
    }
}
