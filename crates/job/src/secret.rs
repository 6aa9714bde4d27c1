//! Environment variables as they are written: secrets are masked the way Harbor masks them.

use std::collections::BTreeMap;

use serde::Serialize;

/// What the name of a variable with a secret contains. `TOKEN` is looked at on its own.
const SECRET_WORDS: [&str; 5] = ["KEY", "SECRET", "PASSWORD", "CREDENTIAL", "AUTH"];

/// Environment variables whose secrets are masked. There is no way to put a value in that is not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct MaskedEnv(BTreeMap<String, String>);

impl MaskedEnv {
    /// Masks the secrets of `env`. `host` looks a variable up where the program runs.
    ///
    /// A secret that the host's variable of the same name holds too becomes `${NAME}`; any other keeps its first four and
    /// its last three characters, and none of them when it has eight or less. A value that only names a variable stays.
    pub fn new(env: &BTreeMap<String, String>, host: impl Fn(&str) -> Option<String>) -> Self {
        let masked = |(name, value): (&String, &String)| {
            let written = if !is_secret(name) || is_reference(value) {
                value.clone()
            } else if host(name).as_ref() == Some(value) {
                format!("${{{name}}}")
            } else {
                mask(value)
            };
            (name.clone(), written)
        };
        Self(env.iter().map(masked).collect())
    }

    /// Says whether there are no variables.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Whether a variable of this name holds a secret. Letter case does not matter, and `TOKENS` counts something.
fn is_secret(name: &str) -> bool {
    let name = name.to_uppercase();
    let token = name.match_indices("TOKEN").any(|(at, word)| !name[at + word.len()..].starts_with('S'));
    token || SECRET_WORDS.iter().any(|word| name.contains(word))
}

/// `${NAME}` and nothing else: it says where a secret is and not what it is.
fn is_reference(value: &str) -> bool {
    let name = value.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    name.is_some_and(|name| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

fn mask(value: &str) -> String {
    let characters: Vec<char> = value.chars().collect();
    match characters.as_slice() {
        [first @ .., _, _, _] if characters.len() > 8 => {
            let first: String = first[..4].iter().collect();
            let last: String = characters[characters.len() - 3..].iter().collect();
            format!("{first}****{last}")
        }
        _ => "****".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(name: &str, value: &str) -> String {
        let env = BTreeMap::from([(name.to_owned(), value.to_owned())]);
        let host = |name: &str| (name == "HOST_KEY").then(|| "the same as here".to_owned());
        MaskedEnv::new(&env, host).0.remove(name).unwrap()
    }

    #[test]
    fn secrets_are_cut_and_other_values_stay() {
        for name in ["API_KEY", "client_secret", "HUB_TOKEN", "DB_PASSWORD", "X_CREDENTIALS", "AUTHORIZATION"]
        {
            assert_eq!(masked(name, "abcdefghijkl"), "abcd****jkl", "{name}");
            assert_eq!(masked(name, "abcdefgh"), "****", "{name}");
            assert_eq!(masked(name, ""), "****", "{name}");
        }
        for name in ["PATH", "MAX_TOKENS", "TOKENS", "HOME"] {
            assert_eq!(masked(name, "abcdefghijkl"), "abcdefghijkl", "{name}");
        }
        assert_eq!(masked("TOKENS_TOKEN", "abcdefghijkl"), "abcd****jkl");
        assert_eq!(masked("KEY", "åäöüåäöüåäöü"), "åäöü****äöü");
    }

    #[test]
    fn what_the_host_has_is_named() {
        assert_eq!(masked("HOST_KEY", "the same as here"), "${HOST_KEY}");
        assert_eq!(masked("HOST_KEY", "something else"), "some****lse");
        assert_eq!(masked("API_KEY", "${OTHER_KEY}"), "${OTHER_KEY}");
        assert_eq!(masked("API_KEY", "${OTHER_KEY:-abcdefgh}"), "${OT****gh}");
    }
}
