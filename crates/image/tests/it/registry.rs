//! Pulling: from the real `docker-registry`, and from small servers that do what it never does.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileTypeExt as _;
use std::sync::{Arc, Mutex};

use corpus::{RegistryServer, Settings};
use image::{Credentials, FetchedImage, ImageError, ImageRef, Layer, Registry, RegistryOptions};

use crate::sample::{INDEX, MANIFEST, Sample, digest, sample};
use crate::support::Workshop;

pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

pub fn options(shop: &Workshop) -> RegistryOptions {
    RegistryOptions::new(shop.root.path().join("downloads"))
}

fn pull(shop: &Workshop, options: RegistryOptions, reference: &str) -> Result<FetchedImage, ImageError> {
    let reference: ImageRef = reference.parse().unwrap();
    let registry = Registry::new(options)?;
    runtime().block_on(registry.pull(reference.remote().unwrap(), &shop.store))
}

/// Writes a Docker configuration with a plain entry.
pub fn log_in(shop: &Workshop, host: &str, auth: &str) -> Credentials {
    let path = shop.root.path().join("config.json");
    fs::write(&path, format!("{{\"auths\":{{\"{host}\":{{\"auth\":\"{auth}\"}}}}}}")).unwrap();
    Credentials::load(&path).unwrap()
}

/// A running `docker-registry`; ended when dropped.
pub struct RealRegistry {
    _server: RegistryServer,
    pub host: String,
}

impl RealRegistry {
    /// Starts it, or says why not.
    pub fn start(passwords: bool) -> Option<Self> {
        Self::of(Settings { passwords, ..Settings::default() })
    }

    /// One with the certificate `server.crt` of a directory.
    pub fn encrypted(address: &str, certificates: &std::path::Path) -> Option<Self> {
        Self::of(Settings { address, certificates: Some(certificates), passwords: false })
    }

    fn of(settings: Settings<'_>) -> Option<Self> {
        let server = RegistryServer::start(settings)?;
        Some(Self { host: server.host().to_owned(), _server: server })
    }

    /// Puts the sample under `repository:1` (an index) and `repository:plain` (a manifest).
    pub fn push(&self, repository: &str, sample: &Sample, password: Option<&str>) {
        let base = format!("http://{}/v2/{repository}", self.host);
        runtime().block_on(async {
            let client = reqwest::Client::builder().no_proxy().build().unwrap();
            let authorised = |request: reqwest::RequestBuilder| match password {
                Some(password) => request.basic_auth("sailor", Some(password)),
                None => request,
            };
            for (digest, bytes) in &sample.blobs {
                let started = authorised(client.post(format!("{base}/blobs/uploads/"))).send().await.unwrap();
                assert_eq!(started.status(), 202);
                let mut address =
                    reqwest::Url::parse(started.headers()["location"].to_str().unwrap()).unwrap();
                address.query_pairs_mut().append_pair("digest", digest);
                let put = authorised(client.put(address)).body(bytes.clone()).send().await.unwrap();
                assert_eq!(put.status(), 201);
            }
            for (name, kind, bytes) in [
                (digest(&sample.manifest).as_str(), MANIFEST, &sample.manifest),
                ("plain", MANIFEST, &sample.manifest),
                ("1", INDEX, &sample.index),
            ] {
                let put = client.put(format!("{base}/manifests/{name}")).header("content-type", kind);
                let put = authorised(put).body(bytes.clone()).send().await.unwrap();
                assert_eq!(put.status(), 201, "{}", put.text().await.unwrap());
            }
        });
    }
}

fn check_sample(found: &FetchedImage) {
    let [Layer::Directory(lower), Layer::Directory(upper)] = &found.image.layers[..] else {
        panic!("two layers")
    };
    assert_eq!(fs::read_to_string(lower.join("bin/tool")).unwrap(), "tool");
    assert_eq!(fs::read_to_string(upper.join("new")).unwrap(), "new");
    let deleted = fs::symlink_metadata(upper.join("bin/old")).unwrap();
    assert!(deleted.file_type().is_char_device() || deleted.len() == 0);
    assert_eq!(found.image.config.user.as_deref(), Some("1000"));
}

#[test]
fn tags_and_digests_are_pulled_from_a_real_registry() {
    let Some(real) = RealRegistry::start(false) else { return };
    let (shop, sample) = (Workshop::new(), sample());
    // Sets up cryptography, which the pushing client needs too.
    let registry = Registry::new(options(&shop)).unwrap();
    real.push("team/sample", &sample, None);
    let name = format!("{}/team/sample", real.host);
    let by_tag = pull(&shop, options(&shop), &format!("{name}:1")).unwrap();
    check_sample(&by_tag);
    assert_eq!(by_tag.resolved.prefixed(), digest(&sample.index));
    assert_eq!(by_tag.manifest.prefixed(), digest(&sample.manifest));

    let plain = pull(&shop, options(&shop), &format!("{name}:plain")).unwrap();
    assert_eq!(plain.image, by_tag.image);
    assert_eq!(plain.resolved, by_tag.manifest);

    let missing = pull(&shop, options(&shop), &format!("{name}:2")).unwrap_err();
    assert!(matches!(missing, ImageError::NotFound { .. }), "{missing}");

    // With everything in the cache, a pinned reference needs no registry.
    let pinned: ImageRef = format!("{name}@{}", by_tag.resolved.prefixed()).parse().unwrap();
    drop(real);
    let again = runtime().block_on(registry.pull(pinned.remote().unwrap(), &shop.store)).unwrap();
    assert_eq!(again, by_tag);
}

#[test]
fn passwords_are_used_and_refusals_explained() {
    let Some(real) = RealRegistry::start(true) else { return };
    let (shop, sample) = (Workshop::new(), sample());
    Registry::new(options(&shop)).unwrap();
    real.push("secret", &sample, Some("open sesame"));
    let name = format!("{}/secret:1", real.host);
    let anonymous = pull(&shop, options(&shop), &name).unwrap_err().to_string();
    assert!(anonymous.contains("refuses access to secret") && anonymous.contains("log in"), "{anonymous}");
    // sailor:wrong
    let credentials = log_in(&shop, &real.host, "c2FpbG9yOndyb25n");
    let wrong =
        pull(&shop, RegistryOptions { credentials, ..options(&shop) }, &name).unwrap_err().to_string();
    assert!(wrong.contains("`sailor`") && !wrong.contains("wrong"), "{wrong}");
    // sailor:open sesame
    let credentials = log_in(&shop, &real.host, "c2FpbG9yOm9wZW4gc2VzYW1l");
    check_sample(&pull(&shop, RegistryOptions { credentials, ..options(&shop) }, &name).unwrap());
}

/// One request as a server sees it.
#[derive(Debug, Clone)]
pub struct Asked {
    pub path: String,
    host: String,
    authorization: Option<String>,
    accept: Option<String>,
}

pub type Answer = (u16, Vec<(String, String)>, Vec<u8>);

/// A server whose answers a test decides. It serves until the process ends.
pub struct Server {
    pub host: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    pub fn start(answer: impl Fn(&Asked, usize) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (log, answer) = (Arc::clone(&asked), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
                std::thread::spawn(move || serve(stream, &log, &*answer));
            }
        });
        Self { host, asked }
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

fn serve(stream: TcpStream, log: &Mutex<Vec<Asked>>, answer: &dyn Fn(&Asked, usize) -> Answer) -> Option<()> {
    let mut lines = BufReader::new(stream.try_clone().ok()?).lines();
    let first = lines.next()?.ok()?;
    let mut asked = Asked {
        path: first.split(' ').nth(1)?.to_owned(),
        host: String::new(),
        authorization: None,
        accept: None,
    };
    for line in lines {
        let line = line.ok()?;
        let Some((name, value)) = line.split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "host" => value.clone_into(&mut asked.host),
            "authorization" => asked.authorization = Some(value.to_owned()),
            "accept" => asked.accept = Some(value.to_owned()),
            _ => {}
        }
    }
    let before = {
        let mut log = log.lock().unwrap();
        log.push(asked.clone());
        log.iter().filter(|other| other.path == asked.path).count() - 1
    };
    let (status, headers, body) = answer(&asked, before);
    let mut out = format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\nconnection: close\r\n", body.len());
    for (name, value) in headers {
        out.extend([&name, ": ", &value, "\r\n"]);
    }
    out.push_str("\r\n");
    let mut stream = stream;
    stream.write_all(out.as_bytes()).ok()?;
    stream.write_all(&body).ok()
}

/// What a registry answers that holds the sample as `sample:1`.
fn content(sample: &Sample, path: &str) -> Answer {
    let found = match path.split('?').next().unwrap_or_default().rsplit('/').next().unwrap_or_default() {
        "1" => Some(&sample.index),
        name if name == digest(&sample.manifest) => Some(&sample.manifest),
        name => sample.blobs.get(name),
    };
    match found {
        Some(bytes) => (200, vec![], bytes.clone()),
        None => (404, vec![], b"no".to_vec()),
    }
}

pub fn header(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

#[test]
fn tokens_are_fetched_and_stay_with_their_registry() {
    let (shop, sample) = (Workshop::new(), Arc::new(sample()));
    let stored = Arc::clone(&sample);
    let storage = Server::start(move |asked, _| content(&stored, &asked.path));
    let (stored, elsewhere) = (Arc::clone(&sample), storage.host.clone());
    let registry = Server::start(move |asked, _| {
        if asked.path.starts_with("/token") {
            return (200, vec![], b"{\"access_token\":\"t0ken\"}".to_vec());
        }
        if asked.authorization.as_deref() != Some("Bearer t0ken") {
            let challenge = format!("Bearer realm=\"http://{}/token\",service=\"me\"", asked.host);
            return (401, vec![header("www-authenticate", &challenge)], vec![]);
        }
        if asked.path.contains("/blobs/") {
            return (
                307,
                vec![header("location", &format!("http://{elsewhere}{}?signature=x", asked.path))],
                vec![],
            );
        }
        content(&stored, &asked.path)
    });
    let credentials = log_in(&shop, &registry.host, "c2FpbG9yOnB3");
    let found = pull(
        &shop,
        RegistryOptions { credentials, ..options(&shop) },
        &format!("{}/team/sample:1", registry.host),
    );
    check_sample(&found.unwrap());
    let tokens: Vec<_> = registry.asked().into_iter().filter(|a| a.path.starts_with("/token")).collect();
    assert_eq!(tokens.len(), 1, "{tokens:?}");
    assert_eq!(tokens[0].path, "/token?service=me&scope=repository%3Ateam%2Fsample%3Apull");
    assert_eq!(tokens[0].authorization.as_deref(), Some("Basic c2FpbG9yOnB3"));
    let manifest = registry.asked().into_iter().find(|a| a.path.contains("manifests")).unwrap();
    assert!(manifest.accept.unwrap().contains(INDEX));
    let stored = storage.asked();
    assert_eq!(stored.len(), 3);
    assert!(stored.iter().all(|a| a.authorization.is_none()), "{stored:?}");
}

#[test]
fn busy_registries_are_asked_again() {
    let (shop, sample) = (Workshop::new(), sample());
    let server = Server::start(move |asked, before| match before {
        0 => (429, vec![header("retry-after", "0")], vec![]),
        1 => (503, vec![header("retry-after", "0")], vec![]),
        _ => content(&sample, &asked.path),
    });
    check_sample(&pull(&shop, options(&shop), &format!("{}/sample:1", server.host)).unwrap());
    assert_eq!(server.asked().iter().filter(|a| a.path.ends_with("/1")).count(), 3);
}

#[test]
fn a_registry_that_stays_busy_is_given_up() {
    let shop = Workshop::new();
    let server = Server::start(|_, _| (503, vec![header("retry-after", "0")], b"closed today".to_vec()));
    let error = pull(&shop, options(&shop), &format!("{}/sample:1", server.host)).unwrap_err().to_string();
    assert!(error.contains("503") && error.contains("closed today"), "{error}");
    assert_eq!(server.asked().len(), 5);
}

#[test]
fn wrong_content_is_refused() {
    let sample = Arc::new(sample());
    let target = digest(&sample.index);
    for (what, change) in [("manifests/sha256", 0), ("blobs", 1), ("blobs", 2)] {
        let (shop, served) = (Workshop::new(), Arc::clone(&sample));
        let server = Server::start(move |asked, _| {
            let (status, headers, mut body) = content(&served, &asked.path);
            if asked.path.contains(what) {
                match change {
                    2 => body.push(b'x'),
                    _ => body[0] ^= 1,
                }
            }
            (status, headers, body)
        });
        let error = pull(&shop, options(&shop), &format!("{}/sample:1", server.host)).unwrap_err();
        assert!(matches!(error, ImageError::Digest { .. }), "{error}");
        assert_eq!(shop.store.list().unwrap(), []);
    }
    // An index in place of the one that was pinned.
    let (shop, served) = (Workshop::new(), Arc::clone(&sample));
    let server = Server::start(move |_, _| (200, vec![], served.manifest.clone()));
    let error = pull(&shop, options(&shop), &format!("{}/sample@{target}", server.host)).unwrap_err();
    assert!(matches!(error, ImageError::Digest { .. }), "{error}");
}

#[test]
fn redirects_without_end_or_encryption_are_refused() {
    let shop = Workshop::new();
    let endless = Server::start(|asked, _| (302, vec![header("location", &asked.path)], vec![]));
    let error = pull(&shop, options(&shop), &format!("{}/sample:1", endless.host)).unwrap_err().to_string();
    assert!(error.contains("redirects"), "{error}");
    let away = Server::start(|_, _| (302, vec![header("location", "http://other.invalid/x")], vec![]));
    let error = pull(&shop, options(&shop), &format!("{}/sample:1", away.host)).unwrap_err().to_string();
    assert!(error.contains("without encryption"), "{error}");
}

#[test]
fn large_answers_are_cut_off() {
    let shop = Workshop::new();
    let server = Server::start(|_, _| (200, vec![], vec![b' '; 5 << 20]));
    let error = pull(&shop, options(&shop), &format!("{}/sample:1", server.host)).unwrap_err().to_string();
    assert!(error.contains("more than 4194304 bytes"), "{error}");
}
