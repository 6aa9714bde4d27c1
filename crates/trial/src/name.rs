//! Trial names in Harbor's form.

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
    fn hostile_names_stay_inside_one_directory() {
        for name in ["../..", "", "/", "a/..", "..", "-rf"] {
            let fresh = fresh(name);
            assert!(!fresh.contains('/') && !fresh.starts_with(['.', '-']), "{fresh}");
        }
    }
}
