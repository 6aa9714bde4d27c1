//! Files cut into raw rows, in one pass that also hashes every byte.

use std::io::{self, BufRead, BufReader, Read};

use ident::Digest;

use super::{Place, RowProblem};
use crate::file::{FileInput, Format};

/// The longest row in bytes.
pub(crate) const ROW_LIMIT: u64 = 64 << 20;

/// The largest JSON document in bytes; JSON lines have no such bound.
pub(crate) const DOCUMENT_LIMIT: u64 = 1 << 30;

const BOM: &[u8] = "\u{feff}".as_bytes();

/// One row as it stands in the file, without its line end.
#[derive(Debug)]
pub(crate) struct RawRow {
    /// Its place.
    pub place: Place,
    /// Offset of its first byte in the file.
    pub offset: u64,
    /// Its bytes, or why there are none.
    pub bytes: Result<Vec<u8>, RowProblem>,
}

/// What is known of a file once it has been read to its end.
#[derive(Debug)]
pub(crate) struct RawFacts {
    /// Digest of the whole file.
    pub digest: Digest,
    /// Lines that hold white space at most.
    pub blank_lines: u64,
    /// Whether the file begins with a byte order mark.
    pub bom: bool,
}

/// Why a file as a whole could not be cut into rows.
#[derive(Debug)]
pub(crate) enum RawError {
    /// The system refused.
    Io(io::Error),
    /// The path leads to something else.
    NotAFile,
    /// The document is no array.
    Document(String),
}

impl From<io::Error> for RawError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Cuts a file into rows and hands them over in order.
pub(crate) fn read_raw(input: &FileInput, sink: &mut dyn FnMut(RawRow)) -> Result<RawFacts, RawError> {
    let Some(mut content) = input.open()? else {
        return Err(RawError::NotAFile);
    };
    let noticed = match input.form.format {
        Format::JsonArray => read_array(&mut content, sink)?,
        _ => read_lines(&mut content, ROW_LIMIT, sink)?,
    };
    let digest = content.finish()?;
    Ok(RawFacts { digest, blank_lines: noticed.blank_lines, bom: noticed.bom })
}

/// What is noticed while lines or elements are found.
struct Noticed {
    blank_lines: u64,
    bom: bool,
}

/// Reads lines of at most `limit` bytes. LF and CR LF end a line, the last one may have no end.
fn read_lines(reader: impl Read, limit: u64, sink: &mut dyn FnMut(RawRow)) -> io::Result<Noticed> {
    let mut reader = BufReader::with_capacity(1 << 18, reader);
    let mut blank_lines = 0;
    let mut bom = false;
    let mut offset = 0;
    let mut number = 0;
    loop {
        let mut line = Vec::new();
        let mut read = (&mut reader).take(limit + 1).read_until(b'\n', &mut line)? as u64;
        if read == 0 {
            break;
        }
        number += 1;
        let place = Place::Line(number);
        let start = offset;
        let too_long = read > limit && line.last() != Some(&b'\n');
        if too_long {
            line = Vec::new();
            read += skip_line(&mut reader)?;
        }
        offset += read;
        if too_long {
            sink(RawRow { place, offset: start, bytes: Err(RowProblem::TooLong { limit }) });
            continue;
        }
        if line.last() == Some(&b'\n') {
            line.pop();
            if line.last() == Some(&b'\r') {
                line.pop();
            }
        }
        let mut start = start;
        if number == 1 && line.starts_with(BOM) {
            line.drain(..BOM.len());
            start += BOM.len() as u64;
            bom = true;
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            blank_lines += 1;
            continue;
        }
        sink(RawRow { place, offset: start, bytes: Ok(line) });
    }
    Ok(Noticed { blank_lines, bom })
}

/// Passes over the rest of a line and tells its length.
fn skip_line(reader: &mut impl BufRead) -> io::Result<u64> {
    let mut skipped = 0;
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok(skipped);
        }
        let end = buffer.iter().position(|&byte| byte == b'\n');
        let used = end.map_or(buffer.len(), |at| at + 1);
        reader.consume(used);
        skipped += used as u64;
        if end.is_some() {
            return Ok(skipped);
        }
    }
}

fn read_array(reader: impl Read, sink: &mut dyn FnMut(RawRow)) -> Result<Noticed, RawError> {
    let mut bytes = Vec::new();
    reader.take(DOCUMENT_LIMIT + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > DOCUMENT_LIMIT {
        return Err(RawError::Document(format!(
            "is larger than {DOCUMENT_LIMIT} bytes; write one row a line in a .jsonl file"
        )));
    }
    let bom = bytes.starts_with(BOM);
    let base = if bom { BOM.len() } else { 0 };
    cut_array(&bytes[base..], base as u64, sink).map_err(RawError::Document)?;
    Ok(Noticed { blank_lines: 0, bom })
}

/// Cuts a JSON array at the commas of its own level. The elements are not judged here, only found.
fn cut_array(text: &[u8], base: u64, sink: &mut dyn FnMut(RawRow)) -> Result<(), String> {
    let start = text.iter().position(|byte| !byte.is_ascii_whitespace()).ok_or("is empty")?;
    if text[start] != b'[' {
        return Err("is no JSON array of rows; write an array, or one row a line in a .jsonl file".into());
    }
    let mut number = 0;
    let mut hand_over = |from: usize, to: usize| {
        let blank = |byte: &u8| byte.is_ascii_whitespace();
        let from = from + text[from..to].iter().take_while(|byte| blank(byte)).count();
        let to = to - text[from..to].iter().rev().take_while(|byte| blank(byte)).count();
        number += 1;
        let bytes = text[from..to].to_vec();
        let bytes = if bytes.len() as u64 > ROW_LIMIT {
            Err(RowProblem::TooLong { limit: ROW_LIMIT })
        } else if bytes.is_empty() {
            Err(RowProblem::Json("expected value".into()))
        } else {
            Ok(bytes)
        };
        sink(RawRow { place: Place::Row(number), offset: base + from as u64, bytes });
    };
    let mut depth = 0_u64;
    let mut in_string = false;
    let mut element = start + 1;
    let mut at = start;
    while at < text.len() {
        match text[at] {
            b'"' => in_string = !in_string,
            b'\\' if in_string => at += 1,
            _ if in_string => {}
            b'[' | b'{' => depth += 1,
            b']' | b'}' if depth > 1 => depth -= 1,
            b']' => {
                let empty = element == start + 1 && text[element..at].iter().all(u8::is_ascii_whitespace);
                if !empty {
                    hand_over(element, at);
                }
                return match text[at + 1..].iter().position(|byte| !byte.is_ascii_whitespace()) {
                    None => Ok(()),
                    Some(more) => {
                        Err(format!("goes on after its array, at byte {}", base + (at + 1 + more) as u64))
                    }
                };
            }
            b',' if depth == 1 => {
                hand_over(element, at);
                element = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    Err(format!("is cut: the file ends at byte {} inside its array", base + text.len() as u64))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Rows = Vec<(u64, u64, Result<String, RowProblem>)>;

    fn collect(rows: &mut Rows) -> impl FnMut(RawRow) + '_ {
        |row| {
            let (Place::Line(number) | Place::Row(number) | Place::Entry(number)) = row.place else {
                panic!("texts have no row groups");
            };
            rows.push((number, row.offset, row.bytes.map(|bytes| String::from_utf8(bytes).unwrap())));
        }
    }

    fn lines(text: &[u8], limit: u64) -> (Rows, Noticed) {
        let mut rows = Vec::new();
        let facts = read_lines(text, limit, &mut collect(&mut rows)).unwrap();
        (rows, facts)
    }

    fn array(text: &str) -> (Rows, Result<(), String>) {
        let mut rows = Vec::new();
        let result = cut_array(text.as_bytes(), 0, &mut collect(&mut rows));
        (rows, result)
    }

    #[test]
    fn marks_line_ends_and_blank_lines_do_not_matter() {
        let text = "\u{feff}one\r\n\r\n  \ntwo\nthree".as_bytes();
        let (rows, facts) = lines(text, 100);
        assert_eq!(rows, [(1, 3, Ok("one".into())), (4, 13, Ok("two".into())), (5, 17, Ok("three".into()))]);
        assert_eq!((facts.blank_lines, facts.bom), (2, true));
    }

    #[test]
    fn a_line_beyond_the_bound_is_passed_over_and_the_next_one_is_read() {
        let (rows, _) = lines(b"12345\n123456\n12345678\n1\n", 5);
        let too_long = || Err(RowProblem::TooLong { limit: 5 });
        assert_eq!(
            rows,
            [(1, 0, Ok("12345".into())), (2, 6, too_long()), (3, 13, too_long()), (4, 22, Ok("1".into()))]
        );
    }

    #[test]
    fn arrays_are_cut_at_their_own_commas() {
        let (rows, result) = array(" [ {\"a\": [1, 2]}, \"x,]\\\"\" ,3 ] ");
        result.unwrap();
        assert_eq!(
            rows,
            [
                (1, 3, Ok("{\"a\": [1, 2]}".into())),
                (2, 18, Ok("\"x,]\\\"\"".into())),
                (3, 27, Ok("3".into()))
            ]
        );
        assert_eq!(array("[ ]"), (vec![], Ok(())));
        assert!(array("[1,]").0[1].2.is_err());
        assert!(array("[1").1.unwrap_err().starts_with("is cut"));
        assert!(array("[1] 2").1.unwrap_err().contains("byte 4"));
        assert!(array("{}").1.is_err());
    }

    proptest! {
        #[test]
        fn every_line_that_is_not_blank_becomes_one_row(
            lines_in in prop::collection::vec("[a-z ]{0,6}", 0..20), crlf: bool, last_end: bool
        ) {
            let end = if crlf { "\r\n" } else { "\n" };
            let mut text = lines_in.join(end);
            if last_end && !text.is_empty() {
                text.push_str(end);
            }
            let (rows, _) = lines(text.as_bytes(), 100);
            let wanted: Vec<_> = lines_in.iter().filter(|line| !line.trim().is_empty()).cloned().collect();
            let found: Vec<_> = rows.iter().map(|row| row.2.clone().unwrap()).collect();
            prop_assert_eq!(found, wanted);
            for (_, offset, row) in rows {
                prop_assert!(text[usize::try_from(offset).unwrap()..].starts_with(&row.unwrap()));
            }
        }

        #[test]
        fn any_bytes_are_cut_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = cut_array(&bytes, 0, &mut |_| {});
        }
    }
}
