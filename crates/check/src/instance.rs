//! What a task says about the tests that decide: `tests/config.json`, in this program's form or as an instance row.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::LazyLock;

use grade::{Framework, Surface};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// Where it stands.
pub(crate) const PATH: &[u8] = b"tests/config.json";

/// The test surface where nothing else is said.
pub(crate) static PYTEST: LazyLock<Surface> = LazyLock::new(Surface::pytest);

/// The part of `tests/config.json` that the rules look at. Texts are parts of the file where it writes them without escapes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Instance<'a> {
    /// The repository as the row names it, where it does.
    pub(crate) repo: Option<Cow<'a, str>>,
    /// Tests that fail before the fix; `None` where the key is absent.
    pub(crate) fail_to_pass: Option<Vec<Cow<'a, str>>>,
    /// Tests that pass before and after; `None` where the key is absent.
    pub(crate) pass_to_pass: Option<Vec<Cow<'a, str>>>,
    /// Whether an empty list of failing tests is meant.
    pub(crate) regressions_only: bool,
    /// Which files of the workspace are tests or steer them.
    pub(crate) surface: Cow<'static, Surface>,
    /// What runs the tests, where that is said; ids are read as its own.
    pub(crate) framework: Option<Framework>,
    /// Where the workspace is in the container, where that is said.
    pub(crate) workdir: Option<Cow<'a, str>>,
    /// The patch of the row, and whether it brings the bug in (as in SWE-smith) or repairs it (as in SWE-bench).
    pub(crate) patch: Option<(Cow<'a, str>, Direction)>,
    /// The files of the failing tests, in order, each with whether it belongs to the test surface.
    deciding: Vec<(String, bool)>,
}

/// What a patch does to the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// It repairs.
    Repairs,
    /// It breaks; turned around it repairs.
    Breaks,
}

impl<'a> Instance<'a> {
    /// Reads the bytes of the file. `Err` says why they cannot be used; `Ok(None)` means that the file is about
    /// something else.
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Option<Self>, String> {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        if !bytes.trim_ascii_start().starts_with(b"{") {
            return json::<Value<'_>>(bytes).map(|_| None);
        }
        let row: Row<'_> = json(bytes)?;
        let fail_to_pass = row.fail_to_pass.list("FAIL_TO_PASS")?;
        let pass_to_pass = row.pass_to_pass.list("PASS_TO_PASS")?;
        if fail_to_pass.is_none() && pass_to_pass.is_none() {
            return Ok(None);
        }
        let smith =
            |value: &Option<Value<'_>>| matches!(value, Some(Value::Text(text)) if text.contains("swesmith"));
        // SWE-bench rows carry the tests as a patch of their own; SWE-smith rows have none, and older ones have a
        // base commit like SWE-bench's.
        let breaks = smith(&row.repo) || smith(&row.image_name) || row.test_patch.is_none();
        let direction = if breaks { Direction::Breaks } else { Direction::Repairs };
        let mut instance = Self {
            repo: row.repo.and_then(Value::text),
            fail_to_pass,
            pass_to_pass,
            surface: row
                .surface
                .and_then(|surface| Surface::deserialize(surface).ok())
                .map_or(Cow::Borrowed(&PYTEST), Cow::Owned),
            framework: row.framework.and_then(|framework| Framework::deserialize(framework).ok()),
            workdir: row.workdir.and_then(Value::text),
            regressions_only: matches!(row.p2p_only, Some(Value::Bool(true))),
            patch: row.patch.and_then(Value::text).map(|patch| (patch, direction)),
            deciding: Vec::new(),
        };
        instance.deciding = instance.files_of_failing_tests();
        Ok(Some(instance))
    }

    /// The files that only the verifier may hold: those of the failing tests that belong to the test surface.
    pub(crate) fn hidden_files(&self) -> Vec<&str> {
        self.deciding.iter().filter(|(_, hidden)| *hidden).map(|(file, _)| file.as_str()).collect()
    }

    /// The files of the failing tests that do not belong to the test surface.
    pub(crate) fn open_files(&self) -> impl Iterator<Item = &str> {
        self.deciding.iter().filter(|(_, hidden)| !*hidden).map(|(file, _)| file.as_str())
    }

    /// The files of the failing tests, each once, in order, from the workspace, each with whether it belongs to the test surface.
    fn files_of_failing_tests(&self) -> Vec<(String, bool)> {
        let ids = self.fail_to_pass.iter().flatten();
        let files: BTreeSet<&str> = ids.filter_map(|id| self.file_of(id)).collect();
        files.into_iter().map(|file| (file.to_owned(), self.surface.contains(file))).collect()
    }

    /// The file that a test id names, as a path from the workspace: in front of its first `::` where no framework says
    /// otherwise.
    pub(crate) fn file_of<'i>(&self, id: &'i str) -> Option<&'i str> {
        let file = self.framework.unwrap_or(Framework::Pytest).file_of(id)?;
        let inside = self.workdir.as_deref().and_then(|workdir| file.strip_prefix(workdir));
        let file = inside.map_or(file, |rest| rest.trim_start_matches('/'));
        (file.contains('.') && !file.contains(char::is_whitespace)).then_some(file)
    }
}

/// Reads JSON. Looking at the encoding of the whole is quicker than at that of each text in it.
fn json<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, String> {
    match std::str::from_utf8(bytes) {
        Ok(text) => serde_json::from_str(text),
        Err(_) => serde_json::from_slice(bytes),
    }
    .map_err(|error| error.to_string())
}

/// The bare name of a test: behind the last `::`, without parameters.
pub(crate) fn test_name(id: &str) -> &str {
    let id = id.split('[').next().unwrap_or(id);
    id.rsplit("::").next().unwrap_or(id)
}

/// A row as it is written. The last of two equal keys counts.
#[derive(Default)]
struct Row<'a> {
    fail_to_pass: Lists<'a>,
    pass_to_pass: Lists<'a>,
    repo: Option<Value<'a>>,
    image_name: Option<Value<'a>>,
    patch: Option<Value<'a>>,
    test_patch: Option<Value<'a>>,
    workdir: Option<Value<'a>>,
    p2p_only: Option<Value<'a>>,
    surface: Option<serde_json::Value>,
    framework: Option<serde_json::Value>,
}

/// A list under the key of SWE-bench, which counts first, and in small letters.
#[derive(Default)]
struct Lists<'a> {
    upper: Option<Value<'a>>,
    lower: Option<Value<'a>>,
}

/// A value of which only texts and lists of them are kept. All of it is read, so that what is wrong with any part of the file is
/// noticed.
enum Value<'a> {
    Null,
    Bool(bool),
    Text(Cow<'a, str>),
    List(Vec<Cow<'a, str>>),
    Other,
}

impl<'a> Value<'a> {
    fn text(self) -> Option<Cow<'a, str>> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A list of texts: as JSON, as JSON inside a text, or as a Python list inside a text.
    fn list(self) -> Option<Vec<Cow<'a, str>>> {
        let owned = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        match self {
            Self::Null => Some(Vec::new()),
            Self::List(items) => Some(items),
            Self::Text(text) => match serde_json::from_str(&text) {
                Ok(Value::List(items)) => Some(items.into_iter().map(owned).collect()),
                Ok(_) => None,
                Err(_) => Some(python_list(&text)?.into_iter().map(Cow::Owned).collect()),
            },
            Self::Bool(_) | Self::Other => None,
        }
    }
}

impl<'a> Lists<'a> {
    fn list(self, key: &str) -> Result<Option<Vec<Cow<'a, str>>>, String> {
        let list = |value: Value<'a>| value.list().ok_or_else(|| format!("`{key}` is no list of texts"));
        self.upper.or(self.lower).map(list).transpose()
    }
}

impl<'de> Deserialize<'de> for Row<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(RowVisitor)
    }
}

struct RowVisitor;

impl<'de> Visitor<'de> for RowVisitor {
    type Value = Row<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a row")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut row = Row::default();
        while let Some(key) = map.next_key::<Value<'de>>()? {
            let Value::Text(key) = key else { continue };
            let slot = match &*key {
                "FAIL_TO_PASS" => &mut row.fail_to_pass.upper,
                "fail_to_pass" => &mut row.fail_to_pass.lower,
                "PASS_TO_PASS" => &mut row.pass_to_pass.upper,
                "pass_to_pass" => &mut row.pass_to_pass.lower,
                "repo" => &mut row.repo,
                "image_name" => &mut row.image_name,
                "patch" => &mut row.patch,
                "test_patch" => &mut row.test_patch,
                "workdir" => &mut row.workdir,
                "p2p_only" => &mut row.p2p_only,
                "surface" => {
                    row.surface = Some(map.next_value()?);
                    continue;
                }
                "framework" => {
                    row.framework = Some(map.next_value()?);
                    continue;
                }
                _ => &mut None,
            };
            *slot = Some(map.next_value()?);
        }
        Ok(row)
    }
}

impl<'de> Deserialize<'de> for Value<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(Value::Other)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(Value::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Value::Other)
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Value::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Value::Text(Cow::Borrowed(text)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut texts = Some(Vec::new());
        while let Some(item) = items.next_element::<Value<'de>>()? {
            match (item.text(), &mut texts) {
                (Some(text), Some(texts)) => texts.push(text),
                _ => texts = None,
            }
        }
        Ok(texts.map_or(Value::Other, Value::List))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<Value<'de>, Value<'de>>()?.is_some() {}
        Ok(Value::Other)
    }
}

/// The texts of a Python list of string literals.
fn python_list(text: &str) -> Option<Vec<String>> {
    let inner = text.trim().strip_prefix('[')?.strip_suffix(']')?;
    let mut items = Vec::new();
    let mut chars = inner.chars();
    loop {
        let quote = match chars.next() {
            None => return Some(items),
            Some(c) if c.is_whitespace() || c == ',' => continue,
            Some(quote @ ('\'' | '"')) => quote,
            Some(_) => return None,
        };
        let mut item = String::new();
        loop {
            match chars.next()? {
                c if c == quote => break,
                '\\' => match chars.next()? {
                    'n' => item.push('\n'),
                    't' => item.push('\t'),
                    c @ ('\\' | '\'' | '"') => item.push(c),
                    // Other escapes stay as they are: ids are only shown and compared.
                    c => item.extend(['\\', c]),
                },
                c => item.push(c),
            }
        }
        items.push(item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Instance<'_> {
        Instance::read(text.as_bytes()).unwrap().unwrap()
    }

    #[test]
    fn rows_of_every_origin_are_read() {
        let own = read(
            r#"{"schema": "x", "fail_to_pass": ["t/test_a.py::x", "/w/t/test_a.py::y[a b.c]", "src/b.py::b"], "workdir": "/w", "pass_to_pass": []}"#,
        );
        assert_eq!(own.open_files().collect::<Vec<_>>(), ["src/b.py"]);
        assert_eq!(own.hidden_files(), ["t/test_a.py"]);
        assert_eq!(own.pass_to_pass, Some(vec![]));
        let go = read(
            r#"{"schema": "x", "framework": "go", "fail_to_pass": ["TestA/b.c::d"], "pass_to_pass": ["TestB"], "workdir": "/w"}"#,
        );
        assert_eq!(go.deciding, []);
        let smith =
            read(r#"{"repo": "swesmith/a__b.1", "patch": "x", "FAIL_TO_PASS": "[\"a\"]", "test_patch": ""}"#);
        assert_eq!(smith.patch, Some(("x".into(), Direction::Breaks)));
        assert_eq!(smith.fail_to_pass, Some(vec!["a".into()]));
        assert_eq!(smith.pass_to_pass, None);
        let bench =
            read(r#"{"repo": "a/b", "patch": "x", "test_patch": "y", "fail_to_pass": "['it\\'s', \"b\"]"}"#);
        assert_eq!(bench.patch, Some(("x".into(), Direction::Repairs)));
        assert_eq!(bench.fail_to_pass, Some(vec!["it's".into(), "b".into()]));
    }

    #[test]
    fn other_files_are_told_from_broken_ones() {
        assert_eq!(Instance::read(b"{\"threshold\": 3}"), Ok(None));
        assert_eq!(Instance::read(b"[]"), Ok(None));
        for text in
            ["", "{", r#"{"FAIL_TO_PASS": 3}"#, r#"{"FAIL_TO_PASS": [1]}"#, r#"{"FAIL_TO_PASS": "a"}"#]
        {
            assert!(Instance::read(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn the_last_of_equal_keys_and_the_name_in_capitals_count() {
        let row = read(r#"{"FAIL_TO_PASS": 3, "FAIL_TO_PASS": ["a\u00e9\n", "b"], "fail_to_pass": 4}"#);
        assert_eq!(row.fail_to_pass, Some(vec!["a\u{e9}\n".into(), "b".into()]));
        assert!(matches!(&row.fail_to_pass.unwrap()[..], [Cow::Owned(_), Cow::Borrowed(_)]));
    }

    #[test]
    fn damage_is_noticed_wherever_it_stands_and_told_in_the_words_of_the_parser() {
        let deep = "[".repeat(200);
        for part in [r#""\ud800""#, "1e999", "[1,]", "{3: 4}", "nul", "\"a\nb\"", &deep] {
            for text in
                [format!("{{\"x\": {part}}}"), format!("{{\"PASS_TO_PASS\": {part}}}"), format!("[{part}]")]
            {
                let expected = serde_json::from_str::<serde_json::Value>(&text).unwrap_err().to_string();
                assert_eq!(Instance::read(text.as_bytes()), Err(expected), "{text}");
            }
        }
        let invalid = b"{\"x\": \"\xff\"} x";
        let expected = serde_json::from_slice::<serde_json::Value>(invalid).unwrap_err().to_string();
        assert_eq!(Instance::read(invalid), Err(expected));
    }
}
