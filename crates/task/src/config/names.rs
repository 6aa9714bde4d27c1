//! The names that Harbor accepts for packages and steps.

/// Tells whether `name` has Harbor's form `org/name`: two parts of ASCII letters, digits, `.`, `_`, `-`, each
/// beginning with a letter or digit, and no two dots in a row.
pub fn is_package_name(name: &str) -> bool {
    let part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphanumeric())
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
    };
    name.split_once('/').is_some_and(|(org, rest)| part(org) && part(rest)) && !name.contains("..")
}

/// Tells whether `name` is one directory name on every system, as Harbor asks of a step.
pub fn is_step_name(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().trim_end();
    let device = stem.split_at_checked(3).is_some_and(|(device, number)| {
        let is_one_of = |devices: &[&str]| devices.iter().any(|known| known.eq_ignore_ascii_case(device));
        match number {
            "" => is_one_of(&["CON", "PRN", "AUX", "NUL"]),
            "1" | "2" | "3" | "4" | "5" | "6" | "7" | "8" | "9" | "¹" | "²" | "³" => {
                is_one_of(&["COM", "LPT"])
            }
            _ => false,
        }
    });
    !name.trim().is_empty()
        && name.len() <= 255
        && !device
        && !name.ends_with(['.', ' '])
        && !name
            .chars()
            .any(|c| c.is_control() || matches!(c, '<' | '>' | ':' | '"' | '/' | '\\' | '|' | '?' | '*'))
}

/// The nearest of `known` to a misspelt `word`, if one is near enough to be meant.
pub(crate) fn near<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(word, candidate), candidate))
        .filter(|(likeness, _)| *likeness >= 0.85)
        .max_by(|a, b| a.0.total_cmp(&b.0).then_with(|| b.1.cmp(a.1)))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_names() {
        assert!(is_package_name("demo/tiny-add"));
        assert!(is_package_name("a/b.c_d-e"));
        for name in ["tiny", "a/b/c", "/b", "a/", "a/-b", "a/b..c", "a/b c", "a/é", "../x"] {
            assert!(!is_package_name(name), "{name}");
        }
    }

    #[test]
    fn step_names() {
        assert!(is_step_name("Étape 2") && is_step_name("console"));
        for name in ["", " ", ".", "..", "a.", "a ", "a/b", "con", "NUL.txt", "COM1", "a:b", "x\n"] {
            assert!(!is_step_name(name), "{name:?}");
        }
    }

    #[test]
    fn misspelt_words_find_their_meaning() {
        let known = ["timeout_sec", "cpus", "verifier", "agent"];
        assert_eq!(near("timeout_secs", known), Some("timeout_sec"));
        assert_eq!(near("cpu", known), Some("cpus"));
        assert_eq!(near("verifer", known), Some("verifier"));
        assert_eq!(near("colour", known), None);
    }
}
