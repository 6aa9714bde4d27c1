//! Public repositories: a revision resolved, files listed, fetched, verified and kept.

mod answer;
mod code_host;
mod download;
mod error;
mod http;
mod hub;
mod hub_cache;
mod identity;
mod push;
mod retry;
mod settings;
mod store;
mod transfers;
mod tree;

use std::sync::OnceLock;

pub use error::RemoteError;
pub use push::{Push, Pushed};
pub use retry::RetryRules;
pub use settings::{Host, RemoteSettings, Secret};
pub use transfers::Transfers;
pub use tree::RepoTree;

pub(crate) use code_host::{CodeHost, TreeEntry};
pub(crate) use download::Fetched;
pub(crate) use hub::Hub;
pub(crate) use identity::{ContentId, RepoFile, is_commit};
pub(crate) use store::Store;

/// Everything that public repositories are reached through: connections, tokens, the cache.
#[derive(Debug)]
pub struct Remote {
    pub(crate) settings: RemoteSettings,
    pub(crate) store: Store,
    client: OnceLock<http::Client>,
    transfers: Transfers,
}

impl Remote {
    /// Sets up connections and the cache. Nothing is sent, and nothing is written, before a file is wanted.
    pub fn new(settings: RemoteSettings) -> Self {
        let store = Store::new(settings.downloads.clone(), settings.hash_anew);
        Self { settings, store, client: OnceLock::new(), transfers: Transfers::default() }
    }

    /// How much is to come, and how much has come.
    pub fn transfers(&self) -> &Transfers {
        &self.transfers
    }

    /// The connections. Certificates are read when the first one is wanted: most commands want none.
    fn client(&self) -> Result<&http::Client, RemoteError> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = http::Client::new(&self.settings)?;
        Ok(self.client.get_or_init(|| client))
    }

    /// Refuses a request that needs the network where there is none.
    fn online(&self, what: impl FnOnce() -> String) -> Result<(), RemoteError> {
        match self.settings.offline {
            Some(why) => Err(RemoteError::Offline { what: what(), why }),
            None => Ok(()),
        }
    }
}
