//! Removes what runs left behind, and nothing that is not ours.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::time::{Duration, Instant, sleep};

use crate::SandboxError;
use crate::kubernetes::api::{self, PATIENCE, insist};
use crate::kubernetes::engine::Kubernetes;
use crate::kubernetes::lease::DURATION;
use crate::kubernetes::objects::{Lease, NetworkPolicy, Pod};
use crate::kubernetes::pod::{OWNER, RUN, of_run};
use crate::kubernetes::running::delete;
use crate::owner::{Life, Owner};

/// A run of another machine counts as dead when its last word is so many durations of its lease ago; clocks differ.
const MANY: u32 = 5;

/// How long the cluster may take to remove what was deleted. A node takes a minute for a pod whose image it cannot pull.
const REMOVAL: Duration = Duration::from_secs(180);

/// Objects of one page of a list.
const PAGE: u32 = 500;

/// A run with objects on the cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Found {
    /// Its name.
    pub run: String,
    /// Its pods, by name.
    pub pods: Vec<String>,
    /// Pods that the cluster is removing already.
    pub leaving: Vec<String>,
    /// Why it is left alone; absent when it is to be removed.
    pub kept: Option<&'static str>,
}

/// What a sweep did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swept {
    /// Runs that were removed.
    pub removed: Vec<Found>,
    /// Runs that were left.
    pub kept: Vec<Found>,
}

impl Kubernetes {
    /// The runs with objects in the namespace, in order of name: all of them, or one. What was asked for by name goes even when its
    /// process is alive.
    pub async fn look(&self, run: Option<&str>) -> Result<Vec<Found>, SandboxError> {
        let namespace = &self.shared.namespace;
        let pods = list(&namespace.api::<Pod>(), run).await?;
        let leases = list(&namespace.api::<Lease>(), run).await?;
        let policies = list(&namespace.api::<NetworkPolicy>(), run).await?;
        let mut runs: BTreeMap<String, Run> = BTreeMap::new();
        for lease in &leases {
            if let Some(run) = lease.labels().get(RUN) {
                runs.entry(run.clone()).or_default().lease = Some(lease.clone());
            }
        }
        for pod in &pods {
            if let Some(run) = pod.labels().get(RUN) {
                let entry = runs.entry(run.clone()).or_default();
                let leaving = pod.metadata.deletion_timestamp.is_some();
                if leaving { &mut entry.leaving } else { &mut entry.pods }.insert(pod.name_any());
                entry.owners.extend(pod.annotations().get(OWNER).cloned());
            }
        }
        for policy in &policies {
            if let Some(run) = policy.labels().get(RUN) {
                runs.entry(run.clone()).or_default();
            }
        }
        let now = Timestamp::now();
        let found = runs.into_iter().map(|(name, found)| Found {
            kept: if run.is_some() { None } else { found.is_alive(now, Owner::life) },
            run: name,
            pods: found.pods.into_iter().collect(),
            leaving: found.leaving.into_iter().collect(),
        });
        Ok(found.collect())
    }

    /// Removes dead runs, or one by name, with everything that belongs to them, and waits until the cluster has nothing of them.
    pub async fn sweep(&self, run: Option<&str>) -> Result<Swept, SandboxError> {
        let namespace = &self.shared.namespace;
        let (removed, kept): (Vec<_>, Vec<_>) =
            self.look(run).await?.into_iter().partition(|found| found.kept.is_none());
        let whole = DeleteParams::default();
        for Found { run, pods, .. } in &removed {
            let doing = |what: &str| format!("removing {what} of run {run}");
            for pod in pods {
                delete(namespace, pod, None).await.map_err(|refusal| refusal.doing(&doing("a pod")))?;
            }
            api::delete(PATIENCE, &namespace.api::<NetworkPolicy>(), &of_run(run), &whole)
                .await
                .map_err(|refusal| refusal.doing(&doing("the policy")))?;
            api::delete(PATIENCE, &namespace.api::<Lease>(), &of_run(run), &whole)
                .await
                .map_err(|refusal| refusal.doing(&doing("the lease")))?;
        }
        let names: BTreeSet<&str> = removed.iter().map(|found| found.run.as_str()).collect();
        let end = Instant::now() + REMOVAL;
        loop {
            let left = self.look(run).await?;
            let Some(left) = left.into_iter().find(|left| names.contains(left.run.as_str())) else {
                return Ok(Swept { removed, kept });
            };
            if Instant::now() >= end {
                let pods = left.pods.len() + left.leaving.len();
                let reason = format!("run {} still has {pods} pods after their deletion", left.run);
                return Err(SandboxError::Lost(reason));
            }
            sleep(Duration::from_millis(300)).await;
        }
    }
}

/// The objects of all runs, or of one.
async fn list<K>(api: &Api<K>, run: Option<&str>) -> Result<Vec<K>, SandboxError>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    let label = run.map_or_else(|| RUN.to_owned(), |run| format!("{RUN}={run}"));
    let mut parameters = ListParams::default().labels(&label).limit(PAGE);
    let mut all = Vec::new();
    loop {
        let page = insist(PATIENCE, || api.list(&parameters))
            .await
            .map_err(|refusal| refusal.doing("listing objects"))?;
        all.extend(page.items);
        match page.metadata.continue_.filter(|next| !next.is_empty()) {
            Some(next) => parameters = parameters.continue_token(&next),
            None => return Ok(all),
        }
    }
}

/// What the cluster has of a run.
#[derive(Debug, Default)]
struct Run {
    lease: Option<Lease>,
    pods: BTreeSet<String>,
    leaving: BTreeSet<String>,
    owners: BTreeSet<String>,
}

impl Run {
    /// Why a run is left alone; nothing when it is dead.
    fn is_alive(&self, now: Timestamp, life: impl Fn(&Owner) -> Life) -> Option<&'static str> {
        let held = self.lease.as_ref().and_then(|lease| lease.annotations().get(OWNER));
        let owners: Vec<Option<Owner>> =
            self.owners.iter().chain(held).map(|label| Owner::parse(label)).collect();
        if owners.iter().flatten().any(|owner| life(owner) == Life::Alive) {
            return Some("its process is running");
        }
        if !owners.is_empty()
            && owners.iter().all(|owner| owner.as_ref().is_some_and(|owner| life(owner) == Life::Dead))
        {
            return None;
        }
        let spec = self.lease.as_ref().and_then(|lease| lease.spec.as_ref());
        match spec.and_then(|spec| spec.renew_time.as_ref()) {
            Some(renewed) if now.duration_since(renewed.0).unsigned_abs() < DURATION * MANY => {
                Some("its process is elsewhere and renewed its lease lately")
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(owner: &str, renewed: &str) -> Run {
        let lease =
            json!({"metadata": {"name": "l", "annotations": {OWNER: owner}}, "spec": {"renewTime": renewed}});
        Run { lease: Some(serde_json::from_value(lease).unwrap()), ..Run::default() }
    }

    #[test]
    fn only_the_dead_go() {
        let own = Owner::current().label();
        let now: Timestamp = "2026-01-01T00:10:00Z".parse().unwrap();
        let (fresh, old) = ("2026-01-01T00:09:00.000000Z", "2025-12-31T23:00:00.000000Z");
        let verdict = |run: Run, life| run.is_alive(now, |_| life).is_none();
        assert!(!verdict(run(&own, old), Life::Alive), "its process counts, not its word");
        assert!(verdict(run(&own, fresh), Life::Dead));
        assert!(!verdict(run(&own, fresh), Life::Unknown));
        assert!(verdict(run(&own, old), Life::Unknown));
        assert!(!verdict(run("broken", fresh), Life::Unknown));
        assert!(verdict(Run::default(), Life::Unknown), "objects without owner or lease belong to nobody");
    }
}
