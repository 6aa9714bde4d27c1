//! What Python's `json` writes beyond JSON, turned into JSON that says the same as far as JSON can.
//!
//! `NaN`, `Infinity`, `-Infinity` and numbers that no float holds become null, halves of surrogate pairs become U+FFFD, and
//! each is reported under its key. The scanner keeps the structure and judges nothing else: what is no JSON before is
//! none afterwards.

use std::collections::HashSet;
use std::fmt::Write as _;

use super::oddity::{Odd, What};

/// Longer keys are cut in reports.
const KEY_LIMIT: usize = 200;

/// What encloses the value that is being read.
enum Frame {
    Object { key: String, seen: HashSet<Vec<u8>>, wants_key: bool },
    Array { index: usize },
}

struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
    out: Vec<u8>,
    frames: Vec<Frame>,
    odd: &'a mut Odd,
}

/// Rewrites a text. Bytes that are not UTF-8 and a byte order mark are dealt with too.
pub(super) fn to_plain(bytes: &[u8], odd: &mut Odd) -> Vec<u8> {
    let bytes = match bytes.strip_prefix(b"\xef\xbb\xbf") {
        Some(rest) => {
            odd.add(What::ByteOrderMark);
            rest
        }
        None => bytes,
    };
    let text = String::from_utf8_lossy(bytes);
    if matches!(text, std::borrow::Cow::Owned(_)) {
        odd.add(What::NotUtf8);
    }
    let scanner = Scanner { bytes: text.as_bytes(), at: 0, out: Vec::new(), frames: Vec::new(), odd };
    scanner.run()
}

impl Scanner<'_> {
    fn run(mut self) -> Vec<u8> {
        self.out.reserve(self.bytes.len());
        while let Some(&byte) = self.bytes.get(self.at) {
            match byte {
                b'"' => self.string(),
                b'{' => {
                    self.copy(1);
                    self.frames.push(Frame::Object {
                        key: String::new(),
                        seen: HashSet::new(),
                        wants_key: true,
                    });
                }
                b'[' => {
                    self.copy(1);
                    self.frames.push(Frame::Array { index: 0 });
                }
                b'}' | b']' => {
                    self.copy(1);
                    self.frames.pop();
                }
                b',' => {
                    self.copy(1);
                    match self.frames.last_mut() {
                        Some(Frame::Object { wants_key, .. }) => *wants_key = true,
                        Some(Frame::Array { index }) => *index += 1,
                        None => {}
                    }
                }
                b'N' | b'I' | b'-' | b'0'..=b'9' => self.number(),
                _ => self.copy(1),
            }
        }
        self.out
    }

    fn copy(&mut self, count: usize) {
        self.out.extend_from_slice(&self.bytes[self.at..self.at + count]);
        self.at += count;
    }

    /// A number, or a token in place of one.
    fn number(&mut self) {
        let rest = &self.bytes[self.at..];
        let tokens: [&[u8]; 3] = [b"NaN", b"Infinity", b"-Infinity"];
        let token = tokens.into_iter().find(|token| rest.starts_with(token));
        let length = token.map_or_else(
            || {
                rest.iter()
                    .take_while(|byte| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E'))
                    .count()
            },
            <[u8]>::len,
        );
        let written = String::from_utf8_lossy(&rest[..length]);
        let beyond = || written.parse::<f64>().is_ok_and(f64::is_infinite);
        if token.is_some() || beyond() {
            let key = self.key();
            let token = written.chars().take(40).collect();
            self.odd.add(What::NonFinite { key, token });
            self.out.extend_from_slice(b"null");
            self.at += length;
        } else {
            self.copy(length.max(1));
        }
    }

    /// A text, with its quotes. At the place of a key it becomes the key.
    fn string(&mut self) {
        let begin = self.out.len();
        let mut halves = false;
        self.copy(1);
        while let Some(&byte) = self.bytes.get(self.at) {
            match byte {
                b'"' => {
                    self.copy(1);
                    break;
                }
                b'\\' => match self.escaped_unit(self.at) {
                    Some(0xd800..=0xdbff)
                        if matches!(self.escaped_unit(self.at + 6), Some(0xdc00..=0xdfff)) =>
                    {
                        self.copy(12);
                    }
                    Some(0xd800..=0xdfff) => {
                        halves = true;
                        self.out.extend_from_slice(b"\\ufffd");
                        self.at += 6;
                    }
                    _ => self.copy(2.min(self.bytes.len() - self.at)),
                },
                _ => self.copy(1),
            }
        }
        let text = self.out[begin..].to_vec();
        let Some(Frame::Object { key, seen, wants_key: wants_key @ true }) = self.frames.last_mut() else {
            if halves {
                let key = self.key();
                self.odd.add(What::LoneSurrogate { key });
            }
            return;
        };
        *wants_key = false;
        let quoted = String::from_utf8_lossy(&text);
        *key = quoted.trim_matches('"').chars().take(KEY_LIMIT).collect();
        let again = !seen.insert(text);
        let key = self.key();
        if halves {
            self.odd.add(What::LoneSurrogate { key: key.clone() });
        }
        if again {
            self.odd.add(What::DuplicateKey { key });
        }
    }

    /// The unit of a `\uXXXX` at `at`.
    fn escaped_unit(&self, at: usize) -> Option<u16> {
        let escape = self.bytes.get(at..at + 6)?;
        let digits = std::str::from_utf8(escape.strip_prefix(b"\\u")?).ok()?;
        digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then(|| u16::from_str_radix(digits, 16).ok())?
    }

    /// Where the scanner is, as a path of keys and indices.
    fn key(&self) -> String {
        let mut path = String::new();
        for frame in &self.frames {
            match frame {
                Frame::Object { key, .. } => {
                    if !path.is_empty() {
                        path.push('.');
                    }
                    path.push_str(key);
                }
                Frame::Array { index } => {
                    let _ = write!(path, "[{index}]");
                }
            }
            if path.len() > KEY_LIMIT {
                path = path.chars().take(KEY_LIMIT).collect();
                path.push('…');
                break;
            }
        }
        path
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn plain(text: &str) -> (String, Vec<String>) {
        let mut odd = Odd::default();
        let bytes = to_plain(text.as_bytes(), &mut odd);
        let found = odd.at("").map(|oddity| oddity.to_string()).collect();
        (String::from_utf8(bytes).unwrap(), found)
    }

    #[test]
    fn tokens_become_null_and_are_reported_by_key() {
        let (text, found) = plain(
            "{\"a\": {\"b\": NaN, \"c\": [1, -Infinity]}, \"d\": Infinity, \"e\": 1e999, \"NaN\": \"NaN\"}",
        );
        assert_eq!(
            text,
            "{\"a\": {\"b\": null, \"c\": [1, null]}, \"d\": null, \"e\": null, \"NaN\": \"NaN\"}"
        );
        assert_eq!(
            found,
            [
                "`a.b` is NaN, which is not a number",
                "`a.c[1]` is -Infinity, which is not a number",
                "`d` is Infinity, which is not a number",
                "`e` is 1e999, which is not a number",
            ]
        );
    }

    #[test]
    fn halves_of_pairs_are_replaced_and_pairs_stay() {
        let (text, found) =
            plain(r#"{"a": "x\ud83d\ude00y", "b": "\ud83d", "c\udc00": "\\ud83d", "d": "\ud83d\n"}"#);
        assert_eq!(text, r#"{"a": "x\ud83d\ude00y", "b": "\ufffd", "c\ufffd": "\\ud83d", "d": "\ufffd\n"}"#);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("`b` holds half"), "{found:?}");
        serde_json::from_str::<serde_json::Value>(&text).unwrap();
    }

    #[test]
    fn repeated_keys_marks_and_bytes_are_reported() {
        let (text, found) = plain("\u{feff}{\"a\": 1, \"b\": {\"a\": 1, \"a\": 2}, \"a\": 3}");
        assert!(text.starts_with('{'));
        assert_eq!(
            found,
            [
                "begins with a byte order mark",
                "`b.a` is given twice; the last one counts",
                "`a` is given twice; the last one counts",
            ]
        );
        let mut odd = Odd::default();
        assert_eq!(to_plain(b"[\"\xff\"]", &mut odd), "[\"\u{fffd}\"]".as_bytes());
        assert_eq!(odd.at("").count(), 1);
    }

    #[test]
    fn broken_texts_stay_broken() {
        for text in ["{\"a\": ", "{\"a\\", "\"\\ud83", "[1, 2", "{]", "nan", "-", "{\"a\": Nope}", "\\"] {
            let (plain, _) = plain(text);
            assert!(serde_json::from_str::<serde_json::Value>(&plain).is_err(), "{text} became {plain}");
        }
    }

    fn value() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(serde_json::Value::from),
            any::<i64>().prop_map(serde_json::Value::from),
            any::<f64>().prop_map(serde_json::Value::from),
            "\\PC{0,12}".prop_map(serde_json::Value::from),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(serde_json::Value::from),
                prop::collection::btree_map("\\PC{0,6}", inner, 0..6)
                    .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn json_stays_as_it_is(value in value()) {
            let text = serde_json::to_string(&value).unwrap();
            let (plain, found) = plain(&text);
            prop_assert_eq!(plain, text);
            prop_assert!(found.is_empty(), "{:?}", found);
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            to_plain(&bytes, &mut Odd::default());
        }
    }
}
