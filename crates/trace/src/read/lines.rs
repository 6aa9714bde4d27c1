//! Rows as JSON lines.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use super::convert::{cell, messages};
use super::set::{Place, Sink, Wanted};
use super::{NO_SET, ReadReport, SkippedRow, is_conversations, is_telling, text_column};
use crate::TraceError;
use crate::json::{Mended, parse};
use crate::row::Row;
use crate::trial::text;

/// A line with more bytes is passed over.
const LINE_LIMIT: u64 = 512 << 20;

/// Reads a file of lines. A byte order mark and blank lines are skipped, and a line that is no row is reported with its place.
pub(super) fn read(
    path: &Path,
    file: std::fs::File,
    wanted: Wanted,
    report: &mut ReadReport,
    sink: &mut Sink<'_>,
) -> Result<(), TraceError> {
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let mut bytes = Vec::new();
    let (mut line, mut offset) = (0_u64, 0_u64);
    let rows_before = report.rows;
    loop {
        bytes.clear();
        let length =
            reader.by_ref().take(LINE_LIMIT).read_until(b'\n', &mut bytes).map_err(TraceError::io(path))?
                as u64;
        if length == 0 {
            return Ok(());
        }
        line += 1;
        let start = offset;
        offset += length;
        let mut skip = |why: String| {
            let place = format!("{}, line {line}, byte {start}", path.display());
            report.skipped.push(SkippedRow { place, why });
        };
        if length == LINE_LIMIT && bytes.last() != Some(&b'\n') {
            skip(format!("has more than {LINE_LIMIT} bytes"));
            offset += rest_of_line(&mut reader).map_err(TraceError::io(path))?;
            continue;
        }
        if bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes).iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let mut mended = Mended::default();
        let text = text(&bytes, &mut mended);
        let value = match parse(&text, &mut mended) {
            Ok(value) if value.is_object() => value,
            Ok(other) => {
                skip(format!("is {} instead of a row", other.kind()));
                continue;
            }
            Err(error) => {
                skip(error.to_string());
                continue;
            }
        };
        report.surrogates += mended.surrogates;
        report.not_utf8 += mended.not_utf8;
        let mut row = Row::default();
        let mut wrong = None;
        let crate::json::Json::Object(entries) = value else { continue };
        if !entries.iter().any(|(name, _)| is_telling(name)) {
            // What has no such column in its first row is something else altogether.
            if report.rows == rows_before {
                let detail = format!("{NO_SET}; line {line}");
                return Err(TraceError::NotTraces { path: path.to_owned(), detail });
            }
            skip("has no column of a row".into());
            continue;
        }
        for (name, value) in entries {
            if is_conversations(&name) {
                if wanted == Wanted::Facts {
                    continue;
                }
                match messages(value, report) {
                    Ok(messages) => row.conversations = messages,
                    Err(why) => wrong = Some(why),
                }
            } else if let Some(column) = text_column(&name) {
                column.put(&mut row, cell(&value));
            } else if name != "conversations_sharegpt" {
                report.others.insert(name.into_owned());
            }
        }
        match wrong {
            Some(why) => {
                let place = format!("{}, line {line}, byte {start}", path.display());
                report.skipped.push(SkippedRow { place, why });
            }
            None => {
                report.rows += 1;
                sink(Place { file: path, at: line, is_line: true }, row)?;
            }
        }
    }
}

/// Passes over what is left of a line, and says how long it was.
fn rest_of_line(reader: &mut impl BufRead) -> std::io::Result<u64> {
    let mut passed = 0;
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok(passed);
        }
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let length = end.map_or(buffer.len(), |end| end + 1);
        reader.consume(length);
        passed += length as u64;
        if end.is_some() {
            return Ok(passed);
        }
    }
}
