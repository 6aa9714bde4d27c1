//! When to ask again, and how long to wait before.

use std::time::Duration;

use reqwest::header::{HeaderMap, RETRY_AFTER};

/// When to ask again after a failure that may pass.
#[derive(Debug, Clone, Copy)]
pub struct RetryRules {
    /// Attempts in a row that bring nothing new. A cut transfer that brought bytes begins the count anew.
    pub attempts: u32,
    /// Pause after the first attempt; it doubles after every other one, and up to half of it is left out by chance, so
    /// that many who were turned away together do not come back together.
    pub first_pause: Duration,
    /// The longest pause. A server that asks for a longer one is left alone until the next run.
    pub longest_pause: Duration,
}

impl Default for RetryRules {
    fn default() -> Self {
        Self { attempts: 5, first_pause: Duration::from_millis(500), longest_pause: Duration::from_secs(300) }
    }
}

impl RetryRules {
    /// The pause after the `tried`-th attempt, from 1: at least what the server asks for. `chance` lies from 0 to 1.
    /// None: longer than anybody waits.
    pub(super) fn pause(&self, tried: u32, asked: Option<Duration>, chance: f64) -> Option<Duration> {
        if let Some(asked) = asked {
            return (asked <= self.longest_pause).then_some(asked);
        }
        let doubled = self.first_pause.saturating_mul(1 << tried.saturating_sub(1).min(16));
        let pause = doubled.min(self.longest_pause);
        Some(pause.mul_f64(1.0 - chance.clamp(0.0, 1.0) / 2.0))
    }
}

/// How long a server asks to wait: `Retry-After` in seconds or as a date, the hub's `RateLimit` (its window's `t`), or
/// the code host's `X-RateLimit-Reset`. `now` is in seconds since 1970.
pub(super) fn asked_wait(headers: &HeaderMap, now: i64) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let until = |moment: i64| Duration::from_secs(u64::try_from(moment.saturating_sub(now)).unwrap_or(0));
    if let Some(after) = text(RETRY_AFTER.as_str()) {
        if let Ok(seconds) = after.parse() {
            return Some(Duration::from_secs(seconds));
        }
        if let Ok(date) = jiff::fmt::rfc2822::parse(after) {
            return Some(until(date.timestamp().as_second()));
        }
    }
    if let Some(limit) = text("ratelimit") {
        let seconds = limit.split(';').find_map(|part| part.trim().strip_prefix("t=")?.parse().ok());
        if let Some(seconds) = seconds {
            return Some(Duration::from_secs(seconds));
        }
    }
    text("x-ratelimit-reset").and_then(|reset| reset.parse().ok()).map(until)
}

/// Whether the answer says that no requests are left, whatever its status.
pub(super) fn is_exhausted(headers: &HeaderMap) -> bool {
    headers.get("x-ratelimit-remaining").is_some_and(|left| left.as_bytes() == b"0")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn every_way_to_say_when_is_understood() {
        let now = 784_111_777; // Sun, 06 Nov 1994 08:49:37 GMT
        let asked = |pairs: &[_]| asked_wait(&headers(pairs), now).map(|wait| wait.as_secs());
        assert_eq!(asked(&[("retry-after", "17")]), Some(17));
        assert_eq!(asked(&[("retry-after", "Sun, 06 Nov 1994 08:50:00 GMT")]), Some(23));
        assert_eq!(asked(&[("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT")]), Some(0));
        assert_eq!(asked(&[("ratelimit", "\"api\";r=0;t=55")]), Some(55));
        assert_eq!(asked(&[("x-ratelimit-reset", "784111800")]), Some(23));
        assert_eq!(asked(&[("retry-after", "soon"), ("x-ratelimit-reset", "784111778")]), Some(1));
        assert_eq!(asked(&[("retry-after", "-5")]), None);
        assert_eq!(asked(&[]), None);
        assert!(is_exhausted(&headers(&[("x-ratelimit-remaining", "0")])));
        assert!(!is_exhausted(&headers(&[("x-ratelimit-remaining", "10")])));
    }

    #[test]
    fn pauses_double_spread_and_end() {
        let rules = RetryRules {
            attempts: 9,
            first_pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(10),
        };
        let pause = |tried, asked: Option<u64>, chance| {
            rules.pause(tried, asked.map(Duration::from_secs), chance).map(|pause| pause.as_millis())
        };
        assert_eq!(pause(1, None, 0.0), Some(1000));
        assert_eq!(pause(3, None, 0.0), Some(4000));
        assert_eq!(pause(3, None, 1.0), Some(2000));
        assert_eq!(pause(60, None, 0.5), Some(7500));
        assert_eq!(pause(1, Some(10), 0.7), Some(10_000));
        assert_eq!(pause(1, Some(11), 0.7), None);
    }
}
