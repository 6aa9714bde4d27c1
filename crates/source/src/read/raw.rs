//! Files cut into raw rows, in one pass that also hashes every byte.

use std::io::{self, BufRead, BufReader, Read};

use super::{Place, RowProblem};
use crate::file::{FileIdentity, FileInput, Format};

/// The longest row in bytes.
pub(crate) const ROW_LIMIT: u64 = 64 << 20;

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
    /// Which file it was.
    pub identity: FileIdentity,
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

impl RawError {
    /// A table that has none of the columns that are read of it.
    pub(super) fn without_columns(names: &[&str]) -> Self {
        Self::Document(format!("has none of the columns that are read: `{}`", names.join("`, `")))
    }
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
        Format::JsonArray => read_array(&mut content, ROW_LIMIT, sink)?,
        _ => read_lines(&mut content, ROW_LIMIT, sink)?,
    };
    let identity = content.finish()?;
    Ok(RawFacts { identity, blank_lines: noticed.blank_lines, bom: noticed.bom })
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

/// Reads the elements of a JSON array, each of at most `limit` bytes.
fn read_array(mut reader: impl Read, limit: u64, sink: &mut dyn FnMut(RawRow)) -> Result<Noticed, RawError> {
    let mut head = Vec::new();
    (&mut reader).take(BOM.len() as u64).read_to_end(&mut head)?;
    let bom = head == BOM;
    let offset = if bom { std::mem::take(&mut head).len() as u64 } else { 0 };
    let mut cutter = ArrayCutter { offset, limit, ..ArrayCutter::default() };
    cutter.cut(&head, sink).map_err(RawError::Document)?;
    let mut reader = BufReader::with_capacity(1 << 18, reader);
    loop {
        let part = reader.fill_buf()?;
        if part.is_empty() {
            break;
        }
        cutter.cut(part, sink).map_err(RawError::Document)?;
        let read = part.len();
        reader.consume(read);
    }
    cutter.end().map_err(RawError::Document)?;
    Ok(Noticed { blank_lines: 0, bom })
}

/// Cuts a JSON array at the commas of its own level, whatever parts it comes in. The elements are not judged here, only
/// found.
#[derive(Default)]
struct ArrayCutter {
    /// Bytes before the part at hand.
    offset: u64,
    /// The most bytes of one element.
    limit: u64,
    /// How deep the next byte lies: 0 outside the array, 1 between its elements.
    depth: u64,
    in_string: bool,
    /// Whether the next byte of a text stands for itself.
    escaped: bool,
    /// Whether the array has ended.
    ended: bool,
    /// Number of elements so far.
    number: u64,
    /// The element at hand.
    element: Element,
}

/// What has been read of one element.
#[derive(Default)]
struct Element {
    bytes: Vec<u8>,
    /// Offset of its first byte that is no white space.
    start: Option<u64>,
    /// Whether it is longer than it may be; its bytes are forgotten then.
    too_long: bool,
}

impl ArrayCutter {
    fn cut(&mut self, part: &[u8], sink: &mut dyn FnMut(RawRow)) -> Result<(), String> {
        let mut from = 0;
        for (at, &byte) in part.iter().enumerate() {
            if self.depth == 0 {
                self.outside(byte, at)?;
                from = at + 1;
            } else if self.in_string {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
            } else {
                match byte {
                    b'"' => self.in_string = true,
                    b'[' | b'{' => self.depth += 1,
                    b']' | b'}' if self.depth > 1 => self.depth -= 1,
                    b']' | b',' if self.depth == 1 => {
                        self.extend(&part[from..at], from);
                        self.hand_over(byte == b']', at, sink);
                        from = at + 1;
                    }
                    _ => {}
                }
            }
        }
        self.extend(&part[from..], from);
        self.offset += part.len() as u64;
        Ok(())
    }

    /// A byte before the array or behind it.
    fn outside(&mut self, byte: u8, at: usize) -> Result<(), String> {
        match byte {
            _ if byte.is_ascii_whitespace() => Ok(()),
            _ if self.ended => Err(format!("goes on after its array, at byte {}", self.offset + at as u64)),
            b'[' => {
                self.depth = 1;
                Ok(())
            }
            _ => Err("is no JSON array of rows; write an array, or one row a line in a .jsonl file".into()),
        }
    }

    /// Adds to the element what begins at `from` in the part at hand.
    fn extend(&mut self, mut bytes: &[u8], from: usize) {
        let element = &mut self.element;
        if element.start.is_none() {
            let blank = bytes.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            bytes = &bytes[blank..];
            if bytes.is_empty() {
                return;
            }
            element.start = Some(self.offset + (from + blank) as u64);
        }
        element.too_long |= (element.bytes.len() + bytes.len()) as u64 > self.limit;
        if element.too_long {
            element.bytes = Vec::new();
        } else {
            element.bytes.extend_from_slice(bytes);
        }
    }

    /// Hands the element over that ends before the byte at `at`.
    fn hand_over(&mut self, last: bool, at: usize, sink: &mut dyn FnMut(RawRow)) {
        let Element { bytes, start, too_long } = std::mem::take(&mut self.element);
        if last {
            (self.depth, self.ended) = (0, true);
            if self.number == 0 && start.is_none() {
                return;
            }
        }
        self.number += 1;
        let bytes = if too_long {
            Err(RowProblem::TooLong { limit: self.limit })
        } else if bytes.is_empty() {
            Err(RowProblem::Json("expected value".into()))
        } else {
            let mut bytes = bytes;
            bytes.truncate(bytes.trim_ascii_end().len());
            Ok(bytes)
        };
        let offset = start.unwrap_or(self.offset + at as u64);
        sink(RawRow { place: Place::Row(self.number), offset, bytes });
    }

    fn end(&self) -> Result<(), String> {
        match (self.ended, self.depth) {
            (true, _) => Ok(()),
            (false, 0) => Err("is empty".into()),
            _ => Err(format!("is cut: the file ends at byte {} inside its array", self.offset)),
        }
    }
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

    /// Gives its bytes in parts of a few.
    struct Parts<'t>(&'t [u8], usize);

    impl Read for Parts<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = self.0.len().min(buffer.len()).min(self.1);
            buffer[..length].copy_from_slice(&self.0[..length]);
            self.0 = &self.0[length..];
            Ok(length)
        }
    }

    fn array_in_parts(text: &[u8], limit: u64, part: usize) -> (Rows, Result<bool, String>) {
        let mut rows = Vec::new();
        let result = match read_array(Parts(text, part), limit, &mut collect(&mut rows)) {
            Ok(noticed) => Ok(noticed.bom),
            Err(RawError::Document(detail)) => Err(detail),
            Err(other) => panic!("{other:?}"),
        };
        (rows, result)
    }

    fn array(text: &str) -> (Rows, Result<bool, String>) {
        array_in_parts(text.as_bytes(), 100, 1000)
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
        assert_eq!(array("[ ]"), (vec![], Ok(false)));
        assert!(array("[1,]").0[1].2.is_err());
        assert!(array("[1").1.unwrap_err().starts_with("is cut"));
        assert!(array("[1] 2").1.unwrap_err().contains("byte 4"));
        assert!(array("{}").1.is_err());
        assert_eq!(array(" \n").1, Err("is empty".into()));
        assert_eq!(array("\u{feff}[7]"), (vec![(1, 4, Ok("7".into()))], Ok(true)));
    }

    #[test]
    fn an_element_beyond_the_bound_is_passed_over_and_the_next_one_is_read() {
        for part in [1, 2, 3, 100] {
            let (rows, _) = array_in_parts(b"[12345, \"12345\", \"[1234\",1]", 5, part);
            let too_long = || Err(RowProblem::TooLong { limit: 5 });
            assert_eq!(
                rows,
                [
                    (1, 1, Ok("12345".into())),
                    (2, 8, too_long()),
                    (3, 17, too_long()),
                    (4, 25, Ok("1".into()))
                ]
            );
        }
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
        fn an_array_is_the_same_in_whatever_parts_it_comes(
            text in r#"\u{feff}?(\[|\]|\{|\}|"|\\|,|[a-z 1\n]){0,30}"#, part in 1_usize..5
        ) {
            let whole = array_in_parts(text.as_bytes(), 8, 1000);
            prop_assert_eq!(array_in_parts(text.as_bytes(), 8, part), whole);
        }

        #[test]
        fn any_bytes_are_cut_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read_array(&bytes[..], 10, &mut |_| {});
        }
    }
}
