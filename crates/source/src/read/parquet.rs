//! Parquet files: row group after row group, and of each only the columns that are wanted.
//!
//! The columns are read below the level of Arrow types. There every kind of text column (plain, large, dictionary,
//! view) is the same sequence of bytes, whatever its writer called it, and a value that is not UTF-8 is a fault of its
//! own row and not of the whole batch.

use std::fs::File;

use column::{OpenError, ValueBudget};
use parquet::basic::{ConvertedType, LogicalType, Repetition, Type as PhysicalType};
use parquet::column::page::PageReader;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, RowGroupReader};
use parquet::schema::types::{ColumnDescPtr, ColumnDescriptor, SchemaDescriptor};
use serde_json::Value;

use super::raw::RawError;
use super::row::non_finite;
use super::{FieldFault, Place, ROW_LIMIT, Row, RowProblem};

/// How many rows are decoded at a time: few enough that their buffers are taken from memory that is warm already.
const BATCH: usize = 512;

/// The most values of a column of lists that are decoded for one batch.
const BATCH_VALUES: u64 = 1 << 24;

/// What is known of a Parquet file once it has been read to its end.
#[derive(Debug)]
pub(crate) struct ParquetFacts {
    /// How many rows it has.
    pub rows: u64,
    /// Names of the columns that nobody asked for.
    pub others: Vec<String>,
}

/// A wanted column of a file.
struct Column {
    /// Where its name stands among the wanted ones.
    at: usize,
    /// Its leaf among all leaves of the file.
    leaf: usize,
    /// What it holds.
    kind: Kind,
    /// How a list is told from a value; none for a column of plain values.
    list: Option<List>,
    /// Highest definition level: the value is there.
    defined: i16,
}

/// Definition levels of a list.
struct List {
    /// From this level on there is an element.
    element: i16,
    /// Whether level 0 is no list at all, and not an empty one.
    nullable: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Boolean,
    Signed,
    Unsigned,
    Float,
    /// A column without a type: every value is null.
    Null,
}

/// Reads rows and hands each over with its place. A wanted column that the file does not have leaves its cells empty.
pub(crate) fn read_parquet(
    file: File,
    names: &'static [&'static str],
    sink: &mut dyn FnMut(Place, Result<Row, FieldFault>),
) -> Result<ParquetFacts, RawError> {
    let damaged = || RawError::Document("is damaged: its parts contradict each other".into());
    column::guarded(|| read_groups(file, names, sink), damaged)
}

fn read_groups(
    file: File,
    names: &'static [&'static str],
    sink: &mut dyn FnMut(Place, Result<Row, FieldFault>),
) -> Result<ParquetFacts, RawError> {
    let reader = column::open(file).map_err(|error| match error {
        OpenError::Format(error) => broken("is no Parquet file", &error),
        outside @ OpenError::Outside(_) => RawError::Document(outside.to_string()),
    })?;
    let (columns, others) = wanted_columns(reader.metadata().file_metadata().schema_descr(), names)?;
    let mut rows = 0;
    for number in 0..reader.num_row_groups() {
        let group = reader
            .get_row_group(number)
            .map_err(|error| broken(&format!("row group {} cannot be read", number + 1), &error))?;
        rows += read_group(&*group, number as u64 + 1, &columns, names, sink)?;
    }
    Ok(ParquetFacts { rows, others })
}

/// Finds the wanted columns by name, and the names of the others.
fn wanted_columns(schema: &SchemaDescriptor, names: &[&str]) -> Result<(Vec<Column>, Vec<String>), RawError> {
    let mut columns: Vec<Column> = Vec::new();
    let mut others = Vec::new();
    for (root, field) in schema.root_schema().get_fields().iter().enumerate() {
        let Some(at) = names.iter().position(|name| *name == field.name()) else {
            others.push(field.name().to_owned());
            continue;
        };
        if columns.iter().any(|column| column.at == at) {
            return Err(RawError::Document(format!("has the column `{}` twice", names[at])));
        }
        let mut leaves = (0..schema.num_columns()).filter(|leaf| schema.get_column_root_idx(*leaf) == root);
        let (Some(leaf), None) = (leaves.next(), leaves.next()) else {
            return Err(unreadable(names[at], "is a structure"));
        };
        let description = schema.column(leaf);
        let list = match (description.max_rep_level(), field.is_group()) {
            (0, false) => None,
            (1, _) => {
                let info = field.get_basic_info();
                let nullable = info.has_repetition() && info.repetition() == Repetition::OPTIONAL;
                Some(List { element: description.repeated_ancestor_def_level(), nullable })
            }
            (0, true) => return Err(unreadable(names[at], "is a structure")),
            _ => return Err(unreadable(names[at], "holds lists of lists")),
        };
        let kind = kind(&description).map_err(|found| unreadable(names[at], found))?;
        columns.push(Column { at, leaf, kind, list, defined: description.max_def_level() });
    }
    if columns.is_empty() {
        return Err(RawError::without_columns(names));
    }
    Ok((columns, others))
}

/// What the values of a column are, or which other thing they are.
fn kind(description: &ColumnDescriptor) -> Result<Kind, &'static str> {
    let physical = description.physical_type();
    match description.logical_type_ref() {
        Some(LogicalType::Unknown) => return Ok(Kind::Null),
        Some(LogicalType::Decimal { .. }) => return Err("holds decimals"),
        Some(LogicalType::Date | LogicalType::Time { .. } | LogicalType::Timestamp { .. }) => {
            return Err("holds dates or times");
        }
        Some(LogicalType::Float16 | LogicalType::Uuid | LogicalType::Bson) => {
            return Err("holds binary values");
        }
        _ => {}
    }
    Ok(match (physical, description.converted_type()) {
        (_, ConvertedType::DECIMAL) => return Err("holds decimals"),
        (PhysicalType::BYTE_ARRAY, _) => Kind::Text,
        (PhysicalType::BOOLEAN, _) => Kind::Boolean,
        (
            PhysicalType::INT32 | PhysicalType::INT64,
            ConvertedType::UINT_8 | ConvertedType::UINT_16 | ConvertedType::UINT_32 | ConvertedType::UINT_64,
        ) => Kind::Unsigned,
        (
            PhysicalType::INT32 | PhysicalType::INT64,
            ConvertedType::NONE
            | ConvertedType::INT_8
            | ConvertedType::INT_16
            | ConvertedType::INT_32
            | ConvertedType::INT_64,
        ) => Kind::Signed,
        (PhysicalType::FLOAT | PhysicalType::DOUBLE, _) => Kind::Float,
        (PhysicalType::FIXED_LEN_BYTE_ARRAY, _) => return Err("holds binary values"),
        (PhysicalType::INT32 | PhysicalType::INT64 | PhysicalType::INT96, _) => {
            return Err("holds dates or times");
        }
    })
}

fn read_group(
    group: &dyn RowGroupReader,
    number: u64,
    columns: &[Column],
    names: &'static [&'static str],
    sink: &mut dyn FnMut(Place, Result<Row, FieldFault>),
) -> Result<u64, RawError> {
    let failed = |name: &str, error: &ParquetError| {
        broken(&format!("row group {number}, column `{name}` cannot be read"), error)
    };
    let rows = u64::try_from(group.metadata().num_rows())
        .map_err(|_| RawError::Document(format!("row group {number} has a negative number of rows")))?;
    let mut readers = Vec::with_capacity(columns.len());
    for column in columns {
        let pages = group.get_column_page_reader(column.leaf);
        let pages = pages.map_err(|error| failed(names[column.at], &error))?;
        let description = group.metadata().column(column.leaf).column_descr_ptr();
        readers.push(Decoder::new(column, description, pages));
    }
    let mut row = 0;
    while row < rows {
        let wanted = usize::try_from(rows - row).map_or(BATCH, |left| left.min(BATCH));
        let mut batch = Vec::with_capacity(columns.len());
        for (column, reader) in columns.iter().zip(&mut readers) {
            let cells = reader.read(wanted).map_err(|error| failed(names[column.at], &error))?;
            batch.push((column, cells));
        }
        for _ in 0..wanted {
            row += 1;
            let mut cells = vec![None; names.len()];
            let mut fault = None;
            // Every column is moved on, whatever is wrong with the row.
            for (column, values) in &mut batch {
                match values.next() {
                    Some(Ok(value)) => cells[column.at] = Some(value),
                    Some(Err(problem)) => {
                        fault.get_or_insert_with(|| FieldFault::new(names[column.at], problem));
                    }
                    None => {
                        let (name, end) = (names[column.at], row - 1);
                        return Err(RawError::Document(format!(
                            "row group {number}, column `{name}` ends after {end} of {rows} rows"
                        )));
                    }
                }
            }
            sink(
                Place::Group { group: number, row },
                fault.map_or_else(|| Ok(Row::typed(names, cells)), Err),
            );
        }
    }
    Ok(rows)
}

type Cell = Result<Value, RowProblem>;

/// Decodes a column of one row group.
struct Decoder<'c> {
    column: &'c Column,
    reader: ColumnReader,
    budget: ValueBudget,
}

impl<'c> Decoder<'c> {
    fn new(column: &'c Column, description: ColumnDescPtr, pages: Box<dyn PageReader>) -> Self {
        let budget = ValueBudget::new(BATCH_VALUES);
        let pages = match column.list {
            // One value a row, and the rows of a batch are counted.
            None => pages,
            Some(_) => budget.bound(pages, format!("elements in the lists of {BATCH} rows")),
        };
        Self { column, reader: get_column_reader(description, pages), budget }
    }

    /// The next cells, one a row.
    fn read(&mut self, rows: usize) -> Result<Cells<'c>, ParquetError> {
        self.budget.renew();
        let mut levels = Levels::default();
        let values = match (&mut self.reader, self.column.kind) {
            (ColumnReader::ByteArrayColumnReader(reader), _) => {
                levels.read(reader, rows, |bytes| text(&bytes))?
            }
            (ColumnReader::BoolColumnReader(reader), _) => {
                levels.read(reader, rows, |value| Ok(value.into()))?
            }
            (ColumnReader::Int32ColumnReader(reader), Kind::Unsigned) => {
                levels.read(reader, rows, |value| Ok(value.cast_unsigned().into()))?
            }
            (ColumnReader::Int64ColumnReader(reader), Kind::Unsigned) => {
                levels.read(reader, rows, |value| Ok(value.cast_unsigned().into()))?
            }
            (ColumnReader::Int32ColumnReader(reader), _) => {
                levels.read(reader, rows, |value| Ok(i64::from(value).into()))?
            }
            (ColumnReader::Int64ColumnReader(reader), _) => {
                levels.read(reader, rows, |value| Ok(value.into()))?
            }
            (ColumnReader::FloatColumnReader(reader), _) => {
                levels.read(reader, rows, |value| float(value.into()))?
            }
            (ColumnReader::DoubleColumnReader(reader), _) => levels.read(reader, rows, float)?,
            // Kinds of these types are refused before anything is read.
            (ColumnReader::Int96ColumnReader(_) | ColumnReader::FixedLenByteArrayColumnReader(_), _) => {
                return Err(ParquetError::General("unexpected physical type".into()));
            }
        };
        Ok(Cells { column: self.column, levels, at: 0, values })
    }
}

/// The cells of a column in one batch. A value becomes a text of its own only when its row has its turn: many rows may
/// share one long value.
struct Cells<'c> {
    column: &'c Column,
    levels: Levels,
    /// The next level.
    at: usize,
    values: Box<dyn Iterator<Item = Cell>>,
}

impl Iterator for Cells<'_> {
    type Item = Cell;

    fn next(&mut self) -> Option<Cell> {
        match &self.column.list {
            None if self.column.defined == 0 => self.values.next(),
            None => {
                let level = *self.levels.definition.get(self.at)?;
                self.at += 1;
                if level == self.column.defined { self.values.next() } else { Some(Ok(Value::Null)) }
            }
            Some(list) => self.list(list),
        }
    }
}

impl Cells<'_> {
    fn list(&mut self, list: &List) -> Option<Cell> {
        let absent = list.nullable && *self.levels.definition.get(self.at)? == 0;
        let mut elements = Vec::new();
        let mut size = 0;
        let mut problem = None;
        while let Some(&definition) = self.levels.definition.get(self.at) {
            self.at += 1;
            if definition >= list.element {
                let there = definition == self.column.defined;
                match if there { self.values.next()? } else { Ok(Value::Null) } {
                    Err(wrong) => drop(problem.get_or_insert(wrong)),
                    Ok(_) if problem.is_some() => {}
                    Ok(element) => {
                        size += element.as_str().map_or(0, str::len) as u64;
                        elements.push(element);
                    }
                }
            }
            if size > ROW_LIMIT {
                problem.get_or_insert(RowProblem::TooLong { limit: ROW_LIMIT });
                (elements, size) = (Vec::new(), 0);
            }
            if self.levels.repetition.get(self.at).is_none_or(|&repetition| repetition == 0) {
                break;
            }
        }
        Some(match problem {
            Some(problem) => Err(problem),
            None if absent => Ok(Value::Null),
            None => Ok(Value::Array(elements)),
        })
    }
}

/// Levels of the values of one batch.
#[derive(Default)]
struct Levels {
    definition: Vec<i16>,
    repetition: Vec<i16>,
}

impl Levels {
    /// Reads whole rows; their values are converted one by one when they are asked for.
    fn read<T: DataType>(
        &mut self,
        reader: &mut ColumnReaderImpl<T>,
        rows: usize,
        convert: impl Fn(T::T) -> Cell + 'static,
    ) -> Result<Box<dyn Iterator<Item = Cell>>, ParquetError> {
        let mut values = Vec::new();
        let (definition, repetition) = (&mut self.definition, &mut self.repetition);
        reader.read_records(rows, Some(definition), Some(repetition), &mut values)?;
        Ok(Box::new(values.into_iter().map(convert)))
    }
}

fn text(bytes: &ByteArray) -> Cell {
    let bytes = bytes.data();
    if bytes.len() as u64 > ROW_LIMIT {
        return Err(RowProblem::TooLong { limit: ROW_LIMIT });
    }
    std::str::from_utf8(bytes).map(Value::from).map_err(|_| RowProblem::NotUtf8)
}

fn float(value: f64) -> Cell {
    match non_finite(value) {
        None => Ok(Value::from(value)),
        Some(token) => Err(RowProblem::NonFinite(token)),
    }
}

fn unreadable(name: &str, found: &str) -> RawError {
    RawError::Document(format!(
        "column `{name}` {found}; texts, numbers, booleans and lists of them can be read"
    ))
}

fn broken(what: &str, error: &ParquetError) -> RawError {
    // The crate wraps what the system answers, and a full disk shall not look like a broken file.
    if let ParquetError::External(inner) = error
        && let Some(io) = inner.downcast_ref::<std::io::Error>()
        && io.kind() != std::io::ErrorKind::UnexpectedEof
    {
        return RawError::Io(std::io::Error::new(io.kind(), io.to_string()));
    }
    RawError::Document(format!("{what}: {error}"))
}
