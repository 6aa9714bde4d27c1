//! A real registry on this machine, for tests: the program `docker-registry`.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// `sailor:open sesame`, for a file of passwords.
const PASSWORDS: &str = "sailor:$2b$04$99ic8ZzUUhtSFZ/heRQOgO/zEt7V9SPmMrD6upW47p9mMhm8EmhdO\n";
/// How long it may take until it listens.
const PATIENCE: Duration = Duration::from_secs(20);

/// How a registry is started.
#[derive(Debug, Clone, Copy)]
pub struct Settings<'a> {
    /// The address that it listens on; the port is chosen.
    pub address: &'a str,
    /// Whether it knows `sailor` by the password `open sesame`, and nobody else.
    pub passwords: bool,
    /// A directory with `server.crt` and `server.key`, where connections are encrypted.
    pub certificates: Option<&'a Path>,
}

impl Default for Settings<'_> {
    fn default() -> Self {
        Self { address: "127.0.0.1", passwords: false, certificates: None }
    }
}

/// A running registry; it ends, and what it keeps is removed, when it is dropped.
#[derive(Debug)]
pub struct RegistryServer {
    child: Child,
    host: String,
    data: tempfile::TempDir,
}

impl RegistryServer {
    /// Starts one, or says on standard error why not.
    ///
    /// # Panics
    /// Where its files cannot be written, or it does not listen in time.
    pub fn start(settings: Settings<'_>) -> Option<Self> {
        let data = tempfile::tempdir().expect("there is room for what it keeps");
        let listener = TcpListener::bind((settings.address, 0)).expect("the address is this machine's");
        let host = listener.local_addr().expect("it listens").to_string();
        drop(listener);
        let config = data.path().join("config.yml");
        fs::write(&config, configuration(settings, &host, data.path())).expect("its settings are written");
        fs::write(data.path().join("passwords"), PASSWORDS).expect("its passwords are written");
        let log = fs::File::create(data.path().join("access.log")).expect("its log is made");
        let mut command = Command::new("docker-registry");
        command.arg("serve").arg(&config).stdout(log).stderr(Stdio::null());
        let child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                crate::skipped(&format!("docker-registry does not start: {error}"));
                return None;
            }
        };
        let server = Self { child, host, data };
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(&server.host).is_err() {
            assert!(Instant::now() < deadline, "docker-registry does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(server)
    }

    /// Host and port.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Where it keeps what it has.
    pub fn root(&self) -> PathBuf {
        self.data.path().join("data/docker/registry/v2")
    }

    /// The requests that it has answered so far, a line each.
    ///
    /// # Panics
    /// Where its log cannot be read.
    pub fn access_log(&self) -> String {
        fs::read_to_string(self.data.path().join("access.log")).expect("its log is there")
    }
}

fn configuration(settings: Settings<'_>, host: &str, data: &Path) -> String {
    let storage = data.join("data");
    let encryption = settings.certificates.map(|place| {
        let place = place.display();
        format!("  tls:\n    certificate: {place}/server.crt\n    key: {place}/server.key\n")
    });
    let passwords = data.join("passwords");
    let passwords = settings
        .passwords
        .then(|| format!("auth:\n  htpasswd:\n    realm: test\n    path: {}\n", passwords.display()));
    format!(
        "version: 0.1\nlog:\n  level: error\nstorage:\n  filesystem:\n    rootdirectory: {}\nhttp:\n  addr: \"{host}\"\n{}{}",
        storage.display(),
        encryption.unwrap_or_default(),
        passwords.unwrap_or_default()
    )
}

impl Drop for RegistryServer {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
