//! Comma-separated values below a line of column names; every value is a text.

use std::cell::Cell;
use std::io::{self, Read};

use serde_json::Value;

use super::raw::RawError;
use super::{FieldFault, Place, ROW_LIMIT, Row, RowProblem};

/// Reads rows and hands each over with its place and byte offset; an empty value stands for a field that is not there.
///
/// Returns the names of the columns that nobody asked for.
pub(crate) fn read_csv(
    reader: impl Read,
    names: &'static [&'static str],
    sink: &mut dyn FnMut(Place, u64, Result<Row, FieldFault>),
) -> Result<(u64, Vec<String>), RawError> {
    let row_bytes = Cell::new(0);
    let bounded = BoundedRows { reader, row_bytes: &row_bytes };
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(bounded);
    let header = reader.byte_headers().map_err(broken)?.clone();
    let mut columns = Vec::with_capacity(header.len());
    let mut others = Vec::new();
    for name in &header {
        let name = String::from_utf8_lossy(name).into_owned();
        let at = names.iter().position(|known| *known == name);
        if at.is_some() && columns.contains(&at) {
            return Err(RawError::Document(format!("has the column `{name}` twice")));
        }
        if at.is_none() {
            others.push(name);
        }
        columns.push(at);
    }
    if !header.is_empty() && columns.iter().all(Option::is_none) {
        return Err(RawError::without_columns(names));
    }
    let mut record = csv::ByteRecord::new();
    let mut number = 0;
    while reader.read_byte_record(&mut record).map_err(broken)? {
        number += 1;
        row_bytes.set(0);
        let offset = record.position().map_or(0, csv::Position::byte);
        let row = if record.as_slice().len() as u64 > ROW_LIMIT {
            Err(FieldFault::row(RowProblem::TooLong { limit: ROW_LIMIT }))
        } else if record.len() != columns.len() {
            let detail = format!("has {} values below {} column names", record.len(), columns.len());
            Err(FieldFault::row(RowProblem::Value(detail)))
        } else {
            cells(&record, &columns, names).map(|cells| Row::untyped(names, cells))
        };
        sink(Place::Row(number), offset, row);
    }
    Ok((number, others))
}

/// A file whose rows are bounded: a quote that is never closed makes one value of everything behind it.
struct BoundedRows<'b, R> {
    reader: R,
    /// What has been read since the last row ended; the beginning of the next one may be counted twice.
    row_bytes: &'b Cell<u64>,
}

impl<R: Read> Read for BoundedRows<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.row_bytes.set(self.row_bytes.get() + read as u64);
        if self.row_bytes.get() > 2 * ROW_LIMIT {
            let detail =
                format!("has a row of more than {ROW_LIMIT} bytes; look for a quote that is never closed");
            return Err(io::Error::new(io::ErrorKind::InvalidData, detail));
        }
        Ok(read)
    }
}

fn cells(
    record: &csv::ByteRecord,
    columns: &[Option<usize>],
    names: &[&str],
) -> Result<Vec<Option<Value>>, FieldFault> {
    let mut cells = vec![None; names.len()];
    for (value, at) in record.iter().zip(columns) {
        let Some(at) = *at else { continue };
        if !value.is_empty() {
            let text =
                std::str::from_utf8(value).map_err(|_| FieldFault::new(names[at], RowProblem::NotUtf8))?;
            cells[at] = Some(Value::from(text));
        }
    }
    Ok(cells)
}

fn broken(error: csv::Error) -> RawError {
    let text = error.to_string();
    match error.into_kind() {
        csv::ErrorKind::Io(error) => RawError::Io(error),
        _ => RawError::Document(text),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NAMES: &[&str] = &["task_id", "status"];

    type Read = Vec<(u64, u64, Result<(String, Option<String>), RowProblem>)>;

    fn read(text: &[u8]) -> Result<(Read, Vec<String>), RawError> {
        let mut rows = Vec::new();
        let (_, others) = read_csv(text, NAMES, &mut |place, offset, row| {
            let Place::Row(number) = place else { panic!("rows are numbered") };
            let row = row.map_err(|fault| fault.problem).map(|mut row| {
                (row.text("task_id").unwrap_or_default(), row.optional_text("status").unwrap())
            });
            rows.push((number, offset, row));
        })?;
        Ok((rows, others))
    }

    #[test]
    fn columns_are_found_by_name_and_quotes_are_undone() {
        let text = "\u{feff}status,other,task_id\r\ncompleted,1,a\r\n\"se\"\"t\",\"x\ny\",\"b,c\"\r\n,,d\n\n";
        let (rows, others) = read(text.as_bytes()).unwrap();
        assert_eq!(others, ["other"]);
        assert_eq!(rows[0].2, Ok(("a".into(), Some("completed".into()))));
        assert_eq!(rows[1].2, Ok(("b,c".into(), Some("se\"t".into()))));
        assert_eq!(rows[2].2, Ok(("d".into(), None)));
        assert_eq!(rows.len(), 3);
    }

    #[test]
    fn torn_rows_are_faults_and_the_next_ones_are_read() {
        let (rows, _) = read(b"task_id,status\na\nb,completed,1\nc,\xff\nd,completed\n").unwrap();
        assert!(matches!(&rows[0].2, Err(RowProblem::Value(text)) if text.contains("1 values below 2")));
        assert!(matches!(&rows[1].2, Err(RowProblem::Value(_))));
        assert_eq!((rows[2].1, &rows[2].2), (31, &Err(RowProblem::NotUtf8)));
        assert!(rows[3].2.is_ok());
        assert!(matches!(read(b"task_id,task_id\n"), Err(RawError::Document(_))));
        assert_eq!(read(b"").unwrap().0.len(), 0);
    }

    /// Endless text.
    struct Endless(&'static [u8]);

    impl io::Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let (head, rest) = self.0.split_at(self.0.len().min(buffer.len()));
            if head.is_empty() {
                buffer.fill(b'x');
                return Ok(buffer.len());
            }
            buffer[..head.len()].copy_from_slice(head);
            self.0 = rest;
            Ok(head.len())
        }
    }

    #[test]
    fn a_quote_that_is_never_closed_is_refused_and_does_not_fill_the_memory() {
        let error = read_csv(Endless(b"task_id,status\na,completed\n\"b"), NAMES, &mut |_, _, _| {});
        let Err(RawError::Io(error)) = error else { panic!("{error:?}") };
        assert!(error.to_string().contains("never closed"), "{error}");
    }

    #[test]
    fn a_file_without_any_of_the_columns_is_refused_as_a_whole() {
        let Err(RawError::Document(text)) = read(b"a.1,completed\nb.1,pending\n") else {
            panic!("it was read")
        };
        assert_eq!(text, "has none of the columns that are read: `task_id`, `status`");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes);
        }
    }
}
