//! Keys: from the environment into a header, and nowhere else.

use std::fmt;

use reqwest::header::HeaderValue;

/// Shorter keys are not looked for in texts: they would be found everywhere.
const SHORTEST_HIDDEN: usize = 8;

/// The key of an endpoint. It is never shown.
#[derive(Clone)]
pub struct Key(String);

/// Why there is no key.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum KeyError {
    /// The variable is not set.
    #[error("the environment variable {0}, which is to hold the endpoint's key, is not set; export it")]
    Missing(String),
    /// The variable holds something that no header can bear.
    #[error(
        "the environment variable {0} holds no key: it is empty, or has characters that no header can bear"
    )]
    Odd(String),
}

impl Key {
    /// Takes the key out of the value that a variable has.
    pub fn new(variable: &str, value: Option<&str>) -> Result<Self, KeyError> {
        let value = value.ok_or_else(|| KeyError::Missing(variable.to_owned()))?.trim();
        if value.is_empty() || HeaderValue::from_str(&format!("Bearer {value}")).is_err() {
            return Err(KeyError::Odd(variable.to_owned()));
        }
        Ok(Self(value.to_owned()))
    }

    /// The value of the header `authorization`, marked so that nobody prints it.
    pub(super) fn header(&self) -> HeaderValue {
        let mut value =
            HeaderValue::from_str(&format!("Bearer {}", self.0)).expect("looked at when it was made");
        value.set_sensitive(true);
        value
    }

    /// A text without the key, in case that a server says it back.
    pub(super) fn hidden(&self, text: &str) -> String {
        if self.0.len() < SHORTEST_HIDDEN { text.to_owned() } else { text.replace(&self.0, "****") }
    }

    /// The same for bytes, where the key is in them.
    pub(super) fn hidden_bytes(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let key = self.0.as_bytes();
        let is_there = key.len() >= SHORTEST_HIDDEN && bytes.windows(key.len()).any(|part| part == key);
        is_there.then(|| self.hidden(&String::from_utf8_lossy(bytes)).into_bytes())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(****)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_not_shown_and_hidden_in_texts() {
        let key = Key::new("K", Some(" sk-made-up-0123 \n")).unwrap();
        assert_eq!(format!("{key:?} {:?}", key.header()), "Key(****) Sensitive");
        assert_eq!(key.hidden("wrong key sk-made-up-0123."), "wrong key ****.");
        assert_eq!(
            key.hidden_bytes(b"{\"you sent\": \"sk-made-up-0123\"}"),
            Some(b"{\"you sent\": \"****\"}".to_vec())
        );
        assert_eq!(key.hidden_bytes(b"\xff nothing"), None, "exact bytes are kept");
    }

    #[test]
    fn a_variable_without_a_key_is_named() {
        assert_eq!(Key::new("K", None).unwrap_err(), KeyError::Missing("K".into()));
        for odd in ["", " ", "a\nb", "schlüssel\u{7f}"] {
            assert_eq!(Key::new("K", Some(odd)).unwrap_err(), KeyError::Odd("K".into()), "{odd:?}");
        }
    }
}
