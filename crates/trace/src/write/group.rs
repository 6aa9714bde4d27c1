//! One group of rows of a Parquet file, encoded in memory.
//!
//! Groups know nothing of each other and nothing of the file that they will stand in, so that several can be encoded at once.
//! They are small, since readers decode a nested column of a group at once; the messages of a group share a dictionary, so that
//! rows of one trial, each of which repeats the one before, cost little more than the last of them.

use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, ZstdLevel};
use parquet::column::writer::{ColumnCloseResult, get_column_writer, get_typed_column_writer};
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::errors::Result;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{ColumnPath, SchemaDescriptor, TypePtr};

use super::columns::sharegpt_name;
use super::{Column, Columns};
use crate::row::{Message, Role, Row, Text};

/// Texts of a group that stand in its dictionary, in bytes.
const DICTIONARY_BYTES: usize = 32 << 20;

/// What all groups of a set have in common.
#[derive(Debug)]
pub(super) struct Layout {
    columns: Columns,
    schema: TypePtr,
    leaves: SchemaDescriptor,
    properties: WriterPropertiesPtr,
}

/// A group that can be put into a file.
#[derive(Debug)]
pub(super) struct Group {
    /// The bytes of each column and what the file has to say of them.
    pub(super) columns: Vec<(Bytes, ColumnCloseResult)>,
    /// The bytes of all texts of its rows.
    pub(super) text_bytes: u64,
}

impl Layout {
    pub(super) fn new(columns: Columns) -> Result<Self> {
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
        let leaves = SchemaDescriptor::new(Arc::clone(&schema));
        Ok(Self { columns, schema, leaves, properties: Arc::new(properties.build()) })
    }

    pub(super) fn columns(&self) -> &Columns {
        &self.columns
    }

    pub(super) fn schema(&self) -> TypePtr {
        Arc::clone(&self.schema)
    }

    pub(super) fn properties(&self) -> WriterPropertiesPtr {
        Arc::clone(&self.properties)
    }

    /// Encodes the rows of a group.
    pub(super) fn encode(&self, rows: &[Row], text_bytes: u64) -> Result<Group> {
        let mut group = Encoder { layout: self, columns: Vec::with_capacity(self.leaves.num_columns()) };
        for column in self.columns.iter() {
            match column {
                Column::Conversations if self.columns.is_harbor() => {
                    group.roles(rows, |role| role)?;
                    group.contents(rows)?;
                }
                Column::Conversations => {
                    group.contents(rows)?;
                    group.roles(rows, |role| role)?;
                }
                Column::Sharegpt => {
                    group.roles(rows, sharegpt_name)?;
                    group.contents(rows)?;
                }
                column => group.texts(rows, column)?,
            }
        }
        Ok(Group { columns: group.columns, text_bytes })
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

/// The columns of a group so far.
struct Encoder<'a> {
    layout: &'a Layout,
    columns: Vec<(Bytes, ColumnCloseResult)>,
}

impl Encoder<'_> {
    fn texts(&mut self, rows: &[Row], column: Column) -> Result<()> {
        let (mut values, mut levels) = (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len()));
        for text in rows.iter().map(|row| column.text(row)) {
            levels.push(text.is_some().into());
            values.extend(text.map(shared));
        }
        self.column(&values, &levels, None)
    }

    fn contents(&mut self, rows: &[Row]) -> Result<()> {
        let mut values: Vec<ByteArray> = Vec::new();
        let mut before: &[Message] = &[];
        for row in rows {
            let same = row.conversations.iter().zip(before);
            let same = same.take_while(|(one, other)| Arc::ptr_eq(&one.content, &other.content)).count();
            // A row of the same trial begins with the messages of the one before, whose values stand last.
            let from = values.len() - before.len();
            values.extend_from_within(from..from + same);
            values.extend(row.conversations[same..].iter().map(|message| shared(&message.content)));
            before = &row.conversations;
        }
        self.messages(rows, &values)
    }

    fn roles(&mut self, rows: &[Row], name: impl Fn(&str) -> &str) -> Result<()> {
        let mut names: Vec<(&Role, ByteArray)> = Vec::new();
        let mut values = Vec::new();
        for message in rows.iter().flat_map(|row| &row.conversations) {
            let role = &message.role;
            let known = names.iter().position(|(other, _)| *other == role).unwrap_or_else(|| {
                names.push((role, name(role.name()).into()));
                names.len() - 1
            });
            values.push(names[known].1.clone());
        }
        self.messages(rows, &values)
    }

    /// Writes one field of all messages. Level 1 is an empty list, level 4 a value.
    fn messages(&mut self, rows: &[Row], values: &[ByteArray]) -> Result<()> {
        let (mut definition, mut repetition) = (Vec::new(), Vec::new());
        for row in rows {
            let count = row.conversations.len();
            definition.extend(std::iter::repeat_n(if count == 0 { 1 } else { 4 }, count.max(1)));
            repetition.push(0);
            repetition.extend(std::iter::repeat_n(1, count.saturating_sub(1)));
        }
        self.column(values, &definition, Some(&repetition))
    }

    fn column(&mut self, values: &[ByteArray], definition: &[i16], repetition: Option<&[i16]>) -> Result<()> {
        let layout = self.layout;
        let leaf = layout.leaves.column(self.columns.len());
        let mut bytes = TrackedWrite::new(Vec::new());
        let pages = Box::new(SerializedPageWriter::new(&mut bytes));
        let writer = get_column_writer(leaf, layout.properties(), pages);
        let mut writer = get_typed_column_writer::<ByteArrayType>(writer);
        writer.write_batch(values, Some(definition), repetition)?;
        let closed = writer.close()?;
        self.columns.push((bytes.into_inner()?.into(), closed));
        Ok(())
    }
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
