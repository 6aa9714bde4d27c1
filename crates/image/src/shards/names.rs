//! Tags of images, and the numbers that spread them.

use ident::Digest;

use record::ImageKind;

/// Longest tag that registries take.
const MAX_TAG: usize = 128;
/// Hexadecimal digits of a digest in a tag.
const DIGITS: usize = 16;

/// The tag of a task's image: its id where that is a tag, else what is left of it with a part of its digest.
pub(super) fn task_tag(task_id: &str) -> String {
    if is_tag(task_id) {
        return task_id.to_owned();
    }
    let kept = MAX_TAG - DIGITS - 1;
    let mapped = task_id.chars().take(kept).enumerate().map(|(at, letter)| match letter {
        'A'..='Z' | 'a'..='z' | '0'..='9' | '_' => letter,
        '.' | '-' if at > 0 => letter,
        _ => '_',
    });
    format!("{}-{}", mapped.collect::<String>(), short(task_id))
}

/// The tag of a base image.
pub(super) fn anchor_tag(key: &str) -> String {
    format!("baseanchor-{}", short(key))
}

fn is_tag(text: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let bytes = text.as_bytes();
    (1..=MAX_TAG).contains(&bytes.len())
        && letter(bytes[0])
        && bytes.iter().all(|byte| letter(*byte) || matches!(byte, b'.' | b'-'))
}

fn short(text: &str) -> String {
    let mut hex = Digest::of(text).hex();
    hex.truncate(DIGITS);
    hex
}

/// The number of an image; with `place` the weight of that shard for it.
pub(super) fn number(kind: ImageKind, version: &str, key: &str, place: Option<u32>) -> u64 {
    let mut text = format!("{}/{version}\0{key}", kind.name());
    if let Some(place) = place {
        text.push('\0');
        text.push_str(&place.to_string());
    }
    let digest = Digest::of(text);
    let first: [u8; 8] = digest.as_bytes()[..8].try_into().expect("a digest has 32 bytes");
    u64::from_be_bytes(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_are_tags_stay() {
        for id in ["a", "Owner__repo.0badc0de.func_pm__1", "_x", &"a".repeat(128)] {
            assert_eq!(task_tag(id), id);
        }
    }

    #[test]
    fn other_ids_become_tags_of_their_own() {
        let ids = ["a+b", "a:b", "-a", ".a", "a/b", "naïve", &"a".repeat(129), &"é".repeat(200)];
        let tags: Vec<String> = ids.iter().map(|id| task_tag(id)).collect();
        for (id, tag) in ids.iter().zip(&tags) {
            assert!(is_tag(tag), "{id}: {tag}");
            assert!(tag.ends_with(&short(id)), "{id}: {tag}");
        }
        let distinct: std::collections::BTreeSet<_> = tags.iter().collect();
        assert_eq!(distinct.len(), ids.len());
        assert_eq!(task_tag("a+b"), format!("a_b-{}", short("a+b")));
        assert_eq!(task_tag(&"a".repeat(129)).len(), 128);
    }

    #[test]
    fn anchors_are_named_by_their_key() {
        let tag = anchor_tag("docker.io/library/debian:bookworm");
        assert_eq!(tag.len(), "baseanchor-".len() + 16);
        assert!(is_tag(&tag));
    }

    #[test]
    fn numbers_depend_on_every_part() {
        let numbers = [
            number(ImageKind::Task, "v1", "a", None),
            number(ImageKind::Baseanchor, "v1", "a", None),
            number(ImageKind::Task, "v2", "a", None),
            number(ImageKind::Task, "v1", "b", None),
            number(ImageKind::Task, "v1", "a", Some(0)),
            number(ImageKind::Task, "v1", "a", Some(1)),
        ];
        let distinct: std::collections::BTreeSet<_> = numbers.iter().collect();
        assert_eq!(distinct.len(), numbers.len());
        // sha256 of "task/v1\0a", as any tool computes it.
        assert_eq!(number(ImageKind::Task, "v1", "a", None), 10_066_609_908_374_681_619);
    }
}
