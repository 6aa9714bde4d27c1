//! What a run has once: a lease that says that it lives, and everything that goes with the lease.
//!
//! Pods and the policy are owned by the lease, so the cluster itself removes them with it.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, OwnerReference};
use k8s_openapi::jiff::Timestamp;
use kube::Resource;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use crate::SandboxError;
use crate::kubernetes::api::{PATIENCE, delete, insist};
use crate::kubernetes::namespace::Namespace;
use crate::kubernetes::objects::{Lease, LeaseSpec};
use crate::kubernetes::pod::{OWNER, metadata_of_run, of_run};
use crate::owner::Owner;

/// How long a run counts as alive after its last word, and how often it says one.
pub(super) const DURATION: Duration = Duration::from_secs(120);
const RENEWAL: Duration = Duration::from_secs(30);

/// How long the removal of a run's own objects may take when the program ends.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// A run's lease, renewed for as long as this lives. Dropping it deletes the lease.
pub(super) struct RunLease {
    namespace: Namespace,
    name: String,
    /// How pods name their owner.
    pub(super) reference: OwnerReference,
    renewal: JoinHandle<()>,
}

impl RunLease {
    /// Takes the lease of a run; one of the same name that is somebody else's is an error.
    pub(super) async fn take(namespace: &Namespace, run: &str, owner: &Owner) -> Result<Self, SandboxError> {
        let api = namespace.api::<Lease>();
        let name = of_run(run);
        let holder = owner.label();
        let mut metadata = metadata_of_run(run, None);
        metadata.annotations = Some([(OWNER.to_owned(), holder.clone())].into());
        let spec = LeaseSpec {
            holder_identity: Some(holder.clone()),
            lease_duration_seconds: Some(DURATION.as_secs()),
            renew_time: Some(now()),
        };
        let lease = Lease::new(metadata, spec);
        let doing = format!("taking the lease {name} in namespace {}", namespace.name);
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
        let reference = lease.owner_ref(&()).ok_or_else(|| SandboxError::Unavailable {
            engine: super::pod::NAME,
            reason: format!("{doing}: the API server gave it no identity"),
        })?;
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
        Ok(Self { namespace: namespace.clone(), name, reference, renewal })
    }
}

impl Drop for RunLease {
    fn drop(&mut self) {
        self.renewal.abort();
        let name = self.name.clone();
        self.namespace.aside(format!("the lease {name}"), async move |namespace| {
            delete(LAST_WORDS, &namespace.api::<Lease>(), &name, &DeleteParams::default()).await
        });
    }
}

/// The present moment in the form of the API.
fn now() -> MicroTime {
    MicroTime(Timestamp::now())
}
