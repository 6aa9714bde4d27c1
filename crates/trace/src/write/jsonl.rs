//! A row as a line of JSON.

use super::columns::sharegpt_name;
use super::{Column, Columns};
use crate::row::{Message, Row};

/// Adds a row, with the line feed behind it.
pub(crate) fn line(row: &Row, columns: &Columns, out: &mut Vec<u8>) {
    out.push(b'{');
    for (index, column) in columns.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        text(column.name(), out);
        out.push(b':');
        match (column, column.text(row)) {
            (Column::Conversations, _) if columns.is_harbor() => messages(row, out, |message, out| {
                pair(("role", message.role.name()), ("content", &message.content), out);
            }),
            (Column::Conversations, _) => messages(row, out, |message, out| {
                pair(("content", &message.content), ("role", message.role.name()), out);
            }),
            (Column::Sharegpt, _) => messages(row, out, |message, out| {
                pair(("from", sharegpt_name(message.role.name())), ("value", &message.content), out);
            }),
            // The text is JSON already.
            (Column::ToolDefinitions, Some(tools)) if columns.is_harbor() => {
                out.extend_from_slice(tools.as_bytes());
            }
            (_, Some(cell)) => text(cell, out),
            (_, None) => out.extend_from_slice(b"null"),
        }
    }
    out.extend_from_slice(b"}\n");
}

fn messages(row: &Row, out: &mut Vec<u8>, each: impl Fn(&Message, &mut Vec<u8>)) {
    out.push(b'[');
    for (index, message) in row.conversations.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        each(message, out);
    }
    out.push(b']');
}

fn pair(first: (&str, &str), second: (&str, &str), out: &mut Vec<u8>) {
    out.push(b'{');
    text(first.0, out);
    out.push(b':');
    text(first.1, out);
    out.push(b',');
    text(second.0, out);
    out.push(b':');
    text(second.1, out);
    out.push(b'}');
}

/// Writes a text with its quotes.
fn text(text: &str, out: &mut Vec<u8>) {
    serde_json::to_writer(out, text).expect("a text goes into a vector");
}
