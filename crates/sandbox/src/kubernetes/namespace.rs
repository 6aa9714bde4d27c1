//! The namespace that is used, and the way to it.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{Metadata, NamespaceResourceScope, Resource};
use kube::{Api, Client, Config};

use crate::error::chain;
use crate::kubernetes::api::Refusal;
use crate::kubernetes::pod::NAME;
use crate::{SandboxError, removal};

/// A namespace of a cluster. Clones share the connection.
#[derive(Clone)]
pub(super) struct Namespace {
    pub(super) client: Client,
    pub(super) name: String,
    config: Arc<Config>,
}

impl Namespace {
    /// Connects, on the runtime that this is called on: the connection ends with it.
    pub(super) fn connect(name: String, config: Arc<Config>) -> Result<Self, SandboxError> {
        let client = Client::try_from(Config::clone(&config))
            .map_err(|error| SandboxError::Unavailable { engine: NAME, reason: chain(&error) })?;
        Ok(Self { client, name, config })
    }

    /// Removes something on a runtime of its own, with a connection of its own: those of the caller may be about to end.
    pub(super) fn aside<F>(&self, what: String, remove: impl FnOnce(Self) -> F + Send + 'static)
    where
        F: Future<Output = Result<(), Refusal>>,
    {
        let (name, config) = (self.name.clone(), Arc::clone(&self.config));
        removal::aside(async move || match Self::connect(name, config) {
            Ok(namespace) => {
                if let Err(refusal) = remove(namespace).await {
                    tracing::warn!(what, ?refusal, "what was left of a run could not be removed");
                }
            }
            Err(error) => tracing::warn!(what, %error, "what was left of a run could not be removed"),
        });
    }

    /// The objects of one kind.
    pub(super) fn api<K: Resource<Scope = NamespaceResourceScope> + Metadata<Ty = ObjectMeta>>(
        &self,
    ) -> Api<K> {
        Api::namespaced(self.client.clone(), &self.name)
    }
}
