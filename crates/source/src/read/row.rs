//! One row's fields, taken out with their types checked.

use std::collections::BTreeMap;
use std::sync::Arc;

use ident::TaskId;
use serde_json::Value;

use super::json::strict_fields;
use super::{Place, RowFault, RowProblem, mend_surrogates, scan, strict_value};

/// What becomes of half a surrogate pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Surrogates {
    /// The row is refused: its text would decide what a task is.
    Refuse,
    /// It is replaced by U+FFFD and counted: the text is evidence only.
    Mend,
}

/// What is wrong with which field of a row.
#[derive(Debug)]
pub(crate) struct FieldFault {
    /// The field; none for the row as a whole.
    pub field: Option<String>,
    /// What is wrong.
    pub problem: RowProblem,
    /// Where in the row's bytes, when that is known.
    pub offset: Option<usize>,
}

impl FieldFault {
    pub(crate) fn new(field: &str, problem: impl Into<RowProblem>) -> Self {
        Self { field: Some(field.to_owned()), problem: problem.into(), offset: None }
    }

    /// A value that the field cannot have.
    pub(crate) fn value(field: &str, detail: impl Into<String>) -> Self {
        Self::new(field, RowProblem::Value(detail.into()))
    }

    /// A fault of the row as a whole.
    pub(crate) fn row(problem: RowProblem) -> Self {
        Self { field: None, problem, offset: None }
    }

    fn whole((offset, problem): (usize, RowProblem)) -> Self {
        Self { field: None, problem, offset: Some(offset) }
    }

    /// Ties the fault to its row.
    pub(crate) fn at(self, file: &Arc<str>, place: Place, offset: u64, id: Option<String>) -> RowFault {
        let offset = offset + self.offset.unwrap_or_default() as u64;
        RowFault { file: Arc::clone(file), place, offset, id, field: self.field, problem: self.problem }
    }
}

/// The wanted fields of one row.
#[derive(Debug)]
pub(crate) struct Row {
    names: &'static [&'static str],
    /// One for each name; none for a field that the row does not have.
    cells: Vec<Option<Value>>,
    /// Whether the format knows other types than text.
    typed: bool,
    /// Names of the fields that nobody asked for.
    pub others: Vec<String>,
    /// How many lone surrogates were replaced.
    pub mended: usize,
}

impl Row {
    /// A row of a format that knows types, with one cell for each of `names`.
    pub(crate) fn typed(names: &'static [&'static str], cells: Vec<Option<Value>>) -> Self {
        Self { names, cells, typed: true, others: Vec::new(), mended: 0 }
    }

    /// A row of a format that knows nothing but text, with one cell for each of `names`.
    pub(crate) fn untyped(names: &'static [&'static str], cells: Vec<Option<Value>>) -> Self {
        Self { typed: false, ..Self::typed(names, cells) }
    }

    /// A row that is one text, which stands in the field `name`.
    pub(crate) fn line(bytes: &[u8], names: &'static [&'static str], name: &str) -> Result<Self, FieldFault> {
        let text = std::str::from_utf8(bytes)
            .map_err(|error| FieldFault::whole((error.valid_up_to(), RowProblem::NotUtf8)))?;
        Ok(Self::one(names, name, &Value::from(text)))
    }

    fn one(names: &'static [&'static str], name: &str, value: &Value) -> Self {
        let cells = names.iter().map(|known| (*known == name).then(|| value.clone())).collect();
        Self::typed(names, cells)
    }

    /// Reads the wanted fields of an object.
    pub(crate) fn object(
        bytes: &[u8],
        names: &'static [&'static str],
        rule: Surrogates,
    ) -> Result<Self, FieldFault> {
        let (text, mended) = checked_text(bytes, rule)?;
        if !text.trim_start().starts_with('{') {
            let value = strict_value(&text).map_err(FieldFault::whole)?;
            let problem = RowProblem::WrongType { expected: "an object", found: kind(&value) };
            return Err(FieldFault { field: None, problem, offset: None });
        }
        let fields = strict_fields(&text, names).map_err(FieldFault::whole)?;
        Ok(Self { others: fields.others, mended, ..Self::typed(names, fields.wanted) })
    }

    /// Reads a row that may be a bare text: it then stands in the field `name`.
    pub(crate) fn text_or_object(
        bytes: &[u8],
        names: &'static [&'static str],
        name: &str,
        rule: Surrogates,
    ) -> Result<Self, FieldFault> {
        if !bytes.starts_with(b"\"") {
            return Self::object(bytes, names, rule);
        }
        let (text, mended) = checked_text(bytes, rule)?;
        let value = strict_value(&text).map_err(FieldFault::whole)?;
        Ok(Self { mended, ..Self::one(names, name, &value) })
    }

    fn cell(&self, field: &str) -> Option<&Value> {
        let at = self.names.iter().position(|name| *name == field)?;
        self.cells.get(at)?.as_ref()
    }

    /// Whether the row has the field, null included.
    pub(crate) fn has(&self, field: &str) -> bool {
        self.cell(field).is_some()
    }

    /// The field's text, to name a row that is refused.
    pub(crate) fn peek(&self, field: &str) -> Option<String> {
        self.cell(field).and_then(Value::as_str).map(shortened)
    }

    /// A text that must be there.
    pub(crate) fn text(&mut self, field: &str) -> Result<String, FieldFault> {
        match self.take(field)? {
            Value::String(text) => Ok(text),
            other => Err(wrong_type(field, "a text", &other)),
        }
    }

    /// A text that may be null or absent.
    pub(crate) fn optional_text(&mut self, field: &str) -> Result<Option<String>, FieldFault> {
        self.optional(field, Self::text)
    }

    /// A task id.
    pub(crate) fn task_id(&mut self, field: &str) -> Result<TaskId, FieldFault> {
        TaskId::new(self.text(field)?).map_err(|error| FieldFault::new(field, error))
    }

    /// True or false.
    pub(crate) fn boolean(&mut self, field: &str) -> Result<bool, FieldFault> {
        match self.take(field)? {
            Value::Bool(value) => Ok(value),
            Value::String(text) if !self.typed => match text.as_str() {
                "true" | "True" => Ok(true),
                "false" | "False" => Ok(false),
                _ => Err(FieldFault::value(field, format!("is {text:?}; expected true or false"))),
            },
            other => Err(wrong_type(field, "true or false", &other)),
        }
    }

    /// A number.
    pub(crate) fn number(&mut self, field: &str) -> Result<f64, FieldFault> {
        let value = self.take(field)?;
        if let Value::String(text) = &value
            && !self.typed
        {
            let number: f64 = text.parse().map_err(|_| wrong_type(field, "a number", &value))?;
            return match non_finite(number) {
                None => Ok(number),
                Some(token) => Err(FieldFault::new(field, RowProblem::NonFinite(token))),
            };
        }
        value.as_f64().ok_or_else(|| wrong_type(field, "a number", &value))
    }

    /// A whole number from 0, or nothing.
    pub(crate) fn optional_count(&mut self, field: &str) -> Result<Option<u64>, FieldFault> {
        self.optional(field, |row, field| {
            let value = row.take(field)?;
            value.as_u64().ok_or_else(|| match value {
                Value::Number(number) => {
                    FieldFault::value(field, format!("is {number}; expected a whole number"))
                }
                other => wrong_type(field, "a whole number", &other),
            })
        })
    }

    /// A list of texts; with `encoded`, also such a list as JSON inside a text, as SWE-bench writes it.
    pub(crate) fn texts(&mut self, field: &str, encoded: bool) -> Result<Vec<String>, FieldFault> {
        const EXPECTED: &str = "a list of texts";
        let list = match self.take(field)? {
            Value::Array(list) => list,
            Value::String(text) if encoded => {
                if let Some(&at) = scan(text.as_bytes()).surrogates.first() {
                    return Err(FieldFault::new(
                        field,
                        RowProblem::LoneSurrogate(text[at..at + 4].to_owned()),
                    ));
                }
                match strict_value(&text) {
                    Ok(Value::Array(list)) => list,
                    Ok(other) => return Err(wrong_type(field, EXPECTED, &other)),
                    Err(_) => {
                        let detail = "is a text that holds no JSON list; write a list of texts";
                        return Err(FieldFault::value(field, detail));
                    }
                }
            }
            other => return Err(wrong_type(field, EXPECTED, &other)),
        };
        let texts = list.into_iter().enumerate().map(|(at, item)| match item {
            Value::String(text) => Ok(text),
            other => Err(wrong_type(&format!("{field}[{at}]"), "a text", &other)),
        });
        texts.collect()
    }

    /// A list of texts, empty when absent or null.
    pub(crate) fn optional_texts(&mut self, field: &str) -> Result<Vec<String>, FieldFault> {
        Ok(self.optional(field, |row, field| row.texts(field, false))?.unwrap_or_default())
    }

    /// A map of texts, empty when absent or null.
    pub(crate) fn optional_text_map(&mut self, field: &str) -> Result<BTreeMap<String, String>, FieldFault> {
        let map = self.optional(field, |row, field| match row.take(field)? {
            Value::Object(map) => Ok(map),
            other => Err(wrong_type(field, "an object of texts", &other)),
        })?;
        let texts = map.unwrap_or_default().into_iter().map(|(key, value)| match value {
            Value::String(text) => Ok((key, text)),
            other => Err(wrong_type(&format!("{field}.{key}"), "a text", &other)),
        });
        texts.collect()
    }

    fn take(&mut self, field: &str) -> Result<Value, FieldFault> {
        let at = self.names.iter().position(|name| *name == field);
        let cell = at.and_then(|at| self.cells.get_mut(at)).and_then(Option::take);
        cell.ok_or_else(|| FieldFault::new(field, RowProblem::Missing))
    }

    fn optional<T>(
        &mut self,
        field: &str,
        read: impl FnOnce(&mut Self, &str) -> Result<T, FieldFault>,
    ) -> Result<Option<T>, FieldFault> {
        match self.cell(field) {
            None | Some(Value::Null) => Ok(None),
            Some(_) => read(self, field).map(Some),
        }
    }
}

/// How a number that is not finite is called.
pub(crate) fn non_finite(number: f64) -> Option<&'static str> {
    match number {
        _ if number.is_finite() => None,
        f64::INFINITY => Some("Infinity"),
        f64::NEG_INFINITY => Some("-Infinity"),
        _ => Some("NaN"),
    }
}

/// Text of a row, and how many lone surrogates were replaced in it.
fn checked_text(bytes: &[u8], rule: Surrogates) -> Result<(String, usize), FieldFault> {
    let scan = scan(bytes);
    if let Some((offset, token)) = scan.non_finite {
        return Err(FieldFault::whole((offset, RowProblem::NonFinite(token))));
    }
    let mut bytes = bytes.to_vec();
    if let Some(&at) = scan.surrogates.first() {
        if rule == Surrogates::Refuse {
            let digits = String::from_utf8_lossy(&bytes[at..at + 4]).into_owned();
            return Err(FieldFault::whole((at - 2, RowProblem::LoneSurrogate(digits))));
        }
        mend_surrogates(&mut bytes, &scan);
    }
    let text = String::from_utf8(bytes)
        .map_err(|error| FieldFault::whole((error.utf8_error().valid_up_to(), RowProblem::NotUtf8)))?;
    Ok((text, scan.surrogates.len()))
}

/// The id of a row that does not parse, as far as its bytes show one.
pub(crate) fn salvage_id(bytes: &[u8], field: &str) -> Option<String> {
    let key = format!("\"{field}\"");
    let at = bytes.windows(key.len()).position(|window| window == key.as_bytes())?;
    let rest = bytes[at + key.len()..].trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
    let text = rest.strip_prefix(b"\"")?;
    let end = text.iter().position(|&byte| byte == b'"' || byte == b'\\')?;
    Some(shortened(&String::from_utf8_lossy(&text[..end])))
}

fn shortened(text: &str) -> String {
    if text.chars().count() > TaskId::MAX_BYTES {
        text.chars().take(60).chain(['…']).collect()
    } else {
        text.to_owned()
    }
}

fn wrong_type(field: &str, expected: &'static str, found: &Value) -> FieldFault {
    FieldFault::new(field, RowProblem::WrongType { expected, found: kind(found) })
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(text: &str) -> Row {
        Row::object(text.as_bytes(), &["a", "b", "c"], Surrogates::Refuse).unwrap()
    }

    #[test]
    fn lists_may_be_encoded_in_a_text() {
        let mut encoded = row(r#"{"a": "[\"t::x\", \"t::é\"]", "b": ["t::x", "t::é"]}"#);
        assert_eq!(encoded.texts("a", true).unwrap(), encoded.texts("b", true).unwrap());
        for (text, field) in [
            (r#"{"a": "['t']"}"#, "a"),
            (r#"{"a": "{}"}"#, "a"),
            (r#"{"a": ["t", 1]}"#, "a[1]"),
            (r#"{"a": null}"#, "a"),
            (r#"{"a": "[\"\\ud83d\"]"}"#, "a"),
        ] {
            assert_eq!(row(text).texts("a", true).unwrap_err().field.as_deref(), Some(field), "{text}");
        }
        assert!(row(r#"{"a": "[]"}"#).texts("a", false).is_err());
    }

    #[test]
    fn missing_null_and_mistyped_fields_are_told_apart() {
        assert_eq!(row("{}").text("a").unwrap_err().problem, RowProblem::Missing);
        let null = row(r#"{"a": null}"#).text("a").unwrap_err().problem;
        assert_eq!(null, RowProblem::WrongType { expected: "a text", found: "null" });
        assert_eq!(row(r#"{"a": null}"#).optional_text("a").unwrap(), None);
        assert!(row(r#"{"a": 1}"#).optional_text("a").is_err());
        assert!(row(r#"{"a": -1}"#).optional_count("a").is_err());
        assert!(row(r#"{"a": 1.5}"#).optional_count("a").is_err());
        assert!(row(r#"{"a": {"x": 1}}"#).optional_text_map("a").is_err());
    }

    #[test]
    fn texts_stand_for_other_types_only_where_there_is_nothing_else() {
        let cells = |text: &str| vec![Some(Value::from(text)), None, None];
        let untyped = |text: &str| Row::untyped(&["a", "b", "c"], cells(text));
        assert!(untyped("True").boolean("a").unwrap());
        assert!(!untyped("false").boolean("a").unwrap());
        assert!(untyped("yes").boolean("a").is_err());
        assert_eq!(untyped("0.9999999999999999").number("a").unwrap().to_bits(), 1.0_f64.to_bits() - 1);
        assert_eq!(untyped("nan").number("a").unwrap_err().problem, RowProblem::NonFinite("NaN"));
        assert!(untyped("1,0").number("a").is_err());
        assert!(Row::typed(&["a", "b", "c"], cells("true")).boolean("a").is_err());
        assert!(Row::typed(&["a", "b", "c"], cells("1")).number("a").is_err());
    }

    #[test]
    fn rows_that_are_no_objects_say_what_they_are() {
        let error = Row::object(b"[1]", &["a"], Surrogates::Refuse).unwrap_err();
        assert_eq!(error.problem, RowProblem::WrongType { expected: "an object", found: "a list" });
        let error = Row::object(b"{\"a\": \"\xff\"}", &["a"], Surrogates::Refuse).unwrap_err();
        assert_eq!((error.problem, error.offset), (RowProblem::NotUtf8, Some(7)));
    }

    #[test]
    fn an_id_is_salvaged_from_a_cut_row() {
        assert_eq!(salvage_id(br#"{"id" : "a.1", "patch": "di"#, "id").as_deref(), Some("a.1"));
        assert_eq!(salvage_id(br#"{"id": "a."#, "id"), None);
        assert_eq!(salvage_id(b"", "id"), None);
    }
}
