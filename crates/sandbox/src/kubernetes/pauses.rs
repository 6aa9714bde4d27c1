//! Growing pauses between tries.

use std::time::Duration;

use kube::runtime::utils::Backoff;

/// Pauses of which each is twice as long as the one before, up to the longest; there is always a next one.
#[derive(Debug, Clone)]
pub(super) struct Pauses {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Pauses {
    pub(super) fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, next: first }
    }

    /// The pause before the next try.
    pub(super) fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.longest);
        pause
    }
}

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(self.pause())
    }
}

impl Backoff for Pauses {
    fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_the_longest_and_begin_anew() {
        let seconds = Duration::from_secs;
        let mut pauses = Pauses::new(seconds(1), seconds(3));
        assert_eq!([(); 4].map(|()| pauses.pause()), [1, 2, 3, 3].map(seconds));
        pauses.reset();
        assert_eq!(pauses.pause(), seconds(1));
    }
}
