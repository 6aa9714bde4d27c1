//! Rows as Parquet, read below the level of Arrow types: there every kind of text column is the same.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use column::ValueBudget;
use jiff::Timestamp;
use jiff::civil::Date;
use job::python_float;
use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type as Physical};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, RowGroupReader};
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor};

use super::convert::{messages, role_of, truth};
use super::set::{Place, Sink, Wanted};
use super::{NO_SET, ReadReport, SkippedRow, is_conversations, is_telling, text_column};
use crate::TraceError;
use crate::json::{Mended, parse};
use crate::row::{Message, Role, Row, Text};
use crate::write::Column;

/// So many rows are decoded at a time.
const BATCH: usize = 64;

/// The most messages that are decoded for one batch.
const BATCH_MESSAGES: u64 = 1 << 22;

/// What a leaf of the file is to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Text(Column),
    /// What a message says.
    Content,
    /// Who a message comes from.
    Role,
    /// All messages as JSON.
    Json,
}

/// What the values of a leaf are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Number,
    Truth,
    Day,
    Time { per_second: i64, is_utc: bool },
    Null,
}

struct Leaf {
    index: usize,
    part: Part,
    kind: Kind,
    /// Highest definition level: the value is there.
    defined: i16,
    /// From this definition level on there is a message.
    element: i16,
}

/// Reads a file.
pub(super) fn read(
    path: &Path,
    file: File,
    wanted: Wanted,
    report: &mut ReadReport,
    sink: &mut Sink<'_>,
) -> Result<(), TraceError> {
    let damaged = |detail: String| TraceError::NotTraces { path: path.to_owned(), detail };
    column::guarded(
        || groups(path, file, wanted, report, sink),
        || damaged("is damaged: its parts contradict each other".into()),
    )
}

fn groups(
    path: &Path,
    file: File,
    wanted: Wanted,
    report: &mut ReadReport,
    sink: &mut Sink<'_>,
) -> Result<(), TraceError> {
    let broken = |detail: String| TraceError::NotTraces { path: path.to_owned(), detail };
    let reader = column::open(file).map_err(|error| broken(error.to_string()))?;
    let leaves = leaves(reader.metadata().file_metadata().schema_descr(), wanted, report).map_err(broken)?;
    let mut at = 0;
    for number in 0..reader.num_row_groups() {
        let failed = |error: ParquetError| broken(format!("row group {}: {error}", number + 1));
        let group = reader.get_row_group(number).map_err(failed)?;
        let rows = u64::try_from(group.metadata().num_rows())
            .map_err(|_| broken(format!("row group {} has a negative number of rows", number + 1)))?;
        let mut decoders: Vec<_> = leaves
            .iter()
            .map(|leaf| Decoder::new(leaf, &*group))
            .collect::<Result<_, _>>()
            .map_err(failed)?;
        let mut left = rows;
        while left > 0 {
            let batch = usize::try_from(left).map_or(BATCH, |left| left.min(BATCH));
            left -= batch as u64;
            for row in read_batch(&mut decoders, batch, report).map_err(failed)? {
                at += 1;
                match row {
                    Ok(row) => {
                        report.rows += 1;
                        sink(Place { file: path, at, is_line: false }, row)?;
                    }
                    Err(why) => {
                        let place = format!("{}, row {at}", path.display());
                        report.skipped.push(SkippedRow { place, why });
                    }
                }
            }
        }
    }
    Ok(())
}

/// Finds out what every leaf of the file is to us. The field's own name of a column goes before another one.
fn leaves(schema: &SchemaDescriptor, wanted: Wanted, report: &mut ReadReport) -> Result<Vec<Leaf>, String> {
    let mut leaves: Vec<Leaf> = Vec::new();
    let mut messages = None;
    let fields = schema.root_schema().get_fields();
    for (index, leaf) in schema.columns().iter().enumerate() {
        let name = fields[schema.get_column_root_idx(index)].name();
        let last = leaf.path().parts().last().map_or("", String::as_str);
        let part = if is_conversations(name) {
            if *messages.get_or_insert(name) != name {
                report.others.insert(name.to_owned());
                continue;
            }
            match last {
                _ if leaf.path().parts().len() == 1 => Part::Json,
                "content" | "value" if leaf.max_rep_level() == 1 => Part::Content,
                "role" | "from" if leaf.max_rep_level() == 1 => Part::Role,
                _ => {
                    report.others.insert(leaf.path().string());
                    continue;
                }
            }
        } else {
            match text_column(name) {
                Some(column) if leaf.path().parts().len() == 1 => Part::Text(column),
                _ if name == Column::Sharegpt.name() => continue,
                _ => {
                    report.others.insert(name.to_owned());
                    continue;
                }
            }
        };
        let Some(kind) = kind(leaf) else {
            return Err(format!("column `{}` holds values that are no texts", leaf.path().string()));
        };
        let skip = match part {
            Part::Content => wanted != Wanted::Rows,
            Part::Role | Part::Json => wanted == Wanted::Facts,
            Part::Text(Column::VerifierOutput | Column::Instruction | Column::ToolDefinitions) => {
                wanted != Wanted::Rows
            }
            Part::Text(_) => false,
        };
        if skip {
            continue;
        }
        if let Some(other) = leaves.iter_mut().find(|other| other.part == part) {
            // `task` beside `instance_id`, say.
            if matches!(part, Part::Text(column) if column.name() == name) {
                report.others.insert(schema.column(other.index).path().string());
                *other = Leaf { index, part, kind, ..levels(leaf, index, part, kind) };
            } else {
                report.others.insert(name.to_owned());
            }
            continue;
        }
        leaves.push(levels(leaf, index, part, kind));
    }
    if !fields.iter().any(|field| is_telling(field.name())) {
        return Err(NO_SET.into());
    }
    for column in crate::write::Columns::field(false, false, false).iter().skip(1) {
        let there = |field: &Arc<parquet::schema::types::Type>| text_column(field.name()) == Some(column);
        if !fields.iter().any(there) {
            *report.missing.entry(column.name().to_owned()).or_default() += 1;
        }
    }
    Ok(leaves)
}

fn levels(leaf: &ColumnDescriptor, index: usize, part: Part, kind: Kind) -> Leaf {
    Leaf { index, part, kind, defined: leaf.max_def_level(), element: leaf.repeated_ancestor_def_level() }
}

fn kind(leaf: &ColumnDescriptor) -> Option<Kind> {
    let per_second = |unit: &TimeUnit| match unit {
        TimeUnit::MILLIS => 1_000,
        TimeUnit::MICROS => 1_000_000,
        TimeUnit::NANOS => 1_000_000_000,
    };
    match leaf.logical_type_ref() {
        Some(LogicalType::Unknown) => return Some(Kind::Null),
        Some(LogicalType::Date) => return Some(Kind::Day),
        Some(LogicalType::Timestamp(time)) => {
            return Some(Kind::Time {
                per_second: per_second(&time.unit),
                is_utc: time.is_adjusted_to_u_t_c,
            });
        }
        Some(LogicalType::Decimal { .. } | LogicalType::Time { .. }) => return None,
        _ => {}
    }
    match (leaf.physical_type(), leaf.converted_type()) {
        (_, ConvertedType::DECIMAL | ConvertedType::TIME_MILLIS | ConvertedType::TIME_MICROS) => None,
        (_, ConvertedType::DATE) => Some(Kind::Day),
        (_, ConvertedType::TIMESTAMP_MILLIS) => Some(Kind::Time { per_second: 1_000, is_utc: true }),
        (_, ConvertedType::TIMESTAMP_MICROS) => Some(Kind::Time { per_second: 1_000_000, is_utc: true }),
        (Physical::BYTE_ARRAY, _) => Some(Kind::Text),
        (Physical::BOOLEAN, _) => Some(Kind::Truth),
        (Physical::INT32 | Physical::INT64 | Physical::FLOAT | Physical::DOUBLE, _) => Some(Kind::Number),
        _ => None,
    }
}

struct Decoder<'l> {
    leaf: &'l Leaf,
    reader: ColumnReader,
    budget: ValueBudget,
}

/// One value, or why it is none.
type Cell = Result<Option<Text>, String>;

impl<'l> Decoder<'l> {
    fn new(leaf: &'l Leaf, group: &dyn RowGroupReader) -> Result<Self, ParquetError> {
        let budget = ValueBudget::new(BATCH_MESSAGES);
        let pages = group.get_column_page_reader(leaf.index)?;
        let pages = budget.bound(pages, format!("messages in {BATCH} rows"));
        let description = group.metadata().column(leaf.index).column_descr_ptr();
        Ok(Self { leaf, reader: get_column_reader(description, pages), budget })
    }

    /// The cells of the next rows: one a row, or for messages as many as there are.
    fn read(&mut self, rows: usize) -> Result<Vec<Vec<Cell>>, ParquetError> {
        self.budget.renew();
        let leaf = self.leaf;
        match &mut self.reader {
            ColumnReader::ByteArrayColumnReader(reader) => cells(reader, leaf, rows, |bytes: &ByteArray| {
                std::str::from_utf8(bytes.data())
                    .map(Text::from)
                    .map_err(|_| "holds bytes that are not UTF-8".into())
            }),
            ColumnReader::BoolColumnReader(reader) => {
                cells(reader, leaf, rows, |value| Ok(truth(*value).into()))
            }
            ColumnReader::Int32ColumnReader(reader) => {
                cells(reader, leaf, rows, |value| whole(leaf.kind, (*value).into()))
            }
            ColumnReader::Int64ColumnReader(reader) => {
                cells(reader, leaf, rows, |value| whole(leaf.kind, *value))
            }
            ColumnReader::FloatColumnReader(reader) => {
                cells(reader, leaf, rows, |value| Ok(python_float((*value).into()).into()))
            }
            ColumnReader::DoubleColumnReader(reader) => {
                cells(reader, leaf, rows, |value| Ok(python_float(*value).into()))
            }
            _ => Err(ParquetError::General("unexpected physical type".into())),
        }
    }
}

/// A whole number by what it stands for. A time without a zone stays one.
fn whole(kind: Kind, value: i64) -> Result<Text, String> {
    let no_time = || format!("holds {value} in place of a time");
    match kind {
        Kind::Day => {
            let days = jiff::SignedDuration::from_hours(value.checked_mul(24).ok_or_else(no_time)?);
            let day = Date::constant(1970, 1, 1).checked_add(days).map_err(|_| no_time())?;
            Ok(day.to_string().into())
        }
        Kind::Time { per_second, is_utc } => {
            let nanoseconds = i128::from(value) * i128::from(1_000_000_000 / per_second);
            let at = Timestamp::from_nanosecond(nanoseconds).map_err(|_| no_time())?;
            Ok(job::Moment { at, assumed_utc: !is_utc }.to_string().into())
        }
        _ => Ok(python_float(value as f64).into()),
    }
}

fn cells<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    leaf: &Leaf,
    rows: usize,
    convert: impl Fn(&T::T) -> Result<Text, String>,
) -> Result<Vec<Vec<Cell>>, ParquetError> {
    let (mut definition, mut repetition, mut values) = (Vec::new(), Vec::new(), Vec::new());
    let (records, ..) =
        reader.read_records(rows, Some(&mut definition), Some(&mut repetition), &mut values)?;
    if records != rows {
        return Err(ParquetError::General(format!("a column ends {} rows too early", rows - records)));
    }
    let mut values = values.iter();
    let mut value = |level: i16| -> Result<Cell, ParquetError> {
        if leaf.kind == Kind::Null || level < leaf.defined {
            return Ok(Ok(None));
        }
        let missing = || ParquetError::General("a column has fewer values than it says".into());
        Ok(convert(values.next().ok_or_else(missing)?).map(Some))
    };
    let mut out: Vec<Vec<Cell>> = Vec::with_capacity(rows);
    let is_list = matches!(leaf.part, Part::Content | Part::Role);
    if !is_list {
        // A column that must be there has no levels.
        let levels = if leaf.defined == 0 { vec![0; rows] } else { definition };
        for level in levels {
            out.push(vec![value(level)?]);
        }
        return Ok(out);
    }
    for (index, level) in definition.iter().enumerate() {
        if repetition[index] == 0 {
            out.push(Vec::new());
        }
        if *level >= leaf.element
            && let Some(row) = out.last_mut()
        {
            row.push(value(*level)?);
        }
    }
    Ok(out)
}

/// Reads rows of all leaves and puts them together.
fn read_batch(
    decoders: &mut [Decoder<'_>],
    rows: usize,
    report: &mut ReadReport,
) -> Result<Vec<Result<Row, String>>, ParquetError> {
    let mut out: Vec<Result<Row, String>> = (0..rows).map(|_| Ok(Row::default())).collect();
    for decoder in decoders {
        let part = decoder.leaf.part;
        for (row, cells) in out.iter_mut().zip(decoder.read(rows)?) {
            let Ok(into) = row else { continue };
            if let Err(why) = put(part, cells, into, report) {
                *row = Err(why);
            }
        }
    }
    Ok(out)
}

fn put(part: Part, cells: Vec<Cell>, row: &mut Row, report: &mut ReadReport) -> Result<(), String> {
    let named = |why: String, name: &str| format!("`{name}` {why}");
    match part {
        Part::Text(column) => {
            let cell = cells.into_iter().next().unwrap_or(Ok(None));
            column.put(row, cell.map_err(|why| named(why, column.name()))?);
        }
        Part::Json => {
            let cell = cells.into_iter().next().unwrap_or(Ok(None)).map_err(|why| named(why, "messages"))?;
            let Some(text) = cell else { return Ok(()) };
            let mut mended = Mended::default();
            let value = parse(&text, &mut mended).map_err(|error| named(error.to_string(), "messages"))?;
            report.surrogates += mended.surrogates;
            row.conversations = messages(value, report)?;
        }
        Part::Content | Part::Role => {
            if row.conversations.is_empty() {
                let empty = || Message { role: Role::Other("".into()), content: "".into() };
                row.conversations.resize_with(cells.len(), empty);
            }
            for (message, cell) in row.conversations.iter_mut().zip(cells) {
                let cell = cell.map_err(|why| named(why, "conversations"))?;
                match (part, cell) {
                    (Part::Content, Some(content)) => message.content = content,
                    (Part::Content, None) => report.empty_contents += 1,
                    (_, role) => message.role = role_of(role.as_deref().unwrap_or_default()),
                }
            }
        }
    }
    Ok(())
}

/// Whether a file has a column.
pub(super) fn has_column(file: File, name: &str) -> bool {
    let look = || {
        let reader = column::open(file).ok()?;
        let schema = reader.metadata().file_metadata().schema_descr();
        Some(schema.root_schema().get_fields().iter().any(|field| field.name() == name))
    };
    column::guarded(|| look().ok_or(()), || ()).unwrap_or(false)
}
