//! When a request is worth another try, and how long to wait before it.

use std::time::Duration;

/// How often a request is tried in all.
pub(super) const TRIES: u32 = 5;
/// Longest wait before another try, whatever a registry asks for.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// Whether a status may pass: too many requests, a time-out, or trouble on the server's side.
pub(super) fn is_passing(status: u16) -> bool {
    matches!(status, 408 | 429 | 500 | 502 | 503 | 504)
}

/// The wait after the `tried`-th try, from 1: what `Retry-After` says in seconds, else doubling from half a second.
pub(super) fn wait(tried: u32, retry_after: Option<&str>) -> Duration {
    let asked = retry_after.and_then(|text| text.trim().parse::<u64>().ok()).map(Duration::from_secs);
    asked
        .unwrap_or_else(|| Duration::from_millis(500) * 2_u32.saturating_pow(tried.saturating_sub(1).min(10)))
        .min(MAX_WAIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_bounded() {
        assert_eq!(wait(1, None), Duration::from_millis(500));
        assert_eq!(wait(3, None), Duration::from_secs(2));
        assert_eq!(wait(u32::MAX, None), MAX_WAIT);
        assert_eq!(wait(1, Some("7")), Duration::from_secs(7));
        assert_eq!(wait(1, Some("999999")), MAX_WAIT);
        assert_eq!(wait(1, Some("Wed, 21 Oct 2026 07:28:00 GMT")), Duration::from_millis(500));
        assert!(is_passing(429) && is_passing(503) && !is_passing(404) && !is_passing(401));
    }
}
