//! Where public repositories are, who asks, and what may be used.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use fs_err as fs;
use reqwest::Url;

use super::RemoteError;
use super::http::is_loopback;
use super::retry::RetryRules;
use crate::index::Environment;

/// The public hub of data sets.
const HUB: &str = "https://huggingface.co";

/// The interface of the public code host.
const CODE_HOST: &str = "https://api.github.com";

/// A token file is a line.
const TOKEN_LIMIT: u64 = 64 << 10;

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// One server: its address and the token for it.
#[derive(Debug, Clone)]
pub struct Host {
    /// The address.
    pub(crate) url: Url,
    /// Sent to this address and to no other.
    pub(crate) token: Option<Secret>,
    /// The variable that names the token, for messages.
    pub(crate) token_name: &'static str,
}

/// How public repositories are reached.
#[derive(Debug, Clone)]
pub struct RemoteSettings {
    /// Directory of verified files, each named by its digest.
    pub downloads: PathBuf,
    /// The hub of data sets.
    pub hub: Host,
    /// The code host.
    pub code_host: Host,
    /// The hub's own cache on this machine, which is read and never written.
    pub hub_cache: Option<PathBuf>,
    /// Who forbids the network; none when it may be used.
    pub offline: Option<&'static str>,
    /// Whether every file is hashed, those included that have not changed since they were hashed before.
    pub hash_anew: bool,
    /// When to ask again.
    pub retry: RetryRules,
    /// Longest time until a connection stands.
    pub connect_timeout: Duration,
    /// Longest time without a byte.
    pub idle_timeout: Duration,
}

impl RemoteSettings {
    /// Reads the settings that the servers' own tools read: `HF_ENDPOINT`, `HF_TOKEN` (or the file that `HF_TOKEN_PATH`
    /// or `HF_HOME` leads to), `HF_HOME`, `HF_HUB_CACHE`, `HF_HUB_OFFLINE`; `GITHUB_API_URL`, `GITHUB_TOKEN`, `GH_TOKEN`.
    ///
    /// Addresses come from the environment alone: a recipe that could name one could have tokens sent to it.
    pub fn of_environment(environment: &Environment, downloads: PathBuf) -> Result<Self, RemoteError> {
        let variable = |name: &str| environment.variable(name).map(str::to_owned);
        let home = variable("HF_HOME").map(PathBuf::from).or_else(|| {
            let cache = variable("XDG_CACHE_HOME").map(PathBuf::from);
            let cache = cache.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".cache")));
            Some(cache?.join("huggingface"))
        });
        let hub_cache = variable("HF_HUB_CACHE")
            .or_else(|| variable("HUGGINGFACE_HUB_CACHE"))
            .map(PathBuf::from)
            .or_else(|| Some(home.as_ref()?.join("hub")));
        let token = match variable("HF_TOKEN").or_else(|| variable("HUGGING_FACE_HUB_TOKEN")) {
            Some(token) => Some(Secret(token)),
            None => {
                let path = variable("HF_TOKEN_PATH").map(PathBuf::from);
                match path.or_else(|| Some(home.as_ref()?.join("token"))) {
                    Some(path) => token_file(&path)?,
                    None => None,
                }
            }
        };
        let code_token = variable("GITHUB_TOKEN").or_else(|| variable("GH_TOKEN")).map(Secret);
        let switched_on = |name| {
            variable(name).is_some_and(|value| {
                matches!(value.to_ascii_uppercase().as_str(), "1" | "TRUE" | "YES" | "ON")
            })
        };
        Ok(Self {
            downloads,
            hub: Host::new(environment.variable("HF_ENDPOINT"), HUB, "HF_ENDPOINT", token, "HF_TOKEN")?,
            code_host: Host::new(
                environment.variable("GITHUB_API_URL"),
                CODE_HOST,
                "GITHUB_API_URL",
                code_token,
                "GITHUB_TOKEN",
            )?,
            hub_cache,
            offline: switched_on("HF_HUB_OFFLINE").then_some("HF_HUB_OFFLINE"),
            hash_anew: false,
            retry: RetryRules::default(),
            connect_timeout: Duration::from_secs(15),
            idle_timeout: Duration::from_secs(60),
        })
    }
}

impl Host {
    fn new(
        given: Option<&str>,
        default: &str,
        name: &'static str,
        token: Option<Secret>,
        token_name: &'static str,
    ) -> Result<Self, RemoteError> {
        let wrong = |detail| RemoteError::Setting { name, detail };
        let text = given.unwrap_or(default).trim_end_matches('/');
        let url =
            Url::parse(text).map_err(|_| wrong("is no address; write one such as https://hub.invalid"))?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(wrong("is no http or https address"));
        }
        if !url.username().is_empty() || url.password().is_some() || url.query().is_some() {
            return Err(wrong("holds a user, a password or a query; give the token in its own variable"));
        }
        if token.is_some() && url.scheme() == "http" && !is_loopback(&url) {
            return Err(wrong("is an address without encryption, which no token is sent to; use https"));
        }
        Ok(Self { url, token, token_name })
    }

    /// An address below this one. Every part is escaped, slashes in it included.
    pub(super) fn at<'p>(&self, parts: impl IntoIterator<Item = &'p str>) -> Url {
        let mut url = self.url.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(parts);
        }
        url
    }

    /// `owner/name` of a git repository of this host, whose address is that of the interface or the same without `api.`.
    pub(crate) fn repository(&self, address: &str) -> Option<String> {
        let address = Url::parse(address).ok()?;
        let (host, own) = (address.host_str()?, self.url.host_str()?);
        if (host != own && Some(host) != own.strip_prefix("api.")) || address.port() != self.url.port() {
            return None;
        }
        let path = address.path().trim_matches('/');
        let (owner, name) = path.strip_suffix(".git").unwrap_or(path).split_once('/')?;
        let plain = |part: &str| {
            let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            !part.is_empty() && !part.chars().all(|c| c == '.') && part.chars().all(known)
        };
        (plain(owner) && plain(name)).then(|| format!("{owner}/{name}"))
    }

    /// A text of the server's without the token, if it repeats that.
    pub(super) fn scrubbed(&self, text: &str) -> String {
        self.token.as_ref().map_or_else(|| text.to_owned(), |token| token.scrub(text))
    }

    /// Name and port, for messages.
    pub(crate) fn shown(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        self.url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }
}

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, to be sent.
    pub(super) fn expose(&self) -> &str {
        &self.0
    }

    /// A text without this one in it.
    pub(super) fn scrub(&self, text: &str) -> String {
        if self.0.is_empty() { text.to_owned() } else { text.replace(&self.0, "[token]") }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[token]")
    }
}

/// The token that the hub's own login has left, if there is one.
fn token_file(path: &std::path::Path) -> Result<Option<Secret>, RemoteError> {
    use io::Read as _;
    let failed = |source| RemoteError::Io { path: path.to_owned(), source };
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => {}
        Ok(_) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(failed(source)),
    }
    let mut text = String::new();
    fs::File::open(path).map_err(failed)?.take(TOKEN_LIMIT).read_to_string(&mut text).map_err(failed)?;
    let token = text.trim();
    Ok((!token.is_empty()).then(|| Secret(token.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(variables: &[(&str, &str)]) -> Result<RemoteSettings, RemoteError> {
        let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        RemoteSettings::of_environment(&Environment { variables, ..Environment::default() }, "d".into())
    }

    #[test]
    fn the_environment_names_servers_tokens_and_caches() {
        let plain = settings(&[("HOME", "/h")]).unwrap();
        assert_eq!(plain.hub.url.scheme(), "https");
        assert!(plain.hub.token.is_none() && plain.code_host.token.is_none() && plain.offline.is_none());
        assert_eq!(plain.hub_cache, Some("/h/.cache/huggingface/hub".into()));
        let set = settings(&[
            ("HOME", "/h"),
            ("HF_HOME", "/x"),
            ("HF_ENDPOINT", "https://mirror.invalid/hub/"),
            ("HF_TOKEN", " secret-1 "),
            ("HF_HUB_OFFLINE", "true"),
            ("GITHUB_API_URL", "https://code.invalid/api/v3"),
            ("GH_TOKEN", "secret-2"),
        ])
        .unwrap();
        assert_eq!(set.hub.at(["api", "datasets"]).as_str(), "https://mirror.invalid/hub/api/datasets");
        assert_eq!(set.code_host.at(["x"]).as_str(), "https://code.invalid/api/v3/x");
        assert_eq!(set.hub_cache, Some("/x/hub".into()));
        assert_eq!(set.hub.token.as_ref().unwrap().expose(), "secret-1");
        assert_eq!(set.offline, Some("HF_HUB_OFFLINE"));
        assert!(!format!("{set:?}").contains("secret"), "{set:?}");
    }

    #[test]
    fn a_token_file_is_found_and_a_token_goes_nowhere_in_the_open() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("token"), "secret\n").unwrap();
        let at = home.path().to_str().unwrap();
        assert_eq!(settings(&[("HF_HOME", at)]).unwrap().hub.token, Some(Secret::new("secret")));
        for endpoint in ["http://mirror.invalid", "https://u:secret@mirror.invalid", "secret", "ftp://secret"]
        {
            let error = settings(&[("HF_HOME", at), ("HF_ENDPOINT", endpoint)]).unwrap_err().to_string();
            assert!(error.starts_with("HF_ENDPOINT") && !error.contains("secret"), "{error}");
        }
        assert!(settings(&[("HF_HOME", at), ("HF_ENDPOINT", "http://127.0.0.1:9")]).is_ok());
        assert!(settings(&[("HF_ENDPOINT", "http://mirror.invalid")]).is_ok());
    }

    #[test]
    fn addresses_are_escaped() {
        let host = settings(&[]).unwrap().hub;
        let url = host.at(["resolve", "refs/x y", "a#b?c", "d%.parquet"]);
        assert!(url.as_str().ends_with("/resolve/refs%2Fx%20y/a%23b%3Fc/d%25.parquet"), "{url}");
    }

    #[test]
    fn repositories_of_the_code_host_are_told_from_others() {
        let of = |variables: &[(&str, &str)], address: &str| {
            settings(variables).unwrap().code_host.repository(address)
        };
        assert_eq!(of(&[], "https://github.com/O/n.py.git").as_deref(), Some("O/n.py"));
        assert_eq!(of(&[], "https://github.com/O/n/").as_deref(), Some("O/n"));
        for other in [
            "https://github.com.invalid/o/n",
            "https://code.invalid/o/n",
            "https://github.com/o",
            "https://github.com/o/n/tree/main",
            "https://github.com/o/..",
            "https://github.com/o/%2e%2e",
            "https://github.com:8443/o/n",
            "git@github.com:o/n.git",
        ] {
            assert_eq!(of(&[], other), None, "{other}");
        }
        let own = [("GITHUB_API_URL", "https://code.invalid:8443/api/v3")];
        assert_eq!(of(&own, "https://code.invalid:8443/o/n.git").as_deref(), Some("o/n"));
        assert_eq!(of(&own, "https://github.com/o/n.git"), None);
    }
}
