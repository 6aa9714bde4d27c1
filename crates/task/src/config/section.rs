//! One table of `task.toml`, read key by key: what is left over in the end is unknown.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::names::near;
use super::problem::{ConfigProblem, ProblemKind};

/// Collects problems with the place they stand at.
pub(super) struct Report<'a> {
    text: &'a str,
    problems: RefCell<Vec<ConfigProblem>>,
}

impl<'a> Report<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, problems: RefCell::default() }
    }

    pub(super) fn add(
        &self,
        kind: ProblemKind,
        key: String,
        span: &Range<usize>,
        message: impl Into<String>,
    ) {
        self.push(kind, key, span, message.into(), None);
    }

    fn push(
        &self,
        kind: ProblemKind,
        key: String,
        span: &Range<usize>,
        message: String,
        near: Option<String>,
    ) {
        let (line, column) = place(self.text, span.start);
        self.problems.borrow_mut().push(ConfigProblem { kind, key, line, column, message, near });
    }

    /// Everything that was reported, in order of place.
    pub(super) fn finish(self) -> Vec<ConfigProblem> {
        let mut problems = self.problems.into_inner();
        problems.sort_by(|a, b| (a.line, a.column, &a.key).cmp(&(b.line, b.column, &b.key)));
        problems
    }
}

/// Line and column, both counted from 1, of a byte offset.
pub(super) fn place(text: &str, offset: usize) -> (u32, u32) {
    let mut end = offset.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let before = &text[..end];
    let line = before.bytes().filter(|&b| b == b'\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (line as u32, column as u32)
}

/// The bounds of a number that is a limit.
#[derive(Clone, Copy)]
pub(super) enum Bound {
    /// Finite and above zero.
    Positive,
    /// Finite and not below zero.
    NotNegative,
    /// Finite.
    Finite,
}

impl Bound {
    fn complaint(self, value: f64) -> Option<String> {
        let fine = value.is_finite()
            && match self {
                Self::Positive => value > 0.0,
                Self::NotNegative => value >= 0.0,
                Self::Finite => true,
            };
        let wanted = match self {
            Self::Positive => "a finite number above 0",
            Self::NotNegative => "a finite number, 0 or more",
            Self::Finite => "a finite number",
        };
        (!fine).then(|| format!("is {value}; it must be {wanted}"))
    }
}

pub(super) type Value<'i> = Spanned<DeValue<'i>>;

/// One table on its way to a typed value.
pub(super) struct Section<'r, 't, 'i> {
    report: &'r Report<'r>,
    table: &'t DeTable<'i>,
    path: String,
    span: Range<usize>,
    asked: RefCell<BTreeSet<&'static str>>,
}

impl<'r, 't, 'i> Section<'r, 't, 'i> {
    pub(super) fn new(
        report: &'r Report<'r>,
        table: &'t DeTable<'i>,
        path: String,
        span: Range<usize>,
    ) -> Self {
        Self { report, table, path, span, asked: RefCell::default() }
    }

    /// The key with its path.
    pub(super) fn key(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// The value of a known key.
    pub(super) fn get(&self, key: &'static str) -> Option<&'t Value<'i>> {
        self.asked.borrow_mut().insert(key);
        self.table.get(key)
    }

    pub(super) fn invalid(&self, key: &str, value: &Value<'_>, message: impl Into<String>) {
        self.report.add(ProblemKind::Invalid, self.key(key), &value.span(), message);
    }

    pub(super) fn dropped(&self, key: &str, value: &Value<'_>, message: impl Into<String>) {
        self.report.add(ProblemKind::Dropped, self.key(key), &value.span(), message);
    }

    fn missing(&self, key: &str) {
        self.report.add(ProblemKind::Invalid, self.key(key), &self.span, "is missing");
    }

    pub(super) fn string(&self, key: &'static str) -> Option<String> {
        let value = self.get(key)?;
        let text = value.get_ref().as_str().map(str::to_owned);
        if text.is_none() {
            self.invalid(key, value, format!("is {}; it must be a text", kind(value)));
        }
        text
    }

    /// A text that must be there; an empty one stands in for a missing one, which is reported.
    pub(super) fn required(&self, key: &'static str) -> String {
        if self.table.get(key).is_none() {
            self.get(key);
            self.missing(key);
        }
        self.string(key).unwrap_or_default()
    }

    /// One of a few words; compared as they are, or without regard to case.
    pub(super) fn word<T: Copy>(&self, key: &'static str, words: &[(&str, T)]) -> Option<T> {
        let text = self.string(key)?;
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, meaning)| *meaning);
        if found.is_none() {
            let choices: Vec<_> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
            let value = self.get(key)?;
            self.invalid(key, value, format!("is `{text}`; it must be one of {}", choices.join(", ")));
        }
        found
    }

    /// A number; a text that holds one is accepted, as Harbor does.
    pub(super) fn number(&self, key: &'static str, bound: Bound) -> Option<f64> {
        let value = self.get(key)?;
        let Some(number) = number_of(value.get_ref()) else {
            self.invalid(key, value, format!("is {}; it must be a number", kind(value)));
            return None;
        };
        if let Some(complaint) = bound.complaint(number) {
            self.report.add(ProblemKind::Limit, self.key(key), &value.span(), complaint);
            return None;
        }
        Some(number)
    }

    /// A whole number; `2.0` and a text that holds one are accepted, as Harbor does.
    pub(super) fn whole(&self, key: &'static str, bound: Bound) -> Option<u64> {
        let number = self.number(key, bound)?;
        if number.fract() == 0.0 && (0.0..9e15).contains(&number) {
            return Some(number as u64);
        }
        let value = self.get(key)?;
        self.invalid(key, value, format!("is {number}; it must be a whole number"));
        None
    }

    pub(super) fn boolean(&self, key: &'static str) -> Option<bool> {
        let value = self.get(key)?;
        let read = match value.get_ref() {
            DeValue::Boolean(boolean) => Some(*boolean),
            DeValue::String(text) => match text.to_ascii_lowercase().as_str() {
                "true" | "yes" | "on" | "1" => Some(true),
                "false" | "no" | "off" | "0" => Some(false),
                _ => None,
            },
            _ => None,
        };
        if read.is_none() {
            self.invalid(key, value, format!("is {}; it must be true or false", kind(value)));
        }
        read
    }

    /// A user: a name or a number.
    pub(super) fn user(&self, key: &'static str) -> Option<String> {
        match self.get(key)?.get_ref() {
            DeValue::Integer(number) => Some(number.to_string()),
            _ => self.string(key),
        }
    }

    pub(super) fn strings(&self, key: &'static str) -> Option<Vec<String>> {
        let value = self.get(key)?;
        let Some(items) = value.get_ref().as_array() else {
            self.invalid(key, value, format!("is {}; it must be a list of texts", kind(value)));
            return None;
        };
        let mut texts = Vec::new();
        for (index, item) in items.iter().enumerate() {
            match item.get_ref().as_str() {
                Some(text) => texts.push(text.to_owned()),
                None => {
                    self.invalid(
                        &format!("{key}[{index}]"),
                        item,
                        format!("is {}; it must be a text", kind(item)),
                    );
                }
            }
        }
        Some(texts)
    }

    /// A table of free keys with text values.
    pub(super) fn texts(&self, key: &'static str) -> BTreeMap<String, String> {
        let mut texts = BTreeMap::new();
        let Some(value) = self.get(key) else { return texts };
        let Some(table) = value.get_ref().as_table() else {
            self.invalid(key, value, format!("is {}; it must be a table", kind(value)));
            return texts;
        };
        for (name, value) in table {
            match value.get_ref().as_str() {
                Some(text) => {
                    texts.insert(name.get_ref().to_string(), text.to_owned());
                }
                None => self.invalid(
                    &format!("{key}.{}", name.get_ref()),
                    value,
                    format!("is {}; it must be a text", kind(value)),
                ),
            }
        }
        texts
    }

    /// The whole table as numbers under free keys.
    pub(super) fn free_numbers(self) -> BTreeMap<String, f64> {
        let mut numbers = BTreeMap::new();
        for (key, value) in self.table {
            match number_of(value.get_ref()).filter(|number| number.is_finite()) {
                Some(number) => {
                    numbers.insert(key.get_ref().to_string(), number);
                }
                None => self.invalid(key.get_ref(), value, "must be a finite number"),
            }
        }
        numbers
    }

    /// A table inside this one.
    pub(super) fn section(&self, key: &'static str) -> Option<Section<'r, 't, 'i>> {
        let value = self.get(key)?;
        let table = value.get_ref().as_table();
        if table.is_none() {
            self.invalid(key, value, format!("is {}; it must be a table", kind(value)));
        }
        Some(Section::new(self.report, table?, self.key(key), value.span()))
    }

    /// The items of a list, each with its own key.
    pub(super) fn items(&self, key: &'static str) -> Vec<(String, &'t Value<'i>)> {
        let Some(value) = self.get(key) else { return Vec::new() };
        let Some(items) = value.get_ref().as_array() else {
            self.invalid(key, value, format!("is {}; it must be a list", kind(value)));
            return Vec::new();
        };
        items.iter().enumerate().map(|(index, item)| (format!("{key}[{index}]"), item)).collect()
    }

    /// The items of a list of tables.
    pub(super) fn sections(&self, key: &'static str) -> Vec<Section<'r, 't, 'i>> {
        let mut sections = Vec::new();
        for (name, item) in self.items(key) {
            match self.section_of(&name, item) {
                Some(section) => sections.push(section),
                None => self.invalid(&name, item, format!("is {}; it must be a table", kind(item))),
            }
        }
        sections
    }

    /// The item of a list as a table, if it is one.
    pub(super) fn section_of(&self, name: &str, item: &'t Value<'i>) -> Option<Section<'r, 't, 'i>> {
        let table = item.get_ref().as_table()?;
        Some(Section::new(self.report, table, self.key(name), item.span()))
    }

    /// Reports every key that nobody asked for.
    pub(super) fn finish(self) {
        let asked = self.asked.into_inner();
        for (key, value) in self.table {
            if !asked.contains(key.get_ref().as_ref()) {
                let near = near(key.get_ref(), asked.iter().copied()).map(str::to_owned);
                let what = if matches!(value.get_ref(), DeValue::Table(_)) { "table" } else { "key" };
                let path = if self.path.is_empty() {
                    key.get_ref().to_string()
                } else {
                    format!("{}.{}", self.path, key.get_ref())
                };
                let message = format!("is an unknown {what} and has no effect");
                self.report.push(ProblemKind::UnknownKey, path, &key.span(), message, near);
            }
        }
    }
}

fn number_of(value: &DeValue<'_>) -> Option<f64> {
    match value {
        DeValue::Integer(number) => {
            i64::from_str_radix(number.as_str(), number.radix()).ok().map(|number| number as f64)
        }
        DeValue::Float(number) => number.as_str().parse().ok(),
        DeValue::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// What a value is, for messages.
pub(super) fn kind(value: &Value<'_>) -> &'static str {
    match value.get_ref() {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
