//! The namespace that is used, and the way to it.

use std::sync::Arc;

use hyper_util::client::legacy::{self, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{Metadata, NamespaceResourceScope, Resource};
use kube::client::ConfigExt;
use kube::client::retry::RetryPolicy;
use kube::{Api, Client, Config};
use tower::retry::RetryLayer;
use tower::{BoxError, ServiceBuilder};

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
        let unavailable = |reason| SandboxError::Unavailable { engine: NAME, reason };
        // Its address may hold a password. Going past it is nothing that anybody asked for.
        if let Some(proxy) = &config.proxy_url {
            let host = proxy.host().unwrap_or_default();
            return Err(unavailable(format!(
                "the way to the cluster leads over the proxy {host}, and proxies are not supported"
            )));
        }
        let client = client(&config).map_err(|error| unavailable(chain(&error)))?;
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

/// The library's client, over connections that send at once. Its own hold small messages back until the server has confirmed those
/// before, which the server does after 40 ms, and what goes to and from a guest is small messages.
fn client(config: &Config) -> Result<Client, kube::Error> {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(config.connect_timeout);
    let connector = config.rustls_https_connector_with_connector(connector)?;
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .layer(RetryLayer::new(RetryPolicy::server_retry()))
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(legacy::Client::builder(TokioExecutor::new()).build(connector));
    Ok(Client::new(service, config.default_namespace.clone()))
}
