//! Names derived from task ids, one to one.

use ident::{Digest, TaskId};

/// The name of a task inside a package name such as `seatrial/<name>`: ASCII letters, digits, `.`, `_`, `-`, beginning
/// with a letter or digit, without two dots in a row.
///
/// An id of that form is its own name. In any other id each foreign character becomes `-`, and `-x` with the first
/// twelve hexadecimal digits of the id's SHA-256 is put behind it, as also behind an id that happens to end that way:
/// so different ids have different names.
pub fn package_name(id: &TaskId) -> String {
    derived(id, |c| c.is_ascii_alphanumeric())
}

/// The same in lower case only, for images, containers and clusters: ids that differ in case alone get different names.
pub fn lower_name(id: &TaskId) -> String {
    derived(id, |c| c.is_ascii_lowercase() || c.is_ascii_digit())
}

fn derived(id: &TaskId, is_plain: impl Fn(char) -> bool) -> String {
    let text = id.as_str();
    let plain = |c: char| is_plain(c) || matches!(c, '.' | '_' | '-');
    if text.starts_with(&is_plain)
        && text.chars().all(plain)
        && !text.contains("..")
        && !ends_like_derived(text)
    {
        return text.to_owned();
    }
    let mut name = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        let c = if is_plain(c.to_ascii_lowercase()) && !is_plain(c) { c.to_ascii_lowercase() } else { c };
        let doubled = c == '.' && name.ends_with('.');
        name.push(if plain(c) && !doubled { c } else { '-' });
    }
    if !name.starts_with(&is_plain) {
        name.insert(0, 'x');
    }
    name.push_str("-x");
    name.push_str(&Digest::of(text).hex()[..12]);
    name
}

fn ends_like_derived(text: &str) -> bool {
    text.rsplit_once("-x").is_some_and(|(_, end)| {
        end.len() == 12 && end.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::is_package_name;

    fn id(text: &str) -> TaskId {
        TaskId::new(text).unwrap()
    }

    #[test]
    fn plain_ids_are_their_own_names() {
        for text in ["oauthlib__oauthlib.1fd52536.combine_file__09vlzwgc", "Knio__dominate.8ebc013f.pr_1"] {
            assert_eq!(package_name(&id(text)), text);
        }
        assert_eq!(lower_name(&id("a.b-c_d")), "a.b-c_d");
    }

    #[test]
    fn ids_that_differ_have_names_that_differ() {
        let upper = id("Example-Org__TinyCalc.AB12");
        let lower = id("example-org__tinycalc.ab12");
        assert_eq!(lower_name(&lower), "example-org__tinycalc.ab12");
        assert!(lower_name(&upper).starts_with("example-org__tinycalc.ab12-x"));
        let derived = lower_name(&upper);
        assert_ne!(lower_name(&id(&derived)), derived, "a derived name is no plain id");
        assert_ne!(package_name(&id("caf\u{e9}")), package_name(&id("cafe\u{301}")));
    }

    proptest::proptest! {
        #[test]
        fn every_name_is_portable(text in "\\PC{1,40}") {
            if let Ok(id) = TaskId::new(text) {
                let named = is_package_name(&format!("seatrial/{}", package_name(&id)));
                proptest::prop_assert!(named);
                let lower = lower_name(&id);
                proptest::prop_assert_eq!(lower.to_ascii_lowercase(), lower.clone());
                let named = is_package_name(&format!("seatrial/{lower}"));
                proptest::prop_assert!(named);
            }
        }
    }
}
