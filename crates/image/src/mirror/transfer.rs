//! Carries out one job: brings a blob, mounts one, finishes an image.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};

use super::graph::Node;
use super::progress::Progress;
use super::schedule::Fault;
use super::source::Source;
use super::verified::verified;
use crate::registry::{ByteStream, Mounted, Outgoing, PutError, Registry, Session, UploadError};
use crate::{ImageError, RemoteRef};

/// How often a blob is sent in all, when sending breaks off.
const TRIES: u32 = 5;

/// Carries out jobs at one registry. Clones share what was learnt about it.
#[derive(Clone)]
pub(super) struct Carrier {
    pub(super) registry: Registry,
    pub(super) progress: Arc<Progress>,
    /// Whether the registry does not mount.
    pub(super) mounts_not: Arc<AtomicBool>,
    /// Manifests that are written or being written, by digest. Registries keep one content for all repositories, and may fail when it
    /// is written twice at the same time.
    pub(super) manifests: Arc<Mutex<Turns>>,
}

type Turns = BTreeMap<String, Arc<Turn>>;

/// Whose turn it is to write a manifest, and the repositories in which it was written.
type Turn = tokio::sync::Mutex<BTreeSet<String>>;

/// A blob that is to be in a repository.
pub(super) struct Errand {
    pub(super) digest: String,
    pub(super) size: u64,
    pub(super) into: RemoteRef,
    /// Repositories of the same registry that may have it.
    pub(super) near: Vec<RemoteRef>,
    /// Whether the first of those has it for sure.
    pub(super) is_sure: bool,
    /// Where it can be had.
    pub(super) sources: Vec<Source>,
}

/// How a blob came to be where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Came {
    Found,
    Mounted { from: String },
    Sent,
}

/// An upload, as far as it has come.
#[derive(Default)]
struct Upload {
    session: Option<Session>,
    /// Bytes that the registry has of it.
    arrived: u64,
}

/// A job that failed.
pub(super) struct Failed {
    pub(super) fault: Fault,
    pub(super) error: ImageError,
}

impl Carrier {
    /// Sees to it that a repository has a blob: by mounting it, finding it, sending it, in this order.
    pub(super) async fn bring(&self, errand: &Errand) -> Result<Came, Failed> {
        let here = |error| Failed { fault: Fault::Repository, error };
        for (number, from) in errand.near.iter().enumerate() {
            if self.mounts_not.load(Ordering::Relaxed) {
                break;
            }
            match self.registry.mount(&errand.into, from, &errand.digest).await.map_err(here)? {
                Mounted::Done => {
                    return Ok(Came::Mounted { from: format!("{}/{}", from.host(), from.path()) });
                }
                // Of a repository that may not have it nothing else could be said.
                Mounted::Unsupported if errand.is_sure && number == 0 => {
                    tracing::info!(
                        host = from.host(),
                        "the registry does not mount blobs; they are sent instead"
                    );
                    self.mounts_not.store(true, Ordering::Relaxed);
                }
                Mounted::Declined | Mounted::Unsupported => {}
            }
        }
        if self.registry.has_blob(&errand.into, &errand.digest).await.map_err(here)? {
            return Ok(Came::Found);
        }
        self.send(errand).await
    }

    /// Sends a blob from the first source that has it, again where that breaks off.
    async fn send(&self, errand: &Errand) -> Result<Came, Failed> {
        let mut upload = Upload::default();
        let sent = self.send_from_any(errand, &mut upload).await;
        if let Some(session) = upload.session.filter(|_| sent.is_err()) {
            self.registry.cancel(&errand.into, &session).await;
        }
        sent
    }

    async fn send_from_any(&self, errand: &Errand, upload: &mut Upload) -> Result<Came, Failed> {
        let here = |error| Failed { fault: Fault::Repository, error };
        let mut last = None;
        for source in &errand.sources {
            let mut tried = 0;
            loop {
                tried += 1;
                let goes_on = upload.arrived > 0;
                let (error, asked) = match self.send_once(errand, source, upload).await {
                    Ok(()) => return Ok(Came::Sent),
                    // What it said to have may not be so; from the beginning it may work.
                    Err(UploadError::Refused(error)) if goes_on && tried < TRIES => {
                        self.give_up(errand, upload).await;
                        (error, Some(Duration::ZERO))
                    }
                    Err(UploadError::Refused(error)) => return Err(here(error)),
                    Err(UploadError::Source(error)) => {
                        let cut = matches!(error, ImageError::Cut { .. } | ImageError::Registry { .. });
                        if !cut || tried >= TRIES {
                            last = Some(error);
                            // Nothing of what a source gave may become part of what another gives.
                            self.give_up(errand, upload).await;
                            break;
                        }
                        (error, None)
                    }
                    Err(UploadError::Passing { error, asked }) => (error, asked),
                };
                let wait = self.registry.wait(tried, asked).filter(|_| tried < TRIES);
                let Some(wait) = wait else { return Err(here(error)) };
                tracing::debug!(%error, digest = errand.digest, ?wait, "sends again");
                tokio::time::sleep(wait).await;
                // The whole may have arrived and only the answer been lost.
                if self.registry.has_blob(&errand.into, &errand.digest).await.map_err(here)? {
                    return Ok(Came::Sent);
                }
                self.ask_what_arrived(errand, upload).await;
            }
        }
        let error = last.unwrap_or_else(|| ImageError::NotFound {
            reference: errand.digest.clone(),
            reason: "no source of it is known".to_owned(),
        });
        Err(Failed { fault: Fault::Source, error })
    }

    /// Finds out where an upload that broke off goes on; it begins anew where the registry does not say, or has nothing more than
    /// at the last time.
    async fn ask_what_arrived(&self, errand: &Errand, upload: &mut Upload) {
        let Some(session) = &upload.session else { return };
        match self.registry.arrived(&errand.into, session).await {
            Some((session, arrived)) if arrived > upload.arrived && arrived <= errand.size => {
                tracing::debug!(digest = errand.digest, arrived, "an upload goes on");
                *upload = Upload { session: Some(session), arrived };
            }
            _ => self.give_up(errand, upload).await,
        }
    }

    async fn give_up(&self, errand: &Errand, upload: &mut Upload) {
        if let Some(session) = std::mem::take(upload).session {
            self.registry.cancel(&errand.into, &session).await;
        }
    }

    async fn send_once(
        &self,
        errand: &Errand,
        source: &Source,
        upload: &mut Upload,
    ) -> Result<(), UploadError> {
        let Errand { digest, size, into, .. } = errand;
        let content = source.blob(digest).await.map_err(UploadError::Source)?;
        let content = verified(source.place(), digest.clone(), *size, content);
        let content = behind(upload.arrived, content).await.map_err(UploadError::Source)?;
        let session = match &upload.session {
            Some(session) => session.clone(),
            None => upload.session.insert(self.registry.begin_upload(into).await?).clone(),
        };
        let (progress, sent) = (Arc::clone(&self.progress), Arc::new(AtomicU64::new(upload.arrived)));
        progress.add_bytes(upload.arrived);
        let counter = Arc::clone(&sent);
        let counted = content.inspect(move |piece| {
            let length = piece.as_ref().map_or(0, |piece| piece.len() as u64);
            counter.fetch_add(length, Ordering::Relaxed);
            progress.add_bytes(length);
        });
        let outgoing = Outgoing { digest: digest.clone(), size: *size, content: Box::pin(counted) };
        let result = self.registry.upload(into, &session, upload.arrived, outgoing).await;
        if result.is_err() {
            self.progress.take_bytes(sent.load(Ordering::Relaxed));
        }
        result
    }

    /// Writes the manifests of an image, children first, and its tag last.
    pub(super) async fn finish(&self, into: &RemoteRef, tag: &str, nodes: &[Node]) -> Result<(), PutError> {
        let Some((top, children)) = nodes.split_last() else { return Ok(()) };
        for node in children {
            let turn = self.turn(node);
            let mut written = turn.lock().await;
            if !written.contains(into.path()) {
                self.registry.put_manifest(into, &node.digest, &node.media_type, &node.bytes).await?;
                written.insert(into.path().to_owned());
            }
        }
        let turn = self.turn(top);
        let mut written = turn.lock().await;
        self.registry.put_manifest(into, tag, &top.media_type, &top.bytes).await?;
        written.insert(into.path().to_owned());
        Ok(())
    }

    fn turn(&self, node: &Node) -> Arc<Turn> {
        let mut manifests = self.manifests.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(manifests.entry(node.digest.clone()).or_default())
    }
}

/// What is left of a content behind its first bytes. Those are read, so that the whole is verified.
async fn behind(skipped: u64, mut content: ByteStream) -> Result<ByteStream, ImageError> {
    let mut left = skipped;
    while left > 0 {
        let Some(mut piece) = content.next().await.transpose()? else { break };
        if piece.len() as u64 > left {
            let rest = piece.split_off(left as usize);
            return Ok(Box::pin(stream::once(async { Ok(rest) }).chain(content)));
        }
        left -= piece.len() as u64;
    }
    Ok(content)
}
