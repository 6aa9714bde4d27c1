//! What a run has once: a lease that says that it lives, and everything that goes with the lease.
//!
//! Pods and the policy are owned by the lease, so the cluster itself removes them with it.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use crate::SandboxError;
use crate::kubernetes::api::{PATIENCE, delete, insist};
use crate::kubernetes::pod::{OWNER, RUN, of_run};
use crate::owner::Owner;
use crate::removal;

/// How long a run counts as alive after its last word, and how often it says one.
pub(super) const DURATION: Duration = Duration::from_secs(120);
const RENEWAL: Duration = Duration::from_secs(30);

/// How long the removal of a run's own objects may take when the program ends.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// A run's lease, renewed for as long as this lives. Dropping it deletes the lease.
pub(super) struct RunLease {
    client: Client,
    namespace: String,
    name: String,
    /// How pods name their owner.
    pub(super) reference: Value,
    renewal: JoinHandle<()>,
}

impl RunLease {
    /// Takes the lease of a run; one of the same name that is somebody else's is an error.
    pub(super) async fn take(
        client: &Client,
        namespace: &str,
        run: &str,
        owner: &Owner,
    ) -> Result<Self, SandboxError> {
        let api: Api<Lease> = Api::namespaced(client.clone(), namespace);
        let name = of_run(run);
        let holder = owner.label();
        let lease: Lease = serde_json::from_value(json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "labels": {RUN: run}, "annotations": {OWNER: holder}},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": DURATION.as_secs(), "renewTime": now()},
        }))
        .expect("every field has the API's shape");
        let doing = format!("taking the lease {name} in namespace {namespace}");
        let parameters = PostParams::default();
        let created = insist(PATIENCE, || api.create(&parameters, &lease)).await;
        let lease = match created {
            Ok(lease) => lease,
            Err(refusal) if refusal.is_name_in_use() => {
                let found = insist(PATIENCE, || api.get(&name))
                    .await
                    .map_err(|refusal| refusal.unavailable(&doing))?;
                let held = found.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref());
                if held != Some(holder.as_str()) {
                    let reason = format!("{doing}: another program runs under the name {run}");
                    return Err(SandboxError::Unavailable { engine: super::pod::NAME, reason });
                }
                found
            }
            Err(refusal) => return Err(refusal.unavailable(&doing)),
        };
        let reference = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "name": name,
            "uid": lease.metadata.uid.unwrap_or_default(),
        });
        let renewed = name.clone();
        let renewal = tokio::spawn(async move {
            let mut turns = interval(RENEWAL);
            turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
            turns.tick().await;
            loop {
                turns.tick().await;
                let patch = Patch::Merge(json!({"spec": {"renewTime": now()}}));
                let parameters = PatchParams::default();
                if let Err(refusal) = insist(RENEWAL, || api.patch(&renewed, &parameters, &patch)).await {
                    tracing::warn!(?refusal, "the run's lease was not renewed");
                }
            }
        });
        Ok(Self { client: client.clone(), namespace: namespace.to_owned(), name, reference, renewal })
    }
}

impl Drop for RunLease {
    fn drop(&mut self) {
        self.renewal.abort();
        let (client, namespace, name) = (self.client.clone(), self.namespace.clone(), self.name.clone());
        removal::aside(async move {
            let api: Api<Lease> = Api::namespaced(client, &namespace);
            if let Err(refusal) = delete(LAST_WORDS, &api, &name, &DeleteParams::default()).await {
                tracing::warn!(?refusal, name, "a run's lease was not deleted");
            }
        });
    }
}

/// The present moment in the form of the API.
fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}
