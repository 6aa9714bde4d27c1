//! Which tasks a canary draws.

use std::collections::BTreeSet;

use ident::Digest;

/// The `n` ids whose SHA-256 is smallest, in ascending order of it. The order in which they come does not matter, an id that comes
/// twice counts once, and a smaller sample is the beginning of a larger one.
pub fn sample<'a>(ids: impl IntoIterator<Item = &'a str>, n: usize) -> Vec<String> {
    let ranked: BTreeSet<_> = ids.into_iter().map(|id| (Digest::of(id).hex(), id)).collect();
    ranked.into_iter().take(n).map(|(_, id)| id.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_depends_on_the_ids_alone() {
        let ids: Vec<String> = (0..40).map(|number| format!("task-{number}")).collect();
        let drawn = sample(ids.iter().map(String::as_str), 30);
        let again = sample(ids.iter().rev().chain(&ids).map(String::as_str), 30);
        assert_eq!(drawn, again);
        assert_eq!(drawn.len(), 30);
        assert_eq!(sample(ids.iter().map(String::as_str), 20), drawn[..20]);
        assert_eq!(sample(ids.iter().map(String::as_str), 99).len(), 40);
        // By `printf %s b | sha256sum` and so on: 3e23…, ca97…, 2e7d….
        assert_eq!(sample(["a", "b", "c"], 2), ["c", "b"]);
    }
}
