//! The live tags of all shards at one moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::Registry;
use crate::shards::{Shards, Snapshot};
use crate::{ImageError, ImageRef, RemoteRef};

/// Shards asked at the same time.
const PARALLEL: usize = 4;

/// The tags of a shard are not known. That is not the same as none.
#[derive(Debug, thiserror::Error)]
pub enum LiveUnknown {
    /// The registry gave no list.
    #[error("the live tags of {repository} are not known: {source}")]
    Unanswered {
        /// The shard's repository.
        repository: String,
        /// What came instead.
        source: ImageError,
    },
    /// The registry does not know the shard, and the settings do not allow to make it.
    #[error(
        "there is no repository {repository}; a push would make it, which `create_repositories = true` allows"
    )]
    NoRepository {
        /// The shard's repository.
        repository: String,
    },
}

impl Registry {
    /// Asks for the tags of every shard, and for the digests of those tags that are `wanted`.
    pub async fn snapshot(
        &self,
        shards: &Shards,
        wanted: &BTreeSet<String>,
    ) -> Result<Snapshot, LiveUnknown> {
        let (turns, wanted) = (Arc::new(Semaphore::new(PARALLEL)), Arc::new(wanted.clone()));
        let mut asking = JoinSet::new();
        for number in shards.numbers() {
            let (registry, wanted, turns) = (self.clone(), Arc::clone(&wanted), Arc::clone(&turns));
            let (repository, may_create) = (shards.repository(number), shards.config().create_repositories);
            asking.spawn(async move {
                let _turn = turns.acquire().await;
                let tags = registry.shard(&repository, &wanted, may_create).await;
                (number, tags)
            });
        }
        let mut found = BTreeMap::new();
        // Leaving early drops the set, which ends the other questions.
        while let Some(asked) = asking.join_next().await {
            let (number, tags) = asked.expect("a question does not panic and is not cancelled");
            found.insert(number, tags?);
        }
        Ok(Snapshot::new(found.into_values().collect()))
    }

    async fn shard(
        &self,
        repository: &str,
        wanted: &BTreeSet<String>,
        may_create: bool,
    ) -> Result<BTreeMap<String, Option<String>>, LiveUnknown> {
        let unanswered =
            |source: ImageError| LiveUnknown::Unanswered { repository: repository.to_owned(), source };
        let reference = remote(&format!("{repository}:latest")).map_err(unanswered)?;
        let Some(tags) = self.tags(&reference).await.map_err(unanswered)? else {
            if may_create {
                return Ok(BTreeMap::new());
            }
            return Err(LiveUnknown::NoRepository { repository: repository.to_owned() });
        };
        let mut live = BTreeMap::new();
        for tag in tags {
            let digest = if wanted.contains(&tag) {
                let reference = remote(&format!("{repository}:{tag}")).map_err(unanswered)?;
                self.look_up(&reference).await.map_err(unanswered)?.map(|found| found.digest)
            } else {
                None
            };
            live.insert(tag, digest);
        }
        Ok(live)
    }
}

fn remote(text: &str) -> Result<RemoteRef, ImageError> {
    let reference: ImageRef = text.parse()?;
    Ok(reference.remote().expect("a reference with a host is remote").clone())
}
