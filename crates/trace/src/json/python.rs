//! JSON as Python's `json.dumps(…, ensure_ascii=False)` writes it, which trace rows of other tools hold.

use std::fmt::Write as _;

use job::python_float;

use super::Json;

/// Writes a value on one line, with `", "` and `": "`.
pub(crate) fn compact(value: &Json<'_>, out: &mut String) {
    write(value, None, out);
}

/// Writes a value over several lines, two blanks a level.
pub(crate) fn indented(value: &Json<'_>, out: &mut String) {
    write(value, Some(0), out);
}

fn write(value: &Json<'_>, indent: Option<usize>, out: &mut String) {
    match value {
        Json::Null => out.push_str("null"),
        Json::Bool(true) => out.push_str("true"),
        Json::Bool(false) => out.push_str("false"),
        Json::Number(text) => number(text, out),
        Json::Text(content) => text(content, out),
        Json::List(items) => {
            sequence(('[', ']'), items, indent, out, |item, indent, out| write(item, indent, out));
        }
        Json::Object(entries) => sequence(('{', '}'), entries, indent, out, |(key, value), indent, out| {
            text(key, out);
            out.push_str(": ");
            write(value, indent, out);
        }),
    }
}

fn sequence<T>(
    (open, close): (char, char),
    items: &[T],
    indent: Option<usize>,
    out: &mut String,
    each: impl Fn(&T, Option<usize>, &mut String),
) {
    let inner = indent.map(|indent| indent + 2);
    let new_line = |indent: Option<usize>, out: &mut String| {
        if let Some(indent) = indent {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent));
        }
    };
    out.push(open);
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push_str(if indent.is_some() { "," } else { ", " });
        }
        new_line(inner, out);
        each(item, inner, out);
    }
    if !items.is_empty() {
        new_line(indent, out);
    }
    out.push(close);
}

/// Python reads a number with a point or an exponent as a float and any other as an integer of any size.
fn number(text: &str, out: &mut String) {
    let is_float = text.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E'));
    match text.parse::<f64>() {
        Ok(value) if is_float && value.is_finite() => out.push_str(&python_float(value)),
        Ok(value) if is_float => out.push_str(if value > 0.0 { "Infinity" } else { "-Infinity" }),
        _ if text == "-0" => out.push('0'),
        _ => out.push_str(text),
    }
}

/// Writes a text with its quotes.
pub(super) fn text(text: &str, out: &mut String) {
    out.push('"');
    let mut from = 0;
    for (at, byte) in text.bytes().enumerate() {
        if !matches!(byte, b'"' | b'\\' | 0..0x20) {
            continue;
        }
        out.push_str(&text[from..at]);
        from = at + 1;
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            0x08 => out.push_str("\\b"),
            0x0c => out.push_str("\\f"),
            _ => drop(write!(out, "\\u{byte:04x}")),
        }
    }
    out.push_str(&text[from..]);
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{Mended, parse};

    #[test]
    fn writes_as_python_does() {
        let text =
            r#"{"a":[1.0,1E-7,12345678901234567890123,-0,true,null,1e400],"é":"\u0001\"\n/","o":{},"l":[]}"#;
        let value = parse(text, &mut Mended::default()).unwrap();
        let mut line = String::new();
        compact(&value, &mut line);
        assert_eq!(
            line,
            r#"{"a": [1.0, 1e-07, 12345678901234567890123, 0, true, null, Infinity], "é": "\u0001\"\n/", "o": {}, "l": []}"#
        );
        let mut lines = String::new();
        indented(&parse("[{\"a\": [1]}, []]", &mut Mended::default()).unwrap(), &mut lines);
        assert_eq!(lines, "[\n  {\n    \"a\": [\n      1\n    ]\n  },\n  []\n]");
    }
}
