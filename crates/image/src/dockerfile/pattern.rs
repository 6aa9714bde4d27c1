//! Path patterns of `COPY` and `.dockerignore`: `*`, `?` and `[…]` within a name, `**` for any number of names.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

/// Whether a word has characters that make it a pattern.
pub(super) fn is_pattern(word: &str) -> bool {
    word.contains(['*', '?', '['])
}

/// Whether `pattern` matches the whole name. A class without its end matches nothing.
pub(super) fn matches_name(pattern: &str, name: &OsStr) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    // Bytes that are no UTF-8 count as one character each.
    let name: Vec<char> = match name.to_str() {
        Some(name) => name.chars().collect(),
        None => name.as_bytes().iter().map(|b| char::from(*b)).collect(),
    };
    let (mut p, mut n) = (0, 0);
    // Where to go on after the last star when the rest does not fit.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        if pattern.get(p) == Some(&'*') {
            retry = Some((p + 1, n));
            p += 1;
            continue;
        }
        if n == name.len() && p == pattern.len() {
            return true;
        }
        if n < name.len()
            && let Some(next) = matches_one(&pattern, p, name[n])
        {
            p = next;
            n += 1;
            continue;
        }
        match retry {
            Some((after_star, from)) if from < name.len() => {
                retry = Some((after_star, from + 1));
                p = after_star;
                n = from + 1;
            }
            _ => return false,
        }
    }
}

/// Matches one character at `at`; returns where the pattern goes on.
fn matches_one(pattern: &[char], at: usize, c: char) -> Option<usize> {
    match *pattern.get(at)? {
        '?' => Some(at + 1),
        '\\' => (*pattern.get(at + 1)? == c).then_some(at + 2),
        '[' => {
            let mut at = at + 1;
            let negated = matches!(pattern.get(at), Some('^' | '!'));
            at += usize::from(negated);
            let (mut found, mut first) = (false, true);
            loop {
                let mut low = *pattern.get(at)?;
                if low == ']' && !first {
                    return (found != negated).then_some(at + 1);
                }
                first = false;
                if low == '\\' {
                    at += 1;
                    low = *pattern.get(at)?;
                }
                at += 1;
                let mut high = low;
                if pattern.get(at) == Some(&'-') && pattern.get(at + 1).is_some_and(|c| *c != ']') {
                    high = pattern[at + 1];
                    at += 2;
                    if high == '\\' {
                        high = *pattern.get(at)?;
                        at += 1;
                    }
                }
                found |= (low..=high).contains(&c);
            }
        }
        literal => (literal == c).then_some(at + 1),
    }
}

/// Whether a pattern of several names, where `**` stands for any number of them, matches a whole path.
pub(super) fn matches_path<S: AsRef<OsStr>>(pattern: &[String], path: &[S]) -> bool {
    // reached[i]: the part of the pattern so far can match the first i names.
    let mut reached = vec![false; path.len() + 1];
    reached[0] = true;
    for part in pattern {
        let mut next = vec![false; path.len() + 1];
        if part == "**" {
            let first = reached.iter().position(|r| *r).unwrap_or(path.len() + 1);
            for slot in next.iter_mut().skip(first) {
                *slot = true;
            }
        } else {
            for at in 0..path.len() {
                next[at + 1] = reached[at] && matches_name(part, path[at].as_ref());
            }
        }
        reached = next;
    }
    reached[path.len()]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(pattern: &str, name: &str) -> bool {
        matches_name(pattern, OsStr::new(name))
    }

    fn path(pattern: &str, path: &str) -> bool {
        let pattern: Vec<String> = pattern.split('/').map(str::to_owned).collect();
        matches_path(&pattern, &path.split('/').collect::<Vec<_>>())
    }

    #[test]
    fn names() {
        assert!(name("*.py", "a.py") && name("*", "") && name("a*b*c", "aXbbYc") && name("?", "\u{e9}"));
        assert!(name("[a-c]x", "bx") && name("[^a-c]x", "dx") && name("[!a]", "b") && name("[]]", "]"));
        assert!(name("\\*", "*") && name("{a,b}", "{a,b}"));
        assert!(!name("*.py", "a.pyc") && !name("[a", "a") && !name("a", "ab") && !name("\\", "\\"));
    }

    #[test]
    fn paths() {
        assert!(path("**/x", "x") && path("**/x", "a/b/x") && path("a/**", "a/b/c") && path("a/**/c", "a/c"));
        assert!(!path("*/x", "x") && !path("a/*", "a/b/c") && !path("**/x", "x/y"));
    }

    proptest! {
        #[test]
        fn stars_never_explode(stars in 1_usize..60, text in "a{0,200}") {
            let pattern = format!("{}b", "*a".repeat(stars));
            prop_assert!(!name(&pattern, &text));
            let pattern = format!("{}b", "**/a/".repeat(stars));
            let deep = text.replace('a', "a/");
            prop_assert!(!path(&pattern, &deep));
        }

        #[test]
        fn a_plain_name_matches_itself(text in "[a-z0-9._-]{1,20}") {
            prop_assert!(name(&text, &text));
        }
    }
}
