//! When a request is worth another try, and how long to wait before it.

use std::time::Duration;

use jiff::Timestamp;

/// Longest wait that is chosen here.
const MAX_BACKOFF: Duration = Duration::from_secs(60);

/// When a request is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryRules {
    /// Tries in all.
    pub tries: u32,
    /// The first wait is at most that long; each further one may be twice as long.
    pub first_wait: Duration,
    /// A server that asks for a longer wait is given up.
    pub longest_wait: Duration,
}

impl Default for RetryRules {
    fn default() -> Self {
        Self { tries: 6, first_wait: Duration::from_millis(500), longest_wait: Duration::from_secs(300) }
    }
}

impl RetryRules {
    /// The wait after the `tried`-th try, from 1; `None` when no other follows. `jitter` is a number from 0 to 1 that differs
    /// between clients, so that not all who were sent away come back at once. A wait that the server asks for is never cut.
    pub(super) fn wait(&self, tried: u32, asked: Option<Duration>, jitter: f64) -> Option<Duration> {
        if tried >= self.tries || asked.is_some_and(|asked| asked > self.longest_wait) {
            return None;
        }
        let jitter = jitter.clamp(0.0, 1.0);
        Some(match asked {
            Some(asked) => asked + (asked / 10).mul_f64(jitter),
            None => {
                let doubled = self.first_wait.saturating_mul(2_u32.saturating_pow((tried - 1).min(16)));
                doubled.min(MAX_BACKOFF).mul_f64(0.5 + jitter / 2.0)
            }
        })
    }
}

/// Whether a status may pass: a time-out, too many requests, or trouble on the server's side.
pub(super) fn is_passing(status: u16) -> bool {
    matches!(status, 408 | 409 | 425 | 429 | 500 | 502 | 503 | 504 | 520..=529)
}

/// How long a server asks to wait: `Retry-After` in seconds or as a date.
pub(super) fn asked(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let until = jiff::fmt::rfc2822::parse(text).ok()?.timestamp().duration_since(now);
    Some(Duration::try_from(until).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_within_bounds_and_end() {
        let rules = RetryRules::default();
        let wait = |tried, jitter| rules.wait(tried, None, jitter).map(|wait| wait.as_millis());
        assert_eq!((wait(1, 0.0), wait(1, 1.0)), (Some(250), Some(500)));
        assert_eq!((wait(3, 1.0), wait(5, 7.0)), (Some(2000), Some(8000)));
        assert_eq!(wait(6, 0.5), None);
        let many = RetryRules { tries: u32::MAX, ..rules };
        assert_eq!(many.wait(1000, None, 1.0), Some(MAX_BACKOFF));
    }

    #[test]
    fn what_a_server_asks_for_is_kept_or_given_up() {
        let rules = RetryRules::default();
        let seconds = Duration::from_secs;
        assert_eq!(rules.wait(1, Some(seconds(10)), 0.0), Some(seconds(10)));
        assert_eq!(rules.wait(1, Some(seconds(10)), 1.0), Some(seconds(11)));
        assert_eq!(rules.wait(1, Some(seconds(301)), 0.0), None);
        assert_eq!(rules.wait(1, Some(Duration::ZERO), 1.0), Some(Duration::ZERO));
    }

    #[test]
    fn servers_say_in_two_ways_when_to_come_back() {
        let now = Timestamp::from_second(784_111_777).unwrap(); // Sun, 06 Nov 1994 08:49:37 GMT
        let wait = |text| asked(text, now).map(|wait| wait.as_millis());
        assert_eq!(wait(" 7 "), Some(7000));
        assert_eq!(wait("0.25"), Some(250));
        assert_eq!(wait("Sun, 06 Nov 1994 08:50:00 GMT"), Some(23_000));
        assert_eq!(wait("Sun, 06 Nov 1994 08:00:00 GMT"), Some(0));
        for odd in ["soon", "-1", "inf", "nan", ""] {
            assert_eq!(wait(odd), None, "{odd}");
        }
    }
}
