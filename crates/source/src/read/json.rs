//! JSON with the checks that `serde_json` leaves out: duplicate keys, bare NaN, lone surrogates.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::RowProblem;

/// What a look over the bytes of one JSON text shows before it is parsed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Scan {
    /// Offsets of the four hexadecimal digits of every lone surrogate escape.
    pub surrogates: Vec<usize>,
    /// The first bare `NaN` or `Infinity` and its offset.
    pub non_finite: Option<(usize, &'static str)>,
}

/// Looks for what a strict parser could only call a syntax error, or would lose a whole row for.
pub(crate) fn scan(text: &[u8]) -> Scan {
    let mut found = Scan::default();
    let mut at = 0;
    let mut in_string = false;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' => in_string = !in_string,
            b'\\' if in_string => match escaped_unit(text, at) {
                Some(0xd800..=0xdbff) => {
                    if matches!(escaped_unit(text, at + 6), Some(0xdc00..=0xdfff)) {
                        at += 6;
                    } else {
                        found.surrogates.push(at + 2);
                    }
                    at += 5;
                }
                Some(0xdc00..=0xdfff) => {
                    found.surrogates.push(at + 2);
                    at += 5;
                }
                _ => at += 1,
            },
            b'N' | b'I' if !in_string && found.non_finite.is_none() => {
                let rest = &text[at..];
                let negative = at > 0 && text[at - 1] == b'-';
                found.non_finite = match (rest, negative) {
                    _ if rest.starts_with(b"NaN") => Some((at, "NaN")),
                    _ if rest.starts_with(b"Infinity") && negative => Some((at - 1, "-Infinity")),
                    _ if rest.starts_with(b"Infinity") => Some((at, "Infinity")),
                    _ => None,
                };
            }
            _ => {}
        }
        at += 1;
    }
    found
}

/// The UTF-16 code unit of the escape `\uXXXX` at `at`.
fn escaped_unit(text: &[u8], at: usize) -> Option<u16> {
    let escape = text.get(at..at + 6)?;
    let hex = escape.strip_prefix(b"\\u")?;
    let digits = std::str::from_utf8(hex).ok().filter(|hex| hex.bytes().all(|c| c.is_ascii_hexdigit()))?;
    u16::from_str_radix(digits, 16).ok()
}

/// Turns lone surrogate escapes into escapes of U+FFFD; lengths and offsets stay as they are.
pub(crate) fn mend_surrogates(text: &mut [u8], scan: &Scan) {
    for &at in &scan.surrogates {
        text[at..at + 4].copy_from_slice(b"fffd");
    }
}

/// Reads one JSON text as a value without duplicate keys; the error carries the byte offset inside `text`.
pub(crate) fn strict_value(text: &str) -> Result<Value, (usize, RowProblem)> {
    let seen = SeenTwice::default();
    parse(text, Strict(&seen), &seen)
}

/// The fields of one object: those that are wanted, and the names of the others.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    /// Values of the wanted fields, in their order; none for a field that is not there.
    pub wanted: Vec<Option<Value>>,
    /// Names of all other fields.
    pub others: Vec<String>,
}

/// Reads the wanted fields of one JSON object; the content of the others is skipped, not built.
pub(crate) fn strict_fields(text: &str, wanted: &[&str]) -> Result<Fields, (usize, RowProblem)> {
    let seen = SeenTwice::default();
    parse(text, WantedFields { wanted, seen: &seen }, &seen)
}

/// The first key that stands twice in one object; serde's error type has no room for it.
type SeenTwice = RefCell<Option<String>>;

fn parse<'t, S: DeserializeSeed<'t>>(
    text: &'t str,
    seed: S,
    seen: &SeenTwice,
) -> Result<S::Value, (usize, RowProblem)> {
    let mut parser = serde_json::Deserializer::from_str(text);
    let value = seed.deserialize(&mut parser).and_then(|value| parser.end().map(|()| value));
    value.map_err(|error| {
        let offset = offset_of(text, error.line(), error.column());
        let problem = match seen.take() {
            Some(key) => RowProblem::DuplicateKey(key),
            None if error.is_eof() => RowProblem::Cut,
            None if error.to_string().starts_with("number out of range") => RowProblem::TooLarge,
            None => RowProblem::Json(without_position(error.to_string())),
        };
        (offset, problem)
    })
}

/// The byte that line and column, both counted from 1, stand for.
fn offset_of(text: &str, line: usize, column: usize) -> usize {
    let before: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    (before + column.saturating_sub(1)).min(text.len())
}

/// Drops serde's own position: it counts inside the row, and the fault names the byte in the file.
fn without_position(mut message: String) -> String {
    if let Some(at) = message.rfind(" at line ") {
        message.truncate(at);
    }
    message
}

fn twice<E: de::Error>(seen: &SeenTwice, key: String) -> E {
    let error = E::custom(format_args!("the key `{key}` stands twice"));
    seen.replace(Some(key));
    error
}

/// Builds a value and refuses duplicate keys at every depth.
#[derive(Clone, Copy)]
struct Strict<'s>(&'s SeenTwice);

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("the number is not finite"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if object.contains_key(&key) {
                return Err(twice(self.0, key));
            }
            let value = entries.next_value_seed(self)?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

struct WantedFields<'w, 's> {
    wanted: &'w [&'w str],
    seen: &'s SeenTwice,
}

impl<'de> DeserializeSeed<'de> for WantedFields<'_, '_> {
    type Value = Fields;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Fields, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for WantedFields<'_, '_> {
    type Value = Fields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Fields, A::Error> {
        let mut fields = Fields { wanted: vec![None; self.wanted.len()], others: Vec::new() };
        let mut others = HashSet::new();
        while let Some(key) = entries.next_key::<String>()? {
            match self.wanted.iter().position(|wanted| *wanted == key) {
                Some(at) if fields.wanted[at].is_none() => {
                    fields.wanted[at] = Some(entries.next_value_seed(Strict(self.seen))?);
                }
                None if others.insert(key.clone()) => {
                    entries.next_value::<IgnoredAny>()?;
                }
                _ => return Err(twice(self.seen, key)),
            }
        }
        fields.others = others.into_iter().collect();
        Ok(fields)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn duplicate_keys_are_found_at_every_depth() {
        let deep = strict_value(r#"{"a": [{"b": 1, "b": 1}]}"#).unwrap_err();
        assert_eq!(deep.1, RowProblem::DuplicateKey("b".into()));
        let other = strict_fields(r#"{"x": 1, "a": 2, "x": 3}"#, &["a"]).unwrap_err();
        assert_eq!(other.1, RowProblem::DuplicateKey("x".into()));
        let wanted = strict_fields(r#"{"a": 1, "a": 1}"#, &["a"]).unwrap_err();
        assert_eq!(wanted.1, RowProblem::DuplicateKey("a".into()));
    }

    #[test]
    fn a_cut_text_is_told_from_a_broken_one() {
        assert_eq!(strict_value(r#"{"a": "b"#).unwrap_err().1, RowProblem::Cut);
        let (offset, problem) = strict_value(r#"{"a": b}"#).unwrap_err();
        assert_eq!((offset, problem), (6, RowProblem::Json("expected value".into())));
        assert!(matches!(strict_value("1 2"), Err((_, RowProblem::Json(_)))));
        assert!(matches!(strict_value("1e999"), Err((_, RowProblem::TooLarge))));
    }

    #[test]
    fn lone_surrogates_are_found_and_pairs_are_left_alone() {
        let text = br#"["\ud83d\ude00", "\ud83d", "\ude00", "\\ud83d", "\ud83d\u0041"]"#;
        let found = scan(text);
        assert_eq!(found.surrogates.len(), 3);
        let mut mended = text.to_vec();
        mend_surrogates(&mut mended, &found);
        let value = strict_value(std::str::from_utf8(&mended).unwrap()).unwrap();
        assert_eq!(value, json!(["😀", "\u{fffd}", "\u{fffd}", "\\ud83d", "\u{fffd}A"]));
    }

    #[test]
    fn tokens_of_python_are_named_and_words_in_texts_are_not() {
        assert_eq!(scan(br#"{"a": NaN}"#).non_finite, Some((6, "NaN")));
        assert_eq!(scan(br#"{"a": -Infinity}"#).non_finite, Some((6, "-Infinity")));
        assert_eq!(scan(br#"{"a": "NaN \" Infinity"}"#).non_finite, None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_scanned_and_mended_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let found = scan(&bytes);
            let mut mended = bytes.clone();
            mend_surrogates(&mut mended, &found);
            prop_assert_eq!(mended.len(), bytes.len());
        }

        #[test]
        fn what_serde_writes_is_read_back(text in ".*", number in any::<i64>(), fraction in -1.0e9_f64..1.0e9) {
            let value = json!({"text": text, "list": [number, fraction, null, true], "": {}});
            let written = value.to_string();
            prop_assert_eq!(scan(written.as_bytes()), Scan::default());
            prop_assert_eq!(strict_value(&written).unwrap(), value);
        }

        #[test]
        fn lone_escapes_never_lose_the_row(units in prop::collection::vec(0xd800_u16..0xe000, 1..12)) {
            let escapes: Vec<String> = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
            let mut text = format!("\"{}\"", escapes.concat()).into_bytes();
            let found = scan(&text);
            mend_surrogates(&mut text, &found);
            let expected = String::from_utf16_lossy(&units);
            prop_assert_eq!(strict_value(std::str::from_utf8(&text).unwrap()).unwrap(), json!(expected));
        }
    }
}
