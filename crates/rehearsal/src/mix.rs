//! Numbers that look random and are the same everywhere.

/// A well mixed number for the `n`th thing and a question about it.
pub(crate) fn mixed(n: usize, question: u64) -> u64 {
    let mut x = (n as u64).wrapping_add(1) << 12 ^ question;
    for _ in 0..3 {
        x = (x ^ x >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    x >> 20
}

/// One of `count` choices.
pub(crate) fn choice(n: usize, question: u64, count: usize) -> usize {
    usize::try_from(mixed(n, question) % count as u64).unwrap_or_default()
}

/// The numbers below `count` in a mixed order.
pub(crate) fn shuffled(count: usize, question: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_key(|n| (mixed(*n, question), *n));
    order
}

/// Eight characters of `a-z0-9`, another for every `n`.
pub(crate) fn suffix(n: usize) -> String {
    const LETTERS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    // 36^8; the factor shares no divisor with it, so that no two numbers below it meet.
    const RANGE: u64 = 2_821_109_907_456;
    let product = u128::from(n as u64) * 1_234_567_890_133 + 987_654_321;
    let mut rest = usize::try_from(product % u128::from(RANGE)).unwrap_or_default();
    let mut text = String::with_capacity(8);
    for _ in 0..8 {
        text.push(char::from(LETTERS[rest % 36]));
        rest /= 36;
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn suffixes_never_meet_and_choices_are_spread() {
        let suffixes: HashSet<String> = (0..100_000).map(suffix).collect();
        assert_eq!(suffixes.len(), 100_000);
        let mut counts = [0; 10];
        (0..10_000).for_each(|n| counts[choice(n, 7, 10)] += 1);
        assert!(counts.iter().all(|count| (800..1200).contains(count)), "{counts:?}");
        assert_ne!(shuffled(50, 1), shuffled(50, 2));
    }
}
