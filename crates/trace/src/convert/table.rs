//! Samples on disk: JSON lines or Parquet, by the suffix of the file.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, FloatType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::TraceError;
use crate::row::{Message, Text};
use crate::write::{Target, begin_file, put_file};

/// A group of rows has no more than this.
const GROUP_ROWS: usize = 128;

/// What the cells of a column are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Number,
    Count,
    /// A list of pairs of texts with these names: the role, then the text.
    Messages(&'static str, &'static str),
    Counts,
    Numbers,
}

/// One cell; what is not known is null.
#[derive(Debug, Clone)]
pub(super) enum Cell {
    Text(Option<Text>),
    Number(Option<f64>),
    Count(Option<i64>),
    Messages(Vec<Message>),
    Counts(Vec<i32>),
    Numbers(Vec<f32>),
}

/// The columns of a form: their names and kinds.
pub(super) type Schema = Vec<(&'static str, Kind)>;

/// A file of samples that is being written.
pub(super) struct Table {
    path: PathBuf,
    schema: Schema,
    form: Form,
    rows: Vec<Vec<Cell>>,
    pub(super) written: u64,
}

enum Form {
    Lines(BufWriter<NamedTempFile>),
    Parquet(Box<SerializedFileWriter<NamedTempFile>>),
}

impl Table {
    pub(super) fn create(path: &Path, schema: Schema) -> Result<Self, TraceError> {
        let target = Target::of(path)?;
        let form = match target {
            Target::Jsonl => Form::Lines(BufWriter::new(begin_file(path)?)),
            Target::Parquet => {
                let properties = WriterProperties::builder()
                    .set_created_by("seatrial".to_owned())
                    .set_compression(Compression::ZSTD(ZstdLevel::default()));
                let message =
                    parse_message_type(&message_type(&schema)).map_err(TraceError::parquet(path))?;
                let writer = SerializedFileWriter::new(
                    begin_file(path)?,
                    Arc::new(message),
                    Arc::new(properties.build()),
                )
                .map_err(TraceError::parquet(path))?;
                Form::Parquet(Box::new(writer))
            }
            Target::Directory => {
                let wanted = "a name that ends in .jsonl or .parquet is wanted";
                return Err(TraceError::Output { path: path.to_owned(), wanted });
            }
        };
        Ok(Self { path: path.to_owned(), schema, form, rows: Vec::new(), written: 0 })
    }

    pub(super) fn write(&mut self, row: Vec<Cell>) -> Result<(), TraceError> {
        self.written += 1;
        match &mut self.form {
            Form::Lines(file) => {
                let line = Value::Object(
                    self.schema
                        .iter()
                        .zip(row)
                        .map(|((name, kind), cell)| ((*name).to_owned(), value(*kind, cell)))
                        .collect(),
                );
                serde_json::to_writer(&mut *file, &line)
                    .map_err(std::io::Error::from)
                    .and_then(|()| file.write_all(b"\n"))
                    .map_err(TraceError::io(&self.path))
            }
            Form::Parquet(writer) => {
                self.rows.push(row);
                if self.rows.len() == GROUP_ROWS {
                    flush(writer, &self.schema, &mut self.rows).map_err(TraceError::parquet(&self.path))?;
                }
                Ok(())
            }
        }
    }

    /// Puts the samples in their place. Without a sample nothing is written, and what stood there stays.
    pub(super) fn finish(mut self) -> Result<(), TraceError> {
        if self.written == 0 {
            return Ok(());
        }
        let path = &self.path;
        let file = match self.form {
            Form::Lines(file) => {
                file.into_inner().map_err(|error| TraceError::io(path)(error.into_error()))?
            }
            Form::Parquet(mut writer) => {
                flush(&mut writer, &self.schema, &mut self.rows).map_err(TraceError::parquet(path))?;
                writer.into_inner().map_err(TraceError::parquet(path))?
            }
        };
        put_file(file, path)?;
        Ok(())
    }
}

fn value(kind: Kind, cell: Cell) -> Value {
    match cell {
        Cell::Text(text) => text.as_deref().map_or(Value::Null, Value::from),
        Cell::Number(number) => number.map_or(Value::Null, Value::from),
        Cell::Count(count) => count.map_or(Value::Null, Value::from),
        Cell::Messages(messages) => {
            let (role, content) = match kind {
                Kind::Messages(role, content) => (role, content),
                _ => ("role", "content"),
            };
            messages
                .iter()
                .map(|message| json!({role: message.role.name(), content: &*message.content}))
                .collect::<Vec<_>>()
                .into()
        }
        Cell::Counts(counts) => counts.into(),
        Cell::Numbers(numbers) => numbers.into_iter().map(f64::from).collect::<Vec<_>>().into(),
    }
}

fn message_type(schema: &Schema) -> String {
    let list = |name: &str, element: &str| {
        format!("optional group {name} (LIST) {{ repeated group list {{ {element} }} }}")
    };
    let fields: Vec<_> = schema
        .iter()
        .map(|(name, kind)| match kind {
            Kind::Text => format!("optional binary {name} (STRING);"),
            Kind::Number => format!("optional double {name};"),
            Kind::Count => format!("optional int64 {name};"),
            Kind::Counts => list(name, "optional int32 element;"),
            Kind::Numbers => list(name, "optional float element;"),
            Kind::Messages(role, content) => list(
                name,
                &format!("optional group element {{ optional binary {role} (STRING); optional binary {content} (STRING); }}"),
            ),
        })
        .collect();
    format!("message schema {{ {} }}", fields.join(" "))
}

fn flush(
    writer: &mut SerializedFileWriter<NamedTempFile>,
    schema: &Schema,
    rows: &mut Vec<Vec<Cell>>,
) -> Result<(), ParquetError> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut group = writer.next_row_group()?;
    for (column, (_, kind)) in schema.iter().enumerate() {
        let cells = rows.iter().map(|row| &row[column]);
        match kind {
            Kind::Text => scalars::<ByteArrayType>(&mut group, cells, |cell| match cell {
                Cell::Text(Some(text)) => Some(text.as_bytes().to_vec().into()),
                _ => None,
            })?,
            Kind::Number => scalars::<DoubleType>(&mut group, cells, |cell| match cell {
                Cell::Number(number) => *number,
                _ => None,
            })?,
            Kind::Count => scalars::<Int64Type>(&mut group, cells, |cell| match cell {
                Cell::Count(count) => *count,
                _ => None,
            })?,
            Kind::Counts => lists::<Int32Type>(&mut group, cells, 3, |cell| match cell {
                Cell::Counts(counts) => counts.clone(),
                _ => Vec::new(),
            })?,
            Kind::Numbers => lists::<FloatType>(&mut group, cells, 3, |cell| match cell {
                Cell::Numbers(numbers) => numbers.clone(),
                _ => Vec::new(),
            })?,
            Kind::Messages(..) => {
                let of = |field: fn(&Message) -> ByteArray| {
                    move |cell: &Cell| match cell {
                        Cell::Messages(messages) => messages.iter().map(field).collect(),
                        _ => Vec::new(),
                    }
                };
                lists::<ByteArrayType>(
                    &mut group,
                    cells.clone(),
                    4,
                    of(|message| message.role.name().into()),
                )?;
                let content = |message: &Message| ByteArray::from(message.content.as_bytes().to_vec());
                lists::<ByteArrayType>(&mut group, cells, 4, of(content))?;
            }
        }
    }
    group.close()?;
    rows.clear();
    Ok(())
}

fn scalars<'c, T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, NamedTempFile>,
    cells: impl Iterator<Item = &'c Cell>,
    of: impl Fn(&Cell) -> Option<T::T>,
) -> Result<(), ParquetError> {
    let (mut values, mut levels) = (Vec::new(), Vec::new());
    for value in cells.map(of) {
        levels.push(i16::from(value.is_some()));
        values.extend(value);
    }
    write::<T>(group, &values, &levels, None)
}

/// Writes lists; a value has the level `defined`, an empty list 1.
fn lists<'c, T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, NamedTempFile>,
    cells: impl Iterator<Item = &'c Cell>,
    defined: i16,
    of: impl Fn(&Cell) -> Vec<T::T>,
) -> Result<(), ParquetError> {
    let (mut values, mut definition, mut repetition) = (Vec::new(), Vec::new(), Vec::new());
    for list in cells.map(of) {
        if list.is_empty() {
            definition.push(1);
            repetition.push(0);
        }
        for (index, value) in list.into_iter().enumerate() {
            values.push(value);
            definition.push(defined);
            repetition.push(i16::from(index > 0));
        }
    }
    write::<T>(group, &values, &definition, Some(&repetition))
}

fn write<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, NamedTempFile>,
    values: &[T::T],
    definition: &[i16],
    repetition: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let mut column = group
        .next_column()?
        .ok_or_else(|| ParquetError::General("the schema has fewer columns than the rows".into()))?;
    column.typed::<T>().write_batch(values, Some(definition), repetition)?;
    column.close()
}
