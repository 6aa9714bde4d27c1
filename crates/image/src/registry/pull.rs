//! Pulls an image: manifest, configuration, missing layers; then unpacks.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ident::{Digest, Sha256Writer};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::client::{Client, chain, failed, read_body};
use super::credentials::Credentials;
use super::push::ByteStream;
use super::quota::Quota;
use super::retry;
use crate::blobs::{BlobDirectory, Blobs as _, FetchedImage, stored_key};
use crate::digest::{hex_of, is_hex64};
use crate::manifest::{self, ACCEPTED, Descriptor, Document, MAX_CONFIG, MAX_MANIFEST, Manifest};
use crate::store::LayerStore;
use crate::unpack::UnpackLimits;
use crate::{ImageError, RemoteRef};

/// For an `Accept` header where any content will do.
const ANYTHING: &str = "application/octet-stream, */*";
/// Deepest nesting of indexes.
const MAX_NESTING: usize = 4;

/// Where Docker, and those that do as it does, keep certificates for registries.
const CERTIFICATES: [&str; 2] = ["/etc/docker/certs.d", "/etc/containers/certs.d"];
/// Requests that one host is usually asked at the same time.
const PER_HOST: usize = 16;
/// The longest wait that a registry may usually ask for.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// How registries are used.
#[derive(Debug, Clone)]
pub struct RegistryOptions {
    /// Directory of the blob cache; can be deleted at any time.
    pub cache: PathBuf,
    /// Names and passwords.
    pub credentials: Credentials,
    /// Bounds on what layers unpack to.
    pub limits: UnpackLimits,
    /// Layers downloaded at the same time, at least 1.
    pub parallel: usize,
    /// Requests that one host is asked at the same time, at least 1.
    pub per_host: usize,
    /// Directories with the certificates of authorities that a registry needs: `HOST:PORT/*.crt`.
    pub certificates: Vec<PathBuf>,
    /// The longest wait that a registry may ask for before another try.
    pub max_wait: Duration,
}

impl RegistryOptions {
    /// Anonymous access, usual bounds, three downloads at a time, certificates as Docker finds them.
    pub fn new(cache: impl Into<PathBuf>) -> Self {
        Self {
            cache: cache.into(),
            credentials: Credentials::none(),
            limits: UnpackLimits::default(),
            parallel: 3,
            per_host: PER_HOST,
            certificates: CERTIFICATES.map(PathBuf::from).to_vec(),
            max_wait: MAX_WAIT,
        }
    }
}

/// Pulls images from registries. Clones share connections, tokens and the cache.
#[derive(Clone)]
pub struct Registry {
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) client: Client,
    cache: BlobDirectory,
    limits: UnpackLimits,
    downloads: Semaphore,
}

impl Registry {
    /// Prepares connections and the cache. Nothing is sent before the first pull.
    pub fn new(options: RegistryOptions) -> Result<Self, ImageError> {
        let cache = BlobDirectory::new(&options.cache);
        fs_err::create_dir_all(cache.directory())
            .map_err(|e| ImageError::io("creating the blob cache", e))?;
        let client = {
            let RegistryOptions { credentials, certificates, per_host, max_wait, .. } = options;
            Client::new(credentials, certificates, per_host, max_wait)?
        };
        let downloads = Semaphore::new(options.parallel.max(1));
        Ok(Self { shared: Arc::new(Shared { client, cache, limits: options.limits, downloads }) })
    }

    /// Where blobs are kept.
    pub(crate) fn cache(&self) -> &BlobDirectory {
        &self.shared.cache
    }

    /// Pulls the image for this machine into the store.
    ///
    /// What is in the cache or the store is not fetched again; a reference with a digest whose content is complete
    /// needs no connection at all. Everything is verified against the digests that lead to it.
    pub async fn pull(&self, reference: &RemoteRef, store: &LayerStore) -> Result<FetchedImage, ImageError> {
        let shared = &self.shared;
        let bytes = match reference.digest() {
            Some(digest) => shared.manifest_by_digest(reference, digest).await?,
            None => shared.manifest(reference, reference.selector()).await?,
        };
        let resolved = Digest::of(&bytes);
        let (manifest, found) = shared.descend(reference, resolved, bytes).await?;
        self.blob(reference, &found.config, MAX_CONFIG).await?;
        let file = shared.cache.config(&found)?;
        let mut downloads = JoinSet::new();
        for (layer, diff_id) in found.layers.iter().zip(&file.diff_ids) {
            if store.get(&stored_key(diff_id)).is_some() {
                continue;
            }
            let (registry, reference, layer) = (self.clone(), reference.clone(), layer.clone());
            downloads.spawn(async move {
                let _turn = registry.shared.downloads.acquire().await;
                registry.blob(&reference, &layer, registry.shared.limits.total).await
            });
        }
        while let Some(done) = downloads.join_next().await {
            // Leaving early drops the set, which ends the other downloads.
            done.map_err(|e| failed(reference, format!("a download was broken off: {e}")))??;
        }
        let (registry, store, origin) = (self.clone(), store.clone(), reference.to_string());
        let work = tokio::task::spawn_blocking(move || {
            let shared = &registry.shared;
            shared.cache.assemble(&origin, &found, &file, &store, &shared.limits)
        });
        let image = work.await.map_err(|e| failed(reference, format!("unpacking was broken off: {e}")))??;
        Ok(FetchedImage { image, resolved, manifest })
    }

    /// The bytes of a manifest or index with this digest, asked for once and then kept.
    pub(crate) async fn manifest_by_digest(
        &self,
        reference: &RemoteRef,
        digest: &str,
    ) -> Result<Vec<u8>, ImageError> {
        self.shared.manifest_by_digest(reference, digest).await
    }

    /// The bytes of a manifest or index with this digest, as the registry has them now.
    pub(crate) async fn fetch_manifest(
        &self,
        reference: &RemoteRef,
        digest: &str,
    ) -> Result<Vec<u8>, ImageError> {
        self.shared.manifest(reference, digest).await
    }

    /// The bytes of a manifest or index that was asked for before.
    pub(crate) fn kept_manifest(&self, digest: &str) -> Option<Vec<u8>> {
        self.shared.kept_manifest(digest)
    }

    /// How long to wait before another try; `None` when the registry asks for more than is waited.
    pub(crate) fn wait(&self, tried: u32, asked: Option<Duration>) -> Option<Duration> {
        self.shared.client.wait(tried, asked)
    }

    /// What a host last said about pulls that it counts.
    pub fn quota(&self, host: &str) -> Option<Quota> {
        self.shared.client.quotas.of(host)
    }

    /// The content of a blob, not verified yet.
    pub(crate) async fn blob_stream(
        &self,
        reference: &RemoteRef,
        digest: &str,
    ) -> Result<ByteStream, ImageError> {
        let response = self.shared.client.get(reference, &format!("blobs/{digest}"), ANYTHING).await?;
        let state = (response, reference.clone(), digest.to_owned());
        Ok(Box::pin(futures_util::stream::try_unfold(state, async |(mut response, reference, digest)| {
            match response.chunk().await {
                Ok(piece) => Ok(piece.map(|piece| (piece, (response, reference, digest)))),
                Err(e) => Err(failed(&reference, format!("blob {digest}: {}", chain(&e.without_url())))),
            }
        })))
    }

    /// Sees to it that a blob is in the cache.
    async fn blob(
        &self,
        reference: &RemoteRef,
        descriptor: &Descriptor,
        limit: u64,
    ) -> Result<(), ImageError> {
        let hex = descriptor.hex(&reference.to_string())?.to_owned();
        if descriptor.size > limit {
            let what = format!(
                "blob {} has {} bytes; at most {limit} are fetched",
                descriptor.digest, descriptor.size
            );
            return Err(failed(reference, what));
        }
        let path = self.shared.cache.path(&hex);
        let complete =
            || fs_err::symlink_metadata(&path).is_ok_and(|m| m.is_file() && m.len() == descriptor.size);
        if complete() {
            return Ok(());
        }
        // One download of a blob at a time, whatever processes share the cache.
        let lock_path = self.shared.cache.path(&format!("{hex}.lock"));
        let lock = tokio::task::spawn_blocking(move || {
            let file =
                std::fs::OpenOptions::new().create(true).truncate(false).write(true).open(lock_path)?;
            file.lock().map(|()| file)
        });
        let locked = lock.await.map_err(|e| failed(reference, format!("a download was broken off: {e}")))?;
        let _lock = locked.map_err(|e| ImageError::io(format!("locking blob {hex}"), e))?;
        if complete() {
            return Ok(());
        }
        let mut tried = 0;
        loop {
            tried += 1;
            match self.shared.download(reference, descriptor, &hex).await {
                Err(ImageError::Registry { what, .. }) if tried < retry::TRIES => {
                    tracing::debug!(host = reference.host(), what, "downloads again");
                    tokio::time::sleep(self.shared.client.wait(tried, None).unwrap_or_default()).await;
                }
                other => return other,
            }
        }
    }
}

impl Shared {
    /// Gets a manifest or index from the registry and keeps it.
    async fn manifest(&self, reference: &RemoteRef, selector: &str) -> Result<Vec<u8>, ImageError> {
        let response =
            self.client.get(reference, &format!("manifests/{selector}"), &ACCEPTED.join(", ")).await?;
        let stated =
            response.headers().get("docker-content-digest").and_then(|v| v.to_str().ok()).map(str::to_owned);
        let bytes = read_body(reference, response, MAX_MANIFEST).await?;
        let found = format!("sha256:{}", hex_of(&bytes));
        let wrong = |expected: &str| ImageError::Digest {
            place: format!("{}/{} at {selector}", reference.host(), reference.path()),
            expected: expected.to_owned(),
            found: found.clone(),
        };
        if selector.contains(':') && selector != found {
            return Err(wrong(selector));
        }
        if let Some(stated) = stated.filter(|stated| stated.starts_with("sha256:") && *stated != found) {
            return Err(wrong(&stated));
        }
        let doing = |e: std::io::Error| ImageError::io("writing the blob cache", e);
        let mut file = tempfile::NamedTempFile::new_in(self.cache.directory()).map_err(doing)?;
        std::io::Write::write_all(&mut file, &bytes).map_err(doing)?;
        file.persist(self.cache.path(&hex_of(&bytes))).map_err(|e| doing(e.error))?;
        Ok(bytes)
    }

    async fn manifest_by_digest(&self, reference: &RemoteRef, digest: &str) -> Result<Vec<u8>, ImageError> {
        if !digest.starts_with("sha256:") {
            let what = format!("the digest {digest} is not sha256, which is all that is supported");
            return Err(failed(reference, what));
        }
        match self.kept_manifest(digest) {
            Some(bytes) => Ok(bytes),
            None => self.manifest(reference, digest).await,
        }
    }

    fn kept_manifest(&self, digest: &str) -> Option<Vec<u8>> {
        let hex = digest.strip_prefix("sha256:").filter(|hex| is_hex64(hex))?;
        let path = self.cache.path(hex);
        fs_err::symlink_metadata(&path).ok().filter(|m| m.is_file() && m.len() <= MAX_MANIFEST)?;
        fs_err::read(&path).ok().filter(|bytes| hex_of(bytes) == hex)
    }

    /// Goes from an index to the manifest for this machine.
    async fn descend(
        &self,
        reference: &RemoteRef,
        mut digest: Digest,
        mut bytes: Vec<u8>,
    ) -> Result<(Digest, Manifest), ImageError> {
        for _ in 0..=MAX_NESTING {
            let place = format!("{}/{}@{}", reference.host(), reference.path(), digest.prefixed());
            match manifest::read(&place, &bytes)? {
                Document::Manifest(found) => return Ok((digest, found)),
                Document::Index(manifests) => {
                    let chosen = manifest::choose(&place, &manifests)?;
                    bytes = self.manifest_by_digest(reference, &chosen.digest).await?;
                    manifest::verify(&place, &bytes, chosen)?;
                    digest = chosen.sha256(&place)?;
                }
            }
        }
        Err(failed(reference, format!("indexes are nested more than {MAX_NESTING} deep")))
    }

    /// Downloads a blob, verifying it on the way.
    async fn download(
        &self,
        reference: &RemoteRef,
        descriptor: &Descriptor,
        hex: &str,
    ) -> Result<(), ImageError> {
        let digest = &descriptor.digest;
        let mut response = self.client.get(reference, &format!("blobs/{digest}"), ANYTHING).await?;
        let doing = |e: std::io::Error| ImageError::io("writing the blob cache", e);
        let file = tempfile::NamedTempFile::new_in(self.cache.directory()).map_err(doing)?;
        let mut writer = Sha256Writer::new(file);
        loop {
            let chunk = response.chunk().await;
            let chunk = chunk
                .map_err(|e| failed(reference, format!("blob {digest}: {}", chain(&e.without_url()))))?;
            let Some(chunk) = chunk else { break };
            std::io::Write::write_all(&mut writer, &chunk).map_err(doing)?;
            if writer.written() > descriptor.size {
                break;
            }
        }
        let size = writer.written();
        let (found, file) = writer.finish();
        if size != descriptor.size || found.hex() != hex {
            return Err(ImageError::Digest {
                place: format!("{}/{}", reference.host(), reference.path()),
                expected: format!("{digest} ({} bytes)", descriptor.size),
                found: if size > descriptor.size {
                    "more bytes than that".to_owned()
                } else {
                    format!("sha256:{found} ({size} bytes)")
                },
            });
        }
        file.persist(self.cache.path(hex)).map_err(|e| doing(e.error))?;
        Ok(())
    }
}
