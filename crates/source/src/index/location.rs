//! Which package index this machine uses. No index is written into the program.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use fs_err as fs;
use reqwest::Url;

/// What the search for an index may look at, so that nothing reads the process's environment behind its caller's back.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// Environment variables.
    pub variables: BTreeMap<String, String>,
    /// Configuration files of pip, the most specific first; those that are missing are passed over.
    pub pip_configurations: Vec<PathBuf>,
    /// Python interpreters that are asked for pip's own default, in order.
    pub pythons: Vec<PathBuf>,
}

/// Where source distributions are looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexLocation {
    url: Url,
    /// How it was found.
    pub origin: IndexOrigin,
}

/// How an index was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndexOrigin {
    /// The caller's setting.
    Setting,
    /// An environment variable.
    Variable(&'static str),
    /// A configuration file of pip.
    PipConfiguration(PathBuf),
    /// The default of the installed pip.
    PipDefault(PathBuf),
}

/// Why no index is known.
#[derive(Debug, thiserror::Error)]
pub enum LocationError {
    /// Nothing names one.
    #[error(
        "no package index is known: none is set, no pip configuration names one, and no installed \
         pip was found to ask; \
         set SEATRIAL_INDEX_URL to the address of a simple index, or SEATRIAL_SDIST_DIR to a directory with the files"
    )]
    Unknown,
    /// Something else than an address. The text is not shown: it may hold a password.
    #[error("the index address from {0} is no http or https URL")]
    NoUrl(IndexOrigin),
    /// A configuration file that cannot be read.
    #[error("{}", crate::error::io_text(path, source))]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

/// Variables that name an index, in order.
const VARIABLES: [&str; 3] = ["SEATRIAL_INDEX_URL", "UV_DEFAULT_INDEX", "PIP_INDEX_URL"];

/// What an interpreter is asked.
const QUESTION: &str = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)";

/// How long an interpreter may think about it.
const PATIENCE: Duration = Duration::from_secs(20);

impl Environment {
    /// The environment of this process and the usual places of this system.
    pub fn of_process() -> Self {
        let variables: BTreeMap<String, String> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let home = variables.get("HOME").map(PathBuf::from);
        let own = variables.get("PIP_CONFIG_FILE").map(PathBuf::from);
        let users =
            home.iter().flat_map(|home| [home.join(".config/pip/pip.conf"), home.join(".pip/pip.conf")]);
        let pip_configurations =
            own.into_iter().chain(users).chain([PathBuf::from("/etc/pip.conf")]).collect();
        let pythons = ["python3", "/usr/bin/python3"].map(PathBuf::from).to_vec();
        Self { variables, pip_configurations, pythons }
    }

    /// A variable that is set to something.
    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    /// The first value of a key in the `[global]` sections of pip's configuration files, and its file.
    pub(crate) fn pip_setting(&self, key: &str) -> Result<Option<(String, PathBuf)>, LocationError> {
        for path in &self.pip_configurations {
            let text = match fs::read(path) {
                Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(source) => return Err(LocationError::Io { path: path.clone(), source }),
            };
            if let Some(value) = ini_value(&text, "global", key) {
                return Ok(Some((value, path.clone())));
            }
        }
        Ok(None)
    }
}

impl IndexLocation {
    fn new(text: &str, origin: IndexOrigin) -> Result<Self, LocationError> {
        let parsed = Url::parse(text.trim()).ok();
        let fine = |url: &Url| matches!(url.scheme(), "http" | "https") && url.has_host();
        let Some(mut url) = parsed.filter(fine) else {
            return Err(LocationError::NoUrl(origin));
        };
        // Without the slash the last part of the path would be replaced by the package's name.
        if !url.path().ends_with('/') {
            url.set_path(&format!("{}/", url.path()));
        }
        Ok(Self { url, origin })
    }

    /// The address of a package's page; the name must be normalised.
    pub(crate) fn page(&self, package: &str) -> Option<Url> {
        self.url.join(&format!("{package}/")).ok()
    }

    /// Whether the index runs on this machine.
    pub(crate) fn is_loopback(&self) -> bool {
        let host = self.url.host_str().unwrap_or_default();
        let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    }
}

/// Finds the package index: the caller's setting, SEATRIAL_INDEX_URL, UV_DEFAULT_INDEX, PIP_INDEX_URL, pip's
/// configuration files, and last the default of an installed pip.
pub async fn locate_index(
    setting: Option<&str>,
    environment: &Environment,
) -> Result<IndexLocation, LocationError> {
    if let Some(text) = setting {
        return IndexLocation::new(text, IndexOrigin::Setting);
    }
    for name in VARIABLES {
        if let Some(text) = environment.variable(name) {
            return IndexLocation::new(without_label(text), IndexOrigin::Variable(name));
        }
    }
    if let Some((text, path)) = environment.pip_setting("index-url")? {
        return IndexLocation::new(&text, IndexOrigin::PipConfiguration(path));
    }
    for python in &environment.pythons {
        if let Some(text) = ask_pip(python).await {
            return IndexLocation::new(&text, IndexOrigin::PipDefault(python.clone()));
        }
    }
    Err(LocationError::Unknown)
}

/// uv allows `label=URL`.
fn without_label(text: &str) -> &str {
    match text.split_once('=') {
        Some((label, url))
            if label.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')) =>
        {
            url
        }
        _ => text,
    }
}

/// The default of the pip that belongs to an interpreter. An interpreter or a pip that is missing is no answer.
async fn ask_pip(python: &Path) -> Option<String> {
    let child = tokio::process::Command::new(python)
        // Isolated: no module of the current directory and no user site may answer in pip's place.
        .args(["-I", "-c", QUESTION])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(PATIENCE, child).await.ok()?.ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}

/// The value of a key in a section; keys may be spelt with dashes or underscores, as pip allows.
fn ini_value(text: &str, section: &str, key: &str) -> Option<String> {
    let mut inside = false;
    let mut value = None;
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = trimmed.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            inside = name.trim() == section;
            continue;
        }
        // An indented line goes on with the value above it, and no value here has a second line.
        if !inside || line.starts_with(char::is_whitespace) {
            continue;
        }
        if let Some((name, text)) = trimmed.split_once(['=', ':'])
            && name.trim().to_ascii_lowercase().replace('_', "-") == key
        {
            value = Some(text.trim().to_owned());
        }
    }
    value.filter(|value| !value.is_empty())
}

/// The address without user name and password.
pub(crate) fn redacted(url: &Url) -> String {
    let mut url = url.clone();
    if !url.username().is_empty() || url.password().is_some() {
        // Both can only fail for addresses without a host, which have no user either.
        let _ = url.set_username("");
        let _ = url.set_password(None);
    }
    url.set_query(None);
    url.to_string()
}

impl fmt::Display for IndexLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (from {})", redacted(&self.url), self.origin)
    }
}

impl fmt::Display for IndexOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setting => f.write_str("the settings"),
            Self::Variable(name) => f.write_str(name),
            Self::PipConfiguration(path) => write!(f, "{}", path.display()),
            Self::PipDefault(python) => write!(f, "the default of pip for {}", python.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        Environment { variables, ..Environment::default() }
    }

    async fn found(setting: Option<&str>, environment: &Environment) -> String {
        locate_index(setting, environment).await.unwrap().to_string()
    }

    #[tokio::test]
    async fn the_order_of_places_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let configuration = directory.path().join("pip.conf");
        fs::write(
            &configuration,
            "# index-url = http://a.invalid\n[install]\nindex-url = http://b.invalid\n\
             [global]\ncert = x\nindex_url: http://conf.invalid/simple\n",
        )
        .unwrap();
        let python = directory.path().join("python3");
        fs::write(&python, "#!/bin/sh\ntest \"$1\" = -I && echo http://pip.invalid/simple\n").unwrap();
        fs::set_permissions(&python, std::fs::Permissions::from_mode(0o755)).unwrap();

        let mut all = environment(&[
            ("PIP_INDEX_URL", "http://pip-variable.invalid/simple/"),
            ("UV_DEFAULT_INDEX", "name=http://uv.invalid/simple"),
            ("SEATRIAL_INDEX_URL", "http://own.invalid/simple"),
        ]);
        all.pip_configurations = vec![directory.path().join("missing.conf"), configuration];
        all.pythons = vec![directory.path().join("missing"), python];
        let setting = found(Some("http://set.invalid"), &all).await;
        assert_eq!(setting, "http://set.invalid/ (from the settings)");
        for (expected, removed) in [
            ("http://own.invalid/simple/ (from SEATRIAL_INDEX_URL)", "SEATRIAL_INDEX_URL"),
            ("http://uv.invalid/simple/ (from UV_DEFAULT_INDEX)", "UV_DEFAULT_INDEX"),
            ("http://pip-variable.invalid/simple/ (from PIP_INDEX_URL)", "PIP_INDEX_URL"),
        ] {
            assert_eq!(found(None, &all).await, expected);
            all.variables.remove(removed);
        }
        assert!(found(None, &all).await.starts_with("http://conf.invalid/simple/ (from /"));
        all.pip_configurations.clear();
        assert!(
            found(None, &all).await.starts_with("http://pip.invalid/simple/ (from the default of pip for")
        );
        all.pythons.clear();
        let message = locate_index(None, &all).await.unwrap_err().to_string();
        assert!(message.contains("set SEATRIAL_INDEX_URL"), "{message}");
    }

    #[tokio::test]
    async fn passwords_are_never_shown() {
        let shown =
            found(Some("https://user:secret@index.invalid/simple?token=secret"), &environment(&[])).await;
        assert_eq!(shown, "https://index.invalid/simple/ (from the settings)");
        for text in ["user:secret@index.invalid", "ftp://secret@index.invalid/", "secret"] {
            let message = locate_index(Some(text), &environment(&[])).await.unwrap_err().to_string();
            assert!(!message.contains("secret"), "{message}");
        }
    }

    #[test]
    fn packages_get_their_page() {
        let location = IndexLocation::new("http://index.invalid/root/simple", IndexOrigin::Setting).unwrap();
        assert_eq!(location.page("a-b").unwrap().as_str(), "http://index.invalid/root/simple/a-b/");
        assert!(!location.is_loopback());
        for text in ["http://127.0.0.1:1/", "http://[::1]/", "https://localhost/x"] {
            assert!(IndexLocation::new(text, IndexOrigin::Setting).unwrap().is_loopback());
        }
    }
}
