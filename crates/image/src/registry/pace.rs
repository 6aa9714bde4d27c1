//! How hard one host is asked: so many requests at the same time, and none while it wants to be left alone.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};

/// Keeps the pace of every host.
pub(super) struct Pace {
    at_once: usize,
    hosts: Mutex<BTreeMap<String, Host>>,
}

#[derive(Clone)]
struct Host {
    turns: Arc<Semaphore>,
    /// Until when nobody asks.
    rest: Option<Instant>,
}

/// A request's turn, which ends when this is dropped.
pub(super) struct Turn {
    _permit: OwnedSemaphorePermit,
}

impl Pace {
    /// Every host may be asked so many things at the same time, at least one.
    pub(super) fn new(at_once: usize) -> Self {
        Self { at_once: at_once.max(1), hosts: Mutex::default() }
    }

    /// Waits until a host may be asked one thing more.
    pub(super) async fn turn(&self, host: &str) -> Turn {
        let turns = self.host(&mut self.hosts(), host).turns.clone();
        let permit = turns.acquire_owned().await.expect("turns are never closed");
        // Whoever has waited may find that the host has had enough meanwhile.
        loop {
            let rest = self.host(&mut self.hosts(), host).rest;
            match rest.filter(|until| *until > Instant::now()) {
                Some(until) => sleep_until(until).await,
                None => return Turn { _permit: permit },
            }
        }
    }

    /// Lets a host alone for a time: it has just said that it was asked too much.
    pub(super) fn rest(&self, host: &str, time: Duration) {
        let mut hosts = self.hosts();
        let host = self.host(&mut hosts, host);
        host.rest = host.rest.max(Instant::now().checked_add(time));
    }

    fn host<'h>(&self, hosts: &'h mut MutexGuard<'_, BTreeMap<String, Host>>, name: &str) -> &'h mut Host {
        let host = || Host { turns: Arc::new(Semaphore::new(self.at_once)), rest: None };
        hosts.entry(name.to_owned()).or_insert_with(host)
    }

    fn hosts(&self) -> MutexGuard<'_, BTreeMap<String, Host>> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn hosts_are_asked_so_much_at_once_and_no_more() {
        let pace = Arc::new(Pace::new(2));
        let begun = Instant::now();
        let ask = |host: &'static str| {
            let pace = Arc::clone(&pace);
            tokio::spawn(async move {
                let _turn = pace.turn(host).await;
                tokio::time::sleep(Duration::from_secs(1)).await;
                begun.elapsed().as_secs()
            })
        };
        let mut done = Vec::new();
        for asked in ["a", "a", "a", "a", "a", "b"].map(ask) {
            done.push(asked.await.unwrap());
        }
        assert_eq!(done, [1, 1, 2, 2, 3, 1]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_that_has_had_enough_is_left_alone_by_all() {
        let pace = Pace::new(4);
        let begun = Instant::now();
        pace.rest("a", Duration::from_secs(7));
        pace.rest("a", Duration::from_secs(3));
        drop(pace.turn("b").await);
        assert_eq!(begun.elapsed().as_secs(), 0);
        drop(pace.turn("a").await);
        assert_eq!(begun.elapsed().as_secs(), 7);
        pace.rest("a", Duration::MAX);
        drop(pace.turn("a").await);
        assert_eq!(begun.elapsed().as_secs(), 7, "a time without end is none");
    }
}
