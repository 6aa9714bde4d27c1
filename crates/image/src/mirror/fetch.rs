//! Manifests of the images that are to be mirrored, under the budget of pulls that their registries count.

use std::collections::BTreeMap;

use serde::Deserialize;
use tokio::sync::Mutex;

use super::graph::{Graph, Node, walk};
use super::source::{Source, Sources};
use crate::manifest::{self, Document};
use crate::pack::BASE_NAME;
use crate::registry::Registry;
use crate::shards::Item;
use crate::{ImageError, ImageRef, RemoteRef};

/// An image with everything that belongs to it.
pub(super) struct Fetched {
    /// Where its content is, the likeliest place first.
    pub(super) sources: Vec<Source>,
    pub(super) graph: Graph,
}

/// Gets the manifests of images.
pub(super) struct Fetcher<'a> {
    pub(super) registry: &'a Registry,
    pub(super) sources: &'a Sources,
    /// Pulls that are left to others.
    pub(super) reserve: u64,
    /// Whether one platform of every index was planned.
    is_one_platform: bool,
    /// Held from a look at a quota to the pull that uses it up.
    turn: Mutex<()>,
}

impl<'a> Fetcher<'a> {
    pub(super) fn new(
        registry: &'a Registry,
        sources: &'a Sources,
        reserve: u64,
        is_one_platform: bool,
    ) -> Self {
        Self { registry, sources, reserve, is_one_platform, turn: Mutex::default() }
    }

    /// An image with everything that belongs to it. What was fetched before is not fetched again.
    pub(super) async fn fetch(&self, item: &Item) -> Result<Fetched, ImageError> {
        let source = self.sources.open(&item.source)?;
        if let Some(reference) = source.repository()
            && self.registry.kept_manifest(&item.digest).is_none()
        {
            self.is_unmoved(reference, item, &source).await?;
        }
        let fetch = async |digest: &str| match source.repository() {
            None => source.manifest(digest).await,
            Some(reference) => self.pull(reference, digest, &source).await,
        };
        let graph = walk(&item.source, &item.digest, &item.media_type, fetch).await?;
        // Images that were packed here leave the blobs of their bases where those are.
        let base = graph.nodes.last().and_then(base_of).and_then(|base| self.sources.remote(&base));
        Ok(Fetched { sources: std::iter::once(source).chain(base).collect(), graph })
    }

    /// Whether the source still names what was planned. Registries that count pulls do not count the question, and say in its
    /// answer how many are left.
    async fn is_unmoved(
        &self,
        reference: &RemoteRef,
        item: &Item,
        source: &Source,
    ) -> Result<(), ImageError> {
        let found = self.registry.look_up(reference).await?.ok_or_else(|| ImageError::NotFound {
            reference: item.source.clone(),
            reason: format!("{} does not have it any more", reference.host()),
        })?;
        if found.digest == item.digest {
            return Ok(());
        }
        if found.is_index() && self.is_one_platform {
            let bytes = self.pull(reference, &found.digest, source).await?;
            if let Document::Index(manifests) = manifest::read(&item.source, &bytes)?
                && manifests.iter().any(|manifest| manifest.digest == item.digest)
            {
                return Ok(());
            }
        }
        Err(ImageError::SourceMoved {
            reference: item.source.clone(),
            planned: item.digest.clone(),
            found: found.digest,
        })
    }

    async fn pull(
        &self,
        reference: &RemoteRef,
        digest: &str,
        source: &Source,
    ) -> Result<Vec<u8>, ImageError> {
        if let Some(bytes) = self.registry.kept_manifest(digest) {
            return Ok(bytes);
        }
        let host = reference.host();
        if self.registry.quota(host).is_none() {
            return source.manifest(digest).await;
        }
        let _turn = self.turn.lock().await;
        if let Some(quota) = self.registry.quota(host)
            && quota.remaining <= self.reserve
        {
            return Err(ImageError::PullsSpent {
                host: host.to_owned(),
                remaining: quota.remaining,
                reserve: self.reserve,
            });
        }
        source.manifest(digest).await
    }
}

/// The base that a manifest says it was built on.
fn base_of(node: &Node) -> Option<ImageRef> {
    #[derive(Deserialize)]
    struct Annotated {
        #[serde(default)]
        annotations: BTreeMap<String, String>,
    }
    let annotated: Annotated = serde_json::from_slice(&node.bytes).ok()?;
    annotated.annotations.get(BASE_NAME)?.parse().ok()
}
