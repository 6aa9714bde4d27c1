//! How many pulls a registry still allows, as it says in the headers of its answers.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

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
#[derive(Debug, Default)]
pub(super) struct Quotas(Mutex<BTreeMap<String, Quota>>);

impl Quotas {
    /// Takes note of what an answer says.
    pub(super) fn note(&self, host: &str, headers: &HeaderMap) {
        let value = headers.get("ratelimit-remaining").and_then(|value| value.to_str().ok());
        if let Some(quota) = value.and_then(parse) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(host.to_owned(), quota);
        }
    }

    /// What a host said last.
    pub(super) fn of(&self, host: &str) -> Option<Quota> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(host).copied()
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
}
