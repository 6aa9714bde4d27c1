//! How many pulls a registry still allows, as it says in the headers of its answers.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use reqwest::header::HeaderMap;

/// What a registry last said about pulls that it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Pulls that are left.
    pub remaining: u64,
    /// Seconds over which they are counted, where the registry says so.
    pub window_sec: Option<u64>,
}

/// Quotas by host. A host that never said anything counts nothing.
///
/// Requests run side by side, so an answer may arrive after one that is newer. Of two whose requests overlap, the one that says
/// less counts.
#[derive(Debug, Default)]
pub(super) struct Quotas(Mutex<Said>);

/// What was said, in the order of events.
#[derive(Debug, Default)]
struct Said {
    /// Requests that were sent and answers that were noted, so far.
    events: u64,
    /// By host, the quota and the event that it was noted at.
    of: BTreeMap<String, (Quota, u64)>,
}

/// When a request was sent, among the events of its [`Quotas`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent(u64);

impl Quotas {
    /// A request is about to be sent.
    pub(super) fn sent(&self) -> Sent {
        let mut said = self.said();
        said.events += 1;
        Sent(said.events)
    }

    /// Takes note of what the answer to a request says.
    pub(super) fn note(&self, host: &str, sent: Sent, headers: &HeaderMap) {
        let value = headers.get("ratelimit-remaining").and_then(|value| value.to_str().ok());
        let Some(quota) = value.and_then(parse) else { return };
        let mut said = self.said();
        said.events += 1;
        let now = said.events;
        match said.of.get(host) {
            Some((held, noted)) if *noted > sent.0 && held.remaining <= quota.remaining => {}
            _ => {
                said.of.insert(host.to_owned(), (quota, now));
            }
        }
    }

    /// What a host said last.
    pub(super) fn of(&self, host: &str) -> Option<Quota> {
        self.said().of.get(host).map(|(quota, _)| *quota)
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `20;w=21600`
fn parse(text: &str) -> Option<Quota> {
    let mut parts = text.split(';').map(str::trim);
    let remaining = parts.next()?.parse().ok()?;
    let window_sec = parts.find_map(|part| part.strip_prefix("w=")?.parse().ok());
    Some(Quota { remaining, window_sec })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_are_read_with_and_without_a_window() {
        let quota = |remaining, window_sec| Some(Quota { remaining, window_sec });
        assert_eq!(parse("20;w=21600"), quota(20, Some(21_600)));
        assert_eq!(parse(" 7 ; w=5"), quota(7, Some(5)));
        assert_eq!(parse("0"), quota(0, None));
        assert_eq!(parse("many"), None);
    }

    #[test]
    fn an_answer_that_comes_late_takes_nothing_back() {
        let quotas = Quotas::default();
        let says = |remaining: u64| {
            let mut headers = HeaderMap::new();
            headers.insert("ratelimit-remaining", remaining.into());
            headers
        };
        let remaining = || quotas.of("host").unwrap().remaining;
        let (early, pull) = (quotas.sent(), quotas.sent());
        quotas.note("host", pull, &says(2));
        quotas.note("host", early, &says(3));
        assert_eq!(remaining(), 2);
        // A request that was sent afterwards knows better, and so does one that says less.
        let (later, beside) = (quotas.sent(), quotas.sent());
        quotas.note("host", later, &says(100));
        assert_eq!(remaining(), 100);
        quotas.note("host", beside, &says(99));
        assert_eq!(remaining(), 99);
        assert_eq!(quotas.of("another"), None);
    }
}
