//! Finding the daemon, and how it answers or does not.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bollard::ClientVersion;
use bollard::errors::Error;

use crate::SandboxError;
use crate::docker::engine::NAME;
use crate::error::chain;

/// Oldest API that has what is used here; Docker 20.10 and Podman 4 offer it.
pub(super) const API: (usize, usize) = (1, 41);

/// How long the daemon may take for what it does from memory.
pub(super) const SHORT: Duration = Duration::from_secs(30);

/// How long the daemon may take to set up or remove a container on a loaded machine.
pub(super) const LONG: Duration = Duration::from_secs(120);

/// The socket that daemons listen on unless told otherwise.
const DEFAULT_SOCKET: &str = "/var/run/docker.sock";

/// How to reach the daemon.
#[derive(Debug, Clone, Default)]
pub struct DockerConfig {
    /// `unix:///path` of the daemon. When absent, `DOCKER_HOST`; else the first of `/var/run/docker.sock`,
    /// `$XDG_RUNTIME_DIR/podman/podman.sock` and `/run/podman/podman.sock` that exists.
    pub host: Option<String>,
    /// Refuse to start a sandbox whose limits the daemon cannot hold. Otherwise it starts and a warning is logged.
    pub require_limits: bool,
}

impl DockerConfig {
    /// The socket to connect to.
    pub(super) fn socket(&self) -> Result<PathBuf, SandboxError> {
        let named = self.host.clone().or_else(|| std::env::var("DOCKER_HOST").ok());
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        choose(named.as_deref(), runtime.as_deref(), Path::exists).map_err(unavailable)
    }
}

/// Decides on a socket.
fn choose(
    named: Option<&str>,
    runtime: Option<&Path>,
    exists: impl Fn(&Path) -> bool,
) -> Result<PathBuf, String> {
    if let Some(host) = named.filter(|host| !host.is_empty()) {
        return match host.strip_prefix("unix://") {
            Some(path) if exists(Path::new(path)) => Ok(path.into()),
            Some(path) => Err(format!("there is no socket {path}; start the daemon, or set DOCKER_HOST")),
            None => Err(format!("DOCKER_HOST is {host}, and only unix:// addresses are supported")),
        };
    }
    let podman = runtime.map(|runtime| runtime.join("podman/podman.sock"));
    let places = [Some(PathBuf::from(DEFAULT_SOCKET)), podman, Some("/run/podman/podman.sock".into())];
    let found = places.iter().flatten().find(|place| exists(place)).cloned();
    found.ok_or_else(|| {
        let places: Vec<_> = places.iter().flatten().map(|place| place.display().to_string()).collect();
        format!("no daemon listens on {}; start one, or set DOCKER_HOST", places.join(" or "))
    })
}

/// A daemon that can be driven.
pub(super) struct Connected {
    pub(super) client: bollard::Docker,
    pub(super) podman: bool,
}

/// What lies at the bottom of an error: the system's own words, where there are any.
fn cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// Connects and makes sure that the daemon is one that can be driven.
pub(super) async fn connect(socket: &Path) -> Result<Connected, SandboxError> {
    let version = ClientVersion { major_version: API.0, minor_version: API.1 };
    let path = socket.to_str().ok_or_else(|| unavailable("the socket's path is no text".into()))?;
    let client = bollard::Docker::connect_with_unix(path, LONG.as_secs(), &version)
        .map_err(|error| unavailable(format!("{}: {error}", socket.display())))?;
    let place = socket.display();
    let answer = tokio::time::timeout(SHORT, client.version()).await;
    let answer = answer.map_err(|_| unavailable(format!("the daemon at {place} does not answer")))?;
    let answer = answer
        .map_err(|error| unavailable(format!("the daemon at {place} does not answer: {}", cause(&error))))?;
    let offered = answer.api_version.unwrap_or_default();
    if parse_version(&offered).is_none_or(|offered| offered < API) {
        let (major, minor) = API;
        let reason = format!("the daemon at {place} offers API {offered}, and {major}.{minor} is needed");
        return Err(unavailable(reason));
    }
    let os = answer.os.unwrap_or_default();
    let architecture = answer.arch.unwrap_or_default();
    if os != "linux" || !same_architecture(&architecture) {
        let reason = format!(
            "the daemon at {place} runs {os}/{architecture} containers, and this program was built for linux/{}",
            std::env::consts::ARCH
        );
        return Err(unavailable(reason));
    }
    let components = answer.components.unwrap_or_default();
    let podman = components.iter().any(|component| component.name.contains("Podman"));
    Ok(Connected { client, podman })
}

fn parse_version(text: &str) -> Option<(usize, usize)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Whether an architecture as Go names it is this program's.
fn same_architecture(go: &str) -> bool {
    let own = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        other => other,
    };
    go == own
}

pub(super) fn unavailable(reason: String) -> SandboxError {
    SandboxError::Unavailable { engine: NAME, reason }
}

/// What the daemon made of a request.
#[derive(Debug)]
pub(super) enum Refusal {
    /// It answered, with this status and message.
    Status(u16, String),
    /// It did not answer, or nothing that makes sense.
    Silence(String),
}

impl Refusal {
    /// Whether a container was refused because another has its name. Docker has a status for that, Podman words.
    pub(super) fn is_name_in_use(&self) -> bool {
        matches!(self, Self::Status(status, reason) if *status == 409 || reason.contains("already in use"))
    }

    /// As an error about a sandbox that was to start.
    pub(super) fn at_start(self, name: &str) -> SandboxError {
        match self {
            Self::Status(_, reason) => SandboxError::Start { name: name.to_owned(), reason },
            Self::Silence(reason) => SandboxError::Lost(reason),
        }
    }

    /// As an error about anything else.
    pub(super) fn doing(self, doing: &str) -> SandboxError {
        match self {
            Self::Status(_, reason) => {
                SandboxError::Io { doing: doing.to_owned(), source: std::io::Error::other(reason) }
            }
            Self::Silence(reason) => SandboxError::Lost(format!("{reason} ({doing})")),
        }
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        match error {
            Error::DockerResponseServerError { status_code, message } => Self::Status(status_code, message),
            other => Self::Silence(format!("the daemon broke off: {}", chain(&other))),
        }
    }
}

/// Waits for the daemon's answer, but not for ever.
pub(super) async fn answer<T>(
    patience: Duration,
    request: impl Future<Output = Result<T, Error>>,
) -> Result<T, Refusal> {
    match tokio::time::timeout(patience, request).await {
        Ok(answer) => answer.map_err(Refusal::from),
        Err(_) => Err(Refusal::Silence(format!("the daemon did not answer within {} s", patience.as_secs()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_looked_for_in_order() {
        let only = |wanted: &'static str| move |path: &Path| path == Path::new(wanted);
        assert_eq!(choose(Some("unix:///a/b"), None, |_| true).unwrap(), Path::new("/a/b"));
        assert!(choose(Some("unix:///a/b"), None, |_| false).unwrap_err().contains("/a/b"));
        assert!(choose(Some("tcp://10.0.0.1:2375"), None, |_| true).unwrap_err().contains("tcp://10.0.0.1"));
        assert_eq!(choose(None, None, |_| true).unwrap(), Path::new(DEFAULT_SOCKET));
        let podman = only("/run/user/7/podman/podman.sock");
        assert!(choose(None, Some(Path::new("/run/user/7")), podman).is_ok());
        assert!(choose(Some(""), None, only("/run/podman/podman.sock")).is_ok());
        assert!(choose(None, None, |_| false).unwrap_err().contains("DOCKER_HOST"));
    }

    #[tokio::test]
    async fn silence_is_not_waited_for_and_refusals_keep_their_words() {
        let silent = answer::<()>(Duration::from_millis(1), std::future::pending()).await.unwrap_err();
        assert!(matches!(silent.at_start("s"), SandboxError::Lost(_)));
        let refused = Error::DockerResponseServerError { status_code: 409, message: "in use".into() };
        let refused = answer::<()>(SHORT, async { Err(refused) }).await.unwrap_err();
        assert!(refused.is_name_in_use());
        assert_eq!(refused.at_start("s").to_string(), "sandbox s did not start: in use");
    }

    #[test]
    fn versions_are_compared_by_number() {
        assert_eq!(parse_version("1.41"), Some((1, 41)));
        assert!(parse_version("1.9").unwrap() < API && parse_version("2.0").unwrap() > API);
        assert_eq!(parse_version("one"), None);
    }
}
