//! Rows as Parquet.
//!
//! Row groups are small, since readers decode a nested column of a group at once; the messages of a group share a dictionary,
//! so that rows of one trial, each of which repeats the one before, cost little more than the last of them.

use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::errors::Result;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;

use super::columns::sharegpt_name;
use super::{Column, Columns};
use crate::row::{Message, Row, Text};

/// A group has no more rows than this.
const GROUP_ROWS: usize = 128;

/// A group is closed once its texts have this many bytes; one row may be longer.
const GROUP_BYTES: usize = 16 << 20;

/// Texts of a group that stand in its dictionary, in bytes.
const DICTIONARY_BYTES: usize = 32 << 20;

/// A file that is being written.
pub(super) struct Parquet<W: Write + Send> {
    columns: Columns,
    writer: SerializedFileWriter<W>,
    rows: Vec<Row>,
    bytes: usize,
}

impl<W: Write + Send> Parquet<W> {
    pub(super) fn new(file: W, columns: Columns) -> Result<Self> {
        let schema = Arc::new(parse_message_type(&schema(&columns))?);
        let long = [
            "conversations.list.element.content",
            "conversations_sharegpt.list.element.value",
            "verifier_output",
            "instruction",
            "tool_definitions",
        ];
        let mut properties = WriterProperties::builder()
            .set_created_by("seatrial".to_owned())
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_dictionary_page_size_limit(DICTIONARY_BYTES)
            .set_statistics_enabled(EnabledStatistics::Chunk);
        for path in long {
            // The smallest and largest of long texts help nobody.
            let path = ColumnPath::from(path.split('.').map(str::to_owned).collect::<Vec<_>>());
            properties = properties.set_column_statistics_enabled(path, EnabledStatistics::None);
        }
        let writer = SerializedFileWriter::new(file, schema, Arc::new(properties.build()))?;
        Ok(Self { columns, writer, rows: Vec::new(), bytes: 0 })
    }

    pub(super) fn write(&mut self, row: Row) -> Result<()> {
        self.bytes += row.text_bytes();
        self.rows.push(row);
        if self.rows.len() == GROUP_ROWS || self.bytes >= GROUP_BYTES { self.flush() } else { Ok(()) }
    }

    /// The bytes that have reached the file, without the group that is being gathered.
    pub(super) fn bytes_written(&self) -> usize {
        self.writer.bytes_written()
    }

    pub(super) fn finish(mut self) -> Result<W> {
        self.flush()?;
        self.writer.into_inner()
    }

    fn flush(&mut self) -> Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let mut group = self.writer.next_row_group()?;
        for column in self.columns.iter() {
            match column {
                Column::Conversations if self.columns.is_harbor() => {
                    roles(&mut group, &self.rows, |role| role)?;
                    contents(&mut group, &self.rows)?;
                }
                Column::Conversations => {
                    contents(&mut group, &self.rows)?;
                    roles(&mut group, &self.rows, |role| role)?;
                }
                Column::Sharegpt => {
                    roles(&mut group, &self.rows, sharegpt_name)?;
                    contents(&mut group, &self.rows)?;
                }
                column => {
                    let cells: Vec<_> = self.rows.iter().map(|row| column.text(row)).collect();
                    let levels: Vec<i16> = cells.iter().map(|cell| cell.is_some().into()).collect();
                    let values: Vec<_> = cells.into_iter().flatten().map(shared).collect();
                    values_of(&mut group, &values, &levels, None)?;
                }
            }
        }
        group.close()?;
        self.rows.clear();
        self.bytes = 0;
        Ok(())
    }
}

fn schema(columns: &Columns) -> String {
    const TEXT: &str = "optional binary";
    let list = |name: &str, first: &str, second: &str| {
        format!(
            "optional group {name} (LIST) {{ repeated group list {{ optional group element {{ {TEXT} {first} (STRING); \
             {TEXT} {second} (STRING); }} }} }}"
        )
    };
    let fields: Vec<_> = columns
        .iter()
        .map(|column| match column {
            Column::Conversations if columns.is_harbor() => list(column.name(), "role", "content"),
            Column::Conversations => list(column.name(), "content", "role"),
            Column::Sharegpt => list(column.name(), "from", "value"),
            column => format!("{TEXT} {} (STRING);", column.name()),
        })
        .collect();
    format!("message schema {{ {} }}", fields.join(" "))
}

/// A text that other rows hold as well, without a copy of it.
struct Shared(Text);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

fn shared(text: &Text) -> ByteArray {
    Bytes::from_owner(Shared(text.clone())).into()
}

fn contents<W: Write + Send>(group: &mut SerializedRowGroupWriter<'_, W>, rows: &[Row]) -> Result<()> {
    messages(group, rows, |message| shared(&message.content))
}

fn roles<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    rows: &[Row],
    name: impl Fn(&str) -> &str,
) -> Result<()> {
    messages(group, rows, |message| name(message.role.name()).into())
}

/// Writes one field of all messages. Level 1 is an empty list, level 4 a value.
fn messages<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    rows: &[Row],
    field: impl Fn(&Message) -> ByteArray,
) -> Result<()> {
    let (mut values, mut definition, mut repetition) = (Vec::new(), Vec::new(), Vec::new());
    for row in rows {
        if row.conversations.is_empty() {
            definition.push(1);
            repetition.push(0);
        }
        for (index, message) in row.conversations.iter().enumerate() {
            values.push(field(message));
            definition.push(4);
            repetition.push(i16::from(index > 0));
        }
    }
    values_of(group, &values, &definition, Some(&repetition))
}

fn values_of<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[ByteArray],
    definition: &[i16],
    repetition: Option<&[i16]>,
) -> Result<()> {
    let mut column = group.next_column()?.ok_or_else(|| {
        parquet::errors::ParquetError::General("the schema has fewer columns than the rows".into())
    })?;
    column.typed::<ByteArrayType>().write_batch(values, Some(definition), repetition)?;
    column.close()
}
