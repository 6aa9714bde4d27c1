//! Connections: one set for the outside, one for this machine, one for every registry with certificates of its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once, PoisonError};
use std::time::Duration;

use reqwest::{Certificate, Url};

use super::client::{chain, is_loopback};
use crate::ImageError;

const CONNECT_LIMIT: Duration = Duration::from_secs(15);
/// The longest that a registry may stay silent while it is asked or answers.
pub(super) const SILENCE_LIMIT: Duration = Duration::from_secs(60);
/// Largest file of certificates.
const MAX_CERTIFICATES: u64 = 1 << 20;

/// Where requests go through.
#[derive(Clone)]
pub(super) struct Connection {
    /// For everything with an answer that begins soon.
    pub(super) asking: reqwest::Client,
    /// For bodies that take their time; silence is watched by whoever sends them.
    pub(super) sending: reqwest::Client,
}

/// Connections by place.
pub(super) struct Connections {
    outside: Connection,
    /// For loopback addresses, which no proxy can reach.
    loopback: Connection,
    certificates: Vec<PathBuf>,
    /// Connections that trust certificates of their own, by `host:port`; none where there are no such certificates.
    own: Mutex<BTreeMap<String, Option<Connection>>>,
}

impl Connections {
    /// Sets up what every place uses. `certificates` are directories with `HOST:PORT/*.crt`, as Docker keeps them.
    pub(super) fn new(certificates: Vec<PathBuf>) -> Result<Self, ImageError> {
        install_crypto();
        Ok(Self {
            outside: connection(&[], true)?,
            loopback: connection(&[], false)?,
            certificates,
            own: Mutex::default(),
        })
    }

    /// The connection for an address.
    pub(super) fn of(&self, address: &Url) -> Result<Connection, ImageError> {
        if is_loopback(address) {
            return Ok(self.loopback.clone());
        }
        let Some(place) = place(address) else { return Ok(self.outside.clone()) };
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = own.get(&place) {
            return Ok(found.as_ref().unwrap_or(&self.outside).clone());
        }
        let mut trusted = Vec::new();
        for directory in &self.certificates {
            trusted.extend(read(&directory.join(&place))?);
        }
        let made = if trusted.is_empty() { None } else { Some(connection(&trusted, true)?) };
        own.insert(place, made.clone());
        Ok(made.unwrap_or_else(|| self.outside.clone()))
    }
}

/// How directories of certificates call an address: the host, and the port unless it is the usual one.
fn place(address: &Url) -> Option<String> {
    let host = address.host_str()?;
    Some(match address.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    })
}

fn connection(trusted: &[Certificate], proxy: bool) -> Result<Connection, ImageError> {
    let failed = |e: reqwest::Error| ImageError::Registry {
        host: "client".to_owned(),
        what: format!("cannot set up connections: {}", chain(&e)),
    };
    let builder = || {
        let builder = reqwest::Client::builder()
            .user_agent(concat!("seatrial/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_LIMIT)
            // Redirects are followed where credentials can be left behind.
            .redirect(reqwest::redirect::Policy::none())
            .tls_certs_merge(trusted.iter().cloned());
        if proxy { builder } else { builder.no_proxy() }
    };
    Ok(Connection {
        asking: builder().read_timeout(SILENCE_LIMIT).build().map_err(failed)?,
        sending: builder().build().map_err(failed)?,
    })
}

/// The certificates in the files `*.crt` of a directory; none where there is no such directory.
fn read(directory: &Path) -> Result<Vec<Certificate>, ImageError> {
    let Ok(entries) = fs_err::read_dir(directory) else { return Ok(Vec::new()) };
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "crt"))
        .collect();
    paths.sort();
    let mut found = Vec::new();
    for path in paths {
        // These are often links into the system's store.
        let path = fs_err::canonicalize(&path)
            .map_err(|e| ImageError::io(format!("reading {}", path.display()), e))?;
        let unusable = |what: String| ImageError::Manifest { place: path.display().to_string(), what };
        let pem = artifact::read_bounded(&path, MAX_CERTIFICATES).map_err(|e| unusable(e.to_string()))?;
        let certificates = Certificate::from_pem_bundle(&pem)
            .map_err(|e| unusable(format!("holds no certificates: {}", chain(&e))))?;
        found.extend(certificates);
    }
    Ok(found)
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
    fn certificates_belong_to_one_place() {
        let place = |text: &str| place(&Url::parse(text).unwrap()).unwrap();
        assert_eq!(place("https://registry.invalid/v2/"), "registry.invalid");
        assert_eq!(place("https://registry.invalid:5000/v2/"), "registry.invalid:5000");
    }

    #[test]
    fn what_is_no_certificate_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let of_host = directory.path().join("registry.invalid");
        fs_err::create_dir(&of_host).unwrap();
        fs_err::write(of_host.join("notes.txt"), "no certificate").unwrap();
        let connections = Connections::new(vec![directory.path().to_owned()]).unwrap();
        let of = |text: &str| connections.of(&Url::parse(text).unwrap());
        assert!(of("https://other.invalid/").is_ok());
        assert!(of("https://registry.invalid/").is_ok());
        fs_err::create_dir(directory.path().join("registry.invalid:5000")).unwrap();
        let bad = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        fs_err::write(directory.path().join("registry.invalid:5000/ca.crt"), bad).unwrap();
        let Err(error) = of("https://registry.invalid:5000/") else { panic!("it was taken") };
        assert!(error.to_string().contains("ca.crt") || error.to_string().contains("set up"), "{error}");
    }
}
