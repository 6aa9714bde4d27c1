//! Whether sandboxes without network really have none: a policy asks for it, and a probe finds out whether the cluster follows.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::PostParams;
use tokio::time::{Instant, sleep};

use crate::SandboxError;
use crate::guest::Link;
use crate::kubernetes::api::{PATIENCE, Refusal, insist};
use crate::kubernetes::namespace::Namespace;
use crate::kubernetes::objects::NetworkPolicy;
use crate::kubernetes::pod::{NAME, policy};

/// How long a cluster may take until a new pod's policy is in force.
const DELAY: Duration = Duration::from_secs(10);

/// Pause between two tries.
const PAUSE: Duration = Duration::from_millis(500);

/// Makes the run's policy.
pub(super) async fn forbid(
    namespace: &Namespace,
    run: &str,
    lease: &OwnerReference,
) -> Result<(), SandboxError> {
    let api = namespace.api::<NetworkPolicy>();
    let policy = policy(run, Some(lease));
    let parameters = PostParams::default();
    let created = insist(PATIENCE, || api.create(&parameters, &policy)).await;
    let created = created.map(|_| ()).or_else(Refusal::unless_there);
    created.map_err(|refusal| {
        refusal.unavailable(&format!("making a network policy in namespace {}", namespace.name))
    })
}

/// Tries to get out of a sandbox that must not; an error names what it reached.
pub(super) async fn probe(link: &Link, places: &[String]) -> Result<(), SandboxError> {
    let end = Instant::now() + DELAY;
    loop {
        let reached = link.reach(places).await?;
        if reached.is_empty() {
            return Ok(());
        }
        if Instant::now() >= end {
            let reason = format!(
                "the cluster does not enforce network policies: a sandbox without network reached {}; use a network plugin \
                 that enforces them, or accept it with `accept_open_network = true`",
                reached.join(", ")
            );
            return Err(SandboxError::Unavailable { engine: NAME, reason });
        }
        sleep(PAUSE).await;
    }
}
