//! Writing to a registry: blobs that are there, mounted or uploaded, and manifests.
//!
//! A blob is uploaded in one piece, as a stream. Where that breaks off, the registry is asked how much of it arrived, and the rest
//! is sent; many say so, and some give up the session with the connection. A session that is given up is ended, so that nothing
//! unfinished stays in the registry.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::Stream;
use reqwest::header::{LOCATION, RANGE};
use reqwest::{Body, Method, StatusCode, Url};

use super::Registry;
use super::client::{Question, Sending, address, chain, failed, is_loopback, may_connect};
use super::connections::SILENCE_LIMIT;
use super::grants::Access;
use super::retry;
use crate::{ImageError, RemoteRef};

/// The longest that a registry may take to answer once it has a whole blob; some move it elsewhere first.
const STORE_LIMIT: Duration = Duration::from_secs(300);
/// How often silence is looked for.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Content of a blob, piece by piece.
pub(crate) type ByteStream = Pin<Box<dyn Stream<Item = Result<Bytes, ImageError>> + Send>>;

/// What became of a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mounted {
    /// The blob is in the repository.
    Done,
    /// The registry would rather have it sent.
    Declined,
    /// The registry does not mount, or not for us.
    Unsupported,
}

/// Why an upload did not end with a blob in the registry.
#[derive(Debug)]
pub(crate) enum UploadError {
    /// Another try may help, after so long a time.
    Passing {
        /// What happened.
        error: ImageError,
        /// What the registry asks to wait.
        asked: Option<Duration>,
    },
    /// The content could not be had.
    Source(ImageError),
    /// The registry does not take it.
    Refused(ImageError),
}

/// Why a manifest was not taken.
#[derive(Debug)]
pub(crate) struct PutError {
    pub(crate) error: ImageError,
    /// Whether the repository takes nothing more from us: no right, no room.
    pub(crate) is_final: bool,
}

/// An upload that has begun: where it goes on.
#[derive(Debug, Clone)]
pub(crate) struct Session(Url);

/// Content on its way.
pub(crate) struct Outgoing {
    /// Digest of the whole, `sha256:...`.
    pub(crate) digest: String,
    /// Length of the whole in bytes.
    pub(crate) size: u64,
    /// The content, or the rest of it, which ends with an error unless it is what digest and length say.
    pub(crate) content: ByteStream,
}

impl Registry {
    /// Whether a repository has a blob.
    pub(crate) async fn has_blob(&self, repository: &RemoteRef, digest: &str) -> Result<bool, ImageError> {
        let client = &self.shared.client;
        let address = address(repository, &format!("blobs/{digest}"))?;
        // With the same authorisation as the upload that may follow.
        let access = Access::push(repository);
        let question = Question::writing(repository, access, Method::HEAD, &address);
        let response = client.ask(&question).await?;
        match response.status() {
            StatusCode::NOT_FOUND => Ok(false),
            status if status.is_success() => Ok(true),
            _ => Err(client.refusal(repository, &Method::HEAD, &address, response).await),
        }
    }

    /// Puts a blob of one repository into another one without sending it.
    pub(crate) async fn mount(
        &self,
        into: &RemoteRef,
        from: &RemoteRef,
        digest: &str,
    ) -> Result<Mounted, ImageError> {
        let client = &self.shared.client;
        let mut address = address(into, "blobs/uploads/")?;
        address.query_pairs_mut().append_pair("mount", digest).append_pair("from", from.path());
        let question = Question::writing(into, Access::mount(into, from), Method::POST, &address);
        let response = match client.ask(&question).await {
            Ok(response) => response,
            // Nobody may have both scopes; sending may still be allowed.
            Err(ImageError::Denied { .. }) => return Ok(Mounted::Unsupported),
            Err(error) => return Err(error),
        };
        match response.status() {
            StatusCode::CREATED => Ok(Mounted::Done),
            StatusCode::ACCEPTED => {
                // A session was opened instead; left alone it would stay until the registry cleans up.
                if let Ok(session) = session(into, &address, &response) {
                    self.cancel(into, &session).await;
                }
                Ok(Mounted::Declined)
            }
            StatusCode::BAD_REQUEST
            | StatusCode::UNAUTHORIZED
            | StatusCode::NOT_FOUND
            | StatusCode::METHOD_NOT_ALLOWED => Ok(Mounted::Unsupported),
            _ => Err(client.refusal(into, &Method::POST, &address, response).await),
        }
    }

    /// Begins an upload.
    pub(crate) async fn begin_upload(&self, repository: &RemoteRef) -> Result<Session, UploadError> {
        let client = &self.shared.client;
        let opening = address(repository, "blobs/uploads/").map_err(UploadError::Refused)?;
        let question = Question::writing(repository, Access::push(repository), Method::POST, &opening);
        let response = client.ask(&question).await.map_err(UploadError::Refused)?;
        if response.status() != StatusCode::ACCEPTED {
            let refusal = client.refusal(repository, &Method::POST, &opening, response).await;
            return Err(UploadError::Refused(refusal));
        }
        session(repository, &opening, &response).map_err(UploadError::Refused)
    }

    /// Sends a blob, or the rest of one behind the first `at` bytes, and ends the upload. Where that fails the session stays open.
    pub(crate) async fn upload(
        &self,
        repository: &RemoteRef,
        session: &Session,
        at: u64,
        outgoing: Outgoing,
    ) -> Result<(), UploadError> {
        let mut target = session.0.clone();
        target.query_pairs_mut().append_pair("digest", &outgoing.digest);
        let question = Question::writing(repository, Access::push(repository), Method::PUT, &target);
        self.send_watched(&question, at, outgoing).await
    }

    /// How many bytes of an upload that broke off are there, and where it goes on; none where the registry does not say so.
    pub(crate) async fn arrived(&self, repository: &RemoteRef, session: &Session) -> Option<(Session, u64)> {
        let question = Question::writing(repository, Access::push(repository), Method::GET, &session.0);
        let response = self.shared.client.ask(&question).await.ok()?;
        if !response.status().is_success() {
            return None;
        }
        let range = response.headers().get(RANGE)?.to_str().ok()?;
        let last: u64 = range.trim_start_matches("bytes=").strip_prefix("0-")?.parse().ok()?;
        let next = match response.headers().get(LOCATION) {
            Some(_) => self::session(repository, &session.0, &response).ok()?,
            None => session.clone(),
        };
        // The range of nothing and that of a single byte are written alike.
        (last > 0).then_some((next, last.saturating_add(1)))
    }

    /// Sends the body of an upload and watches whether it moves.
    async fn send_watched(
        &self,
        question: &Question<'_>,
        at: u64,
        outgoing: Outgoing,
    ) -> Result<(), UploadError> {
        let client = &self.shared.client;
        let Question { reference, address, .. } = question;
        let path = address.path();
        let (size, watch) = (outgoing.size.saturating_sub(at), Arc::new(Watch::new()));
        let range = (at > 0 && size > 0).then(|| format!("{at}-{}", outgoing.size - 1));
        let range = range.map(|range| range.parse().expect("numbers make a header"));
        let sending = client.send_stream(question, watch.body(outgoing.content), size, range);
        let sent = tokio::select! {
            sent = sending => sent,
            () = watch.silence(size) => {
                let error = failed(reference, format!("PUT {path}: the upload does not move any more"));
                return Err(UploadError::Passing { error, asked: None });
            }
        };
        // An answer may come before the whole body was taken, so the source is asked first.
        if let Some(error) = watch.source_error() {
            return Err(UploadError::Source(error));
        }
        let response = match sent {
            Ok(Some(response)) => response,
            Ok(None) => {
                let error = failed(reference, format!("PUT {path}: status 401"));
                return Err(UploadError::Passing { error, asked: Some(Duration::ZERO) });
            }
            Err(Sending::Final(error)) => return Err(UploadError::Refused(error)),
            Err(Sending::Transport(error)) => {
                let error = failed(reference, format!("PUT {path}: {}", chain(&error)));
                return Err(UploadError::Passing { error, asked: None });
            }
        };
        let (status, asked) = (response.status(), retry::asked(response.headers()));
        if status == StatusCode::CREATED {
            return Ok(());
        }
        let error = client.refusal(reference, &Method::PUT, address, response).await;
        // A session that is gone can be opened again.
        if retry::is_passing(status.as_u16()) || status == StatusCode::NOT_FOUND {
            return Err(UploadError::Passing { error, asked });
        }
        Err(UploadError::Refused(error))
    }

    /// Ends a session. It ends by itself some day, so nothing depends on the answer.
    pub(crate) async fn cancel(&self, repository: &RemoteRef, session: &Session) {
        let question = Question::writing(repository, Access::push(repository), Method::DELETE, &session.0);
        if let Err(error) = self.shared.client.ask(&question).await {
            tracing::debug!(%error, "an upload session stays open");
        }
    }

    /// Puts a manifest or an index there, byte for byte. `selector` is a tag or the digest.
    pub(crate) async fn put_manifest(
        &self,
        repository: &RemoteRef,
        selector: &str,
        media_type: &str,
        bytes: &[u8],
    ) -> Result<(), PutError> {
        let client = &self.shared.client;
        let passing = |error| PutError { error, is_final: false };
        let address = address(repository, &format!("manifests/{selector}")).map_err(passing)?;
        let question = Question {
            body: Some((media_type, bytes)),
            ..Question::writing(repository, Access::push(repository), Method::PUT, &address)
        };
        let response = client.ask(&question).await.map_err(|error| {
            let is_final = matches!(error, ImageError::Denied { .. });
            PutError { error, is_final }
        })?;
        let status = response.status();
        if !status.is_success() {
            let error = client.refusal(repository, &Method::PUT, &address, response).await;
            // These two are about the image, not about the repository.
            let of_image = ["MANIFEST_BLOB_UNKNOWN", "MANIFEST_INVALID"];
            let of_image = of_image.iter().any(|code| error.to_string().contains(code));
            let is_final = status.is_client_error() && status != StatusCode::NOT_FOUND && !of_image;
            return Err(PutError { error, is_final });
        }
        let stated = response.headers().get("docker-content-digest").and_then(|value| value.to_str().ok());
        let expected = ident::Digest::of(bytes).prefixed();
        match stated.filter(|stated| stated.starts_with("sha256:") && *stated != expected) {
            None => Ok(()),
            Some(stated) => Err(passing(ImageError::Digest {
                place: format!("{}/{} at {selector}", repository.host(), repository.path()),
                expected,
                found: stated.to_owned(),
            })),
        }
    }
}

/// Where an upload goes on, as the answer to its beginning says.
fn session(
    repository: &RemoteRef,
    opening: &Url,
    response: &reqwest::Response,
) -> Result<Session, ImageError> {
    let refuse = |what: &str| failed(repository, format!("POST {}: {what}", opening.path()));
    let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
    let session = location
        .and_then(|location| opening.join(location).ok())
        .ok_or_else(|| refuse("the answer does not say where the upload goes on"))?;
    if may_connect(&session, is_loopback(opening)) {
        Ok(Session(session))
    } else {
        Err(refuse("the upload is to go on at an address without encryption, or on this machine"))
    }
}

/// Watches a body that is being sent.
struct Watch {
    begun: Instant,
    /// Milliseconds from the beginning to the last piece.
    moved: AtomicU64,
    sent: AtomicU64,
    failure: Mutex<Option<ImageError>>,
}

impl Watch {
    fn new() -> Self {
        Self {
            begun: Instant::now(),
            moved: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            failure: Mutex::default(),
        }
    }

    /// The content as a body. An error of the source is kept here: the one that the request ends with says less.
    fn body(self: &Arc<Self>, content: ByteStream) -> Body {
        use futures_util::StreamExt as _;
        let watch = Arc::clone(self);
        Body::wrap_stream(content.map(move |piece| match piece {
            Ok(piece) => {
                let elapsed = u64::try_from(watch.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
                watch.moved.store(elapsed, Ordering::Relaxed);
                watch.sent.fetch_add(piece.len() as u64, Ordering::Relaxed);
                Ok(piece)
            }
            Err(error) => {
                *watch.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                Err(std::io::Error::other("the content ends too early"))
            }
        }))
    }

    fn source_error(&self) -> Option<ImageError> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Ends once nothing has moved for too long.
    async fn silence(&self, size: u64) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let moved = Duration::from_millis(self.moved.load(Ordering::Relaxed));
            // The source has its own bound and is waited for as long.
            let limit =
                if self.sent.load(Ordering::Relaxed) >= size { STORE_LIMIT } else { 2 * SILENCE_LIMIT };
            if self.begun.elapsed().saturating_sub(moved) > limit {
                return;
            }
        }
    }
}
