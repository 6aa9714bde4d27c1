//! Reads the reward files a verifier leaves behind.
//!
//! | input | answer |
//! |---|---|
//! | `1`, `1.0\n`, ` 1 \r\n`, the same after a byte order mark | 1 |
//! | empty or white space | [`RewardError::Empty`] |
//! | no file | [`RewardError::Missing`] |
//! | `nan`, `inf`, `1e999`, JSON `NaN`, `Infinity` | [`RewardError::NonFinite`], with the key |
//! | two values | [`RewardError::SeveralValues`] |
//! | `1_0`, `PASS`, `0,5`, `+1`, `01` | [`RewardError::Unparsable`], text quoted |
//! | `7` | kept, [`Reward::is_in_range`] is false |
//! | `0.9999999999999999` | that number, not 1 |
//! | several JSON keys | all kept; the value is `reward`, else the configured key |
//! | neither key, `{}` | [`RewardError::NoKey`] |
//! | boolean, string, null, list, object as a value | [`RewardError::NotANumber`], with the key |
//! | repeated key | [`RewardError::DuplicateKey`] |
//! | bare JSON number or any other top level | [`RewardError::NotAnObject`] |
//! | both files, different values | [`RewardError::Conflict`] |
//!
//! Numbers follow JSON's grammar in both files. When both files exist, both must be readable. An error is never
//! a reward of 0.

use std::collections::BTreeMap;

/// Which file or files a reward was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RewardSource {
    /// `reward.txt` alone.
    Text,
    /// `reward.json` alone.
    Json,
    /// Both, and they agree.
    Both,
}

/// A reward as it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Reward {
    /// The number, finite, neither rounded nor clipped.
    pub value: f64,
    /// Every named reward of `reward.json`; empty when there is none.
    pub named: BTreeMap<String, f64>,
    /// Where it was read from.
    pub source: RewardSource,
    /// Whether a file began with a byte order mark.
    pub had_byte_order_mark: bool,
}

impl Reward {
    /// Says whether the reward is exactly 1.
    #[expect(clippy::float_cmp, reason = "a reward near 1 is not 1")]
    pub fn is_full(&self) -> bool {
        self.value == 1.0
    }

    /// Says whether the reward lies in [0, 1].
    pub fn is_in_range(&self) -> bool {
        (0.0..=1.0).contains(&self.value)
    }
}

/// Says why there is no reward.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RewardError {
    /// Neither file exists.
    #[error("neither reward.txt nor reward.json was written")]
    Missing,
    /// A file holds nothing but white space.
    #[error("{file} is empty")]
    Empty {
        /// Name of the file.
        file: &'static str,
    },
    /// A text is no number.
    #[error("{file} holds {text}, which is not a number")]
    Unparsable {
        /// Name of the file.
        file: &'static str,
        /// The text, quoted and cut.
        text: String,
    },
    /// A number is not finite.
    #[error("{file} holds {text} for {key:?}, which is not a finite number")]
    NonFinite {
        /// Name of the file.
        file: &'static str,
        /// Name of the reward.
        key: String,
        /// The text, quoted and cut.
        text: String,
    },
    /// `reward.txt` holds more than one value.
    #[error("reward.txt holds more than one value: {text}")]
    SeveralValues {
        /// The text, quoted and cut.
        text: String,
    },
    /// `reward.json` is no JSON.
    #[error("reward.json is not JSON at byte {at}: {text}")]
    Malformed {
        /// Offset of the first byte that does not fit.
        at: usize,
        /// The text from there, quoted and cut.
        text: String,
    },
    /// `reward.json` is not an object at its top level.
    #[error("reward.json holds {text} instead of an object of named numbers")]
    NotAnObject {
        /// The text, quoted and cut.
        text: String,
    },
    /// A named reward is no number.
    #[error("reward.json holds {kind} for {key:?} instead of a number")]
    NotANumber {
        /// Name of the reward.
        key: String,
        /// What it is.
        kind: &'static str,
    },
    /// A name appears twice.
    #[error("reward.json names {key:?} twice")]
    DuplicateKey {
        /// The name.
        key: String,
    },
    /// The object lacks the reward that counts.
    #[error("reward.json has no {wanted:?}, only {found:?}")]
    NoKey {
        /// The name looked for.
        wanted: String,
        /// The names it has.
        found: Vec<String>,
    },
    /// The two files disagree.
    #[error("reward.txt says {text} and reward.json says {json}")]
    Conflict {
        /// Value of `reward.txt`.
        text: f64,
        /// Value of `reward.json`.
        json: f64,
    },
}

impl RewardError {
    /// Gives the stable name of the kind of error, for records and counts.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Missing => "reward_missing",
            Self::Empty { .. } => "reward_empty",
            Self::Unparsable { .. } => "reward_unparsable",
            Self::NonFinite { .. } => "reward_non_finite",
            Self::SeveralValues { .. } => "reward_several_values",
            Self::Malformed { .. } => "reward_malformed",
            Self::NotAnObject { .. } => "reward_not_an_object",
            Self::NotANumber { .. } => "reward_not_a_number",
            Self::DuplicateKey { .. } => "reward_duplicate_key",
            Self::NoKey { .. } => "reward_no_key",
            Self::Conflict { .. } => "reward_conflict",
        }
    }
}

/// The key that counts when it is present.
const REWARD_KEY: &str = "reward";
const TEXT_FILE: &str = "reward.txt";
const JSON_FILE: &str = "reward.json";
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
const WHITE_SPACE: [char; 4] = [' ', '\t', '\r', '\n'];

/// Reads the reward from the bytes of `reward.txt` and `reward.json`, `None` for a file that does not exist.
///
/// `key` names the JSON reward that counts when there is none called `reward`. The caller bounds the files' size
/// and follows no links.
///
/// # Errors
/// [`RewardError`] names the file and what is wrong with it.
pub fn read_reward(
    text: Option<&[u8]>,
    json: Option<&[u8]>,
    key: Option<&str>,
) -> Result<Reward, RewardError> {
    let from_text = text.map(read_text).transpose()?;
    let from_json = json.map(read_json).transpose()?;
    let had_byte_order_mark =
        [text, json].into_iter().flatten().any(|bytes| bytes.starts_with(BYTE_ORDER_MARK));
    let chosen = from_json.as_ref().map(|named| choose(named, key)).transpose()?;
    let (value, source) = match (from_text, chosen) {
        (None, None) => return Err(RewardError::Missing),
        (Some(value), None) => (value, RewardSource::Text),
        (None, Some(value)) => (value, RewardSource::Json),
        #[expect(clippy::float_cmp, reason = "two files agree when they say the same number")]
        (Some(text), Some(json)) if text != json => return Err(RewardError::Conflict { text, json }),
        (Some(value), Some(_)) => (value, RewardSource::Both),
    };
    Ok(Reward { value, named: from_json.unwrap_or_default(), source, had_byte_order_mark })
}

fn choose(named: &BTreeMap<String, f64>, key: Option<&str>) -> Result<f64, RewardError> {
    named.get(REWARD_KEY).or_else(|| named.get(key?)).copied().ok_or_else(|| RewardError::NoKey {
        wanted: key.unwrap_or(REWARD_KEY).to_owned(),
        found: named.keys().cloned().collect(),
    })
}

fn read_text(bytes: &[u8]) -> Result<f64, RewardError> {
    let text = decode(bytes);
    let text = text.trim_matches(WHITE_SPACE);
    if text.is_empty() {
        return Err(RewardError::Empty { file: TEXT_FILE });
    }
    if text.contains(WHITE_SPACE) {
        return Err(RewardError::SeveralValues { text: quoted(text) });
    }
    number(TEXT_FILE, REWARD_KEY, text)
}

fn decode(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes))
}

/// Quotes a text for a message, cut to 40 characters.
fn quoted(text: &str) -> String {
    let cut: String = text.chars().take(40).collect();
    let dots = if cut.len() < text.len() { "..." } else { "" };
    format!("{cut:?}{dots}")
}

fn number(file: &'static str, key: &str, text: &str) -> Result<f64, RewardError> {
    let non_finite = || RewardError::NonFinite { file, key: key.to_owned(), text: quoted(text) };
    let unsigned = text.trim_start_matches(['+', '-']).to_ascii_lowercase();
    if matches!(unsigned.as_str(), "nan" | "inf" | "infinity") {
        return Err(non_finite());
    }
    let unparsable = || RewardError::Unparsable { file, text: quoted(text) };
    if number_length(text.as_bytes()) != Some(text.len()) {
        return Err(unparsable());
    }
    let value: f64 = text.parse().map_err(|_| unparsable())?;
    if value.is_finite() { Ok(value) } else { Err(non_finite()) }
}

/// Gives the length of the JSON number at the start of the bytes.
fn number_length(bytes: &[u8]) -> Option<usize> {
    let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut at = usize::from(bytes.first() == Some(&b'-'));
    let whole = digits(at);
    if whole == 0 || whole > 1 && bytes[at] == b'0' {
        return None;
    }
    at += whole;
    if bytes.get(at) == Some(&b'.') {
        let fraction = digits(at + 1);
        if fraction == 0 {
            return None;
        }
        at += 1 + fraction;
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        let exponent = digits((at + 1 + sign).min(bytes.len()));
        if exponent == 0 {
            return None;
        }
        at += 1 + sign + exponent;
    }
    Some(at)
}

/// Reads a flat JSON object of numbers.
///
/// A scanner of its own because a general reader stops at `NaN` without saying where, keeps the last of two equal
/// keys, and takes `true` for a value like any other.
fn read_json(bytes: &[u8]) -> Result<BTreeMap<String, f64>, RewardError> {
    let text = decode(bytes);
    let mut scanner = Scanner { text: &text, at: 0 };
    scanner.skip_white_space();
    if scanner.rest().is_empty() {
        return Err(RewardError::Empty { file: JSON_FILE });
    }
    if !scanner.take('{') {
        return Err(RewardError::NotAnObject { text: quoted(scanner.rest().trim_matches(WHITE_SPACE)) });
    }
    let mut named = BTreeMap::new();
    scanner.skip_white_space();
    if !scanner.take('}') {
        loop {
            scanner.skip_white_space();
            let key = scanner.string()?;
            scanner.skip_white_space();
            scanner.expect(':')?;
            scanner.skip_white_space();
            let value = scanner.value(&key)?;
            if named.insert(key.clone(), value).is_some() {
                return Err(RewardError::DuplicateKey { key });
            }
            scanner.skip_white_space();
            if scanner.take('}') {
                break;
            }
            scanner.expect(',')?;
        }
    }
    scanner.skip_white_space();
    if scanner.rest().is_empty() { Ok(named) } else { Err(scanner.malformed()) }
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_white_space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start_matches(WHITE_SPACE).len();
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.rest().starts_with(wanted);
        if found {
            self.at += wanted.len_utf8();
        }
        found
    }

    fn expect(&mut self, wanted: char) -> Result<(), RewardError> {
        if self.take(wanted) { Ok(()) } else { Err(self.malformed()) }
    }

    fn malformed(&self) -> RewardError {
        RewardError::Malformed { at: self.at, text: quoted(self.rest()) }
    }

    fn string(&mut self) -> Result<String, RewardError> {
        let rest = self.rest();
        if !rest.starts_with('"') {
            return Err(self.malformed());
        }
        let mut escaped = false;
        let end = rest.bytes().enumerate().skip(1).find_map(|(at, byte)| {
            let ends = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            ends.then_some(at)
        });
        let token = &rest[..=end.ok_or_else(|| self.malformed())?];
        let string = serde_json::from_str(token).map_err(|_| self.malformed())?;
        self.at += token.len();
        Ok(string)
    }

    fn value(&mut self, key: &str) -> Result<f64, RewardError> {
        let rest = self.rest();
        let kind = match rest.bytes().next() {
            Some(b'"') => "a string",
            Some(b'{') => "an object",
            Some(b'[') => "a list",
            _ if rest.starts_with("true") || rest.starts_with("false") => "a boolean",
            _ if rest.starts_with("null") => "null",
            _ => {
                let end = rest.find([',', '}', ' ', '\t', '\r', '\n']).unwrap_or(rest.len());
                if end == 0 {
                    return Err(self.malformed());
                }
                let value = number(JSON_FILE, key, &rest[..end])?;
                self.at += end;
                return Ok(value);
            }
        };
        Err(RewardError::NotANumber { key: key.to_owned(), kind })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(bytes: &[u8]) -> Result<f64, &'static str> {
        read_reward(Some(bytes), None, None).map(|reward| reward.value).map_err(|error| error.name())
    }

    fn json(text: &str) -> Result<Reward, RewardError> {
        read_reward(None, Some(text.as_bytes()), None)
    }

    fn json_error(text: &str) -> &'static str {
        json(text).unwrap_err().name()
    }

    #[test]
    fn the_same_number_in_every_spelling() {
        for spelling in ["1", "1.0\n", " 1 \r\n", "1e0", "10E-1", "\u{feff}1"] {
            assert!(read_reward(Some(spelling.as_bytes()), None, None).unwrap().is_full(), "{spelling:?}");
        }
        assert!(read_reward(Some(b"\xef\xbb\xbf0"), None, None).unwrap().had_byte_order_mark);
    }

    #[test]
    fn texts_that_are_no_reward() {
        assert_eq!(text(b""), Err("reward_empty"));
        assert_eq!(text(b" \n\n"), Err("reward_empty"));
        assert_eq!(text(b"\xef\xbb\xbf"), Err("reward_empty"));
        assert_eq!(text(b"0\n1\n"), Err("reward_several_values"));
        for bytes in [&b"nan\n"[..], b"-inf", b"Infinity", b"1e999", b"+NaN"] {
            assert_eq!(text(bytes), Err("reward_non_finite"), "{bytes:?}");
        }
        for bytes in
            [&b"PASS"[..], b"1_0", b"0,5", b"+1", b"1.", b".5", b"01", b"0x1", b"1e", b"1e+", b"-", b"\xff"]
        {
            assert_eq!(text(bytes), Err("reward_unparsable"), "{bytes:?}");
        }
        assert_eq!(read_reward(None, None, None), Err(RewardError::Missing));
    }

    #[test]
    fn numbers_are_neither_rounded_nor_clipped() {
        let near = read_reward(Some(b"0.9999999999999999"), None, None).unwrap();
        assert!(!near.is_full() && near.is_in_range());
        assert!(!json(r#"{"reward": 0.9999999999999999}"#).unwrap().is_full());
        let far = read_reward(Some(b"7"), None, None).unwrap();
        assert!(!far.is_full() && !far.is_in_range());
    }

    #[test]
    fn named_rewards_are_all_kept() {
        let text = r#"{"style": 0.2, "reward": 1.0, "te\u0073ts": 5e-1}"#;
        let reward = json(text).unwrap();
        assert!(reward.is_full());
        assert_eq!(reward.named.keys().collect::<Vec<_>>(), ["reward", "style", "tests"]);
        let other = br#"{"a": 1, "score": 0.5}"#;
        assert!((read_reward(None, Some(other), Some("score")).unwrap().value - 0.5).abs() < f64::EPSILON);
        assert_eq!(read_reward(None, Some(other), None).unwrap_err().name(), "reward_no_key");
    }

    #[test]
    fn json_that_is_no_reward() {
        for (text, name) in [
            ("", "reward_empty"),
            ("{}", "reward_no_key"),
            ("1", "reward_not_an_object"),
            ("[1]", "reward_not_an_object"),
            (r#"{"reward": true}"#, "reward_not_a_number"),
            (r#"{"reward": "1"}"#, "reward_not_a_number"),
            (r#"{"reward": null}"#, "reward_not_a_number"),
            (r#"{"reward": {"value": 1}}"#, "reward_not_a_number"),
            (r#"{"reward": 1, "x": [1]}"#, "reward_not_a_number"),
            (r#"{"reward": NaN}"#, "reward_non_finite"),
            (r#"{"reward": 1, "x": -Infinity}"#, "reward_non_finite"),
            (r#"{"reward": 1, "reward": 1}"#, "reward_duplicate_key"),
            (r#"{"reward": 1, "rewar\u0064": 1}"#, "reward_duplicate_key"),
            (r#"{"reward": 1"#, "reward_malformed"),
            (r#"{"reward": 1} x"#, "reward_malformed"),
            (r#"{"reward": 1,}"#, "reward_malformed"),
            (r#"{"reward" 1}"#, "reward_malformed"),
            (r#"{"reward": }"#, "reward_malformed"),
            (r#"{"reward": 1_0}"#, "reward_unparsable"),
            (r#"{"rew"#, "reward_malformed"),
        ] {
            assert_eq!(json_error(text), name, "{text}");
        }
        assert!(json(r#"{"reward": 1, "x": NaN}"#).unwrap_err().to_string().contains("\"x\""));
    }

    #[test]
    fn two_files_must_agree() {
        let both = |text: &[u8], json: &[u8]| read_reward(Some(text), Some(json), None);
        assert_eq!(both(b"1\n", b"{\"reward\": 1.0}").unwrap().source, RewardSource::Both);
        assert_eq!(both(b"0", b"{\"reward\": 1}").unwrap_err().name(), "reward_conflict");
        assert_eq!(both(b"", b"{\"reward\": 1}").unwrap_err().name(), "reward_empty");
        assert_eq!(both(b"1", b"{}").unwrap_err().name(), "reward_no_key");
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = read_reward(Some(&bytes), Some(&bytes), Some("x"));
        }

        #[test]
        fn written_numbers_come_back(value in proptest::num::f64::NORMAL) {
            let read = read_reward(Some(format!("{value:e}").as_bytes()), None, None).unwrap();
            prop_assert_eq!(read.value.to_bits(), value.to_bits());
            let document = format!("{{\"reward\":{value:e}}}");
            prop_assert_eq!(json(&document).unwrap().value.to_bits(), value.to_bits());
        }
    }
}
