//! Reading JSON.

use std::borrow::Cow;
use std::collections::HashMap;

use super::Json;

/// Values nested deeper than this are refused; a call stack would not hold them.
const DEPTH: usize = 200;

/// Objects with more keys than this are looked through with an index for keys that stand twice.
const FEW: usize = 24;

/// Why a text is no JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum JsonError {
    /// There is nothing.
    #[error("is empty")]
    Empty,
    /// It ends in the middle.
    #[error("ends in the middle, at byte {0}")]
    Cut(usize),
    /// Something else stands where a value or a sign should.
    #[error("is no JSON from byte {0} on")]
    Syntax(usize),
    /// Too deep.
    #[error("is nested deeper than {DEPTH} at byte {0}")]
    Deep(usize),
}

/// What was mended while a text was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Mended {
    /// Halves of surrogate pairs, now U+FFFD.
    pub(crate) surrogates: u64,
    /// Bytes that were not UTF-8, now U+FFFD; counted once a document.
    pub(crate) not_utf8: u64,
    /// Documents whose end was cut, read up to there.
    pub(crate) cut: u64,
}

/// Reads one value from `text`, with nothing but white space around it. A byte order mark is skipped.
pub(crate) fn parse<'a>(text: &'a str, mended: &mut Mended) -> Result<Json<'a>, JsonError> {
    let mut reader = Reader { text, bytes: text.as_bytes(), at: 0, mended };
    if text.starts_with('\u{feff}') {
        reader.at = 3;
    }
    reader.space();
    if reader.at == reader.bytes.len() {
        return Err(JsonError::Empty);
    }
    let value = reader.value(0)?;
    reader.space();
    if reader.at < reader.bytes.len() { Err(JsonError::Syntax(reader.at)) } else { Ok(value) }
}

struct Reader<'a, 'm> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    mended: &'m mut Mended,
}

impl<'a> Reader<'a, '_> {
    fn space(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn wrong(&self) -> JsonError {
        if self.at >= self.bytes.len() { JsonError::Cut(self.at) } else { JsonError::Syntax(self.at) }
    }

    fn value(&mut self, depth: usize) -> Result<Json<'a>, JsonError> {
        if depth > DEPTH {
            return Err(JsonError::Deep(self.at));
        }
        match self.bytes.get(self.at) {
            Some(b'"') => self.string().map(Json::Text),
            Some(b'{') => self.object(depth),
            Some(b'[') => self.list(depth),
            Some(b't') => self.word("true", Json::Bool(true)),
            Some(b'f') => self.word("false", Json::Bool(false)),
            Some(b'n') => self.word("null", Json::Null),
            Some(b'N') => self.word("NaN", Json::Number("NaN".into())),
            Some(b'I') => self.word("Infinity", Json::Number("Infinity".into())),
            Some(b'-') if self.bytes[self.at..].starts_with(b"-I") => {
                self.word("-Infinity", Json::Number("-Infinity".into()))
            }
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => Err(self.wrong()),
        }
    }

    fn word(&mut self, word: &str, value: Json<'a>) -> Result<Json<'a>, JsonError> {
        let rest = &self.bytes[self.at..];
        if rest.starts_with(word.as_bytes()) {
            self.at += word.len();
            return Ok(value);
        }
        if word.as_bytes().starts_with(rest) {
            return Err(JsonError::Cut(self.bytes.len()));
        }
        Err(JsonError::Syntax(self.at))
    }

    fn digits(&mut self) -> Result<(), JsonError> {
        let start = self.at;
        while matches!(self.bytes.get(self.at), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start { Err(self.wrong()) } else { Ok(()) }
    }

    fn number(&mut self) -> Result<Json<'a>, JsonError> {
        let start = self.at;
        self.at += usize::from(self.bytes[start] == b'-');
        if self.bytes.get(self.at) == Some(&b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.bytes.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            self.at += usize::from(matches!(self.bytes.get(self.at), Some(b'+' | b'-')));
            self.digits()?;
        }
        Ok(Json::Number(Cow::Borrowed(&self.text[start..self.at])))
    }

    fn list(&mut self, depth: usize) -> Result<Json<'a>, JsonError> {
        self.at += 1;
        let mut items = Vec::new();
        self.space();
        if self.bytes.get(self.at) == Some(&b']') {
            self.at += 1;
            return Ok(Json::List(items));
        }
        loop {
            self.space();
            items.push(self.value(depth + 1)?);
            self.space();
            match self.bytes.get(self.at) {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Json::List(items));
                }
                _ => return Err(self.wrong()),
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json<'a>, JsonError> {
        self.at += 1;
        let mut entries = Vec::new();
        self.space();
        if self.bytes.get(self.at) == Some(&b'}') {
            self.at += 1;
            return Ok(Json::Object(entries));
        }
        loop {
            self.space();
            if self.bytes.get(self.at) != Some(&b'"') {
                return Err(self.wrong());
            }
            let key = self.string()?;
            self.space();
            if self.bytes.get(self.at) != Some(&b':') {
                return Err(self.wrong());
            }
            self.at += 1;
            self.space();
            entries.push((key, self.value(depth + 1)?));
            self.space();
            match self.bytes.get(self.at) {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Json::Object(unique(entries)));
                }
                _ => return Err(self.wrong()),
            }
        }
    }

    fn string(&mut self) -> Result<Cow<'a, str>, JsonError> {
        self.at += 1;
        let start = self.at;
        let special = |bytes: &[u8]| memchr::memchr2(b'"', b'\\', bytes);
        let Some(length) = special(&self.bytes[start..]) else {
            return Err(JsonError::Cut(self.bytes.len()));
        };
        self.at += length;
        if self.bytes[self.at] == b'"' {
            let text = &self.text[start..self.at];
            self.at += 1;
            return Ok(Cow::Borrowed(text));
        }
        let mut text = String::with_capacity(length + 64);
        text.push_str(&self.text[start..self.at]);
        loop {
            match self.bytes.get(self.at) {
                None => return Err(JsonError::Cut(self.bytes.len())),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(Cow::Owned(text));
                }
                Some(b'\\') => text.push(self.escape()?),
                Some(_) => {
                    let rest = &self.bytes[self.at..];
                    let length = special(rest).unwrap_or(rest.len());
                    text.push_str(&self.text[self.at..self.at + length]);
                    self.at += length;
                }
            }
        }
    }

    fn escape(&mut self) -> Result<char, JsonError> {
        let sign = self.bytes.get(self.at + 1).copied();
        let simple = match sign {
            None => return Err(JsonError::Cut(self.bytes.len())),
            Some(b'u') => return self.unit(),
            Some(b'n') => '\n',
            Some(b't') => '\t',
            Some(b'r') => '\r',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(sign @ (b'"' | b'\\' | b'/')) => char::from(sign),
            Some(_) => return Err(JsonError::Syntax(self.at)),
        };
        self.at += 2;
        Ok(simple)
    }

    /// A `\uXXXX`, with the second half of its pair where there is one.
    fn unit(&mut self) -> Result<char, JsonError> {
        let first = self.hex(self.at)?;
        self.at += 6;
        if let Some(char) = char::from_u32(first) {
            return Ok(char);
        }
        if first < 0xdc00
            && self.bytes[self.at..].starts_with(b"\\u")
            && let Ok(second @ 0xdc00..=0xdfff) = self.hex(self.at)
        {
            self.at += 6;
            let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
            return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        self.mended.surrogates += 1;
        Ok(char::REPLACEMENT_CHARACTER)
    }

    fn hex(&self, at: usize) -> Result<u32, JsonError> {
        let Some(digits) = self.bytes.get(at + 2..at + 6) else {
            return Err(JsonError::Cut(self.bytes.len()));
        };
        let mut value = 0;
        for digit in digits {
            value = value * 16 + char::from(*digit).to_digit(16).ok_or(JsonError::Syntax(at))?;
        }
        Ok(value)
    }
}

/// Of a key that stands twice the last value stays, at the first place.
fn unique<'a>(mut entries: Vec<(Cow<'a, str>, Json<'a>)>) -> Vec<(Cow<'a, str>, Json<'a>)> {
    let twice = if entries.len() <= FEW {
        (1..entries.len()).any(|index| entries[..index].iter().any(|(key, _)| *key == entries[index].0))
    } else {
        let mut seen = std::collections::HashSet::with_capacity(entries.len());
        !entries.iter().all(|(key, _)| seen.insert(key.as_ref()))
    };
    if twice {
        let mut places: HashMap<Cow<'a, str>, usize> = HashMap::new();
        let mut kept: Vec<(Cow<'a, str>, Json<'a>)> = Vec::with_capacity(entries.len());
        for (key, value) in entries.drain(..) {
            if let Some(&place) = places.get(&key) {
                kept[place].1 = value;
            } else {
                places.insert(key.clone(), kept.len());
                kept.push((key, value));
            }
        }
        return kept;
    }
    entries
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Json<'_>, JsonError> {
        parse(text, &mut Mended::default())
    }

    #[test]
    fn numbers_keep_their_text_and_keys_their_place() {
        let value =
            read("\u{feff}{\"a\": 123456789012345678901234567890, \"b\": -1.50E+3, \"a\": NaN}").unwrap();
        assert_eq!(value.get("a"), Some(&Json::Number("NaN".into())));
        assert_eq!(value.number("b"), Some(-1500.0));
        assert!(matches!(&value, Json::Object(entries) if entries.len() == 2 && entries[0].0 == "a"));
    }

    #[test]
    fn halves_of_pairs_are_replaced_and_counted() {
        let mut mended = Mended::default();
        let text = r#"["\ud83d\ude00", "\ud83d", "x\udc00y", "\ud83d\u0041"]"#;
        let value = parse(text, &mut mended).unwrap();
        let texts: Vec<_> = value.items().iter().filter_map(Json::as_text).collect();
        assert_eq!(texts, ["😀", "\u{fffd}", "x\u{fffd}y", "\u{fffd}A"]);
        assert_eq!(mended.surrogates, 3);
    }

    #[test]
    fn what_is_no_json_is_told_with_its_place() {
        for (text, error) in [
            ("", JsonError::Empty),
            (" \n", JsonError::Empty),
            ("{\"a\": 1", JsonError::Cut(7)),
            ("{\"a\": \"x", JsonError::Cut(8)),
            ("[1, tr", JsonError::Cut(6)),
            ("[1 2]", JsonError::Syntax(3)),
            ("{}}", JsonError::Syntax(2)),
            ("[01]", JsonError::Syntax(2)),
            ("\"\\x\"", JsonError::Syntax(1)),
            ("nope", JsonError::Syntax(0)),
        ] {
            assert_eq!(read(text), Err(error), "{text}");
        }
        assert!(matches!(read(&"[".repeat(100_000)), Err(JsonError::Deep(_))));
    }

    proptest! {
        #[test]
        fn agrees_with_another_reader(text in "[\\[\\]{}:,\"a\\\\u0-9deE+. -]{0,30}") {
            let other: Result<serde_json::Value, _> = serde_json::from_str(&text);
            if let Ok(other) = other {
                let value = read(&text).unwrap();
                prop_assert_eq!(value.is_object(), other.is_object());
            }
        }

        #[test]
        fn texts_come_back(text in "\\PC{0,40}") {
            let written = serde_json::to_string(&text).unwrap();
            let value = read(&written).unwrap();
            prop_assert_eq!(value.as_text(), Some(text.as_str()));
        }
    }
}
