//! When a request is worth another try, and how long to wait before it.

use std::time::Duration;

use jiff::Timestamp;
use reqwest::header::{HeaderMap, RETRY_AFTER};

/// How often a request is tried in all.
pub(super) const TRIES: u32 = 5;
/// The first wait is at most that long; each further one may be twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// Longest wait that is chosen here.
const MAX_BACKOFF: Duration = Duration::from_secs(60);

/// Whether a status may pass: too many requests, a time-out, or trouble on the server's side.
pub(super) fn is_passing(status: u16) -> bool {
    matches!(status, 408 | 429 | 500 | 502 | 503 | 504)
}

/// Whether a refusal says that there were too many requests.
pub(super) fn is_too_many(body: &[u8]) -> bool {
    String::from_utf8_lossy(body).to_ascii_lowercase().contains("toomanyrequests")
}

/// How long a registry asks to wait: `Retry-After` in seconds or as a date.
pub(super) fn asked(headers: &HeaderMap) -> Option<Duration> {
    wanted(headers.get(RETRY_AFTER)?.to_str().ok()?, Timestamp::now())
}

fn wanted(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let until = jiff::fmt::rfc2822::parse(text).ok()?.timestamp().duration_since(now);
    Some(Duration::try_from(until).unwrap_or_default())
}

/// The wait after the `tried`-th try, from 1: what the registry asks for and a little more, so that not all who were sent away
/// come back at once; else any time up to a bound that doubles. `None` when it asks for more than `longest`.
pub(super) fn wait(tried: u32, asked: Option<Duration>, longest: Duration) -> Option<Duration> {
    match asked {
        Some(asked) if asked > longest => None,
        Some(asked) => Some(asked.saturating_add(part(asked / 10))),
        None => Some(part(bound(tried).min(longest))),
    }
}

fn bound(tried: u32) -> Duration {
    FIRST_WAIT.saturating_mul(2_u32.saturating_pow(tried.saturating_sub(1).min(16))).min(MAX_BACKOFF)
}

/// A part of a time, every part as likely.
fn part(whole: Duration) -> Duration {
    whole.mul_f64(rand::random::<f64>())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_secs(60);

    #[test]
    fn waits_are_bounded() {
        assert_eq!(bound(1), Duration::from_millis(500));
        assert_eq!(bound(3), Duration::from_secs(2));
        assert_eq!(bound(u32::MAX), MAX_BACKOFF);
        for tried in 1..20 {
            assert!(wait(tried, None, LONGEST).unwrap() <= bound(tried));
            assert!(wait(tried, None, Duration::from_millis(1)).unwrap() <= Duration::from_millis(1));
        }
        let asked = wait(1, Some(Duration::from_secs(10)), LONGEST).unwrap();
        assert!(asked >= Duration::from_secs(10) && asked <= Duration::from_secs(11));
        assert_eq!(wait(1, Some(Duration::MAX), LONGEST), None);
        assert!(is_passing(429) && is_passing(503) && !is_passing(404) && !is_passing(401));
    }

    #[test]
    fn registries_say_in_two_ways_when_to_come_back() {
        let now = Timestamp::from_second(784_111_777).unwrap(); // Sun, 06 Nov 1994 08:49:37 GMT
        let seconds = |text| wanted(text, now).map(|wait| wait.as_secs());
        assert_eq!(seconds(" 7 "), Some(7));
        assert_eq!(seconds("Sun, 06 Nov 1994 08:50:00 GMT"), Some(23));
        assert_eq!(seconds("Sun, 06 Nov 1994 08:00:00 GMT"), Some(0));
        assert_eq!(seconds("soon"), None);
    }

    #[test]
    fn some_refusals_are_meant_to_pass() {
        assert!(is_too_many(br#"{"errors":[{"code":"TOOMANYREQUESTS"}]}"#));
        assert!(is_too_many(b"toomanyrequests: slow down") && !is_too_many(b"denied"));
    }
}
