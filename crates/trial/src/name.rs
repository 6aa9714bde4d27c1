//! Trial names in Harbor's form.

use ident::Digest;
use rand::RngExt as _;

/// Letters and digits that cannot be mistaken for each other.
const ALPHABET: &[u8; 57] = b"23456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

/// A fresh trial name: the last part of the task's name, cut to 32 characters, `__`, and seven random characters.
pub fn fresh(task_name: &str) -> String {
    let mut random = rand::rng();
    let suffix: String =
        (0..7).map(|_| char::from(ALPHABET[random.random_range(0..ALPHABET.len())])).collect();
    format!("{}__{suffix}", stem(task_name))
}

/// The trial name that follows from a digest: the same form, with the characters taken from the digest.
pub fn derived(task_name: &str, digest: &Digest) -> String {
    let (head, _) = digest.as_bytes().split_at(8);
    let mut number = head.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    let mut suffix = String::with_capacity(7);
    for _ in 0..7 {
        suffix.push(char::from(ALPHABET[(number % ALPHABET.len() as u64) as usize]));
        number /= ALPHABET.len() as u64;
    }
    format!("{}__{suffix}", stem(task_name))
}

/// The part of a trial name that comes from the task.
fn stem(task_name: &str) -> String {
    let last = task_name.rsplit('/').next().unwrap_or(task_name);
    let safe: String = last
        .chars()
        .map(|c| {
            if c.is_control() || matches!(c, '\\' | ':' | '*' | '?' | '"' | '<' | '>' | '|') {
                '_'
            } else {
                c
            }
        })
        .take(32)
        .collect();
    let stem = safe.trim_start_matches(['.', '-', ' ']).trim_end_matches(['_', '-']);
    if stem.is_empty() { "task".into() } else { stem.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_harbors_form() {
        let name = fresh("org/a-rather-long-task-name-that-is-cut-somewhere");
        let (stem, suffix) = name.rsplit_once("__").unwrap();
        assert_eq!(stem, "a-rather-long-task-name-that-is");
        assert_eq!(suffix.len(), 7);
        assert_ne!(fresh("x"), fresh("x"));
    }

    #[test]
    fn derived_names_follow_from_the_digest() {
        let name = |seed: &str| derived("org/task", &Digest::of(seed));
        assert_eq!(name("1"), name("1"));
        assert_ne!(name("1"), name("2"));
        let (stem, suffix) = (name("1")[..6].to_owned(), name("1")[6..].to_owned());
        assert_eq!(stem, "task__");
        assert!(suffix.len() == 7 && suffix.bytes().all(|byte| ALPHABET.contains(&byte)));
    }

    #[test]
    fn hostile_names_stay_inside_one_directory() {
        for name in ["../..", "", "/", "a/..", "..", "-rf"] {
            let fresh = fresh(name);
            assert!(!fresh.contains('/') && !fresh.starts_with(['.', '-']), "{fresh}");
        }
    }
}
