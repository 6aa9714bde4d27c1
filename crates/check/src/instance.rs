//! What a task says about the tests that decide: `tests/config.json`, in this program's form or as an instance row.

use std::collections::BTreeSet;

use grade::{Framework, Surface};
use serde::Deserialize as _;
use serde_json::Value;

/// Where it stands.
pub(crate) const PATH: &[u8] = b"tests/config.json";

/// The part of `tests/config.json` that the rules look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Instance {
    /// The repository as the row names it, where it does.
    pub(crate) repo: Option<String>,
    /// Tests that fail before the fix; `None` where the key is absent.
    pub(crate) fail_to_pass: Option<Vec<String>>,
    /// Tests that pass before and after; `None` where the key is absent.
    pub(crate) pass_to_pass: Option<Vec<String>>,
    /// Whether an empty list of failing tests is meant.
    pub(crate) regressions_only: bool,
    /// Which files of the workspace are tests or steer them.
    pub(crate) surface: Surface,
    /// What runs the tests, where that is said; ids are read as its own.
    pub(crate) framework: Option<Framework>,
    /// Where the workspace is in the container, where that is said.
    pub(crate) workdir: Option<String>,
    /// The patch of the row, and whether it brings the bug in (as in SWE-smith) or repairs it (as in SWE-bench).
    pub(crate) patch: Option<(String, Direction)>,
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

impl Instance {
    /// Reads the bytes of the file. `Err` says why they cannot be used; `Ok(None)` means that the file is about
    /// something else.
    pub(crate) fn read(bytes: &[u8]) -> Result<Option<Self>, String> {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let row: Value = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        let Value::Object(mut row) = row else { return Ok(None) };
        let mut either = |lower: &str, upper: &'static str| {
            let value = row.remove(upper).or_else(|| row.remove(lower));
            value.map(|value| list(upper, value)).transpose()
        };
        let fail_to_pass = either("fail_to_pass", "FAIL_TO_PASS")?;
        let pass_to_pass = either("pass_to_pass", "PASS_TO_PASS")?;
        if fail_to_pass.is_none() && pass_to_pass.is_none() {
            return Ok(None);
        }
        let text = |key: &str| row.get(key).and_then(Value::as_str);
        let smith = |key: &str| text(key).is_some_and(|value| value.contains("swesmith"));
        // SWE-bench rows carry the tests as a patch of their own; SWE-smith rows have none, and older ones have a
        // base commit like SWE-bench's.
        let breaks = smith("repo") || smith("image_name") || !row.contains_key("test_patch");
        let direction = if breaks { Direction::Breaks } else { Direction::Repairs };
        let mut instance = Self {
            repo: text("repo").map(str::to_owned),
            fail_to_pass,
            pass_to_pass,
            surface: row
                .get("surface")
                .and_then(|surface| Surface::deserialize(surface).ok())
                .unwrap_or_else(Surface::pytest),
            framework: row.get("framework").and_then(|framework| Framework::deserialize(framework).ok()),
            workdir: text("workdir").map(str::to_owned),
            regressions_only: row.get("p2p_only").and_then(Value::as_bool).unwrap_or(false),
            patch: text("patch").map(|patch| (patch.to_owned(), direction)),
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
    pub(crate) fn file_of<'a>(&self, id: &'a str) -> Option<&'a str> {
        let file = self.framework.unwrap_or(Framework::Pytest).file_of(id)?;
        let inside = self.workdir.as_deref().and_then(|workdir| file.strip_prefix(workdir));
        let file = inside.map_or(file, |rest| rest.trim_start_matches('/'));
        (file.contains('.') && !file.contains(char::is_whitespace)).then_some(file)
    }
}

/// The bare name of a test: behind the last `::`, without parameters.
pub(crate) fn test_name(id: &str) -> &str {
    let id = id.split('[').next().unwrap_or(id);
    id.rsplit("::").next().unwrap_or(id)
}

/// A list of texts: as JSON, as JSON inside a text, or as a Python list inside a text.
fn list(key: &str, value: Value) -> Result<Vec<String>, String> {
    let wrong = || format!("`{key}` is no list of texts");
    let text = |item| match item {
        Value::String(text) => Ok(text),
        _ => Err(wrong()),
    };
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Array(items) => items.into_iter().map(text).collect(),
        Value::String(text) => match serde_json::from_str(&text) {
            Ok(inner @ Value::Array(_)) => list(key, inner),
            Ok(_) => Err(wrong()),
            Err(_) => python_list(&text).ok_or_else(wrong),
        },
        _ => Err(wrong()),
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

    fn read(text: &str) -> Instance {
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
}
