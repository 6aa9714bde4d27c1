//! Names that engines give to what they create, derived from sandbox names.

use ident::Digest;

/// Longest readable part of a name.
const READABLE: usize = 40;

/// Hexadecimal digits of the digest in a name.
const DIGITS: usize = 16;

/// A name for a container: valid for every engine, bounded, and different for different sandbox names.
///
/// The readable part is for people; the digest over the sandbox's whole name keeps two names apart that look alike
/// once they are put into small letters, or are cut.
pub(crate) fn container_name(name: &str) -> String {
    let readable = plain(name, READABLE);
    let mut digits = Digest::of(name).hex();
    digits.truncate(DIGITS);
    let separator = if readable.is_empty() { "" } else { "-" };
    format!("seatrial-{readable}{separator}{digits}")
}

/// A host name made from a sandbox name: letters, digits and hyphens, at most 63 of them.
pub(crate) fn hostname(name: &str) -> String {
    let text = plain(name, 63);
    if text.is_empty() { "sandbox".to_owned() } else { text }
}

/// Small letters and digits; everything else is a hyphen, and none stands at an end.
fn plain(name: &str, most: usize) -> String {
    let text: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
        .take(most)
        .collect();
    text.trim_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn host_names_are_plain() {
        assert_eq!(hostname("Task_1/oracle.3"), "task-1-oracle-3");
        assert_eq!(hostname("--"), "sandbox");
        assert_eq!(hostname(&"x".repeat(100)).len(), 63);
    }

    #[test]
    fn names_that_look_alike_stay_apart() {
        let hostile = ["Task", "task", "task ", "ta/sk", "ta-sk", "../task", "", "-", "\u{202e}task", "a\0b"];
        let names: std::collections::BTreeSet<String> =
            hostile.iter().map(|name| container_name(name)).collect();
        assert_eq!(names.len(), hostile.len());
        assert_eq!(container_name("Task_1"), "seatrial-task-1-eea8835c1652c7ce");
    }

    proptest! {
        #[test]
        fn names_are_valid_and_bounded(name in ".{0,300}") {
            let made = container_name(&name);
            prop_assert!(made.len() <= 9 + READABLE + 1 + DIGITS);
            prop_assert!(made.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'));
            prop_assert_eq!(&made, &container_name(&name));
        }
    }
}
