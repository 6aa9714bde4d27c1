//! The order of candidates inside a tier.

use ident::{Digest, TaskId};

use crate::ModelFamily;
use crate::evidence::Families;

/// Sorts candidates of one tier: solved by the preferred families first, then by the digest of the id.
///
/// Digests compare like their hexadecimal text. The id is hashed as its UTF-8 bytes, never normalised, so ids that look
/// alike keep one order on every system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OrderKey {
    unsolved_by: [bool; ModelFamily::ALL.len()],
    digest: Digest,
}

impl OrderKey {
    /// The key of the candidate `id` that `solved` have a resolved trajectory for.
    pub(crate) fn new(id: &TaskId, solved: Families) -> Self {
        let unsolved_by = ModelFamily::ALL.map(|family| !solved.contains(family));
        Self { unsolved_by, digest: Digest::of(id.as_str()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: &str, solved: &[ModelFamily]) -> OrderKey {
        OrderKey::new(&TaskId::new(id).unwrap(), solved.iter().copied().collect())
    }

    #[test]
    fn preferred_families_come_before_the_digest() {
        use ModelFamily::{Claude35, Claude37, Gpt4o};
        let mut keys = [
            key("a", &[]),
            key("a", &[Claude37]),
            key("a", &[Claude35]),
            key("a", &[Claude35, Claude37]),
            key("a", &[Gpt4o]),
            key("a", &[Gpt4o, Claude37]),
            key("a", &[Gpt4o, Claude35]),
            key("a", &[Gpt4o, Claude35, Claude37]),
        ];
        keys.reverse();
        assert!(keys.is_sorted());
    }

    #[test]
    fn composed_and_decomposed_letters_have_an_order_of_their_own() {
        let (composed, decomposed) = (key("caf\u{e9}.1", &[]), key("cafe\u{301}.1", &[]));
        assert_ne!(composed, decomposed);
        let hex = |id: &str| Digest::of(id).hex();
        assert_eq!(composed < decomposed, hex("caf\u{e9}.1") < hex("cafe\u{301}.1"));
    }
}
