//! One watch over all pods of a run: who waits for a pod listens here and asks the server nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use kube::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{Config, Event, watcher};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::error::chain;
use crate::kubernetes::objects::Pod;
use crate::kubernetes::pauses::Pauses;
use crate::kubernetes::pod::RUN;

/// Pauses before a watch that broke is begun again: the first, and the longest. A whole run waits for it.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// What is known of a pod.
#[derive(Debug, Clone, Default)]
pub(super) enum Seen {
    /// Nothing was heard of it yet.
    #[default]
    Nothing,
    /// Its latest object.
    Pod(Arc<Pod>),
    /// The one with this identity was there and is not any more.
    Gone(Option<String>),
}

/// Listens to the pods of a run for as long as it lives.
#[derive(Debug)]
pub(super) struct Watch {
    pods: Arc<Pods>,
    task: JoinHandle<()>,
}

/// Who listens to which pod.
#[derive(Debug, Default)]
struct Pods(Mutex<BTreeMap<String, watch::Sender<Seen>>>);

impl Watch {
    /// Starts to listen. A server that does not answer is asked again and again, with growing pauses.
    pub(super) fn start(api: Api<Pod>, run: &str) -> Self {
        let pods = Arc::new(Pods::default());
        let heard = Arc::clone(&pods);
        let config = Config::default().labels(&format!("{RUN}={run}"));
        let task = tokio::spawn(async move {
            let mut events =
                std::pin::pin!(watcher(api, config).backoff(Pauses::new(FIRST_PAUSE, LONGEST_PAUSE)));
            let mut listed = BTreeSet::new();
            while let Some(event) = events.next().await {
                match event {
                    Ok(event) => heard.take(event, &mut listed),
                    Err(error) => {
                        tracing::debug!(error = chain(&error), "the watch over pods broke off");
                    }
                }
            }
        });
        Self { pods, task }
    }

    /// Begins to listen to a pod, which may not exist yet.
    pub(super) fn listen(&self, name: &str) -> Listener {
        let receiver = self.pods.all().entry(name.to_owned()).or_default().subscribe();
        Listener { pods: Arc::clone(&self.pods), name: name.to_owned(), receiver }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Pods {
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, watch::Sender<Seen>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one event; `listed` holds the names of a list that is being read.
    fn take(&self, event: Event<Pod>, listed: &mut BTreeSet<String>) {
        match event {
            Event::Init => listed.clear(),
            Event::InitApply(pod) => {
                listed.extend(pod.metadata.name.clone());
                self.tell(pod);
            }
            // Events were missed while nobody listened: who is not in the list any more is gone.
            Event::InitDone => {
                for (_, sender) in self.all().iter().filter(|(name, _)| !listed.contains(*name)) {
                    sender.send_if_modified(|seen| match seen {
                        Seen::Pod(pod) => {
                            *seen = Seen::Gone(pod.metadata.uid.clone());
                            true
                        }
                        Seen::Nothing | Seen::Gone(_) => false,
                    });
                }
            }
            Event::Apply(pod) => self.tell(pod),
            Event::Delete(pod) => {
                let pods = self.all();
                if let Some(sender) = pod.metadata.name.as_ref().and_then(|name| pods.get(name)) {
                    sender.send_replace(Seen::Gone(pod.metadata.uid.clone()));
                }
            }
        }
    }

    fn tell(&self, pod: Pod) {
        let pods = self.all();
        if let Some(sender) = pod.metadata.name.as_ref().and_then(|name| pods.get(name)) {
            sender.send_replace(Seen::Pod(Arc::new(pod)));
        }
    }
}

/// Hears what becomes of one pod.
#[derive(Debug)]
pub(super) struct Listener {
    pods: Arc<Pods>,
    name: String,
    receiver: watch::Receiver<Seen>,
}

impl Listener {
    /// What is known now.
    pub(super) fn seen(&mut self) -> Seen {
        self.receiver.borrow_and_update().clone()
    }

    /// Another ear for the same news.
    pub(super) fn receiver(&self) -> watch::Receiver<Seen> {
        self.receiver.clone()
    }

    /// Waits for news.
    pub(super) async fn changed(&mut self) {
        if self.receiver.changed().await.is_err() {
            // Nobody tells any more.
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.pods.all().remove(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str) -> Pod {
        let mut pod = Pod::default();
        (pod.metadata.name, pod.metadata.uid) = (Some(name.to_owned()), Some(name.to_owned()));
        pod
    }

    fn listener(pods: &Arc<Pods>, name: &str) -> Listener {
        let receiver = pods.all().entry(name.to_owned()).or_default().subscribe();
        Listener { pods: Arc::clone(pods), name: name.to_owned(), receiver }
    }

    #[test]
    fn who_is_missing_from_a_new_list_is_gone() {
        let pods = Arc::new(Pods::default());
        let mut listed = BTreeSet::new();
        let [mut seen, mut missed, mut unborn] =
            ["seen", "missed", "unborn"].map(|name| listener(&pods, name));
        for event in
            [Event::Apply(pod("seen")), Event::Apply(pod("missed")), Event::Apply(pod("of somebody else"))]
        {
            pods.take(event, &mut listed);
        }
        assert!(matches!(missed.seen(), Seen::Pod(_)));
        for event in [Event::Init, Event::InitApply(pod("seen")), Event::InitDone] {
            pods.take(event, &mut listed);
        }
        assert!(matches!(seen.seen(), Seen::Pod(_)));
        assert!(matches!(missed.seen(), Seen::Gone(Some(uid)) if uid == "missed"));
        assert!(matches!(unborn.seen(), Seen::Nothing));
        pods.take(Event::Delete(pod("seen")), &mut listed);
        assert!(matches!(seen.seen(), Seen::Gone(_)));
        drop((seen, missed, unborn));
        assert!(pods.all().is_empty(), "nobody listens, nothing is kept");
    }
}
